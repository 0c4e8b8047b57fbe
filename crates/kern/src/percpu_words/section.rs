//! The sections on a word of a column: find this CPU's word, add to it. The addition is the commit.
//!
//! Locks: none.

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(loom)
))]
mod sys {
    use core::sync::atomic::AtomicU64;

    use super::super::STRIDE_SHIFT;
    use crate::{cpu, rseq, rseq_section};

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
        #[cfg(target_arch = "x86_64")]
        // SAFETY: there is an area; the one store goes to a word of the column.
        unsafe {
            rseq_section!(
                [] [] []
                slots: first, cpus: cpu::count(), area: area, shift: STRIDE_SHIFT,
                aborted: 0, refused: 0,
                body: ["mov {got:e}, 1",]
                commit: "add qword ptr [{slots} + {at}], {n}"
                or: []
                n = in(reg) n,
                got = out(reg) got,
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: there is an area; the one store goes to a word of the column.
        unsafe {
            rseq_section!(
                [] [] []
                slots: first, cpus: cpu::count(), area: area, shift: STRIDE_SHIFT,
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
        got != 0
    }
}

/// A machine without sections.
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(loom)
)))]
mod sys {
    use core::sync::atomic::AtomicU64;

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn add(_first: *mut AtomicU64, _n: u64) -> bool {
        false
    }
}

pub(crate) use sys::add;
