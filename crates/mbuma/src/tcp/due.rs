//! The work of a connection's next turn that does not follow from its sequence space.

use bitflags::bitflags;

bitflags! {
    /// Changed under the connection's lock only.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Due: u8 {
        /// An acknowledgement, now.
        const ACK = 1;
        /// A probe of a closed window with one byte, or a keepalive with an old byte. Data that fits the window is sent
        /// instead, and at once.
        const PROBE = 1 << 1;
        /// A tail loss probe.
        const TAIL_PROBE = 1 << 2;
        /// There is data to read, or the end.
        const WAKE_READER = 1 << 3;
        /// The connection has just come into TIME-WAIT.
        const TIME_WAIT = 1 << 4;
        /// A turn is deferred to the end of a batch. It will find all earlier changes.
        const QUEUED = 1 << 5;
        /// There is room to write, or the end.
        const WAKE_WRITER = 1 << 6;
        /// An acknowledgement without data, before all else.
        const ACK_FIRST = 1 << 7;

        /// The user, or the splice in its place, must be woken.
        const WAKE = Self::WAKE_READER.bits() | Self::WAKE_WRITER.bits();
        /// Something to send.
        const SEGMENT = Self::ACK.bits() | Self::PROBE.bits() | Self::TAIL_PROBE.bits() | Self::ACK_FIRST.bits();
    }
}
