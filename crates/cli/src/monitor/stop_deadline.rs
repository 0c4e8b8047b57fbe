//! The deadline by which a gateway process that was told to stop must end. The time in which it was ready to run but
//! another process had the CPU does not count: load on the machine is no reason to kill it.
//!
//! Invariants: only time that the kernel counted as such a wait, or in which the monitor too was stopped, moves the
//! deadline. A process that alone is stopped, is blocked or spins gets no more than its own time.
//! Locks: none.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::sys::process::Pid;

/// The time for which the first thread of a process waited for a CPU. Opened before isolation, read after it.
pub(super) struct CpuWait(Option<File>);

impl CpuWait {
    /// The wait of a process; none if the kernel does not count it.
    pub(super) fn of(pid: Pid) -> CpuWait {
        CpuWait(File::open(format!("/proc/{}/schedstat", pid.0)).ok())
    }

    /// The wait since the process began.
    fn total(&self) -> Duration {
        let mut bytes = [0; 128];
        let len = self.0.as_ref().map(|file| file.read_at(&mut bytes, 0));
        let len = len.and_then(Result::ok).unwrap_or(0);
        waited(bytes.get(..len).unwrap_or(&[])).unwrap_or_default()
    }
}

/// The second word of such a file, in nanoseconds (proc_pid_schedstat(5)).
fn waited(bytes: &[u8]) -> Option<Duration> {
    let text = str::from_utf8(bytes).ok()?;
    let ns = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

/// The deadline.
pub(super) struct StopDeadline {
    by: Instant,
    /// The wait for a CPU that `by` already includes.
    counted: Duration,
    /// When [`StopDeadline::left`] had said to look again.
    looked_for: Instant,
}

/// The interval of the looks at the deadline.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl StopDeadline {
    /// A deadline at `within` from now; the wait of the process until now does not count.
    pub(super) fn new(within: Duration, cpu: &CpuWait) -> StopDeadline {
        let now = Instant::now();
        StopDeadline {
            by: now + within,
            counted: cpu.total(),
            looked_for: now + LOOK_EVERY,
        }
    }

    /// The time until the next look, which is zero after the deadline.
    pub(super) fn left(&mut self, cpu: &CpuWait) -> Duration {
        self.left_at(Instant::now(), cpu)
    }

    fn left_at(&mut self, now: Instant, cpu: &CpuWait) -> Duration {
        // This process was stopped, as by Ctrl-Z, and the other one with it.
        self.by += now.saturating_duration_since(self.looked_for + LOOK_EVERY);
        if self.by <= now {
            let waited = self.extend(cpu.total());
            self.by += waited;
        }
        let left = self.by.saturating_duration_since(now).min(LOOK_EVERY);
        self.looked_for = now + left;
        left
    }

    /// The wait that was not counted yet.
    fn extend(&mut self, total: Duration) -> Duration {
        let more = total.saturating_sub(self.counted);
        self.counted += more;
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_cpu_is_granted_once() {
        // Breaks when a process that only waited for a CPU counts as hung, or the monitor waits for a hung one without
        // end.
        let nothing = CpuWait(None);
        let mut deadline = StopDeadline::new(Duration::ZERO, &nothing);
        assert_eq!(deadline.left(&nothing), Duration::ZERO);
        let waited = Duration::from_secs(3);
        assert_eq!(deadline.extend(waited), waited);
        assert_eq!(deadline.extend(waited), Duration::ZERO);
        let hour = Duration::from_secs(3600);
        assert_eq!(deadline.extend(hour), hour - waited);
    }

    #[test]
    fn a_stop_of_both_processes_is_no_time() {
        // Breaks when Ctrl-Z and `fg` end a gateway process that has had no time to answer.
        let nothing = CpuWait(None);
        let mut deadline = StopDeadline::new(Duration::from_secs(3), &nothing);
        let mut now = Instant::now() + Duration::from_secs(3600);
        let mut looks = 0;
        while let left = deadline.left_at(now, &nothing)
            && !left.is_zero()
        {
            now += left;
            looks += 1;
        }
        assert!((1..=4).contains(&looks), "{looks}");
    }

    #[test]
    fn the_kernel_counts_the_wait() {
        // Breaks when another word of the file is read, or a file of another form gives a wait.
        assert_eq!(waited(b"17 4000000000 3\n"), Some(Duration::from_secs(4)));
        for odd in [&b""[..], b"17", b"17 x 3", b"\xff 1 2"] {
            assert_eq!(waited(odd), None);
        }
        assert_eq!(CpuWait(None).total(), Duration::ZERO);
    }
}
