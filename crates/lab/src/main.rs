//! `cargo lab`: runs an experiment of the laboratory and prints its figures.
//!
//! Results go to standard output, progress and errors to standard error. Exit status: 0 if the experiment ran; 1 if it,
//! or one of those of `all`, failed; 2 for wrong arguments.

#![deny(unsafe_code)]

mod args;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{CommandFactory, Parser};
use lab::report::{Pace, experiments};
use lab::{
    Comparison, all, alloc, epair, extpgs, giant, netisr, refs, run, sendfile, serve, sizes,
    splice, stream, unix, wan,
};

use args::{
    AllArgs, AllocArgs, Args, CommonArgs, Effort, EpairArgs, Experiment, ExtpgsArgs, GiantArgs,
    NetisrArgs, RunArgs, ServeArgs, SizesArgs, SpliceArgs, StreamArgs, TimedArgs, ToolArgs,
    UnixArgs,
};

fn main() -> ExitCode {
    let args = Args::parse();
    let ran = match (&args.experiment, args.list) {
        (_, true) => list_experiments(),
        (Some(experiment), false) => return run_experiment(experiment),
        (None, false) => Args::command().print_help().map_err(io_error),
    };
    exit_code(ran)
}

/// Prints a line for each experiment.
fn list_experiments() -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let mut line = |e: &lab::report::Experiment| writeln!(out, "{:8} {}", e.name, e.title);
    let written = experiments().iter().try_for_each(|e| line(e));
    written.map_err(io_error)
}

fn io_error(source: io::Error) -> lab::Error {
    lab::Error::Io {
        doing: "writing to standard output".to_owned(),
        source,
    }
}

fn run_experiment(experiment: &Experiment) -> ExitCode {
    exit_code(match experiment {
        Experiment::All(args) => match run_all(args) {
            Ok(failed) if !failed.is_empty() => return EXIT_FAILED.into(),
            ran => ran.map(drop),
        },
        Experiment::Alloc(args) => {
            listed(&args.timed.common, alloc::list, |out| run_alloc(args, out))
        }
        Experiment::Epair(args) => {
            listed(&args.timed.common, epair::list, |out| run_epair(args, out))
        }
        Experiment::Extpgs(args) => listed(&args.common, extpgs::list, |out| run_extpgs(args, out)),
        Experiment::Giant(args) => {
            listed(&args.timed.common, giant::list, |out| run_giant(args, out))
        }
        Experiment::Netisr(args) => listed(&args.timed.common, netisr::list, |out| {
            run_netisr(args, out)
        }),
        Experiment::Refs(args) => listed(&args.timed.common, refs::list, |out| {
            refs::run(&comparison(&args.timed), out)
        }),
        Experiment::Run(args) => listed(&args.timed.common, run::list, |out| run_run(args, out)),
        Experiment::Sendfile(args) => listed(&args.timed.common, sendfile::list, |out| {
            sendfile::run(&comparison(&args.timed), out)
        }),
        Experiment::Serve(args) => {
            listed(&args.timed.common, serve::list, |out| run_serve(args, out))
        }
        Experiment::Sizes(args) => run_sizes(args),
        Experiment::Splice(args) => listed(&args.timed.common, splice::list, |out| {
            run_splice(args, out)
        }),
        Experiment::Stream(args) => listed(&args.timed.common, stream::list, |out| {
            run_stream(args, out)
        }),
        Experiment::Unix(args) => listed(&args.timed.common, unix::list, |out| run_unix(args, out)),
        Experiment::Wan(args) => listed(&args.timed.common, wan::list, |out| {
            wan::run(&comparison(&args.timed), out)
        }),
    })
}

/// Prints the list of choices if that is asked for, and runs the experiment otherwise.
fn listed(
    common: &CommonArgs,
    list: fn() -> String,
    run: impl FnOnce(&mut dyn Write) -> Result<(), lab::Error>,
) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    match common.list {
        true => out.write_all(list().as_bytes()).map_err(io_error),
        false => run(&mut out),
    }
}

/// Prints the error, if there is one. Returns the exit status.
fn exit_code(ran: Result<(), lab::Error>) -> ExitCode {
    let error = match ran {
        Ok(()) => return ExitCode::SUCCESS,
        // The reader closed the pipe, as `head` does.
        Err(lab::Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(error) => error,
    };
    // A closed standard error changes nothing.
    let _ = writeln!(io::stderr(), "lab: {error}");
    match error {
        lab::Error::Io { .. } => EXIT_FAILED.into(),
        _ => EXIT_USAGE.into(),
    }
}

fn run_all(args: &AllArgs) -> Result<Vec<String>, lab::Error> {
    let program = env::current_exe().map(|program| vec![program.into()]);
    let options = all::Options {
        out: args.out.clone(),
        pace: match args.effort {
            Effort::Quick => Pace::Quick,
            Effort::Normal => Pace::Normal,
            Effort::Thorough => Pace::Thorough,
        },
        only: args.only.clone(),
        skip: args.skip.clone(),
        from: args.from.clone(),
        json: args.json,
        program: program.unwrap_or_default(),
        build: env!("MBUMA_BUILD").to_owned(),
        progress: true,
    };
    all::run(&options, &mut io::stdout().lock())
}

/// Starts this program again in its own place, with the environment that lets glibc's malloc run at its best. glibc
/// reads it when a process starts, and only then. Returns if the environment has it already, or the program cannot be
/// started.
fn tune_malloc() {
    let (name, value) = alloc::TUNABLES;
    if env::var_os(name).is_some() {
        return;
    }
    if let Ok(program) = env::current_exe() {
        // The figures' note gives malloc's settings: the default, if this fails.
        let _ = Command::new(program)
            .args(env::args_os().skip(1))
            .env(name, value)
            .exec();
    }
}

fn run_alloc(args: &AllocArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    if let Some(job) = &args.child {
        return alloc::child(job, out);
    }
    tune_malloc();
    let options = alloc::Options {
        common: comparison(&args.timed),
        sizes: args.size.clone(),
        spike_megabytes: args.spike_mb,
        child: this_program("alloc"),
        ..alloc::Options::default()
    };
    alloc::run(&options, out)
}

fn run_sizes(args: &SizesArgs) -> Result<(), lab::Error> {
    let options = sizes::Options {
        trace: args.trace.clone(),
        packets: args.packets,
        seed: args.seed,
        queue: args.queue,
        json: args.json,
    };
    sizes::run(&options, &mut io::stdout().lock())
}

fn run_extpgs(args: &ExtpgsArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    let options = extpgs::Options {
        common: comparison_of(&args.common),
        records: args.records,
    };
    extpgs::run(&options, out)
}

fn run_epair(args: &EpairArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    if let Some(pages) = &args.child {
        return epair::child(pages, out);
    }
    let options = epair::Options {
        common: comparison(&args.timed),
        wakeups: args.wakeups,
        pages: args.pages,
        child: this_program("epair"),
    };
    epair::run(&options, out)
}

fn run_giant(args: &GiantArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    let options = giant::Options {
        common: comparison(&args.timed),
        queries: args.queries,
    };
    giant::run(&options, out)
}

fn run_run(args: &RunArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    let child = this_program("run");
    if let Some(job) = &args.child {
        return run::child(job, &child, &tool(&args.tool)?, out);
    }
    let options = run::Options {
        common: comparison(&args.timed),
        mtu: args.mtu,
        child,
        tool: tool(&args.tool)?,
    };
    run::run(&options, out)
}

fn run_serve(args: &ServeArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    let tool = tool(&args.tool)?;
    if let Some(job) = &args.child {
        let files = args.files.clone().unwrap_or_default();
        return serve::child(job, &files, &tool, out);
    }
    let options = serve::Options {
        common: comparison(&args.timed),
        child: this_program("serve"),
        tool,
    };
    serve::run(&options, out)
}

fn run_splice(args: &SpliceArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    if !args.bench.is_empty() {
        return splice::bench(&args.timed.common.design, &args.bench, out);
    }
    let options = splice::Options {
        common: comparison(&args.timed),
        child: this_program_for_design("splice"),
    };
    splice::run(&options, out)
}

/// This program, to be followed by the name of a design of this experiment.
fn this_program_for_design(experiment: &str) -> Vec<OsString> {
    let mut child = this_program(experiment);
    if let Some(last) = child.last_mut() {
        *last = "--design".into();
    }
    child
}

fn run_stream(args: &StreamArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    if !args.bench.is_empty() {
        return stream::bench(&args.timed.common.design, &args.bench, out);
    }
    let options = stream::Options {
        common: comparison(&args.timed),
        peers: args.peers.clone(),
        child: this_program_for_design("stream"),
    };
    stream::run(&options, out)
}

fn run_unix(args: &UnixArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    if !args.bench.is_empty() {
        return unix::bench(&args.timed.common.design, &args.bench, out);
    }
    unix::run(&comparison(&args.timed), out)
}

fn run_netisr(args: &NetisrArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    let options = netisr::Options {
        common: comparison(&args.timed),
        workers: args.workers.clone(),
    };
    netisr::run(&options, out)
}

/// The options of a comparison that measures for a time.
fn comparison(timed: &TimedArgs) -> Comparison {
    Comparison {
        seconds_per_case: timed.seconds_per_case,
        ..comparison_of(&timed.common)
    }
}

fn comparison_of(common: &CommonArgs) -> Comparison {
    Comparison {
        cases: common.case.clone(),
        designs: common.design.clone(),
        reps: common.reps,
        json: common.json,
        ..Comparison::default()
    }
}

/// How to start another process for a job; none if this program cannot be found: then jobs run here, or not at all.
fn this_program(experiment: &str) -> Vec<OsString> {
    let program = env::current_exe().map(OsString::from);
    let start = |program| [program, experiment.into(), "--child".into()].into();
    program.map(start).unwrap_or_default()
}

/// The tool to measure: the named one, or the tool that was built beside this program.
fn tool(given: &ToolArgs) -> Result<PathBuf, lab::Error> {
    let beside = || Some(env::current_exe().ok()?.with_file_name("mbuma"));
    let tool = given.tool.clone().or_else(beside).unwrap_or_default();
    match tool.is_file() {
        true => Ok(tool),
        false => Err(lab::Error::Bad(format!(
            "there is no tool at {}: build it with `cargo build --release`, or name one with --tool",
            tool.display()
        ))),
    }
}

/// The experiment failed; after `all` the report says which one and why.
const EXIT_FAILED: u8 = 1;
/// The arguments are wrong.
const EXIT_USAGE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_has_a_subcommand_and_a_section_in_the_report() {
        // Breaks if an experiment has a subcommand and no section in the report, or the other way round, or if `all`
        // runs it with arguments that it does not take.
        let command = Args::command();
        let mut typed: Vec<&str> = command
            .get_subcommands()
            .map(|one| one.get_name())
            .collect();
        typed.retain(|name| !["all", "help"].contains(name));
        typed.sort_unstable();
        let mut known: Vec<&str> = experiments().iter().map(|one| one.name).collect();
        known.sort_unstable();
        assert_eq!(typed, known);
        for experiment in experiments() {
            for pace in Pace::ALL {
                let words = ["lab", experiment.name, "--json"].into_iter();
                let words = words.chain(pace.pick(experiment.arguments).split_whitespace());
                Args::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}
