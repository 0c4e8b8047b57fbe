//! Sources of memory pressure in a made-up /proc and /sys/fs/cgroup.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

static DIRS: AtomicU32 = AtomicU32::new(0);

/// A directory that goes when the test ends.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        // Relaxed: only that no number comes twice.
        let n = DIRS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("uma-pressure-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn open(&self) -> Pressure {
        Pressure::open_at(&self.0.join("proc"), &self.0.join("cgroup"))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // It is in the directory for temporary things, and may stay there.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process in /a/b, where only /a has a limit.
fn nested() -> Dir {
    let dir = Dir::new();
    dir.write("proc/self/cgroup", "4:memory:/old\n0::/a/b\n");
    for group in ["cgroup", "cgroup/a", "cgroup/a/b"] {
        dir.write(&format!("{group}/cgroup.controllers"), "memory\n");
    }
    dir.write("cgroup/a/b/memory.max", "max\n");
    dir.write("cgroup/a/memory.high", "1000\n");
    dir.write("cgroup/a/memory.max", "2000\n");
    dir.write("cgroup/a/memory.current", "950\n");
    dir.write(
        "cgroup/a/memory.stat",
        "anon 5\ninactive_file 100\nfile 7\n",
    );
    dir
}

#[test]
fn a_system_without_pressure_files_reports_no_pressure() {
    // Breaks when a system without any of the files is taken for one under pressure, or panics.
    let pressure = Dir::new().open();
    assert_eq!(pressure.source(), PressureSource::Nothing);
    assert!(!pressure.is_high());
    assert!(pressure.event().is_none());
}

#[test]
fn stalls_of_the_own_group_come_first() {
    // Breaks when the order of the sources is lost, or the trigger is written without its end.
    let dir = nested();
    dir.write("proc/pressure/memory", "");
    let system = dir.open();
    assert_eq!(system.source(), PressureSource::Stall);
    let written = fs::read(dir.0.join("proc/pressure/memory")).unwrap();
    assert_eq!(written, b"some 200000 2000000\0");
    dir.write("cgroup/a/b/memory.pressure", "");
    let mut own = dir.open();
    assert_eq!(own.source(), PressureSource::CgroupStall);
    assert!(own.event().is_some());
    assert!(
        !own.is_high(),
        "the kernel sends events, no polls are needed"
    );
    own.close();
    assert_eq!(own.source(), PressureSource::CgroupLevel);
}

#[test]
fn the_nearest_limit_counts() {
    // Breaks when `max` is taken for a number, file pages for memory in use, or a parent's limit
    // is not seen.
    let dir = nested();
    let pressure = dir.open();
    assert_eq!(pressure.source(), PressureSource::CgroupLevel);
    assert!(!pressure.is_high(), "850 of 1000 are not most of it");
    dir.write("cgroup/a/memory.current", "1020\n");
    assert!(pressure.is_high());
    dir.write("cgroup/a/memory.current", "what?\n");
    assert!(!pressure.is_high());
}

#[test]
fn available_memory_is_the_last_resort() {
    // Breaks when the fields of meminfo are mixed up.
    let dir = Dir::new();
    dir.write(
        "proc/meminfo",
        "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 60 kB\n",
    );
    let pressure = dir.open();
    assert_eq!(pressure.source(), PressureSource::Available);
    assert!(!pressure.is_high());
    dir.write(
        "proc/meminfo",
        "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n",
    );
    assert!(pressure.is_high());
}
