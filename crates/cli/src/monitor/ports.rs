//! The published ports, as the monitor keeps them.
//!
//! Called by: monitor, api. Calls: [`crate::ports`].
//! Invariants: the gateway process has been told of each.
//! Locks: none.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

use crate::args::Publish;
use crate::channel::{Channel, ChannelMessage};
use crate::errors::Error;
use crate::ports::{self, PortSpec, PublishedId, PublishedPort};

/// Ports at most: each is a descriptor.
const PORTS_MAX: usize = 4096;

/// All that are published now, by number.
#[derive(Debug, Default)]
pub(super) struct Ports {
    list: Vec<PortSpec>,
    last: PublishedId,
}

impl Ports {
    /// Binds those that the command line asks for.
    ///
    /// # Errors
    /// One of them is in use, or not allowed.
    pub(super) fn begin(&mut self, asked: &[Publish]) -> Result<Vec<PublishedPort>, Error> {
        let bind = |publish: &Publish| {
            self.bind(*publish, None).map_err(|source| Error::Publish {
                publish: *publish,
                source,
            })
        };
        asked.iter().map(bind).collect()
    }

    fn bind(
        &mut self,
        publish: Publish,
        guest_addr: Option<Ipv4Addr>,
    ) -> io::Result<PublishedPort> {
        let socket = ports::bind(&publish)?;
        self.number(publish, guest_addr, socket)
    }

    fn number(
        &mut self,
        publish: Publish,
        guest_addr: Option<Ipv4Addr>,
        socket: OwnedFd,
    ) -> io::Result<PublishedPort> {
        if self.list.len() >= PORTS_MAX {
            return Err(io::Error::other("too many ports are published"));
        }
        self.last += 1;
        let spec = PortSpec {
            id: self.last,
            publish,
            guest_addr,
        };
        self.list.push(spec);
        Ok(PublishedPort { spec, socket })
    }

    /// Publishes a port of the guest at `addr` by a socket that is bound already.
    pub(super) fn adopt(
        &mut self,
        publish: Publish,
        addr: Ipv4Addr,
        socket: OwnedFd,
        gateway: &Channel,
    ) -> io::Result<()> {
        let PublishedPort { spec, socket } = self.number(publish, Some(addr), socket)?;
        gateway.send(&ChannelMessage::Publish(spec), Some(socket.as_fd()))
    }

    /// Publishes those of the guest at `addr` no more.
    pub(super) fn remove_all_of(&mut self, addr: Ipv4Addr, gateway: &Channel) -> io::Result<()> {
        let its = self
            .list
            .iter()
            .filter(|port| port.guest_addr == Some(addr));
        let its: Vec<PublishedId> = its.map(|port| port.id).collect();
        its.into_iter()
            .try_for_each(|id| self.remove(id, gateway).map(drop))
    }

    /// Publishes one more.
    pub(super) fn add(
        &mut self,
        publish: Publish,
        guest_addr: Option<Ipv4Addr>,
        gateway: &Channel,
    ) -> io::Result<PublishedId> {
        let PublishedPort { spec, socket } = self.bind(publish, guest_addr)?;
        let told = gateway.send(&ChannelMessage::Publish(spec), Some(socket.as_fd()));
        told.inspect_err(|_| self.list.retain(|port| port.id != spec.id))?;
        Ok(spec.id)
    }

    /// Publishes one no more; false if there is none of this number.
    pub(super) fn remove(&mut self, id: PublishedId, gateway: &Channel) -> io::Result<bool> {
        let before = self.list.len();
        self.list.retain(|port| port.id != id);
        if self.list.len() == before {
            return Ok(false);
        }
        gateway.send(&ChannelMessage::Unpublish(id), None)?;
        Ok(true)
    }

    /// All of them.
    pub(super) fn list(&self) -> &[PortSpec] {
        &self.list
    }
}
