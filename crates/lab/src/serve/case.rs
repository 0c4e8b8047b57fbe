//! The files that are asked for, and over how many connections.

use std::fmt;

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Bytes of the file.
    pub(crate) size: usize,
    /// Connections, each with one request after the other.
    pub(crate) connections: usize,
}

/// All cases, in the order in which they run.
pub(crate) const CASES: &[Case] = &[
    case("1k-1", 1 << 10, 1),
    case("1k-16", 1 << 10, 16),
    case("10k-16", 10 << 10, 16),
    case("100k-16", 100 << 10, 16),
    case("10m-1", 10_000_000, 1),
    case("10m-16", 10_000_000, 16),
    case("256m-1", 256 << 20, 1),
];

impl Case {
    /// The one of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        CASES.iter().find(|case| case.name == name)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            size, connections, ..
        } = self;
        let plural = if *connections == 1 { "" } else { "s" };
        write!(
            f,
            "a file of {size} bytes, {connections} connection{plural} kept alive"
        )
    }
}

const fn case(name: &'static str, size: usize, connections: usize) -> Case {
    Case {
        name,
        size,
        connections,
    }
}
