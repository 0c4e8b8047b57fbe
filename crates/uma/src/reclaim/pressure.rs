//! Detects that the system, or the process's cgroup, is short of memory.
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
//! The triggers are systemd's: stalls of 200 ms in 2 s, which needs no privilege. No call fails: if the kernel has
//! none of these sources, no pressure is reported.
//!
//! Source: the kernel's `Documentation/accounting/psi.rst` and `cgroup-v2.rst`.

use core::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The kernel replaces the last byte that is written.
const TRIGGER: &[u8] = b"some 200000 2000000\0";
/// The part of a cgroup's limit that counts as most of it.
const LEVEL_PERCENT_MAX: u64 = 90;
/// Bytes of a file that are read at most: meminfo and memory.stat have some 2,000.
const TEXT_MAX: usize = 16 << 10;
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
    /// For the two kinds of stalls: the trigger lasts as long as this is open.
    trigger: Option<File>,
    levels: Levels,
}

/// The sources that can be read at intervals. It is open from the beginning: a process may give up the right to open
/// files.
#[derive(Debug)]
struct Levels {
    /// The nearest cgroup, from ours upwards, that has a limit.
    limited: Option<LimitedCgroup>,
    meminfo: Option<File>,
}

/// Files of a cgroup that has a limit.
#[derive(Debug)]
struct LimitedCgroup {
    /// `memory.high` and `memory.max`, as far as they are there.
    limits: Vec<File>,
    current: File,
    stat: Option<File>,
}

impl Pressure {
    /// The best source that works here.
    pub(crate) fn open() -> Self {
        Self::open_at("/proc".as_ref(), "/sys/fs/cgroup".as_ref())
    }

    /// As [`open`](Self::open), with the kernel's files in other directories.
    pub(crate) fn open_at(proc: &Path, cgroups: &Path) -> Self {
        let own = own_cgroup(proc, cgroups);
        let mut pressure = Self {
            source: PressureSource::Nothing,
            trigger: None,
            levels: Levels::open(proc, cgroups, own.as_deref()),
        };
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
        self.source = if self.levels.used_percent().is_some() {
            PressureSource::CgroupLevel
        } else if self.levels.available_percent().is_some() {
            PressureSource::Available
        } else {
            PressureSource::Nothing
        };
    }

    /// Whether memory is short, from sources that must be read. Sources with a trigger report by [`event`](Self::event)
    /// instead.
    pub(crate) fn is_high(&self) -> bool {
        match self.source {
            PressureSource::CgroupLevel => {
                let percent = self.levels.used_percent();
                percent.is_some_and(|percent| percent > LEVEL_PERCENT_MAX)
            }
            PressureSource::Available => {
                let percent = self.levels.available_percent();
                percent.is_some_and(|percent| percent < AVAILABLE_PERCENT_MIN)
            }
            _ => false,
        }
    }
}

impl Levels {
    /// Opens the sources that exist; `own` is the cgroup of this process, below `cgroups`.
    fn open(proc: &Path, cgroups: &Path, own: Option<&Path>) -> Levels {
        let upwards = own.into_iter().flat_map(Path::ancestors);
        let mut upwards = upwards.take_while(|path| path.starts_with(cgroups));
        Levels {
            limited: upwards.find_map(LimitedCgroup::open),
            meminfo: File::open(proc.join("meminfo")).ok(),
        }
    }

    /// How much of the cgroup's limit is in use, in percent.
    fn used_percent(&self) -> Option<u64> {
        self.limited.as_ref()?.used_percent()
    }

    /// How much of the system's memory is available, in percent.
    fn available_percent(&self) -> Option<u64> {
        let meminfo = text(self.meminfo.as_ref()?)?;
        let total = field(&meminfo, "MemTotal:")?;
        let available = field(&meminfo, "MemAvailable:")?;
        available.saturating_mul(100).checked_div(total)
    }
}

impl LimitedCgroup {
    /// Opens the files of the cgroup in this directory, if it has a limit.
    fn open(directory: &Path) -> Option<LimitedCgroup> {
        let open = |name: &str| File::open(directory.join(name)).ok();
        let limits: Vec<_> = ["memory.high", "memory.max"]
            .into_iter()
            .filter_map(open)
            .collect();
        limit_bytes(&limits)?;
        Some(LimitedCgroup {
            limits,
            current: open("memory.current")?,
            stat: open("memory.stat"),
        })
    }

    /// How much of the limit is in use, in percent. Pages of files that were not used for long do not count: the
    /// kernel takes those before any thread stalls.
    fn used_percent(&self) -> Option<u64> {
        let limit = limit_bytes(&self.limits)?;
        let current = number(&self.current)?;
        let stat = self.stat.as_ref().and_then(text).unwrap_or_default();
        let spare = field(&stat, "inactive_file").unwrap_or(0);
        let used = current.saturating_sub(spare);
        used.saturating_mul(100).checked_div(limit)
    }
}

/// The directory of our own cgroup in the unified hierarchy, if that is mounted.
fn own_cgroup(proc: &Path, cgroups: &Path) -> Option<PathBuf> {
    let groups = fs::read_to_string(proc.join("self/cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let path = cgroups.join(own);
    path.join("cgroup.controllers").exists().then_some(path)
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

/// The least of these limits; "max" (no limit) is not a number.
fn limit_bytes(limits: &[File]) -> Option<u64> {
    limits.iter().filter_map(number).min()
}

fn number(file: &File) -> Option<u64> {
    text(file)?.trim().parse().ok()
}

/// The present content of an open file of the kernel's.
fn text(file: &File) -> Option<String> {
    let mut bytes = vec![0; TEXT_MAX];
    let mut len = 0;
    // The kernel returns such a file in pieces of its choice, and 0 bytes at its end.
    while let Some(rest @ [_, ..]) = bytes.get_mut(len..) {
        match file.read_at(rest, len as u64).ok()? {
            0 => break,
            n => len += n,
        }
    }
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().map(str::split_whitespace);
    rows.find_map(|mut row| (row.next()? == name).then(|| row.next()?.parse().ok())?)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
