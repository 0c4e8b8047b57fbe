//! AddressSanitizer sees our items: breaks when a touch of a freed one goes unnoticed, wherever
//! the free item lies. Built only with the sanitizer and `--cfg uma_asan` (`cargo xtask asan`).

#![cfg(uma_asan)]

mod common;

use common::{builder, free, read, write};
use std::process::Command;

const CHILD: &str = "UMA_ASAN_CHILD";

/// Runs the test of that name again, as a child that makes the forbidden access.
fn child(case: &str) -> String {
    let this = std::env::current_exe().expect("a test has a file");
    let output = Command::new(this)
        .args(["--ignored", "--exact", "the_child", "--nocapture"])
        .env(CHILD, case)
        .output()
        .expect("a test can be run");
    assert!(!output.status.success(), "{case}: went unnoticed");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_touch_of_a_freed_item_is_reported() {
    // Breaks when items are poisoned only in their slabs, or not any more.
    for case in ["cached", "drained", "in a local cache", "beyond the last"] {
        let report = child(case);
        assert!(report.contains("AddressSanitizer"), "{case}: {report}");
    }
}

#[test]
#[ignore = "makes a forbidden access"]
fn the_child() {
    let Ok(case) = std::env::var(CHILD) else {
        return;
    };
    let zone = builder(64, 8).sample_every(0).build().unwrap();
    let mut local = zone.local(4);
    let item = local.alloc().unwrap();
    let other = zone.alloc().unwrap();
    write(item, 1);
    write(other, 2);
    match &*case {
        "cached" => free(&zone, other),
        "drained" => {
            free(&zone, other);
            zone.drain();
        }
        // SAFETY: it came from there.
        "in a local cache" => unsafe { local.free(item) },
        _ => {}
    }
    let last = match &*case {
        "cached" | "drained" => read(other),
        "in a local cache" => read(item),
        // The items after a new one are free, so far.
        // SAFETY: none: the sanitizer must report this access.
        _ => read(unsafe { other.add(64 * 40) }),
    };
    println!("read {last}");
}
