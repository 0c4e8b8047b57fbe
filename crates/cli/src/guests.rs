//! The guests of a network, in the messages from the monitor to the gateway process.
//!
//! Invariants: a guest's number is never used again.
//! Locks: none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::args::Publish;
use crate::sys::tap::Offloads;

/// Identifies a guest of a network.
pub(crate) type GuestId = u32;

/// A guest of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GuestSpec {
    pub(crate) id: GuestId,
    pub(crate) addr: Ipv4Addr,
    /// Its address of IPv6, if it has one.
    pub(crate) addr6: Option<Ipv6Addr>,
    /// Other guests find it by this.
    pub(crate) name: Option<String>,
    pub(crate) offloads: Offloads,
}

impl GuestSpec {
    /// Its addresses.
    pub(crate) fn addrs(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let v6 = self.addr6.map(IpAddr::from);
        std::iter::once(self.addr.into()).chain(v6)
    }
}

/// A guest that has joined.
#[derive(Debug)]
pub(crate) struct JoinedGuest {
    pub(crate) spec: GuestSpec,
    pub(crate) tap: OwnedFd,
}

/// A change of a network while its guests are served.
#[derive(Debug)]
pub(crate) enum GuestChange {
    /// One more.
    Joined(JoinedGuest),
    /// This one is gone.
    Left(GuestId),
}

/// A request of a network's [`Lifecycle`](crate::lifecycle::Lifecycle) to the monitor.
#[derive(Debug)]
pub(crate) enum NetworkRequest {
    /// Tell the gateway process.
    Guest(GuestChange),
    /// This guest has bound a port of the host, and publishes one of its own there.
    Publish(GuestId, Publish, Ipv4Addr, OwnedFd),
    /// The guest at this address has left, and publishes nothing.
    Unpublish(Ipv4Addr),
}
