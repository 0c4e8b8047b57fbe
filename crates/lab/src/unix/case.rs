//! The traffic of pairs of sockets, and the CPUs of their threads.

use crate::harness::effort::Effort;
use std::fmt;

/// The traffic between two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A message there, the same back, and again, between each pair of threads: the bytes and the pairs.
    PingPong { pairs: usize, size: usize },
    /// One way at full speed, this many bytes at once.
    Stream { chunk: usize },
}

/// Where the two threads of a pair run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On CPUs of the system's choice.
    Free,
    /// Both on one CPU; pairs take turns.
    Same,
    /// On two.
    Cross,
}

impl Place {
    /// The CPU of one thread of a pair; none if it is not held to any.
    pub(crate) fn cpu(self, effort: &Effort, pair: usize, second: bool) -> Option<usize> {
        let (one, two) = effort.two_cpus();
        let side = match self {
            Self::Free => return None,
            Self::Same => pair,
            Self::Cross => pair + usize::from(second),
        };
        Some(if side.is_multiple_of(2) { one } else { two })
    }

    /// As `nbench` takes it.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "same" => Some(Self::Same),
            "cross" => Some(Self::Cross),
            _ => None,
        }
    }
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    pub(crate) place: Place,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Work::PingPong { pairs: 1, size } => write!(f, "{size} bytes there and back"),
            Work::PingPong { pairs, size } => {
                write!(
                    f,
                    "{size} bytes there and back, {pairs} pairs of threads at once"
                )
            }
            Work::Stream { chunk } => write!(f, "one way, {} KiB at once", chunk >> 10),
        }?;
        f.write_str(match self.place {
            Place::Free => "",
            Place::Same => ", both threads on one CPU",
            Place::Cross => ", on two CPUs",
        })
    }
}

/// All cases, in the order in which they run; `peers/bench_unix.sh` has the same.
pub(crate) const CASES: &[Case] = &[
    case("pp1", ONE, Place::Free),
    case("pp1-same", ONE, Place::Same),
    case("pp1-cross", ONE, Place::Cross),
    case("pp11", ELEVEN, Place::Free),
    case("pp11-same", ELEVEN, Place::Same),
    case("pp11-cross", ELEVEN, Place::Cross),
    case("st64k", STREAM, Place::Free),
    case("st64k-same", STREAM, Place::Same),
    case("st64k-cross", STREAM, Place::Cross),
];

const ONE: Work = Work::PingPong { pairs: 1, size: 64 };
/// As many as seed 002's load has workers.
const ELEVEN: Work = Work::PingPong {
    pairs: 11,
    size: 64,
};
const STREAM: Work = Work::Stream { chunk: 64 << 10 };

const fn case(name: &'static str, work: Work, place: Place) -> Case {
    Case { name, work, place }
}
