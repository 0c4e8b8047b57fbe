//! Compares a commit with this tree, for changes that must not change behaviour or cost.
//!
//! `cargo xtask compare COMMIT [hashes|instructions] ...` builds both, the commit in a worktree under `target/compare`,
//! and compares:
//!
//! | part | condition |
//! |---|---|
//! | `hashes` | 500 simulator seeds, with and without virtual CPUs, have the same trace hash in both |
//! | `instructions` | each load of mbuma's example `instructions` costs at most 1 % more |
//!
//! Instructions are counted by valgrind, in which restartable sequences do not work: the per-CPU caches are under
//! their fallback locks there, on both sides alike.
//!
//! Prints ratios; fails if a bound is exceeded.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{run_command, target_dir};

/// Simulator seeds whose hashes are compared.
const SEEDS: &str = "0..500";
/// Instructions that a load may cost, for each that it cost before.
const RATIO_MAX: f64 = 1.01;
/// The loads of the example, and how many units the shorter of the two runs does.
const LOADS: [(&str, u64); 5] = [
    ("trip", 2_000),
    ("segment", 24_000),
    ("splice", 12_000),
    ("datagram", 4_000),
    ("pair", 20_000),
];
const PARTS: [&str; 2] = ["hashes", "instructions"];

/// Compares this tree with the commit that the first argument names. True if no figure got worse.
pub(crate) fn run(args: &[String]) -> bool {
    let Some((commit, parts)) = args.split_first() else {
        eprintln!("usage: cargo xtask compare COMMIT [{}]", PARTS.join("|"));
        return false;
    };
    if let Some(unknown) = parts.iter().find(|p| !PARTS.contains(&p.as_str())) {
        eprintln!("{unknown}: no such part; there are {}", PARTS.join(" and "));
        return false;
    }
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    let Some(before) = Tree::of_commit(commit) else {
        return false;
    };
    let after = Tree::here();
    // Both run, even if the first fails.
    let hashes = !is_wanted("hashes") || same_hashes(&before, &after);
    let instructions = !is_wanted("instructions") || few_instructions(&before, &after);
    hashes && instructions
}

/// A checkout and the directory that it is built in.
pub(crate) struct Tree {
    pub(crate) source: PathBuf,
    target: PathBuf,
}

impl Tree {
    fn here() -> Tree {
        Tree {
            source: PathBuf::from("."),
            target: target_dir().join("compare/here"),
        }
    }

    /// A worktree of the commit. It stays for the next comparison with the same commit.
    pub(crate) fn of_commit(commit: &str) -> Option<Tree> {
        let id = output(Command::new("git").args(["rev-parse", "--short=12", commit]))?;
        let id = id.trim();
        let source = target_dir().join("compare").join(id);
        let add = ["worktree", "add", "-q", "--force", "--detach"];
        let made = source.join("Cargo.toml").exists()
            || run_command(Command::new("git").args(add).arg(&source).arg(id));
        made.then(|| Tree {
            target: target_dir().join("compare").join(format!("{id}-target")),
            source,
        })
    }

    /// Builds a program of a crate and returns its path. Names the crate by its directory: packages had other names
    /// before.
    fn build(&self, krate: &str, args: &[&str], program: &str) -> Option<PathBuf> {
        let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let mut build = Command::new(cargo);
        build
            .args(["build", "-q", "--release", "--manifest-path"])
            .arg(format!("crates/{krate}/Cargo.toml"))
            .args(args)
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", &self.target);
        run_command(&mut build).then(|| self.target.join("release").join(program))
    }
}

/// Both trees print the same trace hash for each seed.
fn same_hashes(before: &Tree, after: &Tree) -> bool {
    [&[][..], &["--cpus"]].iter().all(|options| {
        let hashes = |tree: &Tree| {
            // Before packet scripts the program was called `sim`.
            let old = tree.build("sim", &[], "sim")?;
            let new = old.with_file_name("mbuma-sim");
            let sim = if new.exists() { new } else { old };
            let seeds = ["--seeds", SEEDS, "--hashes"];
            output(Command::new(sim).args(seeds).args(*options))
        };
        let (Some(old), Some(new)) = (hashes(before), hashes(after)) else {
            return false;
        };
        let is_hash = |line: &&str| line.split(' ').count() == 2;
        let (old, new) = (old.lines().filter(is_hash), new.lines().filter(is_hash));
        let pairs: Vec<_> = old.zip(new).collect();
        let changed: Vec<_> = pairs.iter().filter(|(a, b)| a != b).collect();
        println!(
            "{} seeds{}: {} hashes changed",
            pairs.len(),
            options.first().map_or("", |_| " on virtual CPUs"),
            changed.len()
        );
        changed
            .iter()
            .take(5)
            .for_each(|(a, b)| println!("  {a} is now {b}"));
        !pairs.is_empty() && changed.is_empty()
    })
}

/// No load costs more than it may.
fn few_instructions(before: &Tree, after: &Tree) -> bool {
    let build = |tree: &Tree| {
        let example = ["--example", "instructions"];
        tree.build("mbuma", &example, "examples/instructions")
    };
    let (Some(old), Some(new)) = (build(before), build(after)) else {
        return false;
    };
    // All are printed, even if one is worse.
    let worse = LOADS.iter().filter(|&&(load, n)| {
        if !has_load(&old, load) {
            println!("{load:9} is not in the example of the tree before");
            return false;
        }
        let (Some(old), Some(new)) = (per_unit(&old, load, n), per_unit(&new, load, n)) else {
            return true;
        };
        let ratio = new / old;
        println!("{load:9} {old:10.1} -> {new:10.1} instructions, {ratio:.4} x");
        ratio > RATIO_MAX
    });
    worse.count() == 0
}

/// Whether a program has a load: an older one has fewer.
fn has_load(program: &Path, load: &str) -> bool {
    let done = Command::new(program).args([load, "0"]).output();
    done.is_ok_and(|done| done.status.success())
}

/// Instructions of one unit of a load: the difference of two runs, in which start and end are the same.
fn per_unit(program: &Path, load: &str, n: u64) -> Option<f64> {
    let (one, two) = (count(program, load, n)?, count(program, load, 2 * n)?);
    Some(two.saturating_sub(one) as f64 / n as f64)
}

/// Instructions of a whole run.
fn count(program: &Path, load: &str, n: u64) -> Option<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([load, &n.to_string()]);
    let done = match valgrind.output() {
        Ok(done) => done,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            eprintln!("counting instructions needs valgrind: apt-get install valgrind");
            return None;
        }
        Err(e) => {
            eprintln!("can't run valgrind: {e}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&done.stderr);
    let collected = text.lines().find_map(|l| l.split_once("Collected : "));
    let count = collected.and_then(|(_, n)| n.trim().parse().ok());
    if count.is_none() {
        eprintln!("{load} under valgrind:\n{text}");
    }
    count
}

/// The output of a command, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let done = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .inspect_err(|e| eprintln!("can't run {:?}: {e}", command.get_program()))
        .ok()?;
    done.status
        .success()
        .then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}
