//! The work of the guest's programs.

use super::bulk::Way;
use std::fmt;

/// The traffic between the guest's programs and servers on the host's loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// As much as goes, one way.
    Bulk { way: Way, streams: usize },
    /// 64 bytes there, the same back, and again; beside a stream or alone.
    RoundTrips { beside: Option<Way> },
    /// From the host to the guest at full speed on this many streams, and the share of each.
    Downloads { streams: usize },
    /// Connect, ask, read to the end, close; this many clients.
    Connects { clients: usize },
    /// A command that does nothing, with a network of its own, from its start to its end.
    Start,
    /// A lease of an address by DHCP, or by DHCPv6 where the guest reaches the host over IPv6.
    Leases,
    /// A stream, alone and then while the guest asks for 10,000 neighbours that are not there, each second.
    Scan { way: Way },
}

impl Job {
    /// The programs of both sides do it without a tool between, and without privileges.
    #[cfg(test)]
    pub(crate) fn needs_no_tool(self) -> bool {
        !matches!(self, Job::Start | Job::Leases | Job::Scan { .. })
    }
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) job: Job,
}

/// All cases, in the order in which they run.
pub(crate) const CASES: &[Case] = &[
    bulk("up1", Way::Up, 1),
    bulk("up8", Way::Up, 8),
    bulk("down1", Way::Down, 1),
    bulk("down8", Way::Down, 8),
    round_trips("rr", None),
    round_trips("rr-up", Some(Way::Up)),
    round_trips("rr-down", Some(Way::Down)),
    downloads("share8", 8),
    downloads("share64", 64),
    downloads("share512", 512),
    connects("conn1", 1),
    connects("conn16", 16),
    Case {
        name: "start",
        job: Job::Start,
    },
    Case {
        name: "lease",
        job: Job::Leases,
    },
    Case {
        name: "scan",
        job: Job::Scan { way: Way::Down },
    },
];

impl Case {
    /// The one of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        CASES.iter().find(|case| case.name == name)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = |way| match way {
            Way::Up => "guest to host",
            Way::Down => "host to guest",
        };
        let plural = |n| if n == 1 { "" } else { "s" };
        match self.job {
            Job::Bulk { way, streams: n } => write!(f, "{n} TCP stream{}, {}", plural(n), to(way)),
            Job::RoundTrips { beside: None } => f.write_str("64 bytes there and back, over TCP"),
            Job::RoundTrips { beside: Some(way) } => {
                write!(f, "64 bytes there and back beside a stream, {}", to(way))
            }
            Job::Downloads { streams: n } => write!(f, "{n} downloads at once"),
            Job::Connects { clients: n } => {
                write!(f, "connect, ask, answer, close: {n} client{}", plural(n))
            }
            Job::Start => f.write_str("`true` with a network of its own, from start to end"),
            Job::Leases => f.write_str("an address by DHCP, two questions and their answers"),
            Job::Scan { way } => write!(
                f,
                "1 TCP stream, {}, beside a scan of 10,000 addresses a second",
                to(way)
            ),
        }
    }
}

const fn bulk(name: &'static str, way: Way, streams: usize) -> Case {
    let job = Job::Bulk { way, streams };
    Case { name, job }
}

const fn round_trips(name: &'static str, beside: Option<Way>) -> Case {
    let job = Job::RoundTrips { beside };
    Case { name, job }
}

const fn downloads(name: &'static str, streams: usize) -> Case {
    let job = Job::Downloads { streams };
    Case { name, job }
}

const fn connects(name: &'static str, clients: usize) -> Case {
    let job = Job::Connects { clients };
    Case { name, job }
}
