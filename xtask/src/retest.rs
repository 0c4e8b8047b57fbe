//! Test programs; the one that drives real processes in real time runs beside all others, which have a lower priority.
//!
//! Tests wait for threads, sockets and processes of the kernel, so one may fail on a machine that stands still for a
//! minute. So a test that fails is run once more, by itself. If it then passes, it is printed as UNSTABLE, with its
//! first failure above: it is a defect of the test or of the product, and must be treated as one. A test that fails in
//! each run fails both times; a case that `proptest` found is kept in its file and tried again.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write, stderr, stdout};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::programs::{self, Program};
use crate::steps::run_command;

/// The test program of the package `cli` whose tests run processes.
const REAL_TIME: &str = "e2e";

/// More failures than this have a cause in common, and are not run again.
const AGAIN_MAX: usize = 3;

type Vars<'a> = &'a [(&'a str, &'a str)];

/// Runs all tests.
pub(crate) fn run(vars: Vars<'_>) -> bool {
    let Some(programs) = programs::build() else {
        return false;
    };
    let in_real_time =
        |program: &Program| program.package() == Some("cli") && program.name == REAL_TIME;
    let (real, rest): (Vec<_>, Vec<_>) = programs.into_iter().partition(in_real_time);
    let [real] = &real[..] else {
        eprintln!("{} programs of the name {REAL_TIME}", real.len());
        return false;
    };
    let (first, (rest, mut failed)) = thread::scope(|scope| {
        let rest = scope.spawn(|| run_rest(&rest, vars));
        let first = run_once(real, real.command(), Shown::AsItComes, vars);
        (first, rest.join().expect("it does not panic"))
    });
    for (program, first) in rest.into_iter().chain([(real, first)]) {
        if !first.passes(program, vars) {
            failed.push(program.name.clone());
        }
    }
    failed.iter().for_each(|name| println!("== FAILED: {name}"));
    failed.is_empty()
}

/// Runs a crate's test programs, all or those of these names.
pub(crate) fn run_package(package: &str, names: &[&str], vars: Vars<'_>) -> bool {
    let Some(programs) = programs::build() else {
        return false;
    };
    let wanted = |program: &&Program| {
        program.package() == Some(package) && (names.is_empty() || names.contains(&&*program.name))
    };
    let found: Vec<_> = programs.iter().filter(wanted).collect();
    if found.is_empty() || found.len() < names.len() {
        eprintln!("{} programs of {package}", found.len());
        return false;
    }
    found.iter().all(|program| {
        run_once(program, program.command(), Shown::AtItsEnd, vars).passes(program, vars)
    })
}

/// Runs other programs beside that one, and examples in documentation. Returns their first runs, and what else failed.
fn run_rest<'a>(
    programs: &'a [Program],
    vars: Vars<'_>,
) -> (Vec<(&'a Program, FirstRun)>, Vec<String>) {
    let left = Mutex::new(programs.iter());
    let next = || left.lock().expect("no thread panics in `next`").next();
    let run_left = || {
        let mut runs = Vec::new();
        while let Some(program) = next() {
            let first = program.command_beside();
            runs.push((program, run_once(program, first, Shown::AtItsEnd, vars)));
        }
        runs
    };
    // Two at a time, because some programs have one test that runs for long, or tests that wait.
    let runs = thread::scope(|scope| {
        let other = scope.spawn(run_left);
        let mut runs = run_left();
        runs.extend(other.join().expect("it does not panic"));
        runs
    });
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut examples = Command::new(cargo);
    examples.args(["test", "-q", "--doc"]).args(programs::WITH);
    let name = "examples in documentation";
    let passed = run_and_keep(name, &mut examples, Shown::AtItsEnd, vars);
    let failed = passed.is_none_or(|(ok, _)| !ok).then(|| name.to_owned());
    (runs, failed.into_iter().collect())
}

/// The time at which a program's output is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    AsItComes,
    /// At its end, without output of other programs in between.
    AtItsEnd,
}

/// The end of a program's first run.
enum FirstRun {
    Passed,
    Failed,
    /// So few tests failed that they are run once more.
    Again(Vec<String>),
}

fn run_once(program: &Program, mut first: Command, shown: Shown, vars: Vars<'_>) -> FirstRun {
    match run_and_keep(&program.name, &mut first, shown, vars) {
        None => FirstRun::Failed,
        Some((true, _)) => FirstRun::Passed,
        Some((false, out)) => match failed_tests(&out) {
            tests if (1..=AGAIN_MAX).contains(&tests.len()) => {
                FirstRun::Again(tests.into_iter().map(String::from).collect())
            }
            _ => FirstRun::Failed,
        },
    }
}

impl FirstRun {
    /// Runs the tests that failed once more, if there are any. False if the program failed.
    fn passes(&self, program: &Program, vars: Vars<'_>) -> bool {
        let FirstRun::Again(tests) = self else {
            return matches!(self, FirstRun::Passed);
        };
        let names = tests.join(", ");
        println!("== once more, alone: {names}");
        let mut again = program.command();
        again.args(["--exact", "--test-threads", "1"]).args(tests);
        let ok = run_command(again.envs(vars.iter().copied()));
        if ok {
            println!("== UNSTABLE: {names}: failed beside others, and passed alone");
        }
        ok
    }
}

/// Runs a command, with its output printed and kept.
fn run_and_keep(
    name: &str,
    command: &mut Command,
    shown: Shown,
    vars: Vars<'_>,
) -> Option<(bool, String)> {
    let command = command.envs(vars.iter().copied());
    let run = match shown {
        Shown::AsItComes => run_and_print(name, command),
        Shown::AtItsEnd => command.output().map(|output| print_at_once(name, &output)),
    };
    run.inspect_err(|e| eprintln!("can't run {name}: {e}")).ok()
}

fn print_at_once(name: &str, output: &Output) -> (bool, String) {
    let mut out = stdout().lock();
    // If the output is closed, the tests continue, and the exit code has the result.
    let _ = writeln!(out, "-- {name}");
    let _ = out.write_all(&output.stdout);
    let _ = out.write_all(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

fn run_and_print(name: &str, command: &mut Command) -> io::Result<(bool, String)> {
    println!("-- {name}");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let errors = thread::spawn(move || err.map(|err| print_and_keep(err, stderr())));
    let out = out.map(|out| print_and_keep(out, stdout()));
    let _ = errors.join();
    Ok((child.wait()?.success(), out.unwrap_or_default()))
}

fn print_and_keep(from: impl Read, mut to: impl Write) -> String {
    let mut kept = Vec::new();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // If the output is closed, the tests continue, and the exit code has the result.
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
