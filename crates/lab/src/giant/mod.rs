//! `cargo lab giant`: a stack under one lock and the same stack without, on one CPU and on two (seed 002).
//!
//! ```text
//!   load.rs    the programs: a stream, requests, queries    world.rs   where they find their sockets
//!   ours.rs    sockets of a stack                           kernel.rs  those of the system, beside it
//!   around.rs  what locks and the scheduler did meanwhile   rounds.rs  one run, and rounds over all
//!   show.rs    tables, and the seed's ratios beside ours
//! ```
//!
//! A program is written once, against `load::Talk`, and runs over whichever sockets a design has. On one CPU, all its
//! threads are bound to that.
//!
//! Sources: seed 002; netperf's TCP_STREAM, TCP_RR and UDP_RR; super-smack's select-key.

mod around;
mod kernel;
mod load;
mod options;
mod ours;
pub(crate) mod report;
mod rounds;
mod show;
mod world;

pub use options::Options;

use crate::Error;
use crate::harness::choice::listed;
use crate::harness::compare;
use std::io::Write;

/// The stack of the sockets, and the lock over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// A stack that runs free.
    Mp,
    /// A stack under Giant.
    Giant,
    /// A stack that runs free, whose packets are handled by a thread of their own on each CPU.
    MpDeferred,
    /// The same under Giant.
    GiantDeferred,
    /// The system's own sockets.
    Kernel,
}

impl Design {
    pub(crate) const ALL: [Self; 5] = [
        Self::Mp,
        Self::Giant,
        Self::MpDeferred,
        Self::GiantDeferred,
        Self::Kernel,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mp => "mp",
            Self::Giant => "giant",
            Self::MpDeferred => "mp-deferred",
            Self::GiantDeferred => "giant-deferred",
            Self::Kernel => "kernel",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Mp => "ours as it runs: a lock for each connection, socket buffer and queue",
            Self::Giant => "ours with Config::giant: every entry into the stack takes one lock",
            Self::MpDeferred => {
                "mp, and packets to ourselves go to a thread of their own on their flow's CPU"
            }
            Self::GiantDeferred => "giant, with the same: as FreeBSD 4 and 5 ran",
            Self::Kernel => "this system's sockets, for scale",
        }
    }

    /// Whether the stack runs under Giant.
    pub(crate) fn has_giant(self) -> bool {
        matches!(self, Self::Giant | Self::GiantDeferred)
    }

    /// Whether packets go to a thread of their own.
    pub(crate) fn is_deferred(self) -> bool {
        matches!(self, Self::MpDeferred | Self::GiantDeferred)
    }

    /// Whether it differs from the others in a case: UNIX-domain sockets have no packets to defer.
    pub(crate) fn is_in(self, case: Case) -> bool {
        case != Case::Mysql || !self.is_deferred()
    }
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// 11 clients and as many servers, small queries over UNIX-domain sockets.
    Mysql,
    /// One TCP connection over loopback, as fast as it goes.
    TcpStream,
    /// One byte there, one byte back.
    TcpRr,
    /// The same in datagrams.
    UdpRr,
}

impl Case {
    pub(crate) const ALL: [Self; 4] = [Self::Mysql, Self::TcpStream, Self::TcpRr, Self::UdpRr];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::TcpStream => "tcp-stream",
            Self::TcpRr => "tcp-rr",
            Self::UdpRr => "udp-rr",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Mysql => {
                "11 clients ask 11 servers over UNIX sockets: 64 B there, a little work, 512 B back"
            }
            Self::TcpStream => "one TCP stream over loopback, 64 KiB a call",
            Self::TcpRr => "a byte there and a byte back, over one TCP connection on loopback",
            Self::UdpRr => "a byte there and a byte back, in datagrams over loopback",
        }
    }

    /// The unit of its throughput.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Mysql => "kquery/s",
            Self::TcpStream => "Gbit/s",
            Self::TcpRr | Self::UdpRr => "ktrans/s",
        }
    }
}

/// Runs the comparison and writes the results to `out`: tables for each case and number of CPUs, the seed's ratios, or
/// JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose()?;
    let (common, queries) = (&options.common, options.queries);
    common.each(choice.cases.iter().copied(), out, |case, progress| {
        let measured = rounds::measure(case, &choice, queries, progress);
        show::shown(&measured, common.json)
    })
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(&Case::ALL, &Design::ALL)
}

listed!(Case: |case| case.name(), case.about());
listed!(Design: |design| design.name(), design.about());

#[cfg(all(test, not(shuttle)))]
mod tests;
