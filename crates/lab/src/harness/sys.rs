//! System calls: keep a thread on a CPU, read its CPU time, and raise the limit on descriptors.
//!
//! Invariants: no function here but [`raise_descriptors`] changes anything but the calling thread.
//! Sources: proc(5), sched_setaffinity(2), gettid(2), getrusage(2), unshare(2).

use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs;
use std::io;
use std::mem;
use std::time::Duration;

/// The CPUs that this thread may run on, in ascending order; never empty.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a cpu_set_t is plain bits, of which all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set is as long as is said, and 0 is the calling thread.
    let failed = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0;
    if failed {
        return vec![0];
    }
    let all = 0..8 * size_of_val(&set);
    // SAFETY: the number is below the size of the set.
    all.filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Lets this thread, and threads that it starts from now on, run on these CPUs only.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: a cpu_set_t is plain bits, of which all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus
        .iter()
        .filter(|&&cpu| cpu < 8 * size_of::<libc::cpu_set_t>())
    {
        // SAFETY: the number is below the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the set is as long as is said, and 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The CPU time of this thread: a clock that stands still while other programs have the CPU.
pub(crate) fn thread_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time of all threads of this process together.
pub(crate) fn process_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The CPU time of all threads, ended ones too, of a process that may be another; none if it is gone.
pub(crate) fn time_of(pid: u32) -> Duration {
    let mut which = 0;
    // SAFETY: it takes a number, and writes a number of ours.
    match unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut which) } {
        0 => clock(which),
        _ => Duration::ZERO,
    }
}

fn clock(which: libc::clockid_t) -> Duration {
    // SAFETY: a timespec is two numbers.
    let mut time: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: the timespec is ours. A clock that is gone leaves it at zero.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Moves this thread, and no other, into an empty network namespace of its own.
pub(crate) fn new_network() -> io::Result<()> {
    // SAFETY: it takes no memory, and changes only the calling thread.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets this process have this many descriptors.
pub(crate) fn raise_descriptors(count: u64) -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.current.map(|current| current.max(count));
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// The number of this thread, for [`waited`].
pub(crate) fn thread_id() -> i32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// How long a thread of this process could have run but had no CPU, since it started; zero where the kernel does not
/// count it.
pub(crate) fn waited(thread: i32) -> Duration {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let counts = fs::read_to_string(path).unwrap_or_default();
    let ns = counts.split(' ').nth(1).and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// How often threads of this process lost their CPU or gave it up, since it started.
pub(crate) fn switches() -> u64 {
    // SAFETY: an rusage is numbers.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the rusage is ours.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    u64::try_from(usage.ru_nvcsw + usage.ru_nivcsw).unwrap_or(0)
}

/// The CPU time of all children of this process that have ended and were waited for.
pub(crate) fn children_time() -> Duration {
    // SAFETY: an rusage is numbers.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the rusage is ours.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    [usage.ru_utime, usage.ru_stime]
        .into_iter()
        .map(|time| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            Duration::from_secs(seconds) + Duration::from_micros(time.tv_usec.unsigned_abs())
        })
        .sum()
}

/// The idle time of these CPUs together since the system started, to 10 ms.
pub(crate) fn idle_time(cpus: &[usize]) -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = |line: &str| -> Option<u64> {
        let mut fields = line.split_whitespace();
        let cpu = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
        // user, nice, system, idle, iowait
        let idle = fields.nth(3)?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
        cpus.contains(&cpu).then_some(idle)
    };
    // The unit is 1/100 s for every program, on any kernel.
    Duration::from_millis(stat.lines().filter_map(ticks).sum::<u64>() * 10)
}
