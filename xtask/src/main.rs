//! `cargo xtask ci` runs all checks that a change must pass.

/// Prints a line. If the reader has closed the pipe, as `head` does, the program ends as by SIGPIPE.
macro_rules! println {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        if writeln!(std::io::stdout(), $($text)*).is_err() {
            std::process::exit(128 + 13)
        }
    }};
}

mod compare;
mod counts;
mod programs;
mod retest;
mod steps;
mod tidy;
mod witness_cost;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  ci           everything below, with the time each took: after clippy in three lanes, divided by blank lines
  fmt          formatting
  clippy       lints, warnings denied
  tidy         checks beyond lints: layer order, places of unsafe, texts

  doc          documentation builds without a warning
  package      the crates are packages that a registry takes
  test         all tests; those that this machine can't run are counted as skipped
  engines      container engines with the tool as their network
  features     libraries without the features that all other steps turn on: tokio, TLS, extras of the allocator
  giant        tests of the stack with Giant over every stack
  uma          the allocator with locked caches, and with its costly checks
  storm        its sections interrupted on purpose, and unannounced as a control

  shuttle      larger hand-off protocols, in random orders
  loom         hand-off protocols, every interleaving
  witness-cost WITNESS takes no instruction in release builds

  readme       the commands that the README promises, as it promises them

Not part of ci:

  schemes      the hand-offs of seed 003, which shuttle must find wrong
  invariants   that invariants are checked in release builds with the feature, and not evaluated without
  compare COMMIT [hashes|instructions]
               this tree beside a commit: trace hashes of 500 seeds, instructions of four fixed loads
  counts [COMMIT]
               product lines, circles, words, repeated names, packages, unsafe; beside a commit's
  asan         buffers, allocator, and stacks made and destroyed, under AddressSanitizer
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted = args.first().cloned().unwrap_or_default();
    let tool: Option<fn(&[String]) -> bool> = match wanted.as_str() {
        "compare" => Some(compare::run),
        "counts" => Some(counts::run),
        _ => None,
    };
    if let Some(run) = tool {
        return match run(&args[1..]) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    }
    let all = steps::all();
    let chosen: Vec<_> = match wanted.as_str() {
        "ci" => all.into_iter().filter(|s| s.in_ci).collect(),
        name => all.into_iter().filter(|s| s.name == name).collect(),
    };
    if chosen.is_empty() {
        eprint!("{HELP}");
        return ExitCode::from(2);
    }
    steps::run(&chosen)
}
