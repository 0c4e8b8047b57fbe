//! The machine and the time of the measurement, without which a figure has no meaning.
//!
//! Sources: proc(5).

use crate::harness::effort::Effort;
use crate::harness::xcore;
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// A run, and the machine that it was on.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) cpu: String,
    /// Processors that are online, and those that this process may use.
    pub(crate) cpus: usize,
    pub(crate) allowed: usize,
    /// Of memory.
    pub(crate) memory_mib: u64,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// The machine is a virtual one.
    pub(crate) virtual_machine: bool,
    /// How the allocator's per-CPU caches work here: `rseq` or `lock`.
    pub(crate) percpu: String,
    /// One-way latency of a cache line between two CPUs before the run, if there are two.
    pub(crate) xcore_ns: Option<f64>,
    /// The load average of the minute before.
    pub(crate) load: Option<f64>,
}

impl Machine {
    /// This one, now.
    pub(crate) fn look() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let pair = Effort::new(1, 1.0).ok().and_then(|e| e.pair_of_cpus());
        let allowed = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            cpu: model(&cpuinfo),
            cpus: cpuinfo.lines().filter(|l| is(l, "processor")).count(),
            allowed,
            memory_mib: kilobytes(&meminfo, "MemTotal:").unwrap_or(0) / 1024,
            kernel: kernel.trim().to_owned(),
            virtual_machine: has_flag(&cpuinfo, "hypervisor"),
            percpu: uma::Backend::choose().to_string(),
            xcore_ns: pair.map(|cpus| xcore::one_way_ns(cpus, Duration::from_millis(20))),
            load: loadavg.split(' ').next().and_then(|load| load.parse().ok()),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The processor's name, as x86 and ARM say it.
fn model(cpuinfo: &str) -> String {
    let of = |key| cpuinfo.lines().find(|line| is(line, key)).and_then(value);
    let named = of("model name").or_else(|| of("Model"));
    let part = || {
        Some(format!(
            "implementer {}, part {}",
            of("CPU implementer")?,
            of("CPU part")?
        ))
    };
    named
        .map(str::to_owned)
        .or_else(part)
        .unwrap_or_else(|| "unknown".to_owned())
}

fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| is(line, "flags"));
    let flags = flags.and_then(value).unwrap_or_default();
    flags.split(' ').any(|one| one == flag)
}

/// Whether a line of /proc/cpuinfo has this key.
fn is(line: &str, key: &str) -> bool {
    line.split(':').next().is_some_and(|k| k.trim_end() == key)
}

fn value(line: &str) -> Option<&str> {
    Some(line.split_once(':')?.1.trim())
}

fn kilobytes(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_both_kinds_are_named() {
        // Breaks when the report of an ARM machine does not describe it, or a flag is found inside of another.
        let x86 = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz\nflags\t\t: fpu hypervisors\n";
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model(x86), "A CPU @ 3 GHz");
        assert_eq!(model(arm), "implementer 0x41, part 0xd0c");
        assert_eq!(model(""), "unknown");
        assert!(!has_flag(x86, "hypervisor") && has_flag(x86, "fpu"));
        assert_eq!(kilobytes("MemTotal:  2048 kB\n", "MemTotal:"), Some(2048));
    }
}
