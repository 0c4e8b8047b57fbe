//! How the process learns that the system, or the part of it that it may use, is short of memory.
//!
//! The first of these that works:
//!
//! | source | how | says |
//! |---|---|---|
//! | [`CgroupStall`](PressureSource::CgroupStall) | trigger on the own cgroup's `memory.pressure` | tasks of the group stood still for want of memory |
//! | [`Stall`](PressureSource::Stall) | trigger on `/proc/pressure/memory` | tasks anywhere did |
//! | [`CgroupLevel`](PressureSource::CgroupLevel) | `memory.current`, read at intervals | the group uses most of its limit |
//! | [`Available`](PressureSource::Available) | `MemAvailable`, read at intervals | the system uses most of its memory |
//!
//! The triggers ask for what systemd asks for: stalls of 200 ms in 2 s, which needs no privilege. Nothing here fails:
//! where the kernel has none of these sources, no pressure is reported.
//!
//! Source: the kernel's `Documentation/accounting/psi.rst` and `cgroup-v2.rst`.

use core::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The kernel replaces the last byte that is written.
const TRIGGER: &[u8] = b"some 200000 2000000\0";
/// The part of a cgroup's limit that counts as most of it.
const LEVEL_PERCENT_MAX: u64 = 90;
/// The part of the system's memory that should be available.
const AVAILABLE_PERCENT_MIN: u64 = 5;

/// How a [`Reclaimer`](crate::Reclaimer) learns that memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PressureSource {
    /// The kernel reports stalls of tasks in the own cgroup.
    CgroupStall,
    /// The kernel reports stalls of tasks anywhere.
    Stall,
    /// The use of the process's cgroup is compared with its limit at intervals.
    CgroupLevel,
    /// The memory that the system has available is read at intervals.
    Available,
    /// Not at all.
    Nothing,
}

impl fmt::Display for PressureSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::CgroupStall => "stalls of the cgroup",
            Self::Stall => "stalls of the system",
            Self::CgroupLevel => "level of the cgroup",
            Self::Available => "available memory",
            Self::Nothing => "nothing",
        })
    }
}

/// The source in use.
#[derive(Debug)]
pub(crate) struct Pressure {
    source: PressureSource,
    /// Of the two kinds of stalls: open as long as the trigger is to last.
    trigger: Option<File>,
    places: Places,
    /// The nearest cgroup, from ours upwards, that has a limit.
    limited: Option<PathBuf>,
}

/// Where the kernel shows itself; tests have others.
#[derive(Debug)]
struct Places {
    proc: PathBuf,
    cgroup: PathBuf,
}

impl Pressure {
    /// The best source that works here.
    pub(crate) fn open() -> Self {
        Self::open_at("/proc".as_ref(), "/sys/fs/cgroup".as_ref())
    }

    /// As [`open`](Self::open), where the kernel shows itself elsewhere.
    pub(crate) fn open_at(proc: &Path, cgroup: &Path) -> Self {
        let mut pressure = Self {
            source: PressureSource::Nothing,
            trigger: None,
            places: Places {
                proc: proc.to_owned(),
                cgroup: cgroup.to_owned(),
            },
            limited: None,
        };
        let own = pressure.places.own_cgroup();
        let stalls = own.map(|own| (own.join("memory.pressure"), PressureSource::CgroupStall));
        let everywhere = (proc.join("pressure/memory"), PressureSource::Stall);
        for (path, source) in stalls.into_iter().chain([everywhere]) {
            if let Some(trigger) = arm(&path) {
                (pressure.trigger, pressure.source) = (Some(trigger), source);
                return pressure;
            }
        }
        pressure.close();
        pressure
    }

    pub(crate) fn source(&self) -> PressureSource {
        self.source
    }

    /// A descriptor that has priority data when tasks have stalled.
    pub(crate) fn event(&self) -> Option<BorrowedFd<'_>> {
        self.trigger.as_ref().map(File::as_fd)
    }

    /// Gives up the trigger, whose cgroup may be gone, for a source that can be read.
    pub(crate) fn close(&mut self) {
        self.trigger = None;
        self.limited = self.places.limited_cgroup();
        self.source = if self.limited.as_deref().and_then(level_percent).is_some() {
            PressureSource::CgroupLevel
        } else if self.places.available_percent().is_some() {
            PressureSource::Available
        } else {
            PressureSource::Nothing
        };
    }

    /// Whether memory is short, as far as that is for us to find out: where the kernel tells, it
    /// does so by [`event`](Self::event).
    pub(crate) fn is_high(&self) -> bool {
        match self.source {
            PressureSource::CgroupLevel => {
                let percent = self.limited.as_deref().and_then(level_percent);
                percent.is_some_and(|percent| percent > LEVEL_PERCENT_MAX)
            }
            PressureSource::Available => {
                let percent = self.places.available_percent();
                percent.is_some_and(|percent| percent < AVAILABLE_PERCENT_MIN)
            }
            _ => false,
        }
    }
}

impl Places {
    /// The directory of our own cgroup in the unified hierarchy, if that is mounted.
    fn own_cgroup(&self) -> Option<PathBuf> {
        let groups = fs::read_to_string(self.proc.join("self/cgroup")).ok()?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let path = self.cgroup.join(own);
        path.join("cgroup.controllers").exists().then_some(path)
    }

    /// The nearest cgroup, from ours upwards, that has a limit on its memory.
    fn limited_cgroup(&self) -> Option<PathBuf> {
        let own = self.own_cgroup()?;
        let upwards = own
            .ancestors()
            .take_while(|path| path.starts_with(&self.cgroup));
        upwards
            .map(Path::to_owned)
            .find(|path| limit_bytes(path).is_some())
    }

    /// How much of the system's memory could be had, in percent.
    fn available_percent(&self) -> Option<u64> {
        let meminfo = fs::read_to_string(self.proc.join("meminfo")).ok()?;
        let total = field(&meminfo, "MemTotal:")?;
        let available = field(&meminfo, "MemAvailable:")?;
        available.saturating_mul(100).checked_div(total)
    }
}

/// Asks the kernel to report stalls at this file.
fn arm(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK);
    let mut file = options.open(path).ok()?;
    file.write_all(TRIGGER).ok()?;
    Some(file)
}

/// How much of a cgroup's limit is in use, in percent. Pages of files that were not used for long do not count: the
/// kernel takes those before any thread stalls.
fn level_percent(cgroup: &Path) -> Option<u64> {
    let limit = limit_bytes(cgroup)?;
    let current: u64 = read_number(&cgroup.join("memory.current"))?;
    let stat = fs::read_to_string(cgroup.join("memory.stat")).unwrap_or_default();
    let spare = field(&stat, "inactive_file").unwrap_or(0);
    let used = current.saturating_sub(spare);
    used.saturating_mul(100).checked_div(limit)
}

fn limit_bytes(cgroup: &Path) -> Option<u64> {
    // "max", where there is no limit, is no number.
    let limits = ["memory.high", "memory.max"];
    let bytes = limits
        .iter()
        .filter_map(|name| read_number(&cgroup.join(name)));
    bytes.min()
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().map(str::split_whitespace);
    rows.find_map(|mut row| (row.next()? == name).then(|| row.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests;
