//! Which guest of a network has which address: a frame that claims another one's for its sender is dropped, before the
//! bridge or a guest learns from it.
//!
//! | in | claimed for the sender |
//! |---|---|
//! | each frame | the Ethernet source |
//! | IPv4, IPv6 | the source |
//! | ARP | the sender's two addresses |
//! | neighbour discovery | the link-layer address of an option; the target of an advertisement, or of a probe for a duplicate |
//! | router advertisement, redirect | the router, which no guest is |
//! | any other protocol, a tag of a VLAN too | unknown: no guest may send it |
//!
//! A guest has the addresses that the network gave it. Others of the network are its own from its first frame with
//! them, unless another guest has them: [`CLAIMS_MAX`] at most, of which one that is out of use is then free again. The
//! stack's, and those of other networks, are no guest's: one that forwards for others translates.
//!
//! Invariants: an address has one owner.
//! Locks: `owners` (STATS).
//! Sources: RFC 826, RFC 4861, RFC 6105 (router advertisements), RFC 6620 (first come, first served).

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{LockClass, Mutex, order};
use wire::{
    ArpPacket, EtherHeader, EtherType, IpProto, Ipv6ExtHeaders, Ipv6Header, MacAddr, NdpMessage,
    NdpOption,
};

use crate::guest::GuestEnd;
use crate::guests::{GuestId, GuestSpec};

static OWNERS: LockClass = LockClass::new("network addresses", order::STATS);

/// Addresses of a guest at most, beside those that it was given: of machines behind a bridge of its own, for example.
const CLAIMS_MAX: usize = 32;
/// Bytes of a frame that are read: all of a message of neighbour discovery with its options.
pub(super) const HEAD_LEN: usize = 256;
/// Where a header of IPv4 has its source.
const IPV4_SRC: usize = 12;

/// The owners of a network's addresses.
#[derive(Debug)]
pub(super) struct AddressGuard {
    owners: Mutex<Owners>,
    /// Frames that were dropped. Relaxed: a count.
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Owners {
    /// The network, as its first guest sees it.
    ends: Option<GuestEnd>,
    stack_mac: MacAddr,
    by_claim: HashMap<Claim, GuestId>,
    /// Claims of each guest that it was not given, the oldest first.
    learnt: HashMap<GuestId, VecDeque<Claim>>,
}

/// An address that a frame claims for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Claim {
    Mac(MacAddr),
    Ip(IpAddr),
}

impl AddressGuard {
    /// Without an address.
    pub(super) fn new() -> AddressGuard {
        AddressGuard {
            owners: Mutex::new(&OWNERS, Owners::default()),
            dropped: AtomicU64::new(0),
        }
    }

    /// Sets the network, and the stack's Ethernet address.
    pub(super) fn set_network(&self, ends: &GuestEnd, stack_mac: MacAddr) {
        let mut owners = self.owners.lock();
        (owners.ends, owners.stack_mac) = (Some(ends.clone()), stack_mac);
    }

    /// Gives a guest its addresses, whichever guest has claimed them.
    pub(super) fn add(&self, guest: &GuestSpec) {
        let mut owners = self.owners.lock();
        owners.learnt.entry(guest.id).or_default();
        for addr in guest.addrs() {
            owners.by_claim.insert(Claim::Ip(addr), guest.id);
        }
    }

    /// Frees the addresses of a guest.
    pub(super) fn remove(&self, guest: GuestId) {
        let mut owners = self.owners.lock();
        owners.by_claim.retain(|_, owner| *owner != guest);
        owners.learnt.remove(&guest);
    }

    /// Whether the guest may send the frame that begins so.
    pub(super) fn admits(&self, guest: GuestId, head: &[u8]) -> bool {
        let mut owners = self.owners.lock();
        let admitted = each_claim(head, &mut |claim| owners.admits(guest, claim)).unwrap_or(false);
        if !admitted {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// Frames that were dropped since the last call.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

impl Owners {
    fn admits(&mut self, guest: GuestId, claim: Claim) -> bool {
        if let Some(owner) = self.by_claim.get(&claim) {
            // One in use stays.
            if let Some(learnt) = self.learnt.get_mut(&guest)
                && learnt.front() == Some(&claim)
            {
                learnt.rotate_left(1);
            }
            return *owner == guest;
        }
        match claim {
            // It asks for an address.
            Claim::Ip(ip) if ip.is_unspecified() => return true,
            _ if !self.may_be_guests(claim) => return false,
            _ => {}
        }
        let Some(learnt) = self.learnt.get_mut(&guest) else {
            // It has left.
            return false;
        };
        learnt.push_back(claim);
        if learnt.len() > CLAIMS_MAX
            && let Some(oldest) = learnt.pop_front()
            && self.by_claim.get(&oldest) == Some(&guest)
        {
            self.by_claim.remove(&oldest);
        }
        self.by_claim.insert(claim, guest);
        true
    }

    /// Whether the network may have a guest with this address.
    fn may_be_guests(&self, claim: Claim) -> bool {
        let Some(ends) = &self.ends else {
            return false;
        };
        match claim {
            Claim::Mac(mac) => mac != self.stack_mac && !mac.is_multicast(),
            Claim::Ip(IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
                ends.v6.is_some_and(|v6| ip != v6.link_gateway)
            }
            Claim::Ip(ip) => ends.may_have(ip),
        }
    }
}

/// Calls `admits` for each claim of a frame, until one is not admitted. `None` if no guest may send such a frame.
fn each_claim(head: &[u8], admits: &mut dyn FnMut(Claim) -> bool) -> Option<bool> {
    let (ether, packet) = EtherHeader::parse(head).ok()?;
    if !admits(Claim::Mac(ether.src)) {
        return Some(false);
    }
    let mut ip = |ip: IpAddr| admits(Claim::Ip(ip));
    Some(match ether.ethertype() {
        EtherType::ARP => {
            let arp = ArpPacket::parse(packet).ok()?;
            ip(arp.sender_ip.into()) && admits(Claim::Mac(arp.sender_mac))
        }
        EtherType::IPV4 => {
            let src: [u8; 4] = *packet.get(IPV4_SRC..)?.first_chunk()?;
            ip(Ipv4Addr::from(src).into())
        }
        EtherType::IPV6 => {
            let header = Ipv6Header::parse(packet).ok()?;
            let src = header.src();
            ip(src.into()) && each_discovered(packet, header, src, admits)?
        }
        // A tag of VLAN 0 would hide one of those.
        _ => return None,
    })
}

/// The same for the claims of a message of neighbour discovery, if the packet is one.
fn each_discovered(
    packet: &[u8],
    header: &Ipv6Header,
    src: Ipv6Addr,
    admits: &mut dyn FnMut(Claim) -> bool,
) -> Option<bool> {
    let end = Ipv6Header::LEN + header.payload_len();
    let packet = packet.get(..end).unwrap_or(packet);
    let mut headers = Ipv6ExtHeaders::new(packet, header.next(), Ipv6Header::LEN, 6);
    for header in headers.by_ref() {
        // A fragment is none (RFC 6980); one whose headers do not end here could be any.
        if header.ok()?.kind == IpProto::FRAGMENT {
            return Some(true);
        }
    }
    if headers.upper() != IpProto::ICMPV6 {
        return Some(true);
    }
    let (head, body) = packet.get(headers.upper_at()..)?.split_first_chunk::<8>()?;
    let [kind, _, _, _, rest @ ..] = *head;
    if !NdpMessage::is_kind(kind) {
        return Some(true);
    }
    let (target, options) = match NdpMessage::parse(kind, rest, body).ok()? {
        NdpMessage::RouterAdvert(..) | NdpMessage::Redirect { .. } => return None,
        NdpMessage::RouterSolicit { options } => (None, options),
        NdpMessage::NeighborSolicit { target, options } => {
            (src.is_unspecified().then_some(target), options)
        }
        NdpMessage::NeighborAdvert {
            target, options, ..
        } => (Some(target), options),
    };
    let mut macs = options.iter().filter_map(|option| match option {
        NdpOption::SourceLinkAddr(mac) | NdpOption::TargetLinkAddr(mac) => Some(mac),
        _ => None,
    });
    let is_own = target.is_none_or(|target| admits(Claim::Ip(target.into())));
    Some(is_own && macs.all(|mac| admits(Claim::Mac(mac))))
}

#[cfg(test)]
mod tests;
