//! Whether a device takes frames of more than 64 KiB, as its capabilities say.
//!
//! A device that refuses them all would stop a connection: each retransmission timeout sends small segments, the window
//! grows, and the next packet is too large again. So after three batches in a row of which the device may have refused
//! each large frame, the interface sends none for a while. Then it sends them again, and the next refusal ends that: a
//! device may have refused them because it was down, or without memory, and not for their size.
//!
//! Frames without room say nothing, and neither does a batch of which the device refused all frames, small ones too.
//!
//! Locks: none. Relaxed: values of one thread at a time, which other threads may see late.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use kern::Time;
use wire::EtherHeader;

use crate::device::Capabilities;

/// The largest frame with an IP packet whose length fits into its header.
const COUNTED_MAX: usize = EtherHeader::LEN + u16::MAX as usize;

/// Batches in a row after which large frames count as refused: one may have failed for want of memory.
const PATIENCE: u8 = 3;

/// For how long.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// Frames of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameCounts {
    /// All.
    pub(crate) all: usize,
    /// Those of more than 64 KiB.
    pub(crate) large: usize,
}

impl FrameCounts {
    /// Counts a frame of so many bytes.
    pub(crate) fn add(&mut self, len: usize) {
        self.all += 1;
        self.large += usize::from(len > COUNTED_MAX);
    }

    /// The large ones and all, without those that are left. A device that delays frames may leave some of an earlier
    /// batch.
    fn without(self, left: Self) -> (usize, usize) {
        let large = self.large.saturating_sub(left.large);
        (large, self.all.saturating_sub(left.all))
    }
}

/// The refusals of one interface.
#[derive(Debug, Default)]
pub(crate) struct LargeFrames {
    refusals: AtomicU8,
    /// When large frames are sent again, in nanoseconds.
    again_at: AtomicU64,
}

impl LargeFrames {
    /// The device was given a batch of `given` frames: it left `left` of them for want of room, and refused so many.
    pub(crate) fn note(&self, now: Time, given: FrameCounts, left: FrameCounts, refused: usize) {
        let refusals = self.refusals.load(Ordering::Relaxed);
        if refusals >= PATIENCE {
            if now.as_nanos() >= self.again_at.load(Ordering::Relaxed) {
                self.refusals.store(PATIENCE - 1, Ordering::Relaxed);
            }
            return;
        }
        let (large, all) = given.without(left);
        let of_all_sizes = refused >= all && all > large;
        if large == 0 || of_all_sizes {
            return;
        }
        if refused < large {
            self.refusals.store(0, Ordering::Relaxed);
            return;
        }
        if refusals + 1 == PATIENCE {
            let again_at = (now + REFUSED_FOR).as_nanos();
            self.again_at.store(again_at, Ordering::Relaxed);
        }
        self.refusals.store(refusals + 1, Ordering::Relaxed);
    }

    fn are_refused(&self) -> bool {
        self.refusals.load(Ordering::Relaxed) >= PATIENCE
    }

    /// The capabilities without what the device seems to refuse.
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const MAX: u32 = 272 << 10;
    const NONE: FrameCounts = FrameCounts { all: 0, large: 0 };
    const NOW: Time = Time::from_secs(1);

    fn tso_max(frames: &LargeFrames) -> u32 {
        let caps = Capabilities {
            tso4_max: MAX,
            ..Capabilities::whole(1500)
        };
        frames.cut_down(caps).tso4_max
    }

    fn counts(all: usize, large: usize) -> FrameCounts {
        FrameCounts { all, large }
    }

    #[test]
    fn only_a_device_that_refuses_each_large_frame_gets_none() {
        // Breaks when a device that refused one for want of memory gets small frames, or one that refuses all is
        // offered them for ever.
        let frames = LargeFrames::default();
        for _ in 0..10 {
            frames.note(NOW, counts(5, 4), NONE, 4);
            frames.note(NOW, counts(6, 4), NONE, 5);
            frames.note(NOW, counts(9, 0), NONE, 8);
            frames.note(NOW, counts(4, 4), NONE, 3);
        }
        assert_eq!(tso_max(&frames), MAX);
        for _ in 0..PATIENCE {
            frames.note(NOW, counts(1, 1), NONE, 1);
        }
        frames.note(NOW, counts(1, 1), NONE, 0);
        assert_eq!(tso_max(&frames), 65_535);
        let mut sizes = NONE;
        sizes.add(65_549);
        sizes.add(65_550);
        assert_eq!((sizes.all, sizes.large), (2, 1));
    }

    #[test]
    fn a_device_without_room_says_nothing_of_a_size() {
        // Breaks when a full device, or one that is down and refuses all, counts as one that refuses large frames.
        let frames = LargeFrames::default();
        for _ in 0..10 {
            // One small frame was refused, and the large one was left.
            frames.note(NOW, counts(2, 1), counts(1, 1), 1);
            frames.note(NOW, counts(4, 2), NONE, 4);
        }
        assert_eq!(tso_max(&frames), MAX);
        // Nor does such a batch end a row of refusals.
        for _ in 0..PATIENCE {
            frames.note(NOW, counts(1, 1), NONE, 1);
            frames.note(NOW, counts(4, 4), counts(4, 4), 0);
        }
        assert_eq!(tso_max(&frames), 65_535);
    }

    #[test]
    fn large_frames_are_tried_again() {
        // Breaks when a device that was down for three batches gets small frames for ever, or when each trial of one
        // that refuses all costs three batches.
        let frames = LargeFrames::default();
        let refuse = |now| frames.note(now, counts(1, 1), NONE, 1);
        (0..PATIENCE).for_each(|_| refuse(NOW));
        let small = |now| frames.note(now, counts(3, 0), NONE, 0);
        small(NOW + REFUSED_FOR / 2);
        assert_eq!(tso_max(&frames), 65_535);
        let later = NOW + REFUSED_FOR;
        small(later);
        assert_eq!(tso_max(&frames), MAX);
        refuse(later);
        assert_eq!(tso_max(&frames), 65_535, "one refusal is enough");
        let later = later + REFUSED_FOR;
        small(later);
        frames.note(later, counts(1, 1), NONE, 0);
        refuse(later);
        assert_eq!(tso_max(&frames), MAX, "the device takes them");
    }
}
