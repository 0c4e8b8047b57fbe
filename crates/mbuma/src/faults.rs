//! Faults that tests plant in the stack ([`kern::fault`]): the checks of the simulator, or a model, must find each of
//! them, or they check nothing.
//!
//! Some races are too rare for the simulator; the models find those. Builds without the feature `planted-bugs` and
//! without a schedule checker contain none of the faults.
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
    /// The first byte behind a gap is skipped when the gap is filled.
    SkippedByte,
    /// The checksum of a segment is not verified.
    UncheckedSum,
    /// Data that was received before is never freed.
    LeakedMbuf,
    /// A dropped segment is not counted.
    UncountedDrop,
    /// The thread that removes a connection removes its successor too.
    LostSuccessor,
    /// An entry that fired is taken for its successor.
    ForgottenEntry,
    /// Work is queued for one CPU, and another CPU is woken.
    WrongCpuWoken,
    /// A connection's timer is set on another CPU without waking that CPU.
    StrayTimer,
    /// A packet is handled at once although packets of its flow wait.
    BlindDirect,
    /// A detached interface is not marked as gone: `stack/attach.rs`, `detach`.
    Unmarked,
    /// Packets that wait for a neighbour are dropped before the interface is marked as gone: the same.
    FlushedEarly,
    /// The transmitter stops without another check of the queue: `ifnet.rs`, `transmit`.
    OneLook,
    /// A detached plug keeps packets that did not fit the budget: `device/epair/plug.rs`, `keep`.
    KeptOutside,
    /// A solicitation is sent once and never repeated: `neighbour/entry.rs`, `retry`.
    LostQuestion,
    /// A neighbour that does not answer is solicited for ever: the same.
    EndlessCheck,
    /// Probes for an address never end: `ifnet/host6.rs`, `run_timers`.
    EndlessProbes,
    /// A temporary address is followed by no other: `ifnet/host6/temporary.rs`, `next`.
    NoNextAddress,
    /// Connections begin from the stable address though there is a temporary one: `ifnet/host6.rs`,
    /// `prefers_temporary`.
    StableSource,
    /// A splice's turn says that none is scheduled after its look: `socket/splice/link.rs`, `turn`.
    ClearsMarkLate,
    /// A multicast router's query is not answered: `ifnet/group_reports.rs`, `queried`.
    UnansweredQuery,
    /// The list of an interface's groups is made before the lock under which it is applied: `ifnet/group_reports.rs`,
    /// `set_groups`.
    EarlyList,
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
