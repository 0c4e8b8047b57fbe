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
use lab::report::experiments;
use lab::{
    Comparison, all, alloc, epair, extpgs, giant, netisr, refs, run, sendfile, serve, sizes,
    splice, stream, unix, wan,
};

use args::{
    AllocArgs, Args, EpairArgs, Experiment, RunArgs, ServeArgs, SpliceArgs, StreamArgs, ToolArgs,
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
        Experiment::All(options) => match run_all(options) {
            Ok(failed) if !failed.is_empty() => return EXIT_FAILED.into(),
            ran => ran.map(drop),
        },
        Experiment::Alloc(args) => listed(&args.options.common, alloc::list, |out| {
            run_alloc(args, out)
        }),
        Experiment::Epair(args) => listed(&args.options.common, epair::list, |out| {
            run_epair(args, out)
        }),
        Experiment::Extpgs(options) => listed(&options.common, extpgs::list, |out| {
            extpgs::run(options, out)
        }),
        Experiment::Giant(options) => {
            listed(&options.common, giant::list, |out| giant::run(options, out))
        }
        Experiment::Netisr(options) => listed(&options.common, netisr::list, |out| {
            netisr::run(options, out)
        }),
        Experiment::Refs(common) => listed(common, refs::list, |out| refs::run(common, out)),
        Experiment::Run(args) => listed(&args.options.common, run::list, |out| run_run(args, out)),
        Experiment::Sendfile(common) => {
            listed(common, sendfile::list, |out| sendfile::run(common, out))
        }
        Experiment::Serve(args) => listed(&args.options.common, serve::list, |out| {
            run_serve(args, out)
        }),
        Experiment::Sizes(options) => sizes::run(options, &mut io::stdout().lock()),
        Experiment::Splice(args) => listed(&args.options.common, splice::list, |out| {
            run_splice(args, out)
        }),
        Experiment::Stream(args) => listed(&args.options.common, stream::list, |out| {
            run_stream(args, out)
        }),
        Experiment::Unix(args) => listed(&args.common, unix::list, |out| run_unix(args, out)),
        Experiment::Wan(common) => listed(common, wan::list, |out| wan::run(common, out)),
    })
}

/// Prints the list of choices if that is asked for, and runs the experiment otherwise.
fn listed(
    common: &Comparison,
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

fn run_all(asked: &all::Options) -> Result<Vec<String>, lab::Error> {
    let program = env::current_exe().map(|program| vec![program.into()]);
    let options = all::Options {
        program: program.unwrap_or_default(),
        build: env!("MBUMA_BUILD").to_owned(),
        progress: true,
        ..asked.clone()
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
        child: this_program("alloc"),
        ..args.options.clone()
    };
    alloc::run(&options, out)
}

fn run_epair(args: &EpairArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    if let Some(pages) = &args.child {
        return epair::child(pages, out);
    }
    let options = epair::Options {
        child: this_program("epair"),
        ..args.options.clone()
    };
    epair::run(&options, out)
}

fn run_run(args: &RunArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    let options = run::Options {
        child: this_program("run"),
        tool: tool(&args.tool)?,
        ..args.options.clone()
    };
    match &args.child {
        Some(job) => run::child(job, &options.child, &options.tool, out),
        None => run::run(&options, out),
    }
}

fn run_serve(args: &ServeArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    let options = serve::Options {
        child: this_program("serve"),
        tool: tool(&args.tool)?,
        ..args.options.clone()
    };
    if let Some(job) = &args.child {
        let files = args.files.clone().unwrap_or_default();
        return serve::child(job, &files, &options.tool, out);
    }
    serve::run(&options, out)
}

fn run_splice(args: &SpliceArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    if !args.bench.is_empty() {
        return splice::bench(&args.options.common.designs, &args.bench, out);
    }
    let options = splice::Options {
        child: this_program_for_design("splice"),
        ..args.options.clone()
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
        return stream::bench(&args.options.common.designs, &args.bench, out);
    }
    let options = stream::Options {
        child: this_program_for_design("stream"),
        ..args.options.clone()
    };
    stream::run(&options, out)
}

fn run_unix(args: &UnixArgs, out: &mut dyn Write) -> Result<(), lab::Error> {
    if !args.bench.is_empty() {
        return unix::bench(&args.common.designs, &args.bench, out);
    }
    unix::run(&args.common, out)
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
    use lab::report::Pace;

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
