//! The traffic through the proxy, and the CPU of the proxy's thread.

use std::fmt;

/// The traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// As much as goes, one way, in so many streams.
    Streams(usize),
    /// 64 bytes there, the same back, and again.
    RoundTrips,
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) traffic: Traffic,
    /// The proxy has a CPU of its own; else it shares one with the client and the server.
    pub(crate) own_cpu: bool,
}

impl Case {
    /// Connections from the client to the server, through the proxy.
    pub(crate) fn streams(&self) -> usize {
        match self.traffic {
            Traffic::Streams(n) => n,
            Traffic::RoundTrips => 1,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.traffic {
            Traffic::Streams(1) => write!(f, "one stream")?,
            Traffic::Streams(n) => write!(f, "{n} streams")?,
            Traffic::RoundTrips => write!(f, "64 bytes there and back")?,
        }
        f.write_str(match self.own_cpu {
            true => ", the proxy on a CPU of its own",
            false => ", all on one CPU",
        })
    }
}

/// All cases, in the order in which they run. Seed 000 measured one stream and fifteen.
pub(crate) const CASES: &[Case] = &[
    case("one", Traffic::Streams(1), true),
    case("fifteen", Traffic::Streams(15), true),
    case("one-shared", Traffic::Streams(1), false),
    case("fifteen-shared", Traffic::Streams(15), false),
    case("rr", Traffic::RoundTrips, true),
];

const fn case(name: &'static str, traffic: Traffic, own_cpu: bool) -> Case {
    Case {
        name,
        traffic,
        own_cpu,
    }
}
