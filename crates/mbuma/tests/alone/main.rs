//! Tests that need a process of their own: each runs itself once more in a child process.
//!
//! They are apart from all other tests, because a child has copies of the descriptors of the process from its fork to
//! its exec. On a busy machine that takes long, and a peer that another thread closes meanwhile does not end before the
//! exec.

use std::env;
use std::process::Command;
use std::thread;

mod descriptors;
#[cfg(feature = "tls")]
mod secrets;

/// Set in the child.
const ALONE: &str = "MBUMA_TEST_ALONE";

/// Runs the calling test in a process of its own, with this limit of descriptors. True in that process, which then has
/// to do the test; false in the first one, once the other has passed it.
fn is_alone(descriptors_max: u32) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let name = thread::current().name().expect("a test").to_owned();
    let run = format!("ulimit -n {descriptors_max} && exec \"$0\" --exact \"$1\"");
    let alone = Command::new("sh")
        .args(["-c", &run])
        .arg(env::current_exe().expect("a program"))
        .arg(name)
        .env(ALONE, "1")
        .output()
        .expect("a shell");
    let out = String::from_utf8_lossy(&alone.stdout);
    let err = String::from_utf8_lossy(&alone.stderr);
    let passed = alone.status.success() && out.contains("1 passed");
    assert!(passed, "{}\n{out}\n{err}", alone.status);
    false
}
