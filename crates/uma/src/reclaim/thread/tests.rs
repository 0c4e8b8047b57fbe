//! The reclaimer's thread on a system that runs short of memory, which is made up.

use super::*;
use crate::ZoneBuilder;
use core::alloc::Layout;
use std::fs;
use std::time::Instant;

#[test]
#[cfg_attr(miri, ignore = "looks at files")]
fn pressure_drains_all_free_memory() {
    // Breaks when the thread does not look, or trims where it should drain.
    let proc = std::env::temp_dir().join(format!("uma-reclaimer-{}", std::process::id()));
    fs::create_dir_all(&proc).unwrap();
    let available = |percent: u32| {
        let meminfo = format!("MemTotal: 100 kB\nMemAvailable: {percent} kB\n");
        // In place: the thread keeps the file open, as it does the kernel's.
        fs::write(proc.join("meminfo"), meminfo).unwrap();
    };
    available(50);
    let pressure = Pressure::open_at(&proc, &proc.join("none"));
    assert_eq!(pressure.source(), PressureSource::Available);
    let reclaimer = Reclaimer::start_with(Duration::from_millis(5), pressure).unwrap();
    let zone = ZoneBuilder::new("test", Layout::new::<[u64; 32]>())
        .build()
        .unwrap();
    reclaimer.watch(&zone);
    // A CPU in use, so that only a drain takes items from it.
    let touch = || {
        let item = zone.alloc().unwrap();
        // SAFETY: from this zone, and not used any more.
        unsafe { zone.free(item) };
    };
    let wait_for = |what: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !what() && began.elapsed() < Duration::from_secs(10) {
            touch();
            thread::sleep(Duration::from_millis(1));
        }
        assert!(what(), "nothing happened");
    };
    wait_for(&|| reclaimer.stats().ticks >= 5);
    assert_eq!(reclaimer.stats().drains, 0);
    available(1);
    wait_for(&|| reclaimer.stats().drains > 0);
    available(50);
    drop(reclaimer);
    assert!(zone.is_valid());
    // It is in the directory for temporary things, and may stay there.
    let _ = fs::remove_dir_all(&proc);
}
