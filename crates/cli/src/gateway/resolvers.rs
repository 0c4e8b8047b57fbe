//! The host's name servers, and the choice among them for each query.
//!
//! A question begins at the first server that is not known to be down. A server is down for [`DOWN`] after it refused,
//! or after it left a query unanswered while it answered no other: one slow name does not prove that its server is
//! down. The gateway does not read the queries; the guest's resolver repeats its own. There is a list for each port: a
//! server that has port 853 closed still answers at port 53.
//!
//! The list changes with the host's resolv.conf; a question under way keeps its server.
//!
//! Locks: none here. Sources: RFC 9520 3.2 (how long a failure is remembered).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kern::Time;

use super::host_servers::HostServers;
use crate::resolv_conf::{self, DNS_PORT, ENCRYPTED_DNS_PORT, NAME_SERVERS_MAX};

/// For this time a server that failed is asked only if all others failed too.
const DOWN: Duration = Duration::from_secs(5);

/// The list of one worker.
#[derive(Clone, Debug)]
pub(super) struct Resolvers {
    list: Vec<NameServer>,
    /// The port of the servers.
    port: u16,
    source: Arc<HostServers>,
    /// The number of the list in `source` from which this one was made.
    number: u64,
}

/// A name server and its state.
#[derive(Clone, Debug)]
struct NameServer {
    addr: SocketAddr,
    down_until: Time,
    answered_at: Time,
}

impl NameServer {
    /// A server about which nothing is known.
    fn new(addr: SocketAddr) -> NameServer {
        NameServer {
            addr,
            down_until: Time::ZERO,
            answered_at: Time::ZERO,
        }
    }
}

impl Resolvers {
    /// Those that the host itself asks; none if it has none.
    pub(super) fn of_host() -> Resolvers {
        Resolvers::from_addrs(resolv_conf::name_servers())
    }

    /// These.
    pub(super) fn of(addrs: &[IpAddr]) -> Resolvers {
        let addrs = addrs.iter().map(|addr| SocketAddr::new(*addr, DNS_PORT));
        Resolvers::from_addrs(addrs.take(NAME_SERVERS_MAX).collect())
    }

    /// The servers at these ports.
    pub(super) fn from_addrs(addrs: Vec<SocketAddr>) -> Resolvers {
        Resolvers {
            list: addrs.iter().copied().map(NameServer::new).collect(),
            port: DNS_PORT,
            source: Arc::new(HostServers::new(addrs)),
            number: 0,
        }
    }

    /// The same servers, at their port for encrypted queries.
    pub(super) fn encrypted(&self) -> Resolvers {
        let at_port = |server: &NameServer| NameServer::new(at(ENCRYPTED_DNS_PORT, server.addr));
        Resolvers {
            list: self.list.iter().map(at_port).collect(),
            port: ENCRYPTED_DNS_PORT,
            source: Arc::clone(&self.source),
            number: self.number,
        }
    }

    /// Replaces these servers by others, for all workers.
    pub(super) fn replace_all(&self, addrs: Vec<SocketAddr>) {
        self.source.replace(addrs);
    }

    /// Takes over a list that another worker put there. A server that stays keeps its state.
    pub(super) fn refresh(&mut self) {
        let Some((number, addrs)) = self.source.newer_than(self.number) else {
            return;
        };
        let known = |addr| self.list.iter().find(|server| server.addr == addr).cloned();
        let list = addrs.into_iter().map(|addr| at(self.port, addr));
        let list = list.map(|addr| known(addr).unwrap_or_else(|| NameServer::new(addr)));
        self.list = list.collect();
        self.number = number;
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The server that a new question goes to.
    pub(super) fn first(&mut self, now: Time) -> Option<SocketAddr> {
        self.refresh();
        self.up_from(0, now)
    }

    /// The server for a question that `addr` did not answer.
    pub(super) fn next_after(&self, addr: SocketAddr, now: Time) -> Option<SocketAddr> {
        let at = self.list.iter().position(|server| server.addr == addr);
        self.up_from(at.map_or(0, |at| at + 1), now)
    }

    /// The first server from `start` on, in a circle, that is not down. If all are, the one that has been down for
    /// longest.
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

/// The same server, asked at this port.
fn at(port: u16, mut server: SocketAddr) -> SocketAddr {
    server.set_port(port);
    server
}

#[cfg(test)]
mod tests;
