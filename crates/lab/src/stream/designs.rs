//! The list of contestants, with a note on each.

use super::case::{Job, Mode};
use super::figures::Figures;
use super::flow::{self, End};
use super::ours::{self, Drive, Setup};
use super::sums::Work;
use super::{kernel, programs};
use crate::harness::choice::{Absent, Kind};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name, in all output.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    /// A note for readers of the figure.
    pub(crate) note: &'static str,
    run: Run,
}

/// Runs one for this time.
type Run = fn(&Entry, Job, Duration, &Outside) -> Result<Figures, Absent>;

/// The settings of contestants that are programs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outside {
    /// Where the peers are.
    pub(crate) peers: PathBuf,
    /// How to start this program as one.
    pub(crate) child: Vec<OsString>,
}

impl Entry {
    /// A note for readers of the figure, with the settings of a peer.
    pub(crate) fn note(&self, job: Job) -> String {
        match self.name {
            SMOLTCP => programs::SmoltcpSettings::best(job).to_string(),
            // A feature that all leave out needs no note.
            _ if self.kind == Kind::Ours && !job.sums => String::new(),
            _ => self.note.to_owned(),
        }
    }

    /// Runs it.
    pub(crate) fn run(&self, job: Job, time: Duration, out: &Outside) -> Result<Figures, Absent> {
        (self.run)(self, job, time, out)
    }
}

/// All contestants, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "mbuma",
        kind: Kind::Ours,
        about: "copied in and out; segments pass the epair whole, whatever the MTU",
        note: "no sums, no frames",
        run: |_, job, time, _| ours(job, time, Work::None, drive(job), false),
    },
    Entry {
        name: "mbuma-direct",
        kind: Kind::Ours,
        about: "the same; the sending thread takes segments in at the other end",
        note: "no sums, no frames",
        run: |_, job, time, _| ours(job, time, Work::None, other(drive(job)), false),
    },
    Entry {
        name: "mbuma-ref",
        kind: Kind::Ours,
        about: "the same as mbuma, by reference: no byte is copied or looked at",
        note: "no sums, no frames, no copies",
        run: |_, job, time, _| ours(job, time, Work::None, drive(job), true),
    },
    Entry {
        name: "mbuma-sums",
        kind: Kind::Ours,
        about: "as mbuma, and each byte summed by the sender and by the receiver",
        note: "no frames",
        run: |_, job, time, _| summed(job, time, Work::Sum),
    },
    Entry {
        name: ALIKE,
        kind: Kind::Ours,
        about: "the same in frames of the MTU: the work that smoltcp, lwIP and netstack do",
        note: "sums, frames of the MTU",
        run: |_, job, time, _| summed(job, time, Work::Cut),
    },
    Entry {
        name: SMOLTCP,
        kind: Kind::Peer,
        about: "smoltcp, joined by rings of slots in memory",
        note: "",
        run: |_, job, time, out| programs::smoltcp(&out.peers, job, time),
    },
    Entry {
        name: "lwip",
        kind: Kind::Peer,
        about: "lwIP's raw API, both ends in one stack",
        note: "one stack, tuned options",
        run: |_, job, time, out| programs::lwip(&out.peers, job, time),
    },
    Entry {
        name: "netstack",
        kind: Kind::Peer,
        about: "gVisor's stack",
        note: "",
        run: |_, job, time, out| programs::netstack(&out.peers, job, time),
    },
    Entry {
        name: "kernel-lo",
        kind: Kind::Peer,
        about: "the kernel's loopback, whatever the MTU",
        note: "no sums",
        run: |_, job, time, _| of(job, time, kernel::loopback(job).map_err(failed)?),
    },
    Entry {
        name: VETH,
        kind: Kind::Peer,
        about: "the kernel's stack in two namespaces, a veth pair between",
        note: "no sums",
        run: |_, job, time, out| programs::in_namespace(&out.child, VETH, job, time),
    },
];

/// Our design that does a wire stack's work for a byte; claims against such stacks use it.
pub(crate) const ALIKE: &str = "mbuma-frames";
/// Its note is its settings.
const SMOLTCP: &str = "smoltcp";
/// Runs in a process of its own.
const VETH: &str = "kernel-veth";

/// The work of a process that was started for one figure: the same, but it has its namespace already.
pub(crate) fn alone(entry: &Entry, job: Job, time: Duration) -> Result<Figures, Absent> {
    match entry.name {
        VETH => of(job, time, kernel::veth(job).map_err(failed)?),
        _ => entry.run(job, time, &Outside::default()),
    }
}

fn summed(job: Job, time: Duration, work: Work) -> Result<Figures, Absent> {
    match job.sums {
        true => ours(job, time, work, Drive::Polled, false),
        false => Err(Absent("it is about sums".to_owned())),
    }
}

fn ours(
    job: Job,
    time: Duration,
    work: Work,
    drive: Drive,
    by_ref: bool,
) -> Result<Figures, Absent> {
    if by_ref && job.mode == Mode::Rr {
        return Err(Absent("64 bytes are copied".to_owned()));
    }
    let setup = Setup {
        mtu: job.mtu,
        work,
        drive,
        by_ref,
    };
    of(job, time, ours::connected(setup))
}

/// The best settings with this many threads.
fn drive(_: Job) -> Drive {
    Drive::Polled
}

fn other(drive: Drive) -> Drive {
    match drive {
        Drive::Direct => Drive::Polled,
        Drive::Polled => Drive::Direct,
    }
}

fn of<E: End>(job: Job, time: Duration, ends: [E; 2]) -> Result<Figures, Absent> {
    Ok(match job.mode {
        Mode::Stream => flow::stream(ends, job.two, time),
        Mode::Rr => flow::rr(ends, job.two, time),
    })
}

fn failed(error: std::io::Error) -> Absent {
    Absent(error.to_string())
}
