//! The monitor's list of published ports.
//!
//! Invariants: for each the gateway process was asked ([`super::requests`]). A port of a network leads to one of its
//! guests, and ends with that guest: otherwise it would lead to the next guest with the same address. Locks: none.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use super::requests::{Requester, Requests};
use crate::args::{NetOpts, OutwardRequest, Publish, PublishRange, PublishRequest};
use crate::errors::Error;
use crate::guest::{Guest, GuestEnd};
use crate::guests::GuestSpec;
use crate::ports::{self, OutwardSpec, PortSpec, PublishedId, PublishedPort};

/// Ports at most: each is a descriptor.
const PORTS_MAX: usize = 4096;

/// The guests to which ports can lead.
#[derive(Debug)]
pub(super) enum Guests {
    /// One, which may add addresses of its network to its interface. `loopback`: its 127.0.0.1 can be reached, too.
    One { end: GuestEnd, loopback: bool },
    /// Those of a network, by address. Each port needs the address of one.
    Network(BTreeMap<Ipv4Addr, Option<Ipv6Addr>>),
}

impl Guests {
    /// The guest, or those that join the network.
    pub(super) fn of(guest: &Guest, net: &NetOpts) -> Guests {
        match net.network {
            true => Guests::Network(BTreeMap::new()),
            false => Guests::One {
                end: guest.ends.clone(),
                loopback: guest.loopback,
            },
        }
    }

    /// Whether a port may lead to this address.
    fn check(&self, addr: Option<IpAddr>) -> io::Result<()> {
        let wrong = match (self, addr) {
            (Guests::One { .. }, None) => return Ok(()),
            (Guests::One { end, loopback }, Some(addr)) => {
                let loopback = *loopback && addr == Ipv4Addr::LOCALHOST;
                (!loopback && !end.may_have(addr))
                    .then(|| format!("{addr} is no address of the guest, which has {end}"))
            }
            (Guests::Network(_), None) => Some(
                "a network has several guests: name the address of one, as in 8080:10.0.2.101:80"
                    .to_owned(),
            ),
            (Guests::Network(guests), Some(addr)) => {
                let has = |(v4, v6): (&Ipv4Addr, &Option<Ipv6Addr>)| {
                    addr == *v4 || v6.is_some_and(|v6| addr == v6)
                };
                (!guests.iter().any(has)).then(|| {
                    format!("no guest of the network has the address {addr}: `mbuma network inspect` lists them")
                })
            }
        };
        wrong.map_or(Ok(()), |wrong| Err(io::Error::other(wrong)))
    }
}

/// All that are published now, by number.
#[derive(Debug)]
pub(super) struct Ports {
    guests: Guests,
    list: Vec<PortSpec>,
    outward: Vec<OutwardSpec>,
    last: PublishedId,
}

impl Ports {
    /// None yet.
    pub(super) fn new(guests: Guests) -> Self {
        Self {
            guests,
            list: Vec::new(),
            outward: Vec::new(),
            last: 0,
        }
    }

    /// A network has one more guest.
    pub(super) fn guest_joined(&mut self, guest: &GuestSpec) {
        if let Guests::Network(guests) = &mut self.guests {
            guests.insert(guest.addr, guest.addr6);
        }
    }

    /// Binds those of the command line.
    ///
    /// # Errors
    /// One of them is in use, or not allowed.
    pub(super) fn begin(&mut self, asked: &[PublishRequest]) -> Result<Vec<PublishedPort>, Error> {
        let mut bound = Vec::new();
        for request in asked {
            let ports = self.bind(request);
            bound.extend(ports.map_err(|(publish, source)| Error::Publish { publish, source })?);
        }
        Ok(bound)
    }

    /// Binds the sockets of a port, under one number: one, or one for each family.
    ///
    /// # Errors
    /// The error, with the address that could not be bound. A host without IPv6 is no error if both families are
    /// requested.
    fn bind(
        &mut self,
        request: &PublishRequest,
    ) -> Result<Vec<PublishedPort>, (Publish, io::Error)> {
        let room = self.check_room();
        let may = room.and_then(|()| self.guests.check(request.publish.guest_addr));
        may.map_err(|e| (request.publish, e))?;
        let sockets = ports::bind_all(request)?;
        Ok(self.number(sockets))
    }

    /// Whether the guest may have the address to which ports of a range lead.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn check(&self, range: &PublishRange) -> Result<(), Error> {
        let publish = range.first().publish;
        let may = self.guests.check(publish.guest_addr);
        may.map_err(|source| Error::Publish { publish, source })
    }

    fn check_room(&self) -> io::Result<()> {
        match self.list.len() < PORTS_MAX {
            true => Ok(()),
            false => Err(io::Error::other("too many ports are published")),
        }
    }

    /// A number that no port has had.
    fn next_id(&mut self) -> PublishedId {
        self.last += 1;
        self.last
    }

    /// A port of the guest's loopback is open.
    pub(super) fn add_outward(&mut self, port: OutwardRequest) -> OutwardSpec {
        let id = self.next_id();
        let spec = OutwardSpec { id, port };
        self.outward.push(spec);
        spec
    }

    /// Gives the sockets of a port their number.
    fn number(&mut self, sockets: Vec<(Publish, OwnedFd)>) -> Vec<PublishedPort> {
        let id = self.next_id();
        let port = |(publish, socket)| {
            let spec = PortSpec { id, publish };
            PublishedPort { spec, socket }
        };
        let ports: Vec<_> = sockets.into_iter().map(port).collect();
        self.list.extend(ports.iter().map(|port| port.spec));
        ports
    }

    /// Publishes a port of the guest at `addr` by a socket that is bound already.
    pub(super) fn adopt(
        &mut self,
        (mut publish, addr, socket): (Publish, Ipv4Addr, OwnedFd),
        requester: Option<Requester>,
        requests: &mut Requests,
    ) -> io::Result<()> {
        self.check_room()?;
        let named = *publish.guest_addr.get_or_insert(addr.into());
        if named != addr {
            let wrong = format!("{named}: a network's port leads to the guest's address, {addr}");
            return Err(io::Error::other(wrong));
        }
        let ports = self.number(vec![(publish, socket)]);
        requests.publish(ports, requester);
        Ok(())
    }

    /// Stops publishing the ports of the guest at `addr`, which has left.
    pub(super) fn guest_left(&mut self, addr: Ipv4Addr, requests: &mut Requests) {
        let addr6 = match &mut self.guests {
            Guests::Network(guests) => guests.remove(&addr),
            Guests::One { .. } => None,
        };
        let addrs = [Some(addr.into()), addr6.flatten().map(IpAddr::from)];
        let its = self.list.iter().filter(|port| {
            let addr = port.publish.guest_addr;
            addr.is_some() && addrs.contains(&addr)
        });
        let its: Vec<PublishedId> = its.map(|port| port.id).collect();
        for id in its {
            self.remove(id, None, requests);
        }
    }

    /// Publishes one more.
    ///
    /// # Errors
    /// The port can't be bound, or no guest has the address.
    pub(super) fn add(
        &mut self,
        request: &PublishRequest,
        requester: Option<Requester>,
        requests: &mut Requests,
    ) -> io::Result<PublishedId> {
        let ports = self.bind(request).map_err(|(_, e)| e)?;
        requests.publish(ports, requester);
        Ok(self.last)
    }

    /// Closes a port, published or outward.
    pub(super) fn remove(
        &mut self,
        id: PublishedId,
        requester: Option<Requester>,
        requests: &mut Requests,
    ) {
        self.list.retain(|port| port.id != id);
        self.outward.retain(|port| port.id != id);
        requests.unpublish(id, requester);
    }

    /// The numbers of all ports.
    pub(super) fn ids(&self) -> BTreeSet<PublishedId> {
        let list = self.list.iter().map(|port| port.id);
        list.chain(self.outward.iter().map(|port| port.id))
            .collect()
    }

    /// All that are published.
    pub(super) fn list(&self) -> &[PortSpec] {
        &self.list
    }

    /// The open ports of the guest's loopback.
    pub(super) fn outward(&self) -> &[OutwardSpec] {
        &self.outward
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Proto;

    #[test]
    fn ports_are_bounded() {
        // Breaks when a user who asks for ports without end takes all descriptors of the gateway.
        let mut ports = Ports::new(Guests::Network(BTreeMap::new()));
        let publish = Publish {
            host: (Ipv4Addr::LOCALHOST, 80).into(),
            guest_addr: None,
            guest_port: 80,
            proto: Proto::Tcp,
            interface: None,
        };
        ports.list = vec![PortSpec { id: 1, publish }; PORTS_MAX - 1];
        assert!(ports.check_room().is_ok());
        ports.list.push(PortSpec { id: 1, publish });
        assert!(ports.check_room().is_err());
    }
}
