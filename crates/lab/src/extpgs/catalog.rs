//! Which designs and which cases there are.

use super::designs::bare::{Bare, Inline, Separate};
use super::designs::clusters::Clusters;
use super::designs::mbuma::Mbuma;
use super::phases::{Bench, Subject, Turn};

/// A design.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: &'static str,
    /// One line about it.
    pub(crate) about: &'static str,
    /// Whether it is the project's own.
    pub(crate) ours: bool,
    /// Makes it, for this many records.
    pub(crate) make: fn(usize) -> Box<dyn Subject>,
}

/// The designs, ours first.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "mbuma",
        about: "ours: ExtPgs in a Chain<Mixed>, by the public interface",
        ours: true,
        make: |records| Box::new(Bench::<Mbuma>::new(records)),
    },
    Entry {
        name: "inline",
        about: "a bare mbuf with the list inside (seed 001, FreeBSD from 2020 on)",
        ours: false,
        make: |records| Box::new(Bench::<Bare<Inline>>::new(records)),
    },
    Entry {
        name: "separate",
        about: "the same with the list in a record of its own zone (FreeBSD up to 2020)",
        ours: false,
        make: |records| Box::new(Bench::<Bare<Separate>>::new(records)),
    },
    Entry {
        name: "clusters",
        about: "2 KiB clusters instead of pages, without the filling of them",
        ours: false,
        make: |records| Box::new(Bench::<Clusters>::new(records)),
    },
];

/// The measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Build,
    Walk,
    Free,
    Life,
    Saved,
    Mbufs,
}

impl Case {
    pub(crate) const ALL: [Self; 6] = [
        Self::Build,
        Self::Walk,
        Self::Free,
        Self::Life,
        Self::Saved,
        Self::Mbufs,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Walk => "walk",
            Self::Free => "free",
            Self::Life => "life",
            Self::Saved => "saved",
            Self::Mbufs => "mbufs",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Saved => "%",
            Self::Mbufs => "mbufs/MiB",
            _ => "ns",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Build => {
                "a record of 16 KiB at an odd offset is described, with header and trailer"
            }
            Self::Walk => "its pieces are gathered, as a driver does",
            Self::Free => "it is acknowledged",
            Self::Life => "all three",
            Self::Saved => {
                "time that a list in the mbuf saves against one beside it, round by round"
            }
            Self::Mbufs => "mbufs of a MiB of payload",
        }
    }

    /// The time of a turn that a timed case is about.
    pub(crate) fn of(self, turn: &Turn) -> f64 {
        match self {
            Self::Build => turn.build,
            Self::Walk => turn.walk,
            Self::Free => turn.free,
            _ => turn.build + turn.walk + turn.free,
        }
    }

    /// The cases that are times.
    pub(crate) const TIMED: [Self; 4] = [Self::Build, Self::Walk, Self::Free, Self::Life];
}
