//! Processes that end with their parent, and how much of the CPUs they took.
//!
//! Invariants: a [`Kept`] process is gone when its owner is dropped, and the kernel ends it when the thread that
//! started it is killed. Source: PR_SET_PDEATHSIG(2const).

use super::sys;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::thread;
use std::time::{Duration, Instant};

/// Kills this process, one of ours, when the thread ends that started it.
pub(crate) fn die_with_parent() -> io::Result<()> {
    on_parents_death(libc::SIGKILL)
}

fn on_parents_death(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: it takes a number, and sets an attribute of this process only.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A process with an owner.
pub(crate) struct Kept(Child);

impl Kept {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        // SAFETY: between fork and exec it makes one system call, which allocates nothing and takes no lock.
        unsafe { command.pre_exec(|| on_parents_death(libc::SIGTERM)) };
        command.spawn().map(Self)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Its standard input, if we write it.
    pub(crate) fn input(&mut self) -> Option<&mut ChildStdin> {
        self.0.stdin.as_mut()
    }

    /// Its standard output, if we read it; once.
    pub(crate) fn output(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }

    /// The process itself, for other operations.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    /// The CPU time of the process and its descendants, ended threads included. A tool may serve packets in
    /// a child process.
    pub(crate) fn cpu_time(&self) -> Duration {
        family(self.id()).into_iter().map(sys::time_of).sum()
    }

    /// The most memory that it and its descendants ever had resident, in MB. Pages of files, such as the program's
    /// text, are the same memory in all of them: only those of the process that has the most of them count.
    pub(crate) fn peak_mb(&self) -> Option<f64> {
        let all: Vec<Resident> = (family(self.id()).into_iter())
            .filter_map(Resident::of)
            .collect();
        Some(Resident::of_all(&all)? as f64 / 1e6)
    }

    fn ends_within(&mut self, time: Duration) -> bool {
        let begin = Instant::now();
        while !self.has_ended() {
            if begin.elapsed() > time {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A process that reads from us ends at the end of its input; others get a signal.
        let asked = self.0.stdin.take().is_none();
        if asked && !self.has_ended() {
            let pid = self.0.id().cast_signed();
            // SAFETY: it takes numbers. The process has not been waited for, so no other process has the number.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        if !self.ends_within(PATIENCE) {
            // It fails if the process has ended.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// The time that a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process and its descendants that live. A child belongs to the thread that started it.
fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(pid) = family.get(next).copied() {
        next += 1;
        let threads = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            family.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }
    family
}

/// Bytes of resident memory of one process.
struct Resident {
    /// The most ever.
    peak: u64,
    /// Pages of files now.
    files: u64,
}

impl Resident {
    fn of(pid: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib << 10)
        };
        Some(Self {
            peak: bytes("VmHWM:")?,
            files: bytes("RssFile:")?,
        })
    }

    /// Bytes that processes of one program ever had, at most.
    fn of_all(all: &[Self]) -> Option<u64> {
        let own = |it: &Self| it.peak.saturating_sub(it.files);
        let files = all.iter().map(|it| it.files).max()?;
        Some(all.iter().map(own).sum::<u64>() + files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_process_is_gone_with_its_owner() {
        // Breaks when a program that waits for its input, or for a signal, outlives the experiment.
        let mut reads = Command::new("cat");
        let mut sleeps = Command::new("sleep");
        for command in [reads.stdin(Stdio::piped()), sleeps.arg("600")] {
            let kept = Kept::start(command).expect("it is there");
            let path = format!("/proc/{}", kept.id());
            assert!(fs::exists(&path).expect("a path"));
            drop(kept);
            assert!(!fs::exists(&path).expect("a path"));
        }
    }

    #[test]
    fn memory_of_files_counts_once() {
        // Breaks when the text of a program that forks counts as often as it has processes, or the peak is not found.
        let alone = Resident::of(std::process::id()).expect("we are there");
        assert!(alone.peak > alone.files && alone.files > 0);
        let all = [(50, 10), (12, 8), (5, 4)].map(|(peak, files)| Resident { peak, files });
        assert_eq!(Resident::of_all(&all), Some(40 + 4 + 1 + 10));
        assert_eq!(Resident::of_all(&[]), None);
    }

    #[test]
    fn cpu_time_includes_children() {
        // Breaks when the time of a child is missing, or the clock is that of another process.
        let mut command = Command::new("sh");
        command.args(["-c", "timeout 60 sh -c 'while :; do :; done'; :"]);
        let kept = Kept::start(&mut command).expect("it is there");
        while kept.cpu_time() < Duration::from_millis(50) {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
