//! The memory of this process, by each source.
//!
//! Sources: proc(5), the kernel's cgroup-v1 and -v2.
//!
//! Resident size alone can be wrong in both directions: pages given up with MADV_FREE count until the system takes
//! them, and pieces of huge pages given up with MADV_DONTNEED do not count although no other process gets them. So the
//! free memory of the system is read too; it also counts other programs.

use std::fs;

/// Bytes, at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// Resident.
    pub(crate) rss: u64,
    /// Resident, but given up: the system may take it any time (`LazyFree`).
    pub(crate) lazy: u64,
    /// The memory that the whole system could give to programs (`MemAvailable`).
    pub(crate) available: Option<u64>,
    /// The memory of this process's control group, if it has a memory controller.
    pub(crate) cgroup: Option<u64>,
}

impl Memory {
    /// Now.
    pub(crate) fn now() -> Self {
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let system = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            rss: field(&rollup, "Rss:").unwrap_or(0),
            lazy: field(&rollup, "LazyFree:").unwrap_or(0),
            available: field(&system, "MemAvailable:"),
            cgroup: cgroup(),
        }
    }
}

/// Resident bytes, read in a microsecond, but correct only to some pages a CPU.
pub(crate) fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE
}

/// Bytes of a page, as these files count.
pub(crate) const PAGE: u64 = 4096;

/// The field of a file of lines as `Name:   123 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn cgroup() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let file = groups.lines().find_map(usage_file)?;
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The file with the memory use of the group in a line of /proc/self/cgroup, if it has a memory controller.
fn usage_file(line: &str) -> Option<String> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let path = path.trim_end_matches('/');
    let file = match controllers {
        "" => format!("/sys/fs/cgroup{path}/memory.current"),
        _ if controllers.split(',').any(|one| one == "memory") => {
            format!("/sys/fs/cgroup/memory{path}/memory.usage_in_bytes")
        }
        _ => return None,
    };
    fs::metadata(&file).is_ok().then_some(file)
}

#[cfg(test)]
mod tests;
