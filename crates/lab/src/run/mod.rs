//! `cargo lab run`: the guest of `mbuma run` and `mbuma attach` beside guests of pasta and slirp4netns, and the kernel
//! between the same namespaces.
//!
//! ```text
//!   case.rs    what is done             designs.rs   what lies between      found.rs   what a reading says
//!   host.rs    the host's side          server.rs    the answering part     peer.rs    questions and answers
//!   guest.rs   the guest's side         client.rs    the asking part        bulk.rs    a stream of both
//!   result.rs  what is shown            downloads.rs many streams at once
//!   lease.rs   a client of DHCP         scan.rs      a scan of the network
//! ```
//!
//! All contestants of a case are set up side by side, each between two namespaces of its own; only the measured one is
//! busy. No traffic touches an interface of the machine's.
//!
//! Sources: issue 2's targets; slirp4netns(1), passt(1), as engines of containers start them.

mod bulk;
mod case;
mod client;
mod designs;
mod downloads;
pub(crate) mod found;
mod guest;
mod host;
mod lease;
mod options;
pub(crate) mod peer;
pub(crate) mod report;
mod result;
mod scan;
mod server;

pub use options::Options;

use crate::harness::choice::{Absent, chosen, listed};
use crate::harness::contest::Contest;
use crate::harness::effort::Effort;
use crate::harness::progress::Progress;
use crate::harness::{compare, namespace, warmup, xcore};
use crate::{Error, Record};
use case::{CASES, Case, Job};
use designs::{CATALOG, Entry};
use found::Found;
use options::Choice;
use peer::Peer;
use result::{records, show};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs the comparison and writes the results to `out`: tables, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose()?;
    let common = &options.common;
    common.each(&choice.cases, out, |case, progress| {
        let records = measure(case, options, &choice, progress);
        let mtu = options.mtu;
        compare::shown(common.json, &records, || show(case, mtu, &records))
    })
}

/// The work of a process that was started for a part: `guest`, or the name of a design and an MTU. `child` and `tool`
/// are those of [`Options`].
///
/// # Errors
/// [`Error`]: it is no part, or the parent does not listen any more.
pub fn child(job: &str, child: &[OsString], tool: &Path, out: &mut dyn Write) -> Result<(), Error> {
    let done = match job.split_once(' ') {
        None if job == host::GUEST => guest::be(out),
        Some((design, mtu)) => {
            let names = [design.to_owned()];
            let design = chosen("design", &names, CATALOG)?;
            let mtu = mtu
                .parse()
                .map_err(|_| Error::Bad(format!("`{mtu}` is no MTU")))?;
            host::be(&design[0], mtu, child, tool, out)
        }
        None => return Err(Error::Bad(format!("`{job}` is no part of it"))),
    };
    done.map_err(|source| Error::Io {
        doing: "running a part of the experiment".to_owned(),
        source,
    })
}

/// A contestant that is set up, and a note on it.
struct Running {
    peer: Peer,
    note: String,
    /// The length of a reading, so that its start has no effect.
    time: Duration,
}

/// The results of a round, and the latency between the CPUs before it.
type Round = (Found, Option<f64>);

/// Goes over all contestants in each round, so that a disturbance of the machine affects all of them alike.
fn measure(
    case: &Case,
    options: &Options,
    choice: &Choice,
    progress: &mut Progress,
) -> Vec<Record> {
    let way = namespace::way(namespace::MAY_MAKE_TAPS);
    let contest = Contest {
        case: case.name,
        designs: &choice.designs,
        reps: choice.effort.reps,
    };
    let begin = |entry: &Entry| {
        let mut running = start(entry, way, options)?;
        running.warm_up(case, choice.effort.reading)?;
        Ok(running)
    };
    let all = contest.run(progress, begin, |_, running| {
        running.read(case, &choice.effort)
    });
    let all = choice.designs.iter().zip(all);
    let mut records: Vec<Record> = all
        .flat_map(|(entry, running)| records(case, entry, options, running))
        .collect();
    // Tables of one measure each, contestants in their order.
    records.sort_by_key(|record| record.measure);
    records
}

fn start(entry: &Entry, way: Option<&[&str]>, options: &Options) -> Result<Running, Absent> {
    let missing = |what: &str| Absent(what.to_owned());
    let way = way.ok_or_else(|| missing("no /dev/net/tun, or no right to make a namespace"))?;
    if options.child.is_empty() {
        return Err(missing("it takes processes of its own"));
    }
    let mut command = Command::new("unshare");
    command.args(way).args(&options.child);
    command.arg(format!("{} {}", entry.name, options.mtu));
    command.arg("--tool").arg(&options.tool);
    let (peer, note) = Peer::start(&mut command).map_err(|why| Absent(why.to_string()))?;
    Ok(Running {
        peer,
        note,
        time: Duration::ZERO,
    })
}

impl Running {
    fn read(&mut self, case: &Case, effort: &Effort) -> Result<Round, Absent> {
        let cpus = effort.pair_of_cpus();
        let xcore_ns = cpus.map(|cpus| xcore::one_way_ns(cpus, effort.reading));
        Ok((self.ask(case, self.time)?, xcore_ns))
    }

    /// Finds how long a reading must be. It goes by the case's first measure.
    fn warm_up(&mut self, case: &Case, least: Duration) -> Result<(), Absent> {
        // Downloads warm up in each reading, for a second.
        if matches!(case.job, Job::Downloads { .. }) {
            self.time = least;
            return self.ask(case, least).map(drop);
        }
        let first = result::measures(case.job)[0].of;
        let read = |time| Ok(first(&self.ask(case, time)?).unwrap_or(0.0));
        self.time = warmup::lengthen(least, read)?;
        Ok(())
    }

    fn ask(&mut self, case: &Case, time: Duration) -> Result<Found, Absent> {
        let question = format!("{} {}", case.name, time.as_nanos());
        let found = self.peer.ask(&question);
        found.map_err(|why| Absent(why.to_string()))
    }
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(CASES, CATALOG)
}

listed!(Case: |case| case.name, case.to_string());
listed!(Entry: |entry| entry.name, entry.kind.says("seed 002", entry.about));

#[cfg(test)]
mod tests;
