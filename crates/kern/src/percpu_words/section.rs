//! The section on a word of a column: find this CPU's word, add to it. The addition is the commit.
//!
//! Locks: none.

use core::sync::atomic::AtomicU64;

use crate::rseq;

/// Adds `n` to this CPU's word; false if that was interrupted and did not happen.
///
/// # Safety
/// `first` is CPU 0's word of a column, and the method is [sections](rseq::choose).
#[inline]
pub(crate) unsafe fn add(first: *mut AtomicU64, n: u64) -> bool {
    let Some(area) = rseq::area_offset() else {
        return false;
    };
    let got: u64;
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    // SAFETY: there is an area; the one store goes to a word of the column.
    unsafe {
        crate::rseq_section!(
            [] [] []
            slots: first, cpus: crate::cpu::count(), area: area, shift: super::STRIDE_SHIFT,
            aborted: 0, refused: 0,
            body: ["mov {got:e}, 1",]
            commit: "add qword ptr [{slots} + {at}], {n}"
            or: []
            n = in(reg) n,
            got = out(reg) got,
        );
    }
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    // SAFETY: there is an area; the one store goes to a word of the column.
    unsafe {
        crate::rseq_section!(
            [] [] []
            slots: first, cpus: crate::cpu::count(), area: area, shift: super::STRIDE_SHIFT,
            aborted: 0, refused: 0,
            body: [
                "ldr {word}, [{at}]",
                "add {word}, {word}, {n}",
                "mov {got}, 1",
            ]
            commit: "str {word}, [{at}]"
            or: []
            n = in(reg) n,
            got = out(reg) got,
        );
    }
    // No other machine has an area.
    #[cfg(not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )))]
    {
        let _ = (area, first, n);
        got = 0;
    }
    got != 0
}
