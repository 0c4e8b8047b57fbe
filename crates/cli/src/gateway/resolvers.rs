//! The host's name servers, and which of them is asked now.
//!
//! One is asked until it refuses or stays silent; then the next is, and so round. Questions are not
//! looked at: the guest's resolver repeats its own.
//!
//! Called by: outgoing, udp. Calls: /etc/resolv.conf.
//! Invariants: the one asked now is one of the list, if there is any.
//! Locks: none. Sources: resolv.conf(5).

use std::fs;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use super::policy::DNS_PORT;
use crate::sys::socket;

/// Name servers that are kept at most. The C library takes three.
const RESOLVERS_MAX: usize = 16;

/// The list.
#[derive(Clone, Debug)]
pub(super) struct Resolvers {
    list: Vec<SocketAddr>,
    current: usize,
}

impl Resolvers {
    /// Those that the host itself asks; none if it has none.
    pub(super) fn of_host() -> Resolvers {
        let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        Resolvers::parse(&text)
    }

    fn parse(text: &str) -> Resolvers {
        let servers = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next())?
        });
        let list = servers.filter_map(server).take(RESOLVERS_MAX).collect();
        Resolvers { list, current: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The one to ask now.
    pub(super) fn current(&self) -> Option<SocketAddr> {
        self.list.get(self.current).copied()
    }

    /// `resolver` did not answer: another is asked from now on, unless one is already.
    pub(super) fn failed(&mut self, resolver: SocketAddr) {
        if self.current() == Some(resolver) {
            self.current = (self.current + 1) % self.list.len();
        }
    }
}

/// An address of either family; a link-local one may name its interface behind a percent sign.
fn server(word: &str) -> Option<SocketAddr> {
    let (addr, zone) = word.split_once('%').unwrap_or((word, ""));
    match addr.parse().ok()? {
        IpAddr::V4(ip) => Some((ip, DNS_PORT).into()),
        IpAddr::V6(ip) => {
            let scope = zone
                .parse()
                .unwrap_or_else(|_| socket::interface_index(zone));
            Some(SocketAddrV6::new(ip, DNS_PORT, 0, scope).into())
        }
    }
}

#[cfg(test)]
mod tests;
