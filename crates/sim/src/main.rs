//! Replays one seed, or runs many: `cargo run -p sim --release -- --seed N`.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sim::Net;
use sim::scenario::{Outcome, Scenario};

const USAGE: &str = "\
Runs networks of mbuma stacks in virtual time, drawn from seeds.

Usage:
  sim --seed N [--trace] [--plan] [--pcap FILE]   replays one seed
  sim --seeds A..B [--hashes]                     runs seeds A to B-1

  --cpus       stacks have virtual CPUs: the seed also decides which CPU runs next
  --hashes     prints a line for each seed: the hash of every frame and its fate, to compare two versions

  --trace      prints a line for every frame, and what the wire did to it
  --plan       prints what was drawn from the seed
  --pcap FILE  writes every frame as it was sent to FILE

Exit status: 0 if everything that must hold held, 1 if not, 2 for wrong usage.";

#[derive(Debug, Default)]
struct Args {
    seeds: Option<Range<u64>>,
    trace: bool,
    plan: bool,
    cpus: bool,
    hashes: bool,
    pcap: Option<String>,
}

impl Args {
    fn scenario(&self, seed: u64) -> Scenario {
        match self.cpus {
            true => Scenario::on_cpus_from_seed(seed),
            false => Scenario::from_seed(seed),
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--seed" => {
                let seed = number(&value()?)?;
                args.seeds = Some(seed..seed + 1);
            }
            "--seeds" => {
                let text = value()?;
                let (a, b) = text.split_once("..").ok_or("--seeds wants A..B")?;
                args.seeds = Some(number(a)?..number(b)?);
            }
            "--trace" => args.trace = true,
            "--cpus" => args.cpus = true,
            "--hashes" => args.hashes = true,
            "--plan" => args.plan = true,
            "--pcap" => args.pcap = Some(value()?),
            other => return Err(format!("{other}: no such option")),
        }
    }
    Ok(args)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a seed"))
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("sim: {error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match args.seeds.clone() {
        None => {
            println!("{USAGE}");
            ExitCode::from(2)
        }
        Some(seeds) if seeds.end - seeds.start.min(seeds.end) == 1 && !args.hashes => {
            replay(seeds.start, &args)
        }
        Some(seeds) => many(seeds, &args),
    }
}

fn replay(seed: u64, args: &Args) -> ExitCode {
    let scenario = args.scenario(seed);
    if args.plan {
        println!("{scenario:#?}");
    }
    let mut unwritable = None;
    let outcome = scenario.run_with(|_| {}, |net| unwritable = watch(net, args).err());
    if let Some(error) = unwritable {
        eprintln!("sim: {error}");
        return ExitCode::from(2);
    }
    println!("{outcome}");
    status(outcome.violations.is_empty())
}

fn watch(net: &mut Net, args: &Args) -> std::io::Result<()> {
    if args.trace {
        net.trace()
            .write_lines(Box::new(BufWriter::new(std::io::stdout())));
    }
    match &args.pcap {
        Some(path) => net
            .trace()
            .write_capture(Box::new(BufWriter::new(File::create(path)?))),
        None => Ok(()),
    }
}

fn many(seeds: Range<u64>, args: &Args) -> ExitCode {
    let began = Instant::now();
    let (total, mut failed, mut virtually) =
        (seeds.end.saturating_sub(seeds.start), 0, Duration::ZERO);
    for (i, seed) in seeds.enumerate() {
        let outcome = args.scenario(seed).run();
        virtually += outcome.elapsed;
        if args.hashes {
            println!("{seed} {:016x}", outcome.trace_hash);
        }
        if !outcome.violations.is_empty() {
            failed += 1;
            report(&outcome, args);
        }
        progress(i as u64 + 1, total, failed);
    }
    let real = began.elapsed().as_secs_f64();
    println!(
        "{total} seeds, {failed} failed; {:.0} s of virtual time in {real:.1} s, {:.0} times as fast",
        virtually.as_secs_f64(),
        virtually.as_secs_f64() / real
    );
    status(failed == 0)
}

fn report(outcome: &Outcome, args: &Args) {
    println!("{outcome}");
    println!(
        "  replay: cargo run -p sim --release -- {}--seed {}",
        if args.cpus { "--cpus " } else { "" },
        outcome.seed
    );
}

/// A line that rewrites itself on a terminal; nothing in a pipe.
fn progress(done: u64, total: u64, failed: u64) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let end = if done == total { "\n" } else { "" };
        // Progress that can't be shown is no reason to stop.
        let _: std::io::Result<()> = write!(err, "\r{done} of {total} seeds, {failed} failed{end}");
        let _: std::io::Result<()> = err.flush();
    }
}

fn status(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
