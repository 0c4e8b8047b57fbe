//! Which CPU this thread runs on, and how many CPUs the machine has: the index into per-CPU caches.
//!
//! Invariant: `current() < count()`.
//! Locks: none.

use std::sync::OnceLock;

use crate::rseq;

/// The CPU that the calling thread runs on, below [`count`].
///
/// A hint: the thread may migrate before the caller uses the number, so data that it selects must
/// be safe to use from any CPU. Where the machine cannot say, the answer is 0. Where CPU ids have
/// gaps, two CPUs may share a number.
#[doc(alias = "curcpu")]
#[must_use]
#[inline]
pub fn current() -> usize {
    fold(raw_current(), count())
}

/// How many CPUs the machine is configured with; at least 1, and the same number for the whole
/// life of the process.
#[doc(alias = "mp_ncpus")]
#[must_use]
#[inline]
pub fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        // SAFETY: sysconf takes a plain number, touches no memory of ours, and is thread-safe.
        let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
        let configured = usize::try_from(configured).unwrap_or(1).max(1);
        // Where a process may not read /sys and /proc, libc counts the CPUs that it may run on: they have other numbers
        // if a container or `taskset` gave it only the last ones.
        affinity().map_or(configured, |usable| configured.max(usable.end))
    })
}

/// How many CPUs the calling thread may run on; at least 1. Asked of the kernel each time.
#[must_use]
pub fn usable() -> usize {
    affinity().map_or_else(count, |usable| usable.cpus.max(1))
}

/// The CPUs that a thread may run on.
#[derive(Debug, PartialEq, Eq)]
struct Affinity {
    cpus: usize,
    /// The number after the last.
    end: usize,
}

/// Those of the calling thread; none where the system does not tell, or has more than a set has bits for.
fn affinity() -> Option<Affinity> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: the set is plain bits, and all zeroes is a set.
        let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        // SAFETY: 0 is the calling thread, and the kernel writes no more than the size it is told.
        let error = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        (error == 0).then(|| Affinity::of(&set))
    }
    #[cfg(any(miri, not(target_os = "linux")))]
    None
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Affinity {
    fn of(set: &libc::cpu_set_t) -> Self {
        // SAFETY: it only reads a bit, and the numbers are those of the set's bits.
        let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, set) };
        let bits = || (0..8 * size_of_val(set)).filter(has);
        Self {
            cpus: bits().count(),
            end: bits().next_back().map_or(0, |cpu| cpu + 1),
        }
    }
}

/// The kernel's number of this CPU; 0 where the system does not tell it. Every reader of a read-mostly lock needs the
/// number, so this reads the rseq area directly and saves the call into the C library.
#[inline]
fn raw_current() -> usize {
    if let Some(cpu) = rseq::cpu() {
        return cpu;
    }
    // Miri has no such call.
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: sched_getcpu has no arguments, returns a number or -1, and is thread-safe.
        let cpu = unsafe { libc::sched_getcpu() };
        usize::try_from(cpu).unwrap_or(0)
    }
    #[cfg(any(miri, not(target_os = "linux")))]
    0
}

/// Brings the id of a CPU into range. A branch that is always predicted costs less on the allocator's fast path than a
/// division.
#[inline]
fn fold(cpu: usize, count: usize) -> usize {
    if cpu < count { cpu } else { cpu % count }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
