//! Tests that drive real processes in real time: one that fails is run once more, by itself.
//!
//! Such a test waits for other processes, and a machine that runs nothing for a minute can fail it. A test that fails
//! and then passes is printed as UNSTABLE, with its first failure above: it is a defect of the test or of the product,
//! and must be treated as one. Tests of everything else are deterministic, and one failure is a failure.

use std::env;
use std::io::{BufRead, BufReader, Read, Write, stderr, stdout};
use std::process::{Command, Stdio};
use std::thread;

use crate::programs;

/// Test programs of the package `cli` whose tests run processes.
const REAL_TIME: [&str; 2] = ["e2e", "launch"];

/// More failures than this have a cause in common, and are not run again.
const AGAIN_MAX: usize = 3;

/// Runs all tests; those of [`REAL_TIME`] that fail, once more.
pub(crate) fn run(vars: &[(&str, &str)]) -> bool {
    let Some((ok, out, err)) = test_workspace(vars) else {
        return false;
    };
    if ok {
        return true;
    }
    let (targets, tests) = (failed_targets(&err), failed_tests(&out));
    let known = |target: &&str| REAL_TIME.contains(target);
    if targets.is_empty() || !targets.iter().all(known) || !(1..=AGAIN_MAX).contains(&tests.len()) {
        return false;
    }
    let names = tests.join(", ");
    println!("== once more, alone: {names}");
    let args = [&["--exact", "--test-threads", "1"], &*tests].concat();
    let ok = programs::run_with("cli", &targets, vars, &args);
    if ok {
        println!("== UNSTABLE: {names}: failed beside others, and passed alone");
    }
    ok
}

/// `cargo test`, with its two outputs printed as they come, and kept.
fn test_workspace(vars: &[(&str, &str)]) -> Option<(bool, String, String)> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut child = Command::new(cargo)
        .args(["test", "-q", "--workspace", "--no-fail-fast"])
        .envs(vars.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .inspect_err(|e| eprintln!("can't run cargo: {e}"))
        .ok()?;
    let (out, err) = (child.stdout.take()?, child.stderr.take()?);
    let errors = thread::spawn(move || print_and_keep(err, stderr()));
    let out = print_and_keep(out, stdout());
    let err = errors.join().ok()?;
    let ok = child.wait().ok()?.success();
    Some((ok, out, err))
}

fn print_and_keep(from: impl Read, mut to: impl Write) -> String {
    let mut kept = Vec::new();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // If nothing takes the output, the tests go on and the exit code tells.
        let _ = to.write_all(&line);
        kept.append(&mut line);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// The names in cargo's list of failed targets: ``    `-p cli --test e2e` ``. A target of another kind counts by its
/// whole text.
fn failed_targets(err: &str) -> Vec<&str> {
    let lines = err.lines().map(str::trim);
    lines
        .filter_map(|line| line.strip_prefix("`-p ")?.strip_suffix('`'))
        .map(|target| {
            target
                .split_once(" --test ")
                .map_or(target, |(_, name)| name)
        })
        .collect()
}

/// The names above the outputs of failed tests: `---- module::name stdout ----`.
fn failed_tests(out: &str) -> Vec<&str> {
    out.lines()
        .filter_map(|line| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named_by_their_target() {
        // Breaks if a failed test or target goes unseen, or a line of a test's own output is taken for one.
        let err = "error: 2 targets failed:\n    `-p cli --test e2e`\n    `-p mbuma --lib`\n0 tests skipped";
        assert_eq!(failed_targets(err), ["e2e", "mbuma --lib"]);
        let out = "failures:\n\n---- netstat::a_rule stdout ----\n\nthread panicked\n---- not a name ----\n";
        assert_eq!(failed_tests(out), ["netstat::a_rule"]);
    }
}
