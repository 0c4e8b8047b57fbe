//! One run of a program in a design, and rounds that go over all designs.
//!
//! A run has a world of its own, on a thread that is bound to the CPUs that the run may have; threads that it starts
//! inherit that. Before the rounds, each row finds how long its runs must be so that its start does not show
//! ([`warmup`]).

use super::around::{Around, Cost};
use super::load::{self, Done};
use super::options::Choice;
use super::world::World;
use super::{Case, Design};
use crate::harness::progress::Progress;
use crate::harness::{sys, warmup};
use std::io;
use std::thread;
use std::time::Duration;

/// The results of one run.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// In the case's unit.
    pub(crate) throughput: f64,
    /// Half of the requests took less, and 99 in a hundred, in microseconds.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    /// Queries, requests, or calls of a stream.
    pub(crate) operations: u64,
    pub(crate) cost: Cost,
}

impl Reading {
    /// This, if anything was moved.
    fn of_something(self) -> io::Result<Self> {
        match self.throughput > 0.0 {
            true => Ok(self),
            false => Err(io::Error::other("no reading: no data was moved")),
        }
    }
}

/// The amount of one run: a number of queries of each client, or a time.
#[derive(Clone, Copy)]
struct Size {
    queries: usize,
    time: Duration,
}

impl Size {
    /// As much more as `time` is longer.
    fn lengthened(self, time: Duration) -> Self {
        let times = time.as_secs_f64() / self.time.as_secs_f64();
        let queries = ((self.queries as f64 * times) as usize).max(1);
        Self { queries, time }
    }
}

/// All readings of a design on a number of CPUs: one a round, or why there is none.
pub(crate) struct Row {
    pub(crate) design: Design,
    pub(crate) cpus: usize,
    pub(crate) readings: Vec<Result<Reading, String>>,
}

/// All readings of a case.
pub(crate) struct Measured {
    pub(crate) case: Case,
    pub(crate) rows: Vec<Row>,
}

/// Goes over all designs on one CPU and on two in each round, so that a disturbance of the machine affects all of them
/// alike.
pub(crate) fn measure(
    case: Case,
    choice: &Choice,
    queries: usize,
    progress: &mut Progress,
) -> Measured {
    let cpus = &choice.effort.cpus;
    let size = Size {
        queries,
        time: choice.effort.reading,
    };
    let row = |design, cpus| Row {
        design,
        cpus,
        readings: Vec::new(),
    };
    let designs = choice.designs.iter().filter(|design| design.is_in(case));
    let of_design = |&design: &Design| (1..=cpus.len()).map(move |n| row(design, n));
    let mut rows: Vec<Row> = designs.flat_map(of_design).collect();
    let mut sizes = Vec::new();
    for row in &rows {
        let (name, n) = (row.design.name(), row.cpus);
        progress.say(&format!("{}: warming up {name} on {n} CPUs", case.name()));
        let throughput = |time| {
            let read = run(case, row.design, &cpus[..n], size.lengthened(time));
            read.map(|reading| reading.throughput)
        };
        // A program that fails reports it in the rounds.
        let time = warmup::lengthen(size.time, throughput).unwrap_or(size.time);
        sizes.push(size.lengthened(time));
    }
    for round in 1..=choice.effort.reps {
        for (row, &size) in rows.iter_mut().zip(&sizes) {
            progress.say(&format!(
                "{}: round {round} of {}, {} on {} CPUs",
                case.name(),
                choice.effort.reps,
                row.design.name(),
                row.cpus
            ));
            let read = run(case, row.design, &cpus[..row.cpus], size);
            let read = read.and_then(Reading::of_something);
            row.readings.push(read.map_err(|e| e.to_string()));
        }
    }
    Measured { case, rows }
}

fn run(case: Case, design: Design, cpus: &[usize], size: Size) -> io::Result<Reading> {
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            // Without the right to pin threads, the measurement runs on any CPU.
            let _ = sys::pin(cpus);
            here(case, design, cpus, size)
        });
        let died = |_| Err(io::Error::other("the program died"));
        run.join().unwrap_or_else(died)
    })
}

fn here(case: Case, design: Design, cpus: &[usize], size: Size) -> io::Result<Reading> {
    let world = World::new(design, cpus);
    let count = if case == Case::Mysql { CLIENTS } else { 1 };
    let mut pairs = world.pairs(case, count)?;
    let around = Around::begin();
    let done = match (case, pairs.pop()) {
        (Case::Mysql, last) => {
            pairs.extend(last);
            load::queries(pairs, size.queries)
        }
        (Case::TcpStream, Some(pair)) => load::stream(pair, size.time),
        (Case::TcpRr | Case::UdpRr, Some(pair)) => load::requests(pair, size.time),
        (_, None) => Err(io::ErrorKind::NotConnected.into()),
    }?;
    Ok(reading(case, done, around.end()))
}

fn reading(case: Case, mut done: Done, cost: Cost) -> Reading {
    let (count, seconds) = (done.count as f64, done.time.as_secs_f64());
    let (throughput, operations) = match case {
        Case::TcpStream => (count * 8.0 / 1e9 / seconds, done.count.div_ceil(64 << 10)),
        _ => (count / 1e3 / seconds, done.count),
    };
    done.latencies.sort_unstable();
    Reading {
        throughput,
        p50_us: quantile(&done.latencies, 50),
        p99_us: quantile(&done.latencies, 99),
        operations: operations.max(1),
        cost,
    }
}

fn quantile(sorted: &[u32], percent: usize) -> Option<f64> {
    let at = sorted.len() * percent / 100;
    sorted.get(at).map(|&ns| f64::from(ns) / 1e3)
}

impl Row {
    /// The value of `of` in the rounds that went well.
    pub(crate) fn each(&self, of: impl Fn(&Reading) -> Option<f64>) -> Vec<f64> {
        let well = self.readings.iter().filter_map(|r| r.as_ref().ok());
        well.filter_map(of).collect()
    }

    /// How many times as fast as `base` it was, round by round.
    pub(crate) fn against(&self, base: &Self) -> Vec<f64> {
        let rounds = self.readings.iter().zip(&base.readings);
        let ratio = |(ours, base): (&Result<Reading, _>, &Result<Reading, _>)| {
            let (ours, base) = (ours.as_ref().ok()?, base.as_ref().ok()?);
            Some(ours.throughput / base.throughput)
        };
        rounds.filter_map(ratio).collect()
    }

    /// The counts of locks and the scheduler in all rounds, and the number of operations.
    pub(crate) fn cost(&self) -> (Cost, f64) {
        let (mut all, mut operations) = (Cost::default(), 0);
        for reading in self.readings.iter().flatten() {
            all.add(&reading.cost);
            operations += reading.operations;
        }
        (all, operations.max(1) as f64)
    }

    /// Why rounds failed, if some did.
    pub(crate) fn failed(&self) -> Option<String> {
        let mut errors = self.readings.iter().filter_map(|r| r.as_ref().err());
        let first = errors.next()?;
        let count = errors.count() + 1;
        Some(format!(
            "{count} of {} failed: {first}",
            self.readings.len()
        ))
    }
}

impl Measured {
    pub(crate) fn row(&self, design: Design, cpus: usize) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| (row.design, row.cpus) == (design, cpus))
    }
}

/// How long a reading takes is in the choice; this is how many ask at once, as in the seed.
pub(crate) const CLIENTS: usize = 11;

/// The unit of microseconds per operation.
pub(crate) fn micros(time: Duration, operations: f64) -> f64 {
    time.as_secs_f64() * 1e6 / operations
}
