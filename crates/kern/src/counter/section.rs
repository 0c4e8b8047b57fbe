//! The section that counts: find this CPU's number, add to it. The addition is the commit.
//!
//! The shape is that of the allocator's sections (`uma`, `percpu/x86_64.rs`, with a drawing): arm,
//! label 4, which CPU, one store, label 5; an interruption between the labels goes to 6.
//!
//! Locks: none.
//! Source: `rseq(2)`.

#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(loom)
))]
mod sys {
    use core::arch::asm;
    use core::sync::atomic::AtomicU64;

    use crate::percpu_words::STRIDE_SHIFT;
    use crate::{cpu, rseq};

    /// `struct rseq`: the CPU that this thread runs on, and the address of the armed descriptor.
    const CPU_ID: usize = 4;
    const RSEQ_CS: usize = 8;

    /// Adds `n` to this CPU's number; false if that was interrupted and did not happen.
    ///
    /// # Safety
    /// `slot` is a column of `columns.rs`: so libc registered an area for each thread.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(in super::super) unsafe fn add(slot: *mut AtomicU64, n: u64) -> bool {
        let Some(area) = rseq::area_offset() else {
            return false;
        };
        let got: u64;
        // SAFETY: there is an area; the one store goes to a number of the column.
        unsafe {
            asm!(
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "3:",
                ".long 0, 0",
                ".quad 4f, 5f - 4f, 6f",
                ".popsection",
                "lea {at}, [rip + 3b]",
                "mov qword ptr fs:[{area} + {rseq_cs}], {at}",
                "4:",
                "mov {at:e}, dword ptr fs:[{area} + {cpu_id}]",
                "mov {got:e}, 1",
                "cmp {at}, {cpus}",
                "jae 7f",
                "shl {at}, {shift}",
                "add qword ptr [{slot} + {at}], {n}",
                "5:",
                ".pushsection __rseq_failure, \"ax\"",
                ".byte 0x0f, 0xb9, 0x3d", // ud1, with the signature as its displacement
                ".long 0x53053053",
                "6:",
                "lock inc qword ptr [rip + {aborts}]",
                "7:",
                "xor {got:e}, {got:e}",
                "jmp 5b",
                ".popsection",
                slot = in(reg) slot,
                n = in(reg) n,
                cpus = in(reg) cpu::count(),
                area = in(reg) area,
                at = out(reg) _,
                got = out(reg) got,
                shift = const STRIDE_SHIFT,
                cpu_id = const CPU_ID,
                rseq_cs = const RSEQ_CS,
                aborts = sym rseq::ABORTS,
                options(nostack),
            );
        }
        got != 0
    }

    /// Adds `n` to this CPU's number; false if that was interrupted and did not happen.
    ///
    /// # Safety
    /// `slot` is a column of `columns.rs`: so libc registered an area for each thread.
    #[cfg(target_arch = "aarch64")]
    #[inline]
    pub(in super::super) unsafe fn add(slot: *mut AtomicU64, n: u64) -> bool {
        let Some(area) = rseq::area_offset() else {
            return false;
        };
        let got: u64;
        // SAFETY: there is an area; the one store goes to a number of the column.
        unsafe {
            asm!(
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "3:",
                ".word 0, 0",
                ".xword 4f, 5f - 4f, 6f",
                ".popsection",
                "mrs {thread}, tpidr_el0",
                "add {thread}, {thread}, {area}",
                "adrp {at}, 3b",
                "add {at}, {at}, :lo12:3b",
                "str {at}, [{thread}, {rseq_cs}]",
                "4:",
                "ldr {at:w}, [{thread}, {cpu_id}]",
                "cmp {at}, {cpus}",
                "b.hs 7f",
                "add {at}, {slot}, {at}, lsl {shift}",
                "ldr {got}, [{at}]",
                "add {got}, {got}, {n}",
                "str {got}, [{at}]",
                "5:",
                "mov {got}, 1",
                "8:",
                ".pushsection __rseq_failure, \"ax\"",
                ".word 0xd428bc00",
                "6:",
                "7:",
                "mov {got}, 0",
                "b 8b",
                ".popsection",
                slot = in(reg) slot,
                n = in(reg) n,
                cpus = in(reg) cpu::count(),
                area = in(reg) area,
                thread = out(reg) _,
                at = out(reg) _,
                got = out(reg) got,
                shift = const STRIDE_SHIFT,
                cpu_id = const CPU_ID,
                rseq_cs = const RSEQ_CS,
                options(nostack),
            );
        }
        got != 0
    }
}

/// A machine without sections has no columns either.
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
    pub(in super::super) unsafe fn add(_slot: *mut AtomicU64, _n: u64) -> bool {
        false
    }
}

pub(super) use sys::add;
