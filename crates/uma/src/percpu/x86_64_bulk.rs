//! The sections for x86-64 that move several items.
//!
//! Locks: none.

use crate::bucket::{CAP, ENTRIES, POPPED, PUSHED};
use crate::percpu::slot::{LOADED, PREVIOUS, SLOT_SHIFT};
use crate::percpu::{ABORTED, Percpu, REFUSED};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

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
