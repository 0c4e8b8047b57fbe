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

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name, in all output.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    /// A note for readers of its figures.
    pub(crate) settings: &'static str,
    run: fn(&Path, u64, Duration) -> Result<Figures, Absent>,
}

impl Entry {
    /// Runs it once, with this seed, and measures for `time` after a warm-up.
    pub(crate) fn run(&self, path: &Path, seed: u64, time: Duration) -> Result<Figures, Absent> {
        (self.run)(path, seed, time)
    }
}

/// All contestants, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "sim-cubic",
        kind: Kind::Ours,
        about: "ours at both ends, CUBIC, in virtual time",
        settings: "",
        run: |path, seed, time| Ok(simulated::run(path, Cubic, seed, time)),
    },
    Entry {
        name: "sim-reno",
        kind: Kind::Ours,
        about: "ours at both ends, Reno, in virtual time",
        settings: "",
        run: |path, seed, time| Ok(simulated::run(path, Reno, seed, time)),
    },
    Entry {
        name: "sim-bbr",
        kind: Kind::Ours,
        about: "ours at both ends, BBRv3, in virtual time",
        settings: "",
        run: |path, seed, time| Ok(simulated::run(path, Bbr, seed, time)),
    },
    Entry {
        name: "linux-cubic",
        kind: Kind::Peer,
        about: "Linux at both ends, CUBIC, in real time",
        settings: "",
        run: |path, seed, time| alike(path, (Linux, Cubic), Linux, seed, time),
    },
    Entry {
        name: "linux-reno",
        kind: Kind::Peer,
        about: "Linux at both ends, Reno, in real time",
        settings: "",
        run: |path, seed, time| alike(path, (Linux, Reno), Linux, seed, time),
    },
    Entry {
        name: "linux-bbr",
        kind: Kind::Peer,
        about: "Linux at both ends, BBR of the kernel, in real time",
        settings: "",
        run: |path, seed, time| alike(path, (Linux, Bbr), Linux, seed, time),
    },
    Entry {
        name: "mbuma-cubic",
        kind: Kind::Ours,
        about: "ours at both ends, CUBIC, in real time",
        settings: "",
        run: |path, seed, time| alike(path, (Ours, Cubic), Ours, seed, time),
    },
    Entry {
        name: "mbuma-reno",
        kind: Kind::Ours,
        about: "ours at both ends, Reno, in real time",
        settings: "",
        run: |path, seed, time| alike(path, (Ours, Reno), Ours, seed, time),
    },
    Entry {
        name: "mbuma-bbr",
        kind: Kind::Ours,
        about: "ours at both ends, BBRv3, in real time",
        settings: "",
        run: |path, seed, time| alike(path, (Ours, Bbr), Ours, seed, time),
    },
    Entry {
        name: "mbuma-linux",
        kind: Kind::Ours,
        about: "ours sends, CUBIC, to Linux, in real time",
        settings: "",
        run: |path, seed, time| alike(path, (Ours, Cubic), Linux, seed, time),
    },
    Entry {
        name: "linux-mbuma",
        kind: Kind::Ours,
        about: "Linux sends, CUBIC, to ours, in real time",
        settings: "",
        run: |path, seed, time| alike(path, (Linux, Cubic), Ours, seed, time),
    },
    Entry {
        name: "mixed-cubic",
        kind: Kind::Ours,
        about: "ours and Linux, both CUBIC, in one queue to a Linux receiver, in real time",
        settings: "",
        run: |path, seed, time| match path.flows {
            2 => live::run(path, &[(Ours, Cubic), (Linux, Cubic)], Linux, seed, time),
            _ => Err(Absent("it is for two flows".to_owned())),
        },
    },
    Entry {
        name: "smoltcp",
        kind: Kind::Peer,
        about: "smoltcp at both ends, CUBIC, in real time",
        settings: "CUBIC; buffers of 1.5 BDP",
        run: |path, seed, time| peer(path, Smoltcp, seed, time),
    },
    Entry {
        name: "lwip",
        kind: Kind::Peer,
        about: "lwIP of the directory LWIP_SRC at both ends, in real time",
        settings: "Reno; window of 1.5 BDP",
        run: |path, seed, time| peer(path, Program(Lwip), seed, time),
    },
    Entry {
        name: "netstack",
        kind: Kind::Peer,
        about: "gVisor's netstack at both ends, built by Go, in real time",
        settings: "CUBIC, SACK, RACK; buffers of 2 BDP",
        run: |path, seed, time| peer(path, Program(Netstack), seed, time),
    },
];

/// A peer at all ends, if it supports the features of the path.
fn peer(path: &Path, who: Who, seed: u64, time: Duration) -> Result<Figures, Absent> {
    match path.has_ecn() {
        true => Err(Absent("it has no ECN".to_owned())),
        false => alike(path, (who, Cubic), who, seed, time),
    }
}

/// All flows of a path have the same at their ends.
fn alike(
    path: &Path,
    sender: (Who, Algorithm),
    receiver: Who,
    seed: u64,
    time: Duration,
) -> Result<Figures, Absent> {
    live::run(path, &vec![sender; path.flows], receiver, seed, time)
}
