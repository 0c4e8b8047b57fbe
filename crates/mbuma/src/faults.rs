//! Faults that tests plant in the stack ([`kern::fault`]): the checks of the simulator, or a model, must find each of them, or
//! they check nothing.
//!
//! Some races are too rare for the simulator; the models find those. Without the feature `planted-bugs`, and outside of the
//! schedule checker, nothing of them is left in the code.
//!
//! Locks: none.

/// A fault.
#[cfg_attr(not(feature = "planted-bugs"), allow(unreachable_pub))] // then it is not seen outside
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackFault {
    /// The retransmission timer is not set again after it expired twice.
    LostRetransmitTimer,
    /// A closed window is not probed.
    LostPersistTimer,
    /// A TIME-WAIT has no end.
    LostTimeWaitTimer,
    /// A writer is not called when there is room again.
    LostWakeup,
    /// The first byte of what waited for a gap to be filled is skipped.
    SkippedByte,
    /// The checksum of a segment is not looked at.
    UncheckedSum,
    /// Data that was received before is never freed.
    LeakedMbuf,
    /// A segment without a use is not counted.
    UncountedDrop,
    /// The thread that removes a connection removes its successor too.
    LostSuccessor,
    /// An entry that fired passes for the one that was made after it.
    ForgottenEntry,
    /// A CPU is given something to do, and its neighbour is woken.
    WrongCpuWoken,
    /// A connection's timer is set on another CPU, which does not know of it.
    StrayTimer,
    /// A packet is handled at once without a look at what waits of its flow.
    BlindDirect,
    /// An interface is detached without saying so: `stack/attach.rs`, `detach`.
    Unmarked,
    /// Packets that wait for a neighbour are dropped before the interface is marked as gone: the same.
    FlushedEarly,
    /// The transmitter stops without another check of the queue: `ifnet.rs`, `transmit`.
    OneLook,
    /// A plug that is out keeps packets that did not fit the budget: `device/epair/plug.rs`, `keep`.
    KeptOutside,
    /// Another station is asked once, and never again: `neighbour/entry.rs`, `retry`.
    LostQuestion,
    /// A neighbour that does not answer a check is asked for ever: the same.
    EndlessCheck,
    /// An address is probed for ever: `ifnet/host6.rs`, `run_timers`.
    EndlessProbes,
    /// A multicast router's question is not answered: `ifnet/mld.rs`, `queried`.
    UnansweredQuery,
    /// The sleeper does not check for a notification that came after its last poll: `park.rs`.
    SleepsUnchecked,
    /// The waker checks first whether the thread sleeps, and notifies it afterwards: the same.
    NotifiesLate,
}

/// Whether to make this mistake.
#[inline]
pub(crate) fn planted(fault: StackFault) -> bool {
    kern::fault::is_planted(fault)
}
