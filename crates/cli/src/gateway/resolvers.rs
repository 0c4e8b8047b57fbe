//! The host's name servers, and which of them a question goes to.
//!
//! A question begins at the first server that is not known to be down. A server is down for [`DOWN`] after it refused, or
//! after it left a question unanswered while it answered no other: one slow name says nothing about its server. The gateway
//! does not read the questions; the guest's resolver repeats its own.
//!
//! Locks: none. Sources: resolv.conf(5); RFC 9520 3.2 (how long a failure is remembered).

use std::fs;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use kern::Time;

use super::policy::DNS_PORT;
use crate::sys::socket;

/// Name servers that are kept at most. The C library takes three.
const RESOLVERS_MAX: usize = 16;
/// How long a server that failed is asked only if all others failed too.
const DOWN: Duration = Duration::from_secs(5);

/// The list.
#[derive(Clone, Debug)]
pub(super) struct Resolvers {
    list: Vec<NameServer>,
}

/// A name server and its state.
#[derive(Clone, Debug)]
struct NameServer {
    addr: SocketAddr,
    down_until: Time,
    answered_at: Time,
}

impl Resolvers {
    /// Those that the host itself asks; none if it has none.
    pub(super) fn of_host() -> Resolvers {
        let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        Resolvers::parse(&text)
    }

    /// These.
    pub(super) fn of(addrs: &[IpAddr]) -> Resolvers {
        let addrs = addrs.iter().map(|addr| SocketAddr::new(*addr, DNS_PORT));
        Resolvers::from_addrs(addrs)
    }

    fn parse(text: &str) -> Resolvers {
        let servers = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next())?
        });
        Resolvers::from_addrs(servers.filter_map(server))
    }

    fn from_addrs(addrs: impl Iterator<Item = SocketAddr>) -> Resolvers {
        let known = |addr| NameServer {
            addr,
            down_until: Time::ZERO,
            answered_at: Time::ZERO,
        };
        let list = addrs.map(known);
        Resolvers {
            list: list.take(RESOLVERS_MAX).collect(),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The server that a new question goes to.
    pub(super) fn first(&self, now: Time) -> Option<SocketAddr> {
        self.up_from(0, now)
    }

    /// The server for a question that `addr` did not answer.
    pub(super) fn next_after(&self, addr: SocketAddr, now: Time) -> Option<SocketAddr> {
        let at = self.list.iter().position(|server| server.addr == addr);
        self.up_from(at.map_or(0, |at| at + 1), now)
    }

    /// The first server from `start` on, in a circle, that is not down. If all are, the one that has been down for longest.
    fn up_from(&self, start: usize, now: Time) -> Option<SocketAddr> {
        let in_turn = || (0..self.len()).map(|n| &self.list[(start + n) % self.len()]);
        let up = in_turn().find(|server| server.down_until <= now);
        let found = up.or_else(|| in_turn().min_by_key(|server| server.down_until));
        found.map(|server| server.addr)
    }

    /// `addr` answered.
    pub(super) fn answered(&mut self, addr: SocketAddr, now: Time) {
        if let Some(server) = self.find(addr) {
            (server.answered_at, server.down_until) = (now, Time::ZERO);
        }
    }

    /// `addr` refused, or cannot be reached.
    pub(super) fn refused(&mut self, addr: SocketAddr, now: Time) {
        if let Some(server) = self.find(addr) {
            server.down_until = now + DOWN;
        }
    }

    /// `addr` has not answered the question of `asked`.
    pub(super) fn silent(&mut self, addr: SocketAddr, asked: Time, now: Time) {
        if let Some(server) = self.find(addr)
            && server.answered_at < asked
        {
            server.down_until = now + DOWN;
        }
    }

    fn find(&mut self, addr: SocketAddr) -> Option<&mut NameServer> {
        self.list.iter_mut().find(|server| server.addr == addr)
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
