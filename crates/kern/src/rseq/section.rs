//! The frame of a restartable section, for the crates that own per-CPU data: everything but the operation.
//!
//! ```text
//!                               descriptor (in __rseq_cs): start 4, length 5 - 4, abort 6
//!   at = address of descriptor
//!   rseq_cs = at                arm: from here on the kernel checks whether the thread is inside
//! 4 at = cpu_id                 the section: which CPU is this?
//!   if at >= cpus: 7               unsigned: -1 and -2 (no area registered) are no CPUs
//!   ...                         the body: finds this CPU's data; reads, chooses, writes what is not read yet
//!   one store                   the commit, the last instruction
//! 5                             got = the result
//!
//!   signature                   (elsewhere) the kernel jumps only to where this precedes
//! 6 aborts += 1                 interrupted: nothing has happened
//!   got = aborted; to 5
//! 7 got = refused; to 5         the state did not allow it
//! ```
//!
//! A section returns to its entry, with its result in a register: assembly that jumps to Rust labels must not have
//! outputs. It does not disarm: the kernel does that when it next looks and finds the thread outside.
//!
//! On x86-64 the code after an abort has a section of the file of its own. On aarch64 it stands in a subsection of the
//! function's section, because a conditional branch reaches 1 MiB.
//!
//! Invariants: a body never writes its inputs (the code after an abort uses them again), and until the commit it
//! writes no memory that another thread reads.
//! Locks: none.
//! Sources: `rseq(2)`, and the kernel's `include/uapi/linux/rseq.h` for the layouts.

/// A section around `body` and `commit`.
///
/// For them, the data of CPU 0 are at `{slots}`. On x86-64 this CPU's are at `{slots} + {at}`, and the body may change
/// `{at}`. On aarch64 they are at `{at}`, and the body may change that and `{word}`. They leave the result in `{got}`,
/// an operand of the caller's; the body jumps to `7f` if the operation is not possible. The first three lists are for
/// tests: code that changes the descriptor's address, code before the commit, their operands.
///
/// The caller must know that its thread has an rseq area at the offset `area`, not 0, from the thread pointer.
#[doc(hidden)]
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! rseq_section {
    (
        [$($arm:literal),*] [$($delay:literal),* $(,)?] [$($delay_operands:tt)*]
        slots: $slots:expr, cpus: $cpus:expr, area: $area:expr, shift: $shift:expr,
        aborted: $aborted:expr, refused: $refused:expr,
        body: [$($body:literal,)*]
        commit: $commit:literal
        or: [$($or:literal,)*]
        $($operands:tt)*
    ) => {
        ::core::arch::asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3:",
            ".long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            "lea {at}, [rip + 3b]",
            $($arm,)*
            "mov qword ptr fs:[{area} + {rseq_cs}], {at}",
            "4:",
            "mov {at:e}, dword ptr fs:[{area} + {cpu_id}]",
            "cmp {at}, {cpus}",
            "jae 7f",
            "shl {at}, {shift}",
            $($body,)*
            $($delay,)*
            $commit,
            "5:",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d", // ud1, with the signature as its displacement
            ".long {signature}",
            "6:",
            "lock inc qword ptr [rip + {aborts}]",
            "mov {got}, {aborted}",
            "jmp 5b",
            "7:",
            "mov {got}, {refused}",
            "jmp 5b",
            $($or,)*
            ".popsection",
            slots = in(reg) $slots,
            cpus = in(reg) $cpus,
            area = in(reg) $area,
            at = out(reg) _,
            shift = const $shift,
            cpu_id = const $crate::rseq::CPU_ID,
            rseq_cs = const $crate::rseq::RSEQ_CS,
            signature = const $crate::rseq::SIGNATURE,
            aborts = sym $crate::rseq::ABORTS,
            aborted = const $aborted,
            refused = const $refused,
            $($delay_operands)*
            $($operands)*
            options(nostack),
        )
    };
}

/// See the one for x86-64.
#[doc(hidden)]
#[cfg(target_arch = "aarch64")]
#[macro_export]
macro_rules! rseq_section {
    (
        [$($arm:literal),* $(,)?] [$($delay:literal),* $(,)?] [$($delay_operands:tt)*]
        slots: $slots:expr, cpus: $cpus:expr, area: $area:expr, shift: $shift:expr,
        aborted: $aborted:expr, refused: $refused:expr,
        body: [$($body:literal,)*]
        commit: $commit:literal
        or: [$($or:literal,)*]
        $($operands:tt)*
    ) => {
        ::core::arch::asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3:",
            ".word 0, 0",
            ".xword 4f, 5f - 4f, 6f",
            ".popsection",
            "adrp {at}, 3b",
            "add {at}, {at}, :lo12:3b",
            $($arm,)*
            "mrs {rseq}, tpidr_el0",
            "add {rseq}, {rseq}, {area}",
            "str {at}, [{rseq}, {rseq_cs}]",
            "4:",
            "ldr {at:w}, [{rseq}, {cpu_id}]",
            "cmp {at}, {cpus}",
            "b.hs 7f",
            "add {at}, {slots}, {at}, lsl {shift}",
            $($body,)*
            $($delay,)*
            $commit,
            "5:",
            ".subsection 1",
            ".inst {signature}",
            "6:",
            "adrp {at}, {aborts}",
            "add {at}, {at}, :lo12:{aborts}",
            "2:",
            "ldxr {got}, [{at}]",
            "add {got}, {got}, 1",
            "stxr {word:w}, {got}, [{at}]",
            "cbnz {word:w}, 2b",
            "mov {got}, {aborted}",
            "b 5b",
            "7:",
            "mov {got}, {refused}",
            "b 5b",
            $($or,)*
            ".previous",
            slots = in(reg) $slots,
            cpus = in(reg) $cpus,
            area = in(reg) $area,
            rseq = out(reg) _,
            at = out(reg) _,
            word = out(reg) _,
            shift = const $shift,
            cpu_id = const $crate::rseq::CPU_ID,
            rseq_cs = const $crate::rseq::RSEQ_CS,
            signature = const $crate::rseq::SIGNATURE,
            aborts = sym $crate::rseq::ABORTS,
            aborted = const $aborted,
            refused = const $refused,
            $($delay_operands)*
            $($operands)*
            options(nostack),
        )
    };
}
