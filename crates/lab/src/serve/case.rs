//! The requested files, the number of connections, and the form of the requests.

use std::fmt;

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Bytes of the file.
    pub(crate) size: usize,
    /// Connections, each with one request after the other.
    pub(crate) connections: usize,
    /// The client speaks TLS.
    pub(crate) tls: bool,
    /// The client has the server's CPU, and not the other one.
    pub(crate) one_cpu: bool,
    pub(crate) load: Load,
    /// Further clients, from the client's CPU, that never end their requests.
    pub(crate) slow: usize,
    /// Per cent of a CPU that the server gets, so that no client can be the limit.
    pub(crate) quota: Option<u32>,
}

/// The work of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Requests over connections that are kept alive.
    Requests,
    /// Connections that end behind a whole handshake.
    Handshakes,
    /// Connections that end behind a whole handshake and one request.
    SingleRequests,
}

/// Six cases of each size: three numbers of connections, plain and over TLS; then further ones.
macro_rules! cases {
    (of $($name:literal: $size:expr),*; $($further:expr,)*) => {
        &[
            $(
                case(concat!($name, "-1"), $size, 1, false),
                case(concat!($name, "-16"), $size, 16, false),
                case(concat!($name, "-256"), $size, 256, false),
                case(concat!("tls-", $name, "-1"), $size, 1, true),
                case(concat!("tls-", $name, "-16"), $size, 16, true),
                case(concat!("tls-", $name, "-256"), $size, 256, true),
            )*
            $($further,)*
        ]
    };
}

/// Bytes of the file in the cases of throughput.
const LARGE: usize = 10_000_000;

/// All cases, in the order in which they run.
pub(crate) const CASES: &[Case] = cases! {
    of "1k": 1 << 10, "10k": 10 << 10, "100k": 100 << 10, "10m": LARGE, "256m": 256 << 20;
    on_one_cpu(case("10m-1-one-cpu", LARGE, 1, false)),
    on_one_cpu(case("10m-16-one-cpu", LARGE, 16, false)),
    on_one_cpu(case("tls-10m-1-one-cpu", LARGE, 1, true)),
    on_one_cpu(case("tls-10m-16-one-cpu", LARGE, 16, true)),
    handshakes(case("tls-handshakes-1", 1 << 10, 1, true)),
    single_requests(with_quota(10, case("tls-handshakes-quota", 1 << 10, 4, true))),
    with_quota(50, case("1k-16-quota", 1 << 10, 16, false)),
    with_quota(50, case("tls-1k-16-quota", 1 << 10, 16, true)),
    beside_slow_clients(case("1k-16-slow", 1 << 10, 16, false)),
};

impl Case {
    /// The one of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        CASES.iter().find(|case| case.name == name)
    }

    /// The CPUs of its server and its client, of those of the server and the other one.
    pub(crate) fn cpus(&self, (server, other): (usize, usize)) -> (usize, usize) {
        (server, if self.one_cpu { server } else { other })
    }

    /// Connections that its server takes at once: the default of `mbuma serve`, or enough for the slow clients too.
    pub(crate) fn connections_max(&self) -> usize {
        4096 + self.slow + self.slow / 4
    }

    /// The file.
    pub(crate) fn file(&self) -> String {
        format!("{}.bin", self.size)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            size, connections, ..
        } = self;
        let plural = if *connections == 1 { "" } else { "s" };
        if self.load == Load::Handshakes {
            return write!(
                f,
                "handshakes of TLS 1.3, {connections} client{plural}, each with one connection after the other"
            );
        }
        if let (Some(percent), Load::SingleRequests) = (self.quota, self.load) {
            return write!(
                f,
                "handshakes of TLS 1.3, {connections} client{plural}, each with one connection after the other and a \
                 request for {size} bytes on it; the server gets {percent} % of a CPU"
            );
        }
        let over = if self.tls { " over TLS 1.3" } else { "" };
        write!(
            f,
            "a file of {size} bytes{over}, {connections} connection{plural} kept alive"
        )?;
        if self.slow > 0 {
            write!(
                f,
                ", beside {} clients that never end their requests (a byte in 4 s)",
                self.slow
            )?;
        }
        if let Some(percent) = self.quota {
            write!(f, "; the server gets {percent} % of a CPU")?;
        }
        match self.one_cpu {
            true => f.write_str(", server and client on one CPU"),
            false => Ok(()),
        }
    }
}

const fn case(name: &'static str, size: usize, connections: usize, tls: bool) -> Case {
    Case {
        name,
        size,
        connections,
        tls,
        one_cpu: false,
        load: Load::Requests,
        slow: 0,
        quota: None,
    }
}

const fn beside_slow_clients(case: Case) -> Case {
    Case {
        slow: 10_000,
        ..case
    }
}

const fn on_one_cpu(case: Case) -> Case {
    Case {
        one_cpu: true,
        ..case
    }
}

const fn handshakes(case: Case) -> Case {
    Case {
        load: Load::Handshakes,
        ..case
    }
}

const fn single_requests(case: Case) -> Case {
    Case {
        load: Load::SingleRequests,
        ..case
    }
}

const fn with_quota(percent: u32, case: Case) -> Case {
    Case {
        quota: Some(percent),
        ..case
    }
}
