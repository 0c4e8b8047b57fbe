//! The buckets of each CPU as they were at the last check, to tell a CPU that uses them from an idle one.
//!
//! Locks: none; the depot's lock guards it.

use crate::bucket::{Bucket, peek};
use core::ptr::NonNull;

/// Whether a CPU has used its buckets since the last check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// The CPU has none.
    Nothing,
    /// The CPU has not used them.
    Same,
    /// The CPU has used them.
    Changed,
}

/// For each CPU, a mark of the state of its two buckets; 0: it had none.
#[derive(Default)]
pub(super) struct SeenSlots {
    marks: Vec<[u64; 2]>,
}

impl SeenSlots {
    /// Compares a CPU's buckets with their state at the last call.
    ///
    /// # Safety
    /// The buckets are alive.
    pub(super) unsafe fn compare(&mut self, cpu: usize, buckets: [NonNull<Bucket>; 2]) -> SlotUse {
        let mut marks = [0; 2];
        for (mark, bucket) in marks.iter_mut().zip(buckets) {
            if bucket != Bucket::sentinel() {
                // SAFETY: so says the caller.
                let (len, popped) = unsafe { peek(bucket) };
                // Bucket addresses are even, so this is never 0.
                *mark = (bucket.addr().get() as u64 | 1)
                    .wrapping_add((popped << 16 | len as u64).wrapping_mul(0x9E37_79B9_7F4A_7C16));
            }
        }
        if self.marks.len() <= cpu {
            self.marks.resize(cpu + 1, [0; 2]);
        }
        let before = core::mem::replace(&mut self.marks[cpu], marks);
        match marks {
            [0, 0] => SlotUse::Nothing,
            _ if before == marks => SlotUse::Same,
            _ => SlotUse::Changed,
        }
    }
}
