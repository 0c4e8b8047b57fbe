//! A bound on the CPU time of a server, so that the server is the limit of a reading and not its client.
//!
//! Invariants: all processes of the server are in the group from their first instruction, so the kernel charges each of
//! them. The server starts without the bound. The group is removed with its owner, which must have ended them first.
//!
//! Sources: cgroups(7); Linux's Documentation/scheduler/sched-bwc.rst and admin-guide/cgroup-v2.rst (cpu.max).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The directories in which a group may get a bound, each with the file of the bound: cgroups of version 1 and 2.
const HIERARCHIES: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"),
    ("/sys/fs/cgroup", "cpu.max"),
];
/// The time over which the kernel counts; the files have it in microseconds.
const PERIOD: Duration = Duration::from_millis(50);
/// The shell script that starts a program in a group: `$0` is the group's directory.
const ENTER: &str = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
/// The part of its bound that a server uses at least if nothing else is the limit. A reading begins anywhere in a
/// period.
const USED: f64 = 0.8;

/// A group of processes that together get a part of one CPU.
pub(crate) struct CpuQuota {
    group: PathBuf,
    percent: u32,
}

impl CpuQuota {
    /// A group without processes.
    ///
    /// # Errors
    /// This machine does not let this process make a group whose CPU time has a bound.
    pub(crate) fn new(percent: u32) -> io::Result<Self> {
        let name = format!("mbuma-lab-serve-{}", std::process::id());
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for (directory, file) in HIERARCHIES {
            match made(&Path::new(directory).join(&name), file) {
                Ok(group) => return Ok(Self { group, percent }),
                Err(error) => why = error,
            }
        }
        Err(io::Error::new(
            why.kind(),
            format!("no cgroup with a bound on CPU time: {why}"),
        ))
    }

    /// Its directory.
    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.group
    }

    /// A command that starts this one in the group.
    pub(crate) fn inside(&self, command: &Command) -> Command {
        let mut entered = Command::new("sh");
        entered.args(["-c", ENTER]).arg(&self.group);
        entered.arg(command.get_program()).args(command.get_args());
        entered
    }

    /// From now on the group has no more than its part.
    pub(crate) fn impose(&self) -> io::Result<()> {
        let period = PERIOD.as_micros();
        let part = period * u128::from(self.percent) / 100;
        let version_2 = self.group.join("cpu.max");
        if version_2.exists() {
            return fs::write(version_2, format!("{part} {period}"));
        }
        fs::write(self.group.join("cpu.cfs_period_us"), period.to_string())?;
        fs::write(self.group.join("cpu.cfs_quota_us"), part.to_string())
    }

    /// Fails if the bound was not the limit of a reading: the group took less than its part.
    pub(crate) fn check_used(&self, cpu_seconds: f64, seconds: f64) -> io::Result<()> {
        was_limit(self.percent, cpu_seconds, seconds)
    }
}

/// Fails if a server with this part of a CPU took less of it.
pub(super) fn was_limit(percent: u32, cpu_seconds: f64, seconds: f64) -> io::Result<()> {
    let took = cpu_seconds / seconds * 100.0;
    match took < USED * f64::from(percent) {
        true => Err(io::Error::other(format!(
            "the server took {took:.1} % of a CPU, and may take {percent} %: its client or another program was \
             the limit"
        ))),
        false => Ok(()),
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        // This fails if a process is left; then the group stays, and its bound applies to that process only.
        let _ = fs::remove_dir(&self.group);
    }
}

/// Makes a group at `path`. A directory that is no cgroup, or whose groups have no bound, has no such `file`.
fn made(path: &Path, file: &str) -> io::Result<PathBuf> {
    fs::create_dir(path)?;
    if path.join(file).exists() {
        return Ok(path.to_owned());
    }
    fs::remove_dir(path)?;
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
