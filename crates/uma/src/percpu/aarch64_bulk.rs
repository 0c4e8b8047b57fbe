//! The sections for aarch64 that move several items.
//!
//! Locks: none.

use crate::bucket::{CAP, ENTRIES, LEN_BITS};
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
                "ldr {at}, [{at}, {field}]",
                "ldr {word}, [{at}]",
                "and {from}, {word}, 0xffff",
                "cmp {from}, {places}",
                "csel {got}, {from}, {places}, lo",
                "cbz {got}, 7f",
                "sub {from}, {from}, {got}",
                "add {from}, {at}, {from}, lsl 3",
                "add {from}, {from}, {entries}",
                // got items from [from] to [out], the last ones first, four at a time
                "mov {left}, {got}",
                "2:",
                "subs {left}, {left}, 4",
                "b.lo 3f",
                "add {one}, {from}, {left}, lsl 3",
                "ldp {a:q}, {b:q}, [{one}]",
                "add {one}, {out}, {left}, lsl 3",
                "stp {a:q}, {b:q}, [{one}]",
                "b 2b",
                "3:",
                "add {left}, {left}, 4",
                "cbz {left}, 3f",
                "2:",
                "sub {left}, {left}, 1",
                "ldr {one}, [{from}, {left}, lsl 3]",
                "str {one}, [{out}, {left}, lsl 3]",
                "cbnz {left}, 2b",
                "3:",
                "add {word}, {word}, {got}, lsl {len_bits}",
                "sub {word}, {word}, {got}",
            ]
            commit: "str {word}, [{at}]"
            or: []
            places = in(reg) out.len(),
            out = in(reg) out.as_mut_ptr(),
            got = out(reg) got,
            from = out(reg) _,
            left = out(reg) _,
            one = out(reg) _,
            a = out(vreg) _,
            b = out(vreg) _,
            field = const FIELD,
            entries = const ENTRIES,
            len_bits = const LEN_BITS,
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
                "ldr {at}, [{at}, {field}]",
                "ldr {word}, [{at}]",
                "and {to}, {word}, 0xffff",
                "ldr {got:w}, [{at}, {cap}]",
                "subs {got}, {got}, {to}",
                "b.ls 7f",
                "cmp {got}, {count}",
                "csel {got}, {got}, {count}, lo",
                "add {to}, {at}, {to}, lsl 3",
                "add {to}, {to}, {entries}",
                // got items from [items] to [to], the last ones first, four at a time
                "mov {left}, {got}",
                "2:",
                "subs {left}, {left}, 4",
                "b.lo 3f",
                "add {one}, {items}, {left}, lsl 3",
                "ldp {a:q}, {b:q}, [{one}]",
                "add {one}, {to}, {left}, lsl 3",
                "stp {a:q}, {b:q}, [{one}]",
                "b 2b",
                "3:",
                "add {left}, {left}, 4",
                "cbz {left}, 3f",
                "2:",
                "sub {left}, {left}, 1",
                "ldr {one}, [{items}, {left}, lsl 3]",
                "str {one}, [{to}, {left}, lsl 3]",
                "cbnz {left}, 2b",
                "3:",
                "add {word}, {word}, {got}",
            ]
            commit: "str {word}, [{at}]"
            or: []
            count = in(reg) items.len(),
            items = in(reg) items.as_ptr(),
            got = out(reg) got,
            to = out(reg) _,
            left = out(reg) _,
            one = out(reg) _,
            a = out(vreg) _,
            b = out(vreg) _,
            field = const FIELD,
            entries = const ENTRIES,
            cap = const CAP,
        );
    }
    got
}
