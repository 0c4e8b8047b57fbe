//! Bugs on purpose, to be switched on one at a time: the simulator's checks must find each of them,
//! or they check nothing.
//!
//! Some races are too rare for it; `schedules.rs` finds those. Without the feature `planted-bugs` (and outside of
//! the schedule checker) there is no way to
//! switch one on, and nothing of them is left in the code.

use crate::config::TcpConfig;

/// A bug.
#[cfg_attr(not(feature = "planted-bugs"), allow(unreachable_pub))] // then it is not seen outside
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
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
}

impl TcpConfig {
    #[cfg(any(feature = "planted-bugs", shuttle))]
    pub(crate) fn has_bug(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(any(feature = "planted-bugs", shuttle)))]
    pub(crate) fn has_bug(&self, _: Planted) -> bool {
        false
    }
}
