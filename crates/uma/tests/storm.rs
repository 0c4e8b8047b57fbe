//! The storm for some seconds: breaks when an item gets two holders or is lost, whatever
//! interrupts the sections that move it. With the feature `stretched` the interruptions come where
//! they hurt, and the negative control shows that this test can fail. `examples/storm.rs` runs it
//! for longer.

// `invariants` would report the storm's writes into free items.
#![cfg(all(target_os = "linux", not(miri), not(feature = "invariants")))]

#[path = "storm/mod.rs"]
mod body;

use body::{Config, run};
use std::sync::Mutex;
use std::time::Duration;
use uma::Backend;

/// Storms share the knobs, the signal, and the CPUs: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn clean(config: &Config) {
    let _guard = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|broken| broken.into_inner());
    let outcome = run(config);
    println!("{outcome}");
    assert!(outcome.is_clean(), "{config:?}: {outcome}");
    assert!(outcome.ops > 0 && outcome.drains > 0 && outcome.closings > 0);
}

fn seconds(stretched: u64) -> Duration {
    // Without the feature this runs with all other tests, and has to be short.
    Duration::from_secs(if cfg!(feature = "stretched") {
        stretched
    } else {
        1
    })
}

#[test]
fn every_item_is_counted_once_by_sections() {
    // Breaks when a section commits after an interruption, or a drain and an exchange meet.
    let time = seconds(3);
    clean(&Config {
        time,
        ..Config::default()
    });
}

#[test]
fn every_item_is_counted_once_under_locks() {
    // Breaks when two threads get into one slot, or a fence does not wait for the one inside.
    let (time, backend) = (seconds(1), Backend::Locked);
    clean(&Config {
        time,
        backend,
        ..Config::default()
    });
}

#[cfg(feature = "stretched")]
#[test]
fn every_item_is_counted_once_when_most_sections_are_interrupted() {
    // Breaks when an abort path does.
    if Backend::choose() != Backend::Rseq {
        return skip("the stretched storm");
    }
    for stretch in [300, 3000] {
        let time = Duration::from_millis(2500);
        clean(&Config {
            time,
            stretch,
            ..Config::default()
        });
    }
}

#[cfg(feature = "stretched")]
#[test]
fn unannounced_sections_corrupt_items() {
    // Breaks when the storm could not have seen a fault.
    if Backend::choose() != Backend::Rseq {
        return skip("the negative control");
    }
    let this = std::env::current_exe().expect("a test has a file");
    let status = std::process::Command::new(this)
        .args(["--ignored", "--exact", "control_child", "--nocapture"])
        .env("UMA_STORM_CONTROL", "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .expect("a test can be run");
    assert_eq!(
        status.code(),
        Some(3),
        "the control saw no corruption: {status}"
    );
}

/// The child of the test above.
#[cfg(feature = "stretched")]
#[test]
#[ignore = "corrupts its memory"]
fn control_child() {
    if std::env::var_os("UMA_STORM_CONTROL").is_none() {
        return;
    }
    let time = Duration::from_secs(20);
    body::corruption_is_exit_3(time);
    let outcome = run(&Config {
        time,
        stretch: 300,
        armed: false,
        ..Config::default()
    });
    body::exit(if outcome.is_clean() { 0 } else { 3 });
}

/// Counts the cases that this machine cannot run, if the runner asks for it.
#[cfg(feature = "stretched")]
fn skip(what: &str) {
    use std::io::Write as _;
    println!("skipped: {what}: {}", kern::rseq::reason());
    let file = std::env::var_os("MBUMA_SKIPS").and_then(|path| {
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .ok()
    });
    if let Some(mut file) = file {
        let _ = writeln!(file, "{what}: {}", kern::rseq::reason());
    }
}
