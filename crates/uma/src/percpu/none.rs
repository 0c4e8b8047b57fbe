//! For systems and processors without sections: there is no rseq area, so slots are locked and
//! these functions are never called.
//!
//! Locks: none.

use crate::bucket::Bucket;
use crate::percpu::{FULL, Percpu};
use core::ptr::{self, NonNull};

pub(in crate::percpu) unsafe fn pop(_: &Percpu) -> *mut u8 {
    ptr::null_mut()
}

pub(in crate::percpu) unsafe fn push(_: &Percpu, _: NonNull<u8>) -> isize {
    FULL
}

#[cfg(feature = "extras")]
pub(in crate::percpu) unsafe fn pop_bulk<const FIELD: usize>(
    _: &Percpu,
    _: &mut [core::mem::MaybeUninit<NonNull<u8>>],
) -> isize {
    0
}

#[cfg(feature = "extras")]
pub(in crate::percpu) unsafe fn push_bulk<const FIELD: usize>(
    _: &Percpu,
    _: &[NonNull<u8>],
) -> isize {
    0
}

pub(in crate::percpu) unsafe fn exchange_previous(_: &Percpu, _: NonNull<Bucket>) -> *mut Bucket {
    ptr::null_mut()
}

pub(in crate::percpu) unsafe fn replace_empty(_: &Percpu, _: NonNull<Bucket>) -> *mut Bucket {
    ptr::null_mut()
}

pub(in crate::percpu) unsafe fn replace_full(_: &Percpu, _: NonNull<Bucket>) -> *mut Bucket {
    ptr::null_mut()
}

pub(in crate::percpu) unsafe fn swap_for_pop(_: &Percpu) -> isize {
    0
}

pub(in crate::percpu) unsafe fn swap_for_push(_: &Percpu) -> isize {
    0
}
