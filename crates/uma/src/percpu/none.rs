//! For systems and processors without sections: there is no rseq area, so slots are locked and
//! these functions are never called.
//!
//! Locks: none.

use super::{FULL, Percpu};
use crate::bucket::Bucket;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

pub(super) unsafe fn pop(_: &Percpu) -> *mut u8 {
    ptr::null_mut()
}

pub(super) unsafe fn push(_: &Percpu, _: NonNull<u8>) -> isize {
    FULL
}

pub(super) unsafe fn pop_bulk<const FIELD: usize>(
    _: &Percpu,
    _: &mut [MaybeUninit<NonNull<u8>>],
) -> isize {
    0
}

pub(super) unsafe fn push_bulk<const FIELD: usize>(_: &Percpu, _: &[NonNull<u8>]) -> isize {
    0
}

pub(super) unsafe fn exchange_previous(_: &Percpu, _: NonNull<Bucket>) -> *mut Bucket {
    ptr::null_mut()
}

pub(super) unsafe fn replace_empty(_: &Percpu, _: NonNull<Bucket>) -> *mut Bucket {
    ptr::null_mut()
}

pub(super) unsafe fn replace_full(_: &Percpu, _: NonNull<Bucket>) -> *mut Bucket {
    ptr::null_mut()
}

pub(super) unsafe fn swap_for_pop(_: &Percpu) -> isize {
    0
}

pub(super) unsafe fn swap_for_push(_: &Percpu) -> isize {
    0
}
