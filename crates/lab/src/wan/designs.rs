//! The list of contestants.

use std::time::Duration;

use mbuma::Config;

use super::figures::Figures;
use super::live::programs::Program::{Lwip, Netstack};
use super::live::{self, Who};
use super::path::Path;
use super::simulated;
use crate::harness::choice::{Absent, Kind};
use Algorithm::{Bbr, Cubic, Reno};
use Ends::{Live, Mixed, Simulated};
use Who::{Linux, Ours, Program, Smoltcp};

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Reno (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR: ours is version 3 (draft-ietf-ccwg-bbr), the kernel's version 1.
    Bbr,
}

impl Algorithm {
    /// As Linux calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }

    /// Lets a stack of ours use it.
    pub(crate) fn choose(self, config: &mut Config) {
        config.tcp.congestion = self.name().parse().unwrap_or_default();
    }
}

/// The stacks at the ends of a path.
#[derive(Clone, Copy)]
enum Ends {
    /// Ours at both ends, in virtual time.
    Simulated(Algorithm),
    /// One at all senders, with an algorithm, and one at the receiver.
    Live(Who, Algorithm, Who),
    /// Ours and Linux, with this algorithm, in one queue to a Linux receiver.
    Mixed(Algorithm),
}

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name, in all output.
    pub(crate) name: &'static str,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    ends: Ends,
}

impl Entry {
    /// Whose it is.
    pub(crate) fn kind(&self) -> Kind {
        match self.ends {
            Live(sender, _, receiver) if sender != Ours && receiver != Ours => Kind::Peer,
            _ => Kind::Ours,
        }
    }

    /// A note for readers of its figures.
    pub(crate) fn settings(&self) -> &'static str {
        match self.ends {
            Live(Smoltcp, ..) => "CUBIC; buffers of 1.5 BDP",
            Live(Program(Lwip), ..) => "Reno; window of 1.5 BDP",
            Live(Program(Netstack), ..) => "CUBIC, SACK, RACK; buffers of 2 BDP",
            _ => "",
        }
    }

    /// Runs it once, with this seed, and measures for `time` after a warm-up.
    pub(crate) fn run(&self, path: &Path, seed: u64, time: Duration) -> Result<Figures, Absent> {
        let absent = |why: &str| Err(Absent(why.to_owned()));
        match self.ends {
            Simulated(algorithm) => Ok(simulated::run(path, algorithm, seed, time)),
            Live(Smoltcp | Program(_), ..) if path.has_ecn() => absent("it has no ECN"),
            Live(sender, algorithm, receiver) => {
                let senders = vec![(sender, algorithm); path.flows];
                live::run(path, &senders, receiver, seed, time)
            }
            Mixed(_) if path.flows != 2 => absent("it is for two flows"),
            Mixed(algorithm) => {
                let senders = [(Ours, algorithm), (Linux, algorithm)];
                live::run(path, &senders, Linux, seed, time)
            }
        }
    }
}

const LWIP: Who = Program(Lwip);
const NETSTACK: Who = Program(Netstack);

const fn entry(name: &'static str, about: &'static str, ends: Ends) -> Entry {
    Entry { name, about, ends }
}

/// All contestants, in the order in which they are shown.
#[rustfmt::skip]
pub(crate) const CATALOG: &[Entry] = &[
    entry("sim-cubic", "ours at both ends, CUBIC, in virtual time", Simulated(Cubic)),
    entry("sim-reno", "ours at both ends, Reno, in virtual time", Simulated(Reno)),
    entry("sim-bbr", "ours at both ends, BBRv3, in virtual time", Simulated(Bbr)),
    entry("linux-cubic", "Linux at both ends, CUBIC, in real time", Live(Linux, Cubic, Linux)),
    entry("linux-reno", "Linux at both ends, Reno, in real time", Live(Linux, Reno, Linux)),
    entry("linux-bbr", "Linux at both ends, BBR of the kernel, in real time", Live(Linux, Bbr, Linux)),
    entry("mbuma-cubic", "ours at both ends, CUBIC, in real time", Live(Ours, Cubic, Ours)),
    entry("mbuma-reno", "ours at both ends, Reno, in real time", Live(Ours, Reno, Ours)),
    entry("mbuma-bbr", "ours at both ends, BBRv3, in real time", Live(Ours, Bbr, Ours)),
    entry("mbuma-linux", "ours sends, CUBIC, to Linux, in real time", Live(Ours, Cubic, Linux)),
    entry("linux-mbuma", "Linux sends, CUBIC, to ours, in real time", Live(Linux, Cubic, Ours)),
    entry("mixed-cubic", "ours and Linux, both CUBIC, in one queue to a Linux receiver, in real time", Mixed(Cubic)),
    entry("smoltcp", "smoltcp at both ends, CUBIC, in real time", Live(Smoltcp, Cubic, Smoltcp)),
    entry("lwip", "lwIP of the directory LWIP_SRC at both ends, in real time", Live(LWIP, Cubic, LWIP)),
    entry("netstack", "gVisor's netstack at both ends, built by Go, in real time", Live(NETSTACK, Cubic, NETSTACK)),
];
