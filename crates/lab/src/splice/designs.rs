//! The list of contestants: the work of a proxy on the data that it receives.

use super::case::{Case, Traffic};
use super::ends::joined;
use super::proxy::Work;
use super::{flow, kernel};
use crate::harness::choice::{Absent, Kind};
use crate::harness::namespace;
use crate::stream::figures::Figures;
use std::ffi::OsString;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// Its description in `--list`.
    pub(crate) about: &'static str,
    how: How,
}

/// The stack, and the work of its proxy.
#[derive(Clone, Copy)]
enum How {
    Ours(Work),
    Smoltcp,
    Kernel(kernel::Work),
}

/// All contestants, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "mbuma",
        kind: Kind::Ours,
        about: "spliced inside of the stack; no program runs",
        how: How::Ours(Work::Splice),
    },
    Entry {
        name: "mbuma-chains",
        kind: Kind::Ours,
        about: "a program hands chains of mbufs on, by reference",
        how: How::Ours(Work::HandOn),
    },
    Entry {
        name: "mbuma-copy",
        kind: Kind::Ours,
        about: "a program reads into a buffer and writes it",
        how: How::Ours(Work::Copy),
    },
    Entry {
        name: "smoltcp-copy",
        kind: Kind::Peer,
        about: "smoltcp three times in this process; a program reads into a buffer and writes it",
        how: How::Smoltcp,
    },
    Entry {
        name: "kernel-splice",
        kind: Kind::Peer,
        about: "Linux over veth: splice(2) through a pipe",
        how: How::Kernel(kernel::Work::Splice),
    },
    Entry {
        name: "kernel-copy",
        kind: Kind::Peer,
        about: "Linux over veth: read(2) and write(2)",
        how: How::Kernel(kernel::Work::Copy),
    },
];

impl Entry {
    /// Runs it; `child` starts this program again, for a design that needs namespaces of its own.
    pub(crate) fn run(
        &self,
        case: &Case,
        cpus: (usize, usize),
        time: Duration,
        child: &[OsString],
    ) -> Result<Figures, Absent> {
        match self.how {
            How::Ours(work) => ours(case, work, cpus, time),
            How::Smoltcp => smoltcp(case, cpus, time),
            How::Kernel(_) if case.traffic == Traffic::RoundTrips => Err(Absent(
                "its programs sleep between round trips, ours do not".to_owned(),
            )),
            How::Kernel(_) => in_namespace(self.name, case, time, child),
        }
    }

    /// The same in a process that has a namespace of its own already.
    pub(crate) fn alone(
        &self,
        case: &Case,
        cpus: (usize, usize),
        time: Duration,
    ) -> Result<Figures, Absent> {
        match self.how {
            How::Ours(work) => ours(case, work, cpus, time),
            How::Smoltcp => smoltcp(case, cpus, time),
            How::Kernel(work) => kernel_in_time(*case, work, cpus, time),
        }
    }
}

fn ours(case: &Case, work: Work, cpus: (usize, usize), time: Duration) -> Result<Figures, Absent> {
    flow::run(case, joined(case.streams(), work), cpus, time)
}

#[cfg(feature = "peers")]
fn smoltcp(case: &Case, cpus: (usize, usize), time: Duration) -> Result<Figures, Absent> {
    let joined = super::smoltcp::joined(case);
    flow::run(case, joined, cpus, time)
}

#[cfg(not(feature = "peers"))]
fn smoltcp(_: &Case, _: (usize, usize), _: Duration) -> Result<Figures, Absent> {
    Err(Absent("not built in: cargo lab-peers splice".to_owned()))
}

/// Its calls may wait for ever; this process, which is for it alone, does not.
fn kernel_in_time(
    case: Case,
    work: kernel::Work,
    cpus: (usize, usize),
    time: Duration,
) -> Result<Figures, Absent> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(kernel::run(&case, work, cpus, time)));
    let ran = told.recv_timeout(time + KERNEL_SET_UP);
    let ran = ran.map_err(|_| Absent(format!("no figure within {:?}", time + KERNEL_SET_UP)))?;
    ran.map_err(|error| Absent(error.to_string()))
}

fn in_namespace(
    design: &str,
    case: &Case,
    time: Duration,
    child: &[OsString],
) -> Result<Figures, Absent> {
    let way = namespace::way(&["true"]).ok_or("no right to a namespace");
    let way = way.map_err(|why| Absent(why.to_owned()))?;
    let mut command = Command::new("unshare");
    command.args(way).args(child).arg(design).arg("--bench");
    command.args([case.name, &format!("{:.3}", time.as_secs_f64())]);
    let output = command
        .output()
        .map_err(|error| Absent(format!("unshare: {error}")))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().rev().find_map(Figures::parse);
    line.ok_or_else(|| {
        let why = String::from_utf8_lossy(&output.stderr);
        Absent(why.lines().next().unwrap_or("no figures").to_owned())
    })
}

/// Interfaces and connections of the kernel's proxy are there after this time at most.
const KERNEL_SET_UP: Duration = Duration::from_secs(10);
