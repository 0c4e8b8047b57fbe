//! The critical sections for aarch64.
//!
//! As those for x86-64.
//!
//! A word is committed by a plain store: its next reader is on this CPU, or behind a fence. A
//! bucket's pointer is committed by a store with release, since statistics on other CPUs follow it.
//!
//! Locks: none.

use crate::bucket::{BELOW, Bucket, CAP, ENTRIES, LEN_BITS, POPPED, PUSHED};
use crate::percpu::slot::{LOADED, PREVIOUS, SLOT_SHIFT, STOP};
use crate::percpu::{ABORTED, FULL, Percpu, REFUSED, TWICE};
use core::ptr::NonNull;

// How the sections add to a word, for want of immediates of 16 bits.
const _: () = assert!(PUSHED == 1);
const _: () = assert!(POPPED == (1 << LEN_BITS) - 1);
// And the address for a store with release, which has no offset.
const _: () = assert!(LOADED == 0);

/// One section: its body finds the slot at `{at}`.
#[cfg(not(feature = "stretched"))]
macro_rules! section {
    ($($rest:tt)*) => {
        section_with!([] [] [] $($rest)*)
    };
}

/// The same with a delay before the commit, and with a descriptor that may be left out.
#[cfg(feature = "stretched")]
macro_rules! section {
    ($($rest:tt)*) => {
        section_with!(
            [
                "adrp {word}, {armed}",
                "ldr {word}, [{word}, :lo12:{armed}]",
                "and {at}, {at}, {word}",
            ]
            [
                "adrp {pauses}, {stretch}",
                "ldr {pauses:w}, [{pauses}, :lo12:{stretch}]",
                "cbz {pauses}, 3f",
                "2: yield",
                "sub {pauses}, {pauses}, 1",
                "cbnz {pauses}, 2b",
                "3:",
            ]
            [
                pauses = out(reg) _,
                stretch = sym crate::percpu::STRETCH,
                armed = sym crate::percpu::ARMED,
            ]
            $($rest)*
        )
    };
}

macro_rules! section_with {
    ([$($arm:tt)*] [$($delay:tt)*] [$($delay_operands:tt)*] $percpu:expr, $refused:expr, $($rest:tt)*) => {
        kern::rseq_section!(
            [$($arm)*] [$($delay)*] [$($delay_operands)*]
            slots: $percpu.slots.as_ptr(), cpus: $percpu.cpus, area: $percpu.area, shift: SLOT_SHIFT,
            aborted: ABORTED, refused: $refused,
            $($rest)*
        )
    };
}

#[cfg(feature = "extras")]
#[path = "aarch64_bulk.rs"]
mod bulk;
#[cfg(feature = "extras")]
pub(in crate::percpu) use bulk::*;

/// The top item of the loaded bucket; 0: there is none.
///
/// # Safety
///
/// `percpu.area` must not be 0.
#[inline]
pub(in crate::percpu) unsafe fn pop(percpu: &Percpu) -> *mut u8 {
    let item;
    // SAFETY: there is an area; a slot points to a live bucket, whose top entry is an item.
    unsafe {
        section!(
            percpu, REFUSED,
            body: [
                "ldr {at}, [{at}, {loaded}]",
                "ldr {word}, [{at}]",
                "ands {got}, {word}, 0xffff",
                "b.eq 7f",
                "add {got}, {at}, {got}, lsl 3",
                "ldr {got}, [{got}, {below}]",
                "add {word}, {word}, 16, lsl 12",
                "sub {word}, {word}, 1",
            ]
            commit: "str {word}, [{at}]"
            or: []
            got = out(reg) item,
            loaded = const LOADED,
            below = const BELOW,
        );
    }
    item
}

/// Puts an item on the loaded bucket. Not negative: done.
///
/// # Safety
///
/// `percpu.area` must not be 0.
#[inline]
pub(in crate::percpu) unsafe fn push(percpu: &Percpu, item: NonNull<u8>) -> isize {
    let got;
    // SAFETY: there is an area; a slot points to a live bucket, which has an entry below its
    // first, and one above the top where it holds less than its capacity.
    unsafe {
        section!(
            percpu, FULL,
            body: [
                "ldr {at}, [{at}, {loaded}]",
                "ldr {word}, [{at}]",
                "and {got}, {word}, 0xffff",
                "add {entry}, {at}, {got}, lsl 3",
                "ldr {top}, [{entry}, {below}]",
                "cmp {top}, {item}",
                "b.eq 8f",
                "ldr {top:w}, [{at}, {cap}]",
                "cmp {got}, {top}",
                "b.hs 7f",
                "str {item}, [{entry}, {entries}]",
                "add {word}, {word}, 1",
            ]
            commit: "str {word}, [{at}]"
            or: [
                "8:",
                "mov {got}, {twice}",
                "b 5b",
            ]
            item = in(reg) item.as_ptr(),
            got = out(reg) got,
            top = out(reg) _,
            entry = out(reg) _,
            loaded = const LOADED,
            below = const BELOW,
            entries = const ENTRIES,
            cap = const CAP,
            twice = const TWICE,
        );
    }
    got
}

/// Exchanges the previous bucket; 0: stopped.
///
/// # Safety
///
/// `percpu.area` must not be 0. `bucket` must be the caller's to give, or the sentinel.
pub(in crate::percpu) unsafe fn exchange_previous(
    percpu: &Percpu,
    bucket: NonNull<Bucket>,
) -> *mut Bucket {
    let old;
    // SAFETY: there is an area; the slot gets a live bucket for the one that it gives.
    unsafe {
        section!(
            percpu, REFUSED,
            body: [
                "ldr {word}, [{at}, {stop}]",
                "cbnz {word}, 7f",
                "ldr {got}, [{at}, {previous}]",
                "add {at}, {at}, {previous}",
            ]
            commit: "stlr {bucket}, [{at}]"
            or: []
            bucket = in(reg) bucket.as_ptr(),
            got = out(reg) old,
            stop = const STOP,
            previous = const PREVIOUS,
        );
    }
    old
}

/// Exchanges the loaded bucket if it is empty; 0: it is not, or the slot is stopped.
///
/// # Safety
///
/// `percpu.area` must not be 0. `bucket` must be the caller's to give.
pub(in crate::percpu) unsafe fn replace_empty(
    percpu: &Percpu,
    bucket: NonNull<Bucket>,
) -> *mut Bucket {
    let old;
    // SAFETY: there is an area; the slot gets a live bucket for the one that it gives.
    unsafe {
        section!(
            percpu, REFUSED,
            body: [
                "ldr {word}, [{at}, {stop}]",
                "cbnz {word}, 7f",
                "ldr {got}, [{at}, {loaded}]",
                "ldrh {word:w}, [{got}]",
                "cbnz {word:w}, 7f",
            ]
            commit: "stlr {bucket}, [{at}]"
            or: []
            bucket = in(reg) bucket.as_ptr(),
            got = out(reg) old,
            stop = const STOP,
            loaded = const LOADED,
        );
    }
    old
}

/// Exchanges the loaded bucket if it is full; 0: it is not, or the slot is stopped.
///
/// # Safety
///
/// `percpu.area` must not be 0. `bucket` must be the caller's to give.
pub(in crate::percpu) unsafe fn replace_full(
    percpu: &Percpu,
    bucket: NonNull<Bucket>,
) -> *mut Bucket {
    let old;
    // SAFETY: there is an area; the slot gets a live bucket for the one that it gives.
    unsafe {
        section!(
            percpu, REFUSED,
            body: [
                "ldr {word}, [{at}, {stop}]",
                "cbnz {word}, 7f",
                "ldr {got}, [{at}, {loaded}]",
                "ldrh {word:w}, [{got}]",
                "ldr {cap_now:w}, [{got}, {cap}]",
                "cmp {word:w}, {cap_now:w}",
                "b.lo 7f",
            ]
            commit: "stlr {bucket}, [{at}]"
            or: []
            bucket = in(reg) bucket.as_ptr(),
            got = out(reg) old,
            cap_now = out(reg) _,
            stop = const STOP,
            loaded = const LOADED,
            cap = const CAP,
        );
    }
    old
}

/// Never exchanges: every store of a pair may be interrupted between its halves (see `percpu.rs`).
///
/// # Safety
///
/// None: as the one for x86-64, so that they can be exchanged.
pub(in crate::percpu) unsafe fn swap_for_pop(_: &Percpu) -> isize {
    REFUSED
}

/// As [`swap_for_pop`].
///
/// # Safety
///
/// None.
pub(in crate::percpu) unsafe fn swap_for_push(_: &Percpu) -> isize {
    REFUSED
}
