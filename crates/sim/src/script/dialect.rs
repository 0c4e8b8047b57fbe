//! The differences of the language's two dialects: Linux's (Google's suite) and FreeBSD's.

/// Whose sockets a script expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// FreeBSD's.
    #[default]
    Bsd,
    /// Linux's.
    Linux,
}

impl Dialect {
    /// The dialect that a script shows by the names it uses; BSD's if it shows none.
    pub fn of(text: &str) -> Self {
        let linux = [
            "net.ipv4.",
            "/net/ipv4/",
            "SOL_TCP",
            "defaults.sh",
            "epoll_",
        ];
        match linux.iter().any(|name| text.contains(name)) && !text.contains("net.inet.") {
            true => Self::Linux,
            false => Self::Bsd,
        }
    }

    /// The dialect with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "bsd" | "freebsd" => Some(Self::Bsd),
            "linux" => Some(Self::Linux),
            _ => None,
        }
    }

    /// The number of a constant that scripts compare as a number.
    pub(super) fn constant(self, name: &str) -> Option<i64> {
        Some(match (name, self) {
            ("O_RDONLY", _) => 0,
            ("O_WRONLY", _) => 1,
            ("O_RDWR", _) => 2,
            ("O_NONBLOCK", Self::Bsd) => 0x4,
            ("O_NONBLOCK", Self::Linux) => 0x800,
            ("POLLIN" | "EPOLLIN", _) => 0x1,
            ("POLLPRI" | "EPOLLPRI", _) => 0x2,
            ("POLLOUT" | "EPOLLOUT", _) => 0x4,
            ("POLLERR" | "EPOLLERR", _) => 0x8,
            ("POLLHUP" | "EPOLLHUP", _) => 0x10,
            ("POLLNVAL", _) => 0x20,
            ("POLLRDNORM" | "EPOLLRDNORM", _) => 0x40,
            ("POLLRDBAND" | "EPOLLRDBAND", _) => 0x80,
            ("POLLWRNORM" | "EPOLLWRNORM", Self::Linux) => 0x100,
            ("POLLWRNORM", Self::Bsd) => 0x4,
            ("POLLRDHUP" | "EPOLLRDHUP", Self::Linux) => 0x2000,
            ("POLLRDHUP", Self::Bsd) => 0x4000,
            ("EPOLLEXCLUSIVE", _) => 1 << 28,
            ("EPOLLONESHOT", _) => 1 << 30,
            ("EPOLLET", _) => 1 << 31,
            ("MSG_OOB", _) => 0x1,
            ("MSG_TRUNC", Self::Linux) => 0x20,
            ("MSG_TRUNC", Self::Bsd) => 0x10,
            ("MSG_CTRUNC", Self::Linux) => 0x8,
            ("MSG_CTRUNC", Self::Bsd) => 0x20,
            ("MSG_EOR", Self::Linux) => 0x80,
            ("MSG_EOR", Self::Bsd) => 0x8,
            ("INADDR_ANY", _) => 0,
            ("IP_PMTUDISC_DONT", _) => 0,
            ("IP_PMTUDISC_WANT", _) => 1,
            ("IP_PMTUDISC_DO", _) => 2,
            ("IP_PMTUDISC_PROBE", _) => 3,
            // RFC 2474: the code point is the upper six bits.
            ("IPTOS_DSCP_CS0", _) => 0x00,
            ("IPTOS_DSCP_CS1", _) => 0x20,
            ("IPTOS_DSCP_CS2", _) => 0x40,
            ("IPTOS_DSCP_CS3", _) => 0x60,
            ("IPTOS_DSCP_CS4", _) => 0x80,
            ("IPTOS_DSCP_CS5", _) => 0xa0,
            ("IPTOS_DSCP_CS6", _) => 0xc0,
            ("IPTOS_DSCP_CS7", _) => 0xe0,
            (name, _) => return super::calls::timestamping_constant(name),
        })
    }
}

/// The names of errors that a script may use for one another.
pub(super) fn same_errno(a: &str, b: &str) -> bool {
    let one = |name| match name {
        "EWOULDBLOCK" => "EAGAIN",
        other => other,
    };
    one(a) == one(b)
}
