//! All tests: programs that drive real processes in real time, beside all others, which give way to them.
//!
//! A test of the first kind waits for other processes, and a machine that runs nothing for a minute can fail it: one that
//! fails is run once more, by itself. If it then passes, it is printed as UNSTABLE, with its first failure above: it is a
//! defect of the test or of the product, and must be treated as one. Tests of everything else are deterministic, and one
//! failure is a failure.

use std::env;
use std::io::{BufRead, BufReader, Read, Write, stderr, stdout};
use std::process::{Command, Stdio};
use std::thread;

use crate::programs::{self, Program};
use crate::steps::run_command;

/// Test programs of the package `cli` whose tests run processes.
const REAL_TIME: [&str; 2] = ["e2e", "launch"];

/// More failures than this have a cause in common, and are not run again.
const AGAIN_MAX: usize = 3;

type Vars<'a> = &'a [(&'a str, &'a str)];

/// Runs all tests.
pub(crate) fn run(vars: Vars<'_>) -> bool {
    let Some(programs) = programs::build() else {
        return false;
    };
    let in_real_time =
        |program: &Program| program.package() == Some("cli") && REAL_TIME.contains(&&*program.name);
    let (real, rest): (Vec<_>, Vec<_>) = programs.into_iter().partition(in_real_time);
    if real.len() != REAL_TIME.len() {
        eprintln!("{} of the programs {REAL_TIME:?}", real.len());
        return false;
    }
    thread::scope(|scope| {
        let rest = scope.spawn(|| run_rest(&rest, vars));
        let failed = real.iter().filter(|program| !run_twice(program, vars));
        let failed: Vec<_> = failed.map(|program| program.name.clone()).collect();
        let failed = [failed, rest.join().expect("it does not panic")].concat();
        failed.iter().for_each(|name| println!("== FAILED: {name}"));
        failed.is_empty()
    })
}

/// Programs that run beside: all of them, and examples in documentation. The output of each is shown at its end.
fn run_rest(programs: &[Program], vars: Vars<'_>) -> Vec<String> {
    let doc = || {
        let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "-q", "--doc"]).args(programs::WITH);
        command
    };
    let mut all: Vec<_> = programs
        .iter()
        .map(|program| (program.name.clone(), program.command_beside()))
        .collect();
    all.push(("examples in documentation".into(), doc()));
    let failed = all
        .iter_mut()
        .filter_map(|(name, command)| (!run_at_once(name, command, vars)).then(|| name.clone()));
    failed.collect()
}

/// Runs a command, and prints its output without that of others between.
fn run_at_once(name: &str, command: &mut Command, vars: Vars<'_>) -> bool {
    let Ok(output) = command.envs(vars.iter().copied()).output() else {
        eprintln!("can't run {name}");
        return false;
    };
    let mut out = stdout().lock();
    // If nothing takes the output, the tests go on and the exit code tells.
    let _ = writeln!(out, "-- {name}");
    let _ = out.write_all(&output.stdout);
    let _ = out.write_all(&output.stderr);
    output.status.success()
}

/// Runs a program of [`REAL_TIME`], and those of its tests that fail once more.
fn run_twice(program: &Program, vars: Vars<'_>) -> bool {
    println!("-- {}", program.name);
    let Some((ok, out)) = run_and_keep(program, vars) else {
        return false;
    };
    if ok {
        return true;
    }
    let tests = failed_tests(&out);
    if !(1..=AGAIN_MAX).contains(&tests.len()) {
        return false;
    }
    let names = tests.join(", ");
    println!("== once more, alone: {names}");
    let mut again = program.command();
    again.args(["--exact", "--test-threads", "1"]).args(&tests);
    let ok = run_command(again.envs(vars.iter().copied()));
    if ok {
        println!("== UNSTABLE: {names}: failed beside others, and passed alone");
    }
    ok
}

/// Runs a program, with its output printed as it comes, and kept.
fn run_and_keep(program: &Program, vars: Vars<'_>) -> Option<(bool, String)> {
    let mut child = program
        .command()
        .envs(vars.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .inspect_err(|e| eprintln!("can't run {}: {e}", program.name))
        .ok()?;
    let (out, err) = (child.stdout.take()?, child.stderr.take()?);
    let errors = thread::spawn(move || print_and_keep(err, stderr()));
    let out = print_and_keep(out, stdout());
    errors.join().ok()?;
    Some((child.wait().ok()?.success(), out))
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
    fn failed_tests_are_named() {
        // Breaks if a failed test goes unseen, or a line of a test's own output is taken for one.
        let out = "failures:\n\n---- netstat::a_rule stdout ----\n\nthread panicked\n---- not a name ----\n";
        assert_eq!(failed_tests(out), ["netstat::a_rule"]);
    }
}
