//! `mbuma lab`: runs an experiment of the laboratory and shows what it finds.
//!
//! Called by: main. Calls: [`lab`]. Invariants: results on standard output, progress on standard error.

use std::env;
use std::ffi::OsString;
use std::io;

use lab::report::Pace;
use lab::{Comparison, all, alloc, epair, extpgs, giant, netisr, refs, run, sizes, stream, unix};

use crate::args::lab::{
    AllArgs, AllocArgs, Common, Effort, EpairArgs, Experiment, ExtpgsArgs, GiantArgs, LabArgs,
    NetisrArgs, RefsArgs, RunArgs, SizesArgs, StreamArgs, UnixArgs,
};
use crate::errors::Error;

/// Runs the experiment; the exit status is 0 if it ran, or if all of all did.
pub(crate) fn run(args: &LabArgs) -> Result<u8, Error> {
    let ran = match &args.experiment {
        Experiment::All(args) => match run_all(args) {
            Ok(failed) if !failed.is_empty() => return Ok(EXIT_SOME_FAILED),
            ran => ran.map(drop),
        },
        Experiment::Alloc(args) => run_alloc(args),
        Experiment::Epair(args) => run_epair(args),
        Experiment::Extpgs(args) => run_extpgs(args),
        Experiment::Giant(args) => run_giant(args),
        Experiment::Netisr(args) => run_netisr(args),
        Experiment::Refs(args) => run_refs(args),
        Experiment::Run(args) => run_run(args),
        Experiment::Sizes(args) => run_sizes(args),
        Experiment::Stream(args) => run_stream(args),
        Experiment::Unix(args) => run_unix(args),
    };
    match ran {
        // A reader that has seen enough, as `head`, is no failure.
        Err(lab::Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(lab::Error::Io { doing, source }) => Err(Error::Io { doing, source }),
        Err(error) => Err(Error::Usage(error.to_string())),
        Ok(()) => Ok(0),
    }
}

fn run_all(args: &AllArgs) -> Result<Vec<String>, lab::Error> {
    let program = env::current_exe().map(|program| vec![program.into(), "lab".into()]);
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

fn run_alloc(args: &AllocArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let common = &args.common;
    if common.list {
        return alloc::list(&mut out);
    }
    if let Some(job) = &args.child {
        return alloc::child(job, &mut out);
    }
    let options = alloc::Options {
        common: comparison(common),
        sizes: args.size.clone(),
        spike_megabytes: args.spike_mb,
        child: this_program("alloc"),
        ..alloc::Options::default()
    };
    alloc::run(&options, &mut out)
}

fn run_sizes(args: &SizesArgs) -> Result<(), lab::Error> {
    let options = sizes::Options {
        trace: args.trace.clone(),
        packets: args.packets,
        seed: args.seed,
        queue: args.queue,
        json: args.json,
        plot: args.plot.clone(),
    };
    sizes::run(&options, &mut io::stdout().lock())
}

fn run_refs(args: &RefsArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let common = &args.common;
    if common.list {
        return refs::list(&mut out);
    }
    refs::run(&comparison(common), &mut out)
}

fn run_extpgs(args: &ExtpgsArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    if args.list {
        return extpgs::list(&mut out);
    }
    let options = extpgs::Options {
        cases: args.case.clone(),
        designs: args.design.clone(),
        records: args.records,
        reps: args.reps,
        json: args.json,
        plot: args.plot.clone(),
        progress: true,
    };
    extpgs::run(&options, &mut out)
}

fn run_epair(args: &EpairArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let common = &args.common;
    if common.list {
        return epair::list(&mut out);
    }
    if let Some(pages) = &args.child {
        return epair::child(pages, &mut out);
    }
    let options = epair::Options {
        common: comparison(common),
        wakeups: args.wakeups,
        pages: args.pages,
        child: this_program("epair"),
    };
    epair::run(&options, &mut out)
}

fn run_giant(args: &GiantArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let common = &args.common;
    if common.list {
        return giant::list(&mut out);
    }
    let options = giant::Options {
        common: comparison(common),
        queries: args.queries,
    };
    giant::run(&options, &mut out)
}

fn run_run(args: &RunArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let common = &args.common;
    if common.list {
        return run::list(&mut out);
    }
    let child = this_program("run");
    if let Some(job) = &args.child {
        return run::child(job, &child, &mut out);
    }
    let options = run::Options {
        common: comparison(common),
        mtu: args.mtu,
        child,
    };
    run::run(&options, &mut out)
}

fn run_stream(args: &StreamArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let common = &args.common;
    if common.list {
        return stream::list(&mut out);
    }
    if !args.bench.is_empty() {
        return stream::bench(&common.design, &args.bench, &mut out);
    }
    let mut child = this_program("stream");
    // What a child is told is a design's name and a job.
    if let Some(last) = child.last_mut() {
        *last = "--design".into();
    }
    let options = stream::Options {
        common: comparison(common),
        peers: args.peers.clone(),
        child,
    };
    stream::run(&options, &mut out)
}

fn run_unix(args: &UnixArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let common = &args.common;
    if common.list {
        return unix::list(&mut out);
    }
    if !args.bench.is_empty() {
        return unix::bench(&common.design, &args.bench, &mut out);
    }
    unix::run(&comparison(common), &mut out)
}

fn run_netisr(args: &NetisrArgs) -> Result<(), lab::Error> {
    let mut out = io::stdout().lock();
    let common = &args.common;
    if common.list {
        return netisr::list(&mut out);
    }
    let options = netisr::Options {
        common: comparison(common),
        workers: args.workers.clone(),
    };
    netisr::run(&options, &mut out)
}

/// What every comparison takes.
fn comparison(common: &Common) -> Comparison {
    Comparison {
        cases: common.case.clone(),
        designs: common.design.clone(),
        seconds_per_case: common.seconds_per_case,
        reps: common.reps,
        json: common.json,
        plot: common.plot.clone(),
        progress: true,
    }
}

/// How to start another process for a job; nothing if this program cannot be found, and then jobs are done here, or
/// not at all.
fn this_program(experiment: &str) -> Vec<OsString> {
    let program = env::current_exe().map(OsString::from);
    let start = |program| [program, "lab".into(), experiment.into(), "--child".into()].into();
    program.map(start).unwrap_or_default()
}

/// An experiment of `lab all` failed; the report says which and why.
const EXIT_SOME_FAILED: u8 = 1;
