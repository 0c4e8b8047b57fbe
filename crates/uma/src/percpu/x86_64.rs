//! The critical sections for x86-64.
//!
//! Each is a body and a commit in [`kern::rseq`]'s frame, which says what a section is.
//!
//! The word of a bucket is read into a register once and written from it. `add [word], n` would be
//! one store too, but would read the word just after it was stored: a pair of pop and push then
//! takes 5.5 ns instead of 2.
//!
//! Locks: none.

use crate::bucket::{BELOW, Bucket, CAP, ENTRIES, POPPED, PUSHED};
use crate::percpu::slot::{LOADED, PREVIOUS, SLOT_SHIFT, STOP};
use crate::percpu::{ABORTED, FULL, Percpu, REFUSED, TWICE};
use core::ptr::NonNull;

/// One section: its body finds the slot at `{slots} + {at}`.
#[cfg(not(feature = "stretched"))]
macro_rules! section {
    ($($rest:tt)*) => {
        section_with!([""] [""] [] $($rest)*)
    };
}

/// The same with a delay before the commit, and with a descriptor that may be left out.
#[cfg(feature = "stretched")]
macro_rules! section {
    ($($rest:tt)*) => {
        section_with!(
            ["and {at}, qword ptr [rip + {armed}]"]
            [
                "mov {pauses:e}, dword ptr [rip + {stretch}]",
                "jmp 3f",
                "2: pause",
                "dec {pauses:e}",
                "3: test {pauses:e}, {pauses:e}",
                "jnz 2b",
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
#[path = "x86_64_bulk.rs"]
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
                "mov {at}, qword ptr [{slots} + {at} + {loaded}]",
                "mov {word}, qword ptr [{at}]",
                "movzx {got:e}, {word:x}",
                "test {got:e}, {got:e}",
                "jz 7f",
                "mov {got}, qword ptr [{at} + {got} * 8 + {below}]",
                "add {word}, {popped}",
            ]
            commit: "mov qword ptr [{at}], {word}"
            or: []
            got = out(reg) item,
            word = out(reg) _,
            loaded = const LOADED,
            below = const BELOW,
            popped = const POPPED,
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
                "mov {at}, qword ptr [{slots} + {at} + {loaded}]",
                "mov {word}, qword ptr [{at}]",
                "movzx {got:e}, {word:x}",
                "cmp {item}, qword ptr [{at} + {got} * 8 + {below}]",
                "je 8f",
                "cmp {got:e}, dword ptr [{at} + {cap}]",
                "jae 7f",
                "mov qword ptr [{at} + {got} * 8 + {entries}], {item}",
                "add {word}, {pushed}",
            ]
            commit: "mov qword ptr [{at}], {word}"
            or: [
                "8:",
                "mov {got}, {twice}",
                "jmp 5b",
            ]
            item = in(reg) item.as_ptr(),
            got = out(reg) got,
            word = out(reg) _,
            loaded = const LOADED,
            below = const BELOW,
            entries = const ENTRIES,
            cap = const CAP,
            pushed = const PUSHED,
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
                "cmp qword ptr [{slots} + {at} + {stop}], 0",
                "jne 7f",
                "mov {got}, qword ptr [{slots} + {at} + {previous}]",
            ]
            commit: "mov qword ptr [{slots} + {at} + {previous}], {bucket}"
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
                "cmp qword ptr [{slots} + {at} + {stop}], 0",
                "jne 7f",
                "mov {got}, qword ptr [{slots} + {at} + {loaded}]",
                "cmp word ptr [{got}], 0",
                "jne 7f",
            ]
            commit: "mov qword ptr [{slots} + {at} + {loaded}], {bucket}"
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
                "cmp qword ptr [{slots} + {at} + {stop}], 0",
                "jne 7f",
                "mov {got}, qword ptr [{slots} + {at} + {loaded}]",
                "movzx {len:e}, word ptr [{got}]",
                "cmp {len:e}, dword ptr [{got} + {cap}]",
                "jb 7f",
            ]
            commit: "mov qword ptr [{slots} + {at} + {loaded}], {bucket}"
            or: []
            bucket = in(reg) bucket.as_ptr(),
            got = out(reg) old,
            len = out(reg) _,
            stop = const STOP,
            loaded = const LOADED,
            cap = const CAP,
        );
    }
    old
}

/// Exchanges the two buckets if the loaded one is empty and the previous one is not; 0: else, or the slot is stopped.
///
/// # Safety
///
/// `percpu.area` must not be 0.
pub(in crate::percpu) unsafe fn swap_for_pop(percpu: &Percpu) -> isize {
    let got;
    // SAFETY: there is an area; a slot points to live buckets, and keeps both.
    unsafe {
        section!(
            percpu, REFUSED,
            body: [
                "cmp qword ptr [{slots} + {at} + {stop}], 0",
                "jne 7f",
                "mov {got}, qword ptr [{slots} + {at} + {loaded}]",
                "cmp word ptr [{got}], 0",
                "jne 7f",
                "mov {got}, qword ptr [{slots} + {at} + {previous}]",
                "cmp word ptr [{got}], 0",
                "je 7f",
                "movaps {pair}, xmmword ptr [{slots} + {at} + {loaded}]",
                "shufpd {pair}, {pair}, 1",
            ]
            commit: "movaps xmmword ptr [{slots} + {at} + {loaded}], {pair}"
            or: []
            got = out(reg) got,
            pair = out(xmm_reg) _,
            stop = const STOP,
            loaded = const LOADED,
            previous = const PREVIOUS,
        );
    }
    got
}

/// Exchanges the two buckets if the loaded one is full and the previous one is not; 0: else, or the slot is stopped.
///
/// # Safety
///
/// `percpu.area` must not be 0.
pub(in crate::percpu) unsafe fn swap_for_push(percpu: &Percpu) -> isize {
    let got;
    // SAFETY: there is an area; a slot points to live buckets, and keeps both.
    unsafe {
        section!(
            percpu, REFUSED,
            body: [
                "cmp qword ptr [{slots} + {at} + {stop}], 0",
                "jne 7f",
                "mov {got}, qword ptr [{slots} + {at} + {loaded}]",
                "movzx {len:e}, word ptr [{got}]",
                "cmp {len:e}, dword ptr [{got} + {cap}]",
                "jb 7f",
                "mov {got}, qword ptr [{slots} + {at} + {previous}]",
                "movzx {len:e}, word ptr [{got}]",
                "cmp {len:e}, dword ptr [{got} + {cap}]",
                "jae 7f",
                "movaps {pair}, xmmword ptr [{slots} + {at} + {loaded}]",
                "shufpd {pair}, {pair}, 1",
            ]
            commit: "movaps xmmword ptr [{slots} + {at} + {loaded}], {pair}"
            or: []
            got = out(reg) got,
            len = out(reg) _,
            pair = out(xmm_reg) _,
            stop = const STOP,
            loaded = const LOADED,
            previous = const PREVIOUS,
            cap = const CAP,
        );
    }
    got
}

/// The two pointers are one operand of 16 bytes.
const _: () = assert!(LOADED == 0 && PREVIOUS == 8 && SLOT_SHIFT >= 4);
