//! Replays one seed, runs many, or runs packet scripts: `cargo run -p mbuma-sim --release -- --seed N`.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use sim::Net;
use sim::scenario::{Outcome, Scenario};

mod script_command;

/// Runs networks of mbuma stacks in virtual time, drawn from seeds; and packet scripts on a stack.
///
/// Exit status: 0 if all conditions held, 1 if not, 2 for wrong usage.
#[derive(Debug, Parser)]
#[command(name = "mbuma-sim", args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Replays one seed.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Runs seeds A to B-1.
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<Range<u64>>,
    /// Prints a line for every frame, with the wire's effects on it.
    #[arg(long)]
    trace: bool,
    /// Prints the scenario that was drawn from the seed.
    #[arg(long)]
    plan: bool,
    /// Stacks have virtual CPUs: the seed also decides which CPU runs next.
    #[arg(long)]
    cpus: bool,
    /// Prints a line for each seed: the hash of every frame and its fate, to compare two versions.
    #[arg(long)]
    hashes: bool,
    /// Writes every frame as it was sent to FILE.
    #[arg(long, value_name = "FILE")]
    pcap: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs packet scripts: packetdrill's language, in virtual time.
    Script(script_command::ScriptArgs),
}

impl Args {
    fn scenario(&self, seed: u64) -> Scenario {
        match self.cpus {
            true => Scenario::on_cpus_from_seed(seed),
            false => Scenario::from_seed(seed),
        }
    }
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let number = |n: &str| n.parse().map_err(|_| format!("{n} is not a seed"));
    let (a, b) = text.split_once("..").ok_or("seeds are A..B")?;
    Ok(number(a)?..number(b)?)
}

fn main() -> ExitCode {
    match run(&Args::parse(), &mut io::stdout()) {
        Ok(status) => status,
        // The reader closed the pipe, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mbuma-sim: {error}");
            ExitCode::from(2)
        }
    }
}

/// Does the work, and prints its results to `out`.
fn run(args: &Args, out: &mut impl Write) -> io::Result<ExitCode> {
    if let Some(Command::Script(args)) = &args.command {
        return script_command::run(args, out);
    }
    match (args.seed, args.seeds.clone()) {
        (Some(seed), _) if !args.hashes => replay(seed, args, out),
        (Some(seed), _) => many(seed..seed + 1, args, out),
        (None, Some(seeds)) => many(seeds, args, out),
        (None, None) => {
            eprintln!("mbuma-sim: give --seed, --seeds, or `script FILE...` (--help says more)");
            Ok(ExitCode::from(2))
        }
    }
}

fn replay(seed: u64, args: &Args, out: &mut impl Write) -> io::Result<ExitCode> {
    let scenario = args.scenario(seed);
    if args.plan {
        writeln!(out, "{scenario:#?}")?;
    }
    let mut watched = Ok(());
    let outcome = scenario.run_with(|_| {}, |net| watched = watch(net, args));
    watched?;
    writeln!(out, "{outcome}")?;
    Ok(status(outcome.violations.is_empty()))
}

fn watch(net: &mut Net, args: &Args) -> io::Result<()> {
    if args.trace {
        net.trace()
            .write_lines(Box::new(BufWriter::new(io::stdout())));
    }
    match &args.pcap {
        Some(path) => net
            .trace()
            .write_capture(Box::new(BufWriter::new(File::create(path)?))),
        None => Ok(()),
    }
}

fn many(seeds: Range<u64>, args: &Args, out: &mut impl Write) -> io::Result<ExitCode> {
    let began = Instant::now();
    let (total, mut failed, mut virtually) =
        (seeds.end.saturating_sub(seeds.start), 0, Duration::ZERO);
    for (i, seed) in seeds.enumerate() {
        let outcome = args.scenario(seed).run();
        virtually += outcome.elapsed;
        if args.hashes {
            writeln!(out, "{seed} {:016x}", outcome.trace_hash)?;
        }
        if !outcome.violations.is_empty() {
            failed += 1;
            report(&outcome, args, out)?;
        }
        progress(i as u64 + 1, total, failed);
    }
    let real = began.elapsed().as_secs_f64();
    writeln!(
        out,
        "{total} seeds, {failed} failed; {:.0} s of virtual time in {real:.1} s, {:.0} times as fast",
        virtually.as_secs_f64(),
        virtually.as_secs_f64() / real
    )?;
    Ok(status(failed == 0))
}

fn report(outcome: &Outcome, args: &Args, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{outcome}")?;
    writeln!(
        out,
        "  replay: cargo run -p mbuma-sim --release -- {}--seed {}",
        if args.cpus { "--cpus " } else { "" },
        outcome.seed
    )
}

/// A line that is rewritten on a terminal; no line in a pipe.
fn progress(done: u64, total: u64, failed: u64) {
    let mut err = io::stderr();
    if err.is_terminal() {
        let end = if done == total { "\n" } else { "" };
        // Progress that can't be shown is no reason to stop.
        let _: io::Result<()> = write!(err, "\r{done} of {total} seeds, {failed} failed{end}");
        let _: io::Result<()> = err.flush();
    }
}

fn status(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
