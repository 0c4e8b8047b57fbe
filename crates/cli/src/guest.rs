//! The guest's side: its interface, and the files that its programs need.
//!
//! All functions here that make changes run in the forked child, inside the guest's namespaces.
//!
//! Invariants: nothing outside the guest's namespaces changes, so there is nothing to undo.
//! Locks: none.

mod covered;
mod files;
mod furnish;
mod interface;
mod ip6;
mod link;
mod own_files;
mod unsent;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};
use wire::MacAddr;

use crate::addressing::{Addressing, Addressing6};
use crate::args::NetOpts;
use crate::channel::{Channel, ChannelMessage};
use crate::errors::{Error, Failure, SetupStep};
use crate::say;
use crate::sys::tap::Offloads;
pub(crate) use furnish::{furnish, name};
pub(crate) use interface::{answer, make_interface};
pub(crate) use link::GuestLink;
pub(crate) use own_files::{OwnFiles, hand_over};

/// A guest, as the gateway serves it.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Frames from and to the guest's kernel.
    pub(crate) link: GuestLink,
    /// The offloads that those frames may use.
    pub(crate) offloads: Offloads,
    /// Servers on the guest's 127.0.0.1 can be reached.
    pub(crate) loopback: bool,
    /// Its owner configures the interface, not mbuma.
    pub(crate) is_owners: bool,
    /// The largest IP packet, on the interface and hence for the stack.
    pub(crate) mtu: u16,
    /// The addresses at the other end.
    pub(crate) ends: GuestEnd,
}

/// Names and addresses on the wire between the guest and the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GuestEnd {
    /// The interface's name in the guest.
    pub(crate) ifname: String,
    /// The guest's Ethernet address; zero if only its frames have it.
    #[serde(serialize_with = "mac_text", skip_serializing_if = "is_unknown")]
    pub(crate) mac: [u8; 6],
    /// Its IPv4 network, unless it has IPv6 only.
    #[serde(flatten)]
    pub(crate) v4: Option<Addressing>,
    /// Its IPv6 network, unless it has IPv4 only.
    #[serde(flatten)]
    pub(crate) v6: Option<Addressing6>,
}

/// An Ethernet address in text form.
fn mac_text<S: Serializer>(mac: &[u8; 6], to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&MacAddr(*mac))
}

fn is_unknown(mac: &[u8; 6]) -> bool {
    *mac == [0; 6]
}

impl GuestEnd {
    /// One with the usual networks, for tests.
    #[cfg(test)]
    pub(crate) fn usual() -> GuestEnd {
        GuestEnd {
            ifname: "tap0".to_owned(),
            mac: [2; 6],
            v4: Some(Addressing::DEFAULT),
            v6: Some(Addressing6::DEFAULT),
        }
    }

    /// The end of a guest with this network; `ip6`: it can have IPv6.
    pub(crate) fn new(ifname: &str, mac: [u8; 6], net: &NetOpts, ip6: bool) -> GuestEnd {
        GuestEnd {
            ifname: ifname.to_owned(),
            mac,
            v4: net.v4().copied(),
            v6: net.v6().filter(|_| ip6).copied(),
        }
    }

    /// Whether the guest has the address, or may add it: a host of its network that is not the stack's.
    pub(crate) fn may_have(&self, addr: IpAddr) -> bool {
        match (addr, &self.v4, &self.v6) {
            (IpAddr::V4(addr), Some(v4), _) => v4.guest_may_have(addr),
            (IpAddr::V6(addr), _, Some(v6)) => v6.guest_may_have(addr),
            _ => false,
        }
    }

    /// An address of each version of IP that the guest has, in words.
    pub(crate) fn each(
        &self,
        v4: impl FnOnce(&Addressing) -> Ipv4Addr,
        v6: impl FnOnce(&Addressing6) -> Option<Ipv6Addr>,
    ) -> String {
        let v4 = self.v4.as_ref().map(|network| v4(network).to_string());
        let v6 = self.v6.as_ref().and_then(v6).map(|addr| addr.to_string());
        let both: Vec<_> = v4.into_iter().chain(v6).collect();
        both.join(" and ")
    }
}

/// Its addresses.
impl fmt::Display for GuestEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.each(|v4| v4.guest, |v6| Some(v6.guest)))
    }
}

/// Waits for the guest that the child makes. Prints the steps that failed and are not necessary.
pub(crate) fn receive(channel: &Channel, ifname: &str, net: &NetOpts) -> Result<Guest, Error> {
    match channel.recv_all().map_err(Failure::at(SetupStep::Child))? {
        Some((
            ChannelMessage::Ready {
                offloads,
                interface,
                warnings,
            },
            taps,
        )) if !taps.is_empty() => {
            warnings
                .iter()
                .for_each(|warning| say(&format!("warning: {warning}")));
            Ok(Guest {
                link: GuestLink::Taps(taps),
                offloads,
                loopback: interface.loopback,
                is_owners: interface.is_owners,
                mtu: net.mtu(),
                ends: GuestEnd::new(ifname, interface.mac, net, interface.ip6),
            })
        }
        other => Err(not_ready(other.map(|(message, _)| message))),
    }
}

/// The reason why the child's message is missing.
pub(crate) fn not_ready(said: Option<ChannelMessage>) -> Error {
    match said {
        Some(ChannelMessage::Failed(failure)) => failure.into(),
        // It ended without a message, so a signal ended it.
        _ => Failure {
            step: SetupStep::Child,
            errno: libc::ECHILD,
        }
        .into(),
    }
}
