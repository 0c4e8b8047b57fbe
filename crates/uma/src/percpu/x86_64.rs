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
use core::mem::MaybeUninit;
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

/// Copies the top items of the bucket that `FIELD` of the slot points to, to the beginning of `out`;
/// how many.
///
/// # Safety
///
/// `percpu.area` must not be 0.
pub(in crate::percpu) unsafe fn pop_bulk<const FIELD: usize>(
    percpu: &Percpu,
    out: &mut [MaybeUninit<NonNull<u8>>],
) -> isize {
    const { assert!(FIELD == LOADED || FIELD == PREVIOUS) };
    let got;
    // SAFETY: there is an area; a slot points to a live bucket; at most as many entries are read
    // as it has items, and written as `out` has places.
    unsafe {
        section!(
            percpu, REFUSED,
            body: [
                "mov {at}, qword ptr [{slots} + {at} + {field}]",
                "mov {word}, qword ptr [{at}]",
                "movzx {from:e}, {word:x}",
                "mov {got}, {places}",
                "cmp {from}, {got}",
                "cmovb {got}, {from}",
                "test {got}, {got}",
                "jz 7f",
                "sub {from}, {got}",
                "lea {from}, [{at} + {from} * 8 + {entries}]",
                // got items from [from] to [out], the last ones first, four at a time
                "mov {left}, {got}",
                "sub {left}, 4",
                "jb 3f",
                "2:",
                "movups {a}, xmmword ptr [{from} + {left} * 8]",
                "movups {b}, xmmword ptr [{from} + {left} * 8 + 16]",
                "movups xmmword ptr [{out} + {left} * 8], {a}",
                "movups xmmword ptr [{out} + {left} * 8 + 16], {b}",
                "sub {left}, 4",
                "jae 2b",
                "3:",
                "add {left}, 4",
                "jz 3f",
                "2:",
                "mov {one}, qword ptr [{from} + {left} * 8 - 8]",
                "mov qword ptr [{out} + {left} * 8 - 8], {one}",
                "dec {left}",
                "jnz 2b",
                "3:",
                "imul {one}, {got}, {popped}",
                "add {word}, {one}",
            ]
            commit: "mov qword ptr [{at}], {word}"
            or: []
            places = in(reg) out.len(),
            out = in(reg) out.as_mut_ptr(),
            got = out(reg) got,
            from = out(reg) _,
            word = out(reg) _,
            left = out(reg) _,
            one = out(reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            field = const FIELD,
            entries = const ENTRIES,
            popped = const POPPED,
        );
    }
    got
}

/// Copies the first of `items` onto the bucket that `FIELD` of the slot points to; how many.
///
/// # Safety
///
/// `percpu.area` must not be 0.
pub(in crate::percpu) unsafe fn push_bulk<const FIELD: usize>(
    percpu: &Percpu,
    items: &[NonNull<u8>],
) -> isize {
    const { assert!(FIELD == LOADED || FIELD == PREVIOUS) };
    let got;
    // SAFETY: there is an area; a slot points to a live bucket; at most as many entries are
    // written as its capacity leaves, and read as there are items.
    unsafe {
        section!(
            percpu, REFUSED,
            body: [
                "mov {at}, qword ptr [{slots} + {at} + {field}]",
                "mov {word}, qword ptr [{at}]",
                "movzx {to:e}, {word:x}",
                "mov {got:e}, dword ptr [{at} + {cap}]",
                "sub {got:e}, {to:e}",
                "jbe 7f",
                "cmp {got}, {count}",
                "cmova {got}, {count}",
                "lea {to}, [{at} + {to} * 8 + {entries}]",
                // got items from [items] to [to], the last ones first, four at a time
                "mov {left}, {got}",
                "sub {left}, 4",
                "jb 3f",
                "2:",
                "movups {a}, xmmword ptr [{items} + {left} * 8]",
                "movups {b}, xmmword ptr [{items} + {left} * 8 + 16]",
                "movups xmmword ptr [{to} + {left} * 8], {a}",
                "movups xmmword ptr [{to} + {left} * 8 + 16], {b}",
                "sub {left}, 4",
                "jae 2b",
                "3:",
                "add {left}, 4",
                "jz 3f",
                "2:",
                "mov {one}, qword ptr [{items} + {left} * 8 - 8]",
                "mov qword ptr [{to} + {left} * 8 - 8], {one}",
                "dec {left}",
                "jnz 2b",
                "3:",
                "add {word}, {got}", // PUSHED is 1
            ]
            commit: "mov qword ptr [{at}], {word}"
            or: []
            count = in(reg) items.len(),
            items = in(reg) items.as_ptr(),
            got = out(reg) got,
            to = out(reg) _,
            word = out(reg) _,
            left = out(reg) _,
            one = out(reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            field = const FIELD,
            entries = const ENTRIES,
            cap = const CAP,
        );
    }
    got
}

const _: () = assert!(PUSHED == 1);

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
