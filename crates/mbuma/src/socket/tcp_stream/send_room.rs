//! The room of a send buffer, for a writer that fills packets.
//!
//! Locks: none.

/// The room of a send buffer, and the sizes of segments and packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendRoom {
    /// Bytes of room; 0 once nothing more may be sent.
    pub bytes: usize,
    /// Payload bytes of a segment.
    pub mss: usize,
    /// Payload bytes of the largest packet: a multiple of `mss` within the limit of IP's length, or beyond it where the
    /// interface takes such packets (BIG TCP). A device or the interface cuts it into segments.
    pub packet: usize,
    /// Bytes in the buffer: those that the peer has not acknowledged.
    pub buffered: usize,
    /// Bytes that the peer's window takes beyond these.
    pub window: usize,
}

impl SendRoom {
    /// Bytes to put in at once: one packet, and whole segments if there is room for one.
    pub fn whole_segments(self) -> usize {
        let len = self.bytes.min(self.packet);
        match len > self.mss {
            true => len - len % self.mss,
            false => len,
        }
    }
}
