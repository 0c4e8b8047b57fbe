//! Whether a device takes frames of more than 64 KiB, as its capabilities say.
//!
//! A device that refuses them all would stop a connection: each retransmission timeout sends small segments, the window
//! grows, and the next packet is too large again. So after three batches in a row of which the device may have refused
//! each large frame, the interface sends none any more.
//!
//! Locks: none. Relaxed: a count of one thread at a time, which other threads may see late.

use std::sync::atomic::{AtomicU8, Ordering};

use wire::EtherHeader;

use crate::device::Capabilities;

/// The largest frame with an IP packet whose length fits into its header.
const COUNTED_MAX: usize = EtherHeader::LEN + u16::MAX as usize;

/// Batches in a row after which large frames count as refused for good: one may have failed for want of memory.
const PATIENCE: u8 = 3;

/// The refusals of one interface.
#[derive(Debug, Default)]
pub(crate) struct LargeFrames {
    refusals: AtomicU8,
}

impl LargeFrames {
    /// Whether a frame of so many bytes is a large one.
    pub(crate) fn is_large(len: usize) -> bool {
        len > COUNTED_MAX
    }

    /// The device was given a batch with `large` large frames, and refused so many of all.
    pub(crate) fn note(&self, large: usize, refused: usize) {
        if large == 0 || self.are_refused() {
            return;
        }
        let refusals = match refused >= large {
            true => self.refusals.load(Ordering::Relaxed) + 1,
            false => 0,
        };
        self.refusals.store(refusals, Ordering::Relaxed);
    }

    /// Whether the device refuses them.
    pub(crate) fn are_refused(&self) -> bool {
        self.refusals.load(Ordering::Relaxed) >= PATIENCE
    }

    /// The capabilities without what the device refuses.
    pub(crate) fn cut_down(&self, caps: Capabilities) -> Capabilities {
        if !self.are_refused() {
            return caps;
        }
        let counted = |max: u32| max.min(u16::MAX.into());
        Capabilities {
            tso4_max: counted(caps.tso4_max),
            tso6_max: counted(caps.tso6_max),
            ..caps
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_device_that_refuses_each_large_frame_gets_none() {
        // Breaks when a device that refused one for want of memory gets small frames for ever, or one that refuses all is
        // offered them for ever.
        let caps = Capabilities {
            tso4_max: 272 << 10,
            ..Capabilities::whole(1500)
        };
        let frames = LargeFrames::default();
        for _ in 0..10 {
            frames.note(4, 4);
            frames.note(4, 5);
            frames.note(0, 9);
            frames.note(4, 3);
        }
        assert_eq!(frames.cut_down(caps).tso4_max, 272 << 10);
        for _ in 0..PATIENCE {
            frames.note(1, 1);
        }
        frames.note(1, 0);
        assert_eq!(frames.cut_down(caps).tso4_max, 65_535);
        assert!(!LargeFrames::is_large(65_549) && LargeFrames::is_large(65_550));
    }
}
