//! Several items out of this CPU's buckets, or onto them: one section for each of the two buckets.
//!
//! A batch that does not fit into the loaded bucket would have to exchange the two buckets twice in
//! each round: out, and back. An exchange inside a section would take two stores, but only one
//! store can commit (not every processor has a store of 16 bytes). So bulk runs one section on each
//! bucket, each with one store: a thread that is interrupted between the two has the items of the
//! first, and continues with the rest. After that the loaded bucket has room for the opposite
//! batch: bulk pops empty it first, and bulk pushes fill it first. So the next batch needs one
//! section again.
//!
//! Locks: a slot's, where slots are locked.

use super::locked::SlotGuard;
use super::slot::{LOADED, PREVIOUS};
use super::{Percpu, RESTARTS, restart, section};
use crate::bucket::Bucket;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

impl Percpu {
    /// Fills the beginning of `out` from the tops of this CPU's loaded and previous bucket. Returns how many items
    /// those are. Their order is that of the bucket, the top one last, and each is counted as popped.
    pub(crate) fn pop_bulk(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let popped = self.pop_loaded(out);
        if popped == out.len() {
            return popped;
        }
        popped + self.pop_previous(&mut out[popped..])
    }

    /// As [`pop_bulk`](Self::pop_bulk), from the loaded bucket alone.
    pub(crate) fn pop_loaded(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        self.pop_from::<LOADED>(out)
    }

    #[cold]
    #[inline(never)]
    fn pop_previous(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        self.pop_from::<PREVIOUS>(out)
    }

    #[inline]
    fn pop_from<const FIELD: usize>(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        if self.area == 0 {
            return locked_pop::<FIELD>(self, out);
        }
        // SAFETY: `area` is not 0.
        let count = restart(
            1 + RESTARTS,
            || unsafe { section::pop_bulk::<FIELD>(self, out) },
            isize::cast_unsigned,
        );
        count.max(0).cast_unsigned()
    }

    /// Puts items of the beginning of `items` on this CPU's loaded bucket, and then on its previous one. Returns for
    /// how many there was room. After the commit of the last item the function does not access the slots.
    #[must_use]
    pub(crate) fn push_bulk(&self, items: &[NonNull<u8>]) -> usize {
        let pushed = self.push_to::<LOADED>(items);
        if pushed == items.len() {
            return pushed;
        }
        pushed + self.push_previous(&items[pushed..])
    }

    #[cold]
    #[inline(never)]
    fn push_previous(&self, items: &[NonNull<u8>]) -> usize {
        self.push_to::<PREVIOUS>(items)
    }

    #[inline]
    fn push_to<const FIELD: usize>(&self, items: &[NonNull<u8>]) -> usize {
        if self.area == 0 {
            return locked_push::<FIELD>(self, items);
        }
        // SAFETY: `area` is not 0.
        let count = restart(
            1 + RESTARTS,
            || unsafe { section::push_bulk::<FIELD>(self, items) },
            isize::cast_unsigned,
        );
        count.max(0).cast_unsigned()
    }
}

fn locked_pop<const FIELD: usize>(percpu: &Percpu, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
    let Some(held) = SlotGuard::any_of(percpu) else {
        return 0;
    };
    // SAFETY: the holder of the lock owns the slot's buckets, which are alive.
    unsafe { Bucket::pop_bulk(held.0.bucket::<FIELD>(), out) }
}

fn locked_push<const FIELD: usize>(percpu: &Percpu, items: &[NonNull<u8>]) -> usize {
    let Some(held) = SlotGuard::any_of(percpu) else {
        return 0;
    };
    // SAFETY: the holder of the lock owns the slot's buckets, which are alive.
    unsafe { Bucket::push_bulk(held.0.bucket::<FIELD>(), items) }
}
