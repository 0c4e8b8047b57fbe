//! `cargo lab netisr`: when and where a stack handles its packets: at once, at once on the flow's CPU only, or later.
//!
//! ```text
//!   world.rs   stacks with workers, joined          loads.rs   what programs do with them
//! ```
//!
//! Two programs talk, each a thread on a CPU of its own, by blocking calls. Under `direct` the thread that sends a
//! packet also does its input, up to the other's socket; under `deferred` the worker of the flow's CPU does, which has
//! to be woken for it; under `hybrid` the sender does if it is on the flow's CPU. So latency is mostly the number of
//! threads that a packet must wake, and throughput the work that they do at once, less the transfers between their
//! caches.
//!
//! Source: seed 002, which made direct dispatch a switch, "to increase parallelism, especially for inbound packet
//! paths on multiple interfaces"; deferred was still its default, and it asked for reports of environments in which
//! direct is slower.

mod loads;
mod options;
pub(crate) mod report;
mod world;

pub use options::Options;

use crate::harness::choice::listed;
use crate::harness::progress::Progress;
use crate::harness::record::{of_group, of_readings};
use crate::harness::rounds::{Reading, by_mode};
use crate::harness::{compare, table, warmup, xcore};
use crate::{Error, Record};
use loads::{Load, Seen};
use mbuma::Dispatch;
use options::Choice;
use std::io::Write;
use std::time::Duration;
use world::{Place, World};

/// A policy, as a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    Direct,
    Hybrid,
    Deferred,
}

impl Design {
    pub(crate) const ALL: [Self; 3] = [Self::Direct, Self::Hybrid, Self::Deferred];

    pub(crate) fn name(self) -> &'static str {
        self.dispatch().name()
    }

    pub(crate) fn dispatch(self) -> Dispatch {
        match self {
            Self::Direct => Dispatch::Direct,
            Self::Hybrid => Dispatch::Hybrid,
            Self::Deferred => Dispatch::Deferred,
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Direct => "at once, by the thread that brings the packet in (our default)",
            Self::Hybrid => "at once on the CPU of the packet's flow, else by that CPU's worker",
            Self::Deferred => "by the worker of the flow's CPU (seed 002: the netisr thread)",
        }
    }
}

/// A load at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    about: &'static str,
    load: Load,
    place: Place,
}

const fn case(name: &'static str, load: Load, place: Place, about: &'static str) -> Case {
    Case {
        name,
        about,
        load,
        place,
    }
}

/// All of them.
#[rustfmt::skip]
pub(crate) const CASES: [Case; 8] = {
    use Load::{TcpRr, TcpStream, UdpRr, UdpStream};
    use Place::{Epair, Loopback};
    [
        case("udp-rr-loopback", UdpRr, Loopback, "512 bytes there and back, in one stack"),
        case("udp-rr-epair", UdpRr, Epair, "512 bytes there and back, between two stacks"),
        case("tcp-rr-loopback", TcpRr, Loopback, "a byte there and back over TCP, in one stack"),
        case("tcp-rr-epair", TcpRr, Epair, "a byte there and back over TCP, between two stacks"),
        case("udp-stream-loopback", UdpStream, Loopback, "datagrams of 512 bytes, 8 flows, in one stack"),
        case("udp-stream-epair", UdpStream, Epair, "datagrams of 512 bytes, 8 flows, between two stacks"),
        case("tcp-stream-loopback", TcpStream, Loopback, "one TCP stream, in one stack"),
        case("tcp-stream-epair", TcpStream, Epair, "one TCP stream, between two stacks"),
    ]
};

/// A measure of a run, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    P50,
    P99,
    Rate,
    Lost,
    Moved,
}

impl Measure {
    const ALL: [Self; 5] = [Self::P50, Self::P99, Self::Rate, Self::Lost, Self::Moved];

    fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Rate => "rate",
            Self::Lost => "lost",
            Self::Moved => "moved",
        }
    }

    fn unit(self, load: Load) -> &'static str {
        match (self, load) {
            (Self::P50 | Self::P99, _) => "us",
            (Self::Rate, Load::TcpStream) => "Gbit/s",
            (Self::Rate, Load::UdpStream) => "datagrams/s",
            (Self::Rate, _) => "round trips/s",
            (Self::Lost | Self::Moved, _) => "%",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::P50 => "half of the round trips take less than",
            Self::P99 => "of a hundred round trips 99 take less than",
            Self::Rate => "throughput (more is better)",
            Self::Lost => "datagrams that did not arrive",
            Self::Moved => "packets that changed their CPU on the way in",
        }
    }

    /// Its value in a run, if there is one.
    fn of(self, run: &Run) -> Option<f64> {
        let took = |part: f64| {
            let last = run.seen.took.len().checked_sub(1)?;
            Some(run.seen.took[(last as f64 * part) as usize] as f64 / 1e3)
        };
        match self {
            Self::P50 => took(0.5),
            Self::P99 => took(0.99),
            Self::Rate => Some(run.seen.rate),
            Self::Lost => run.seen.lost,
            Self::Moved => Some(run.moved),
        }
    }
}

/// One run of a contestant.
struct Run {
    seen: Seen,
    moved: f64,
    xcore_ns: Option<f64>,
}

/// A contestant: a policy with a number of workers.
struct Contestant {
    design: Design,
    workers: usize,
    runs: Vec<Run>,
}

impl Contestant {
    /// Runs it once, in a world of its own; returns the results, and how many packets changed their CPU.
    fn run(&self, case: Case, time: Duration, cpus: &[usize]) -> (Seen, f64) {
        let world = World::new(case.place, self.design, self.workers, cpus);
        let seen = case.load.run(&world, time, cpus);
        (seen, world.moved())
    }
}

/// Runs the comparison and writes the results to `out`: tables for each case, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, a number that will not do, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose()?;
    let common = &options.common;
    common.each(choice.cases.iter().copied(), out, |case, progress| {
        let records = measure(case, options, &choice, progress);
        compare::shown(common.json, &records, || show(case, &records))
    })
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(&CASES, &Design::ALL)
}

listed!(Case: |case| case.name, case.about);
listed!(Design: |design| design.name(), design.about());

/// Goes over all contestants in each round, so that a disturbance of the machine affects all of them alike.
fn measure(case: Case, options: &Options, choice: &Choice, progress: &mut Progress) -> Vec<Record> {
    let effort = &choice.effort;
    let with = |&workers: &usize| {
        choice.designs.iter().map(move |&design| Contestant {
            design,
            workers,
            runs: Vec::new(),
        })
    };
    let mut contestants: Vec<_> = options.workers.iter().flat_map(with).collect();
    let mut times = Vec::new();
    for contestant in &contestants {
        let (name, workers) = (contestant.design.name(), contestant.workers);
        progress.say(&format!(
            "{}: warming up {name}, {workers} workers",
            case.name
        ));
        let rate = |time| contestant.run(case, time, &effort.cpus).0.rate;
        times.push(warmup::length_for(effort.reading, rate));
    }
    for round in 1..=effort.reps {
        for (contestant, &time) in contestants.iter_mut().zip(&times) {
            let (name, workers) = (contestant.design.name(), contestant.workers);
            let (case_name, reps) = (case.name, effort.reps);
            progress.say(&format!(
                "{case_name}: round {round} of {reps}, {name}, {workers} workers"
            ));
            let crosses = effort.pair_of_cpus();
            let xcore_ns = crosses.map(|cpus| xcore::one_way_ns(cpus, effort.reading));
            let (seen, moved) = contestant.run(case, time, &effort.cpus);
            contestant.runs.push(Run {
                seen,
                moved,
                xcore_ns,
            });
        }
    }
    let mut records = Vec::new();
    for measure in Measure::ALL {
        let of = |contestant: &Contestant| said(case, measure, contestant);
        records.extend(contestants.iter().flat_map(of));
    }
    records
}

/// A contestant's records of one measure: one for each mode in which the machine was.
fn said(case: Case, measure: Measure, contestant: &Contestant) -> Vec<Record> {
    let reading = |run: &Run| Some(Reading::once(measure.of(run)?, run.xcore_ns));
    let readings: Vec<_> = contestant.runs.iter().filter_map(reading).collect();
    let record = Record {
        experiment: "netisr",
        case: case.name,
        design: contestant.design.name(),
        unit: measure.unit(case.load),
        threads: Some(contestant.workers),
        measure: Some(measure.name()),
        ours: contestant.design == Design::Direct,
        ..Record::default()
    };
    match measure {
        // None lost and none moved are figures too.
        Measure::Lost | Measure::Moved => {
            let of = |group: &_| of_group(record.clone(), group);
            by_mode(&readings).iter().map(of).collect()
        }
        Measure::P50 | Measure::P99 | Measure::Rate => of_readings(&record, &readings),
    }
}

/// A block as it is printed.
fn show(case: Case, records: &[Record]) -> String {
    let title = |first: &Record| {
        let named = |measure: &Measure| Some(measure.name()) == first.measure;
        let about = Measure::ALL
            .iter()
            .find(|m| named(m))
            .map_or("", |m| m.about());
        let workers = match first.threads {
            Some(1) => "1 worker".to_owned(),
            workers => format!("{} workers", workers.unwrap_or(0)),
        };
        format!("{}, {workers}, {}: {about}", case.name, first.unit)
    };
    format!("{}: {}\n\n", case.name, case.about) + &table::by_unit(records, title) + "\n"
}

#[cfg(all(test, not(shuttle)))]
mod tests;
