//! Restartable sequences: the interface of the kernel and libc by which a thread works on data of
//! its CPU without a lock and without an atomic instruction.
//!
//! A *section* is a few instructions that end in one store. The thread says which instructions by
//! writing the address of a descriptor into its rseq area; if the thread is preempted, migrated or
//! gets a signal before that last store, the kernel sends it to the section's abort address, and
//! the section has changed no data. Since every other thread on that CPU comes after a preemption,
//! a section is atomic with respect to all that runs on its CPU. [`fence`] gives the rest of the
//! machine a way in: it restarts the sections that are running anywhere in the process.
//!
//! ```text
//!   thread pointer + offset -> | cpu_id_start | cpu_id | rseq_cs ---> descriptor   (libc's area)
//!                                                 |         |           start, length, abort
//!                              kernel writes it --'         '-- we write it, and nothing else
//! ```
//!
//! This file finds the area and the fence, and `rseq/section.rs` has the frame of all sections; the operations are with
//! the data.
//!
//! Invariant: only the area that libc registered is used, never one of our own: a second registration is refused, and
//! an area must outlive the last instruction of its thread.
//! Locks: none.
//! Sources: `rseq(2)`, `membarrier(2)`, the manual of glibc 2.35 ("Restartable Sequences").

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

mod section;

/// `struct rseq`: the CPU that this thread runs on.
#[doc(hidden)]
pub const CPU_ID: usize = 4;
/// And the address of the armed descriptor.
#[doc(hidden)]
pub const RSEQ_CS: usize = 8;

/// Stands before an abort address, so that the kernel can't be made to jump elsewhere.
#[doc(hidden)]
pub const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") {
    0xd428_bc00
} else {
    0x5305_3053
};

/// Sections that were aborted, in the whole process. The abort paths of the sections are assembly and need the symbol;
/// other code reads it with [`aborts`].
pub static ABORTS: AtomicU64 = AtomicU64::new(0);

/// The method by which this process accesses per-CPU data (rseq(2), membarrier(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PercpuMethod {
    /// By restartable sequences.
    Rseq {
        /// The rseq area's offset from the thread pointer, the same in every thread.
        offset: isize,
    },
    /// Under a lock for each CPU.
    Locked,
}

/// The environment variable that forces the answer of [`choose`]: `rseq` or `locked`.
pub const PERCPU_VAR: &str = "UMA_PERCPU";

/// The offset of the rseq area from the thread pointer, if libc had registered one for the thread
/// that called first. It registers either every thread or none.
#[must_use]
#[inline]
pub fn area_offset() -> Option<isize> {
    static OFFSET: OnceLock<Option<isize>> = OnceLock::new();
    *OFFSET.get_or_init(sys::registered_offset)
}

/// The kernel's number of the CPU that the calling thread runs on, if libc registered an area for it.
#[inline]
pub(crate) fn cpu() -> Option<usize> {
    let offset = area_offset()?;
    // SAFETY: libc registered areas, so the calling thread has one there.
    usize::try_from(unsafe { sys::read_cpu_id(offset) }).ok()
}

/// Restarts every section that runs anywhere in this process. After it has returned true, no thread
/// is in a section that it entered before the call, and the stores of those sections are visible to
/// the caller.
///
/// Returns false if the system refused, as a filter on system calls may at any time: other threads
/// may then still be in their sections.
#[doc(alias = "membarrier")]
#[must_use]
pub fn fence() -> bool {
    fence_available() && sys::fence()
}

/// Whether [`fence`] may be expected to work. The first call announces to the kernel that this
/// process will use it.
#[must_use]
pub fn fence_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(sys::register_fence)
}

/// How often a section was aborted in this process so far.
#[must_use]
pub fn aborts() -> u64 {
    ABORTS.load(Ordering::Relaxed)
}

/// The method to use: the method that [`PERCPU_VAR`] names, else sections where they work. Decided once.
#[must_use]
pub fn choose() -> PercpuMethod {
    choice().0
}

/// The reason for the answer of [`choose`], as a text for the user.
#[must_use]
pub fn reason() -> &'static str {
    choice().1
}

fn choice() -> (PercpuMethod, &'static str) {
    static CHOICE: OnceLock<(PercpuMethod, &'static str)> = OnceLock::new();
    *CHOICE.get_or_init(|| {
        let wish = std::env::var(PERCPU_VAR).ok();
        decide(wish.as_deref(), area_offset(), fence_available())
    })
}

/// The decision itself. If the named method does not work, locks are used, which always work.
fn decide(
    wish: Option<&str>,
    area: Option<isize>,
    fence_available: bool,
) -> (PercpuMethod, &'static str) {
    let wanted = wish == Some("rseq");
    match (wish, area, fence_available) {
        (Some("locked"), ..) => (PercpuMethod::Locked, "locked: UMA_PERCPU asks for it"),
        (_, None, _) if wanted => (
            PercpuMethod::Locked,
            "locked: UMA_PERCPU asks for rseq, but libc registered no area",
        ),
        (_, None, _) => (PercpuMethod::Locked, "locked: libc registered no rseq area"),
        (_, Some(_), false) if wanted => (
            PercpuMethod::Locked,
            "locked: UMA_PERCPU asks for rseq, but membarrier cannot restart sections",
        ),
        (_, Some(_), false) => (
            PercpuMethod::Locked,
            "locked: membarrier cannot restart sections here",
        ),
        (_, Some(offset), true) if wanted => (
            PercpuMethod::Rseq { offset },
            "rseq: UMA_PERCPU asks for it",
        ),
        (_, Some(offset), true) => (
            PercpuMethod::Rseq { offset },
            "rseq: libc registered an area and membarrier restarts sections",
        ),
    }
}

/// Linux with glibc, on the processors that sections are written for. Not under the schedule
/// checkers and not under Miri, which can run neither the sections nor dlsym.
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(loom)
))]
mod sys {
    use core::ffi::{CStr, c_int, c_long, c_uint};

    /// From linux/membarrier.h. The mask that QUERY returns is made of the same numbers.
    const QUERY: c_int = 0;
    const PRIVATE_EXPEDITED_RSEQ: c_int = 1 << 7;
    const REGISTER_PRIVATE_EXPEDITED_RSEQ: c_int = 1 << 8;

    /// glibc's `__rseq_offset`, where `__rseq_size` says that it is meant, and where the kernel
    /// agreed to the registration: under valgrind, or a filter, it did not.
    pub(super) fn registered_offset() -> Option<isize> {
        // SAFETY: glibc documents this variable as a `ptrdiff_t`, constant once main has begun.
        let offset = unsafe { *variable::<isize>(c"__rseq_offset")? };
        // SAFETY: glibc documents this variable as an `unsigned int`, constant as well.
        let size = unsafe { *variable::<c_uint>(c"__rseq_size")? };
        if size == 0 {
            return None;
        }
        // SAFETY: a size that is not 0 says that every thread has an rseq area at this offset.
        let cpu_id = unsafe { read_cpu_id(offset) };
        if cpu_id >= 0 {
            stay_loaded();
        }
        (cpu_id >= 0).then_some(offset)
    }

    /// Prevents this code from being unloaded, if dlopen(3) loaded it. Sections are not disarmed, and the kernel kills
    /// a thread whose area names an unloaded descriptor.
    fn stay_loaded() {
        let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        let here: fn() = stay_loaded;
        // SAFETY: looks an address up, and writes one `Dl_info`.
        let found = unsafe { libc::dladdr(here as *const core::ffi::c_void, info.as_mut_ptr()) };
        // SAFETY: pointers, for which null is a value, or values that the call wrote.
        let name = unsafe { info.assume_init() }.dli_fname;
        if found != 0 && !name.is_null() {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            // SAFETY: a C string of the loader's; no library is loaded, so no code runs. The program itself may not be
            // found by its name, and is never unloaded.
            unsafe { libc::dlopen(name, flags) };
        }
    }

    /// The address of a libc variable that older versions lack. Linking to the variable would make the whole program
    /// need glibc 2.35.
    fn variable<T>(name: &CStr) -> Option<*const T> {
        // SAFETY: dlsym reads a C string, which a CStr is; the default handle is always valid.
        let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!at.is_null()).then_some(at.cast_const().cast())
    }

    /// The `cpu_id` of the calling thread's area: -1 before registration, -2 after a failed one.
    ///
    /// # Safety
    ///
    /// An rseq area must be mapped at `offset` from the thread pointer.
    #[inline]
    pub(super) unsafe fn read_cpu_id(offset: isize) -> i32 {
        let cpu_id: i32;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: reads four bytes of the area, which the caller says is there.
        unsafe {
            core::arch::asm!(
                "mov {cpu_id:e}, dword ptr fs:[{at}]",
                at = in(reg) offset + super::CPU_ID as isize,
                cpu_id = lateout(reg) cpu_id,
                options(nostack, preserves_flags, readonly),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: reads four bytes of the area, which the caller says is there.
        unsafe {
            core::arch::asm!(
                "mrs {thread}, tpidr_el0",
                "ldr {cpu_id:w}, [{thread}, {at}]",
                at = in(reg) offset + super::CPU_ID as isize,
                thread = out(reg) _,
                cpu_id = lateout(reg) cpu_id,
                options(nostack, preserves_flags, readonly),
            );
        }
        cpu_id
    }

    /// Registers the process for the fence, once.
    pub(super) fn register_fence() -> bool {
        let known = membarrier(QUERY);
        let needed = c_long::from(PRIVATE_EXPEDITED_RSEQ | REGISTER_PRIVATE_EXPEDITED_RSEQ);
        known >= 0 && known & needed == needed && membarrier(REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0
    }

    /// Restarts the sections of all threads of the process. Registers again if the kernel has lost
    /// the registration, as it may after a fork.
    pub(super) fn fence() -> bool {
        let fenced = || membarrier(PRIVATE_EXPEDITED_RSEQ) == 0;
        fenced() || membarrier(REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0 && fenced()
    }

    fn membarrier(command: c_int) -> c_long {
        // SAFETY: membarrier takes three plain numbers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0 as c_uint, 0 as c_int) }
    }
}

/// On other systems there is no rseq area.
#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri),
    not(loom)
)))]
mod sys {
    pub(super) fn registered_offset() -> Option<isize> {
        None
    }

    /// # Safety
    /// None is needed.
    pub(super) unsafe fn read_cpu_id(_offset: isize) -> i32 {
        -1
    }

    pub(super) fn register_fence() -> bool {
        false
    }

    pub(super) fn fence() -> bool {
        false
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
