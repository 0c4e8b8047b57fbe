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
//! them, unless another guest has them: [`CLAIMS_MAX`] at most, of which one that was not used for [`KEPT`] gives way
//! to a new one, and is free again. So a guest sends from few addresses at a time, by which the gateway knows it: a
//! flood's share of what the guests share is bounded. The stack's, and those of other networks, are no guest's: one
//! that forwards for others translates.
//!
//! Invariants: an address has one owner.
//! Locks: `owners` (STATS).
//! Sources: RFC 826, RFC 4861, RFC 6105 (router advertisements), RFC 6620 (first come, first served).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kern::{LockClass, Mutex, Time, order};
use mbuf::Mbufq;
use wire::{
    ArpPacket, EtherHeader, EtherType, IpProto, Ipv6ExtHeaders, Ipv6Header, MacAddr, NdpMessage,
    NdpOption,
};

use crate::guest::GuestEnd;
use crate::guests::{GuestId, GuestSpec};

static OWNERS: LockClass = LockClass::new("network addresses", order::STATS);

/// Addresses of a guest at most, beside those that it was given: of machines behind a bridge of its own, for example.
const CLAIMS_MAX: usize = 64;
/// The time after its last use for which an address stays its guest's although that has others to claim.
const KEPT: Duration = Duration::from_secs(60);
/// Bytes of a frame that are read: all of a message of neighbour discovery with its options.
const HEAD_LEN: usize = 256;
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
    by_claim: HashMap<Claim, ClaimOwner>,
    /// Of each guest.
    learnt: HashMap<GuestId, LearntClaims>,
}

#[derive(Clone, Copy, Debug)]
struct ClaimOwner {
    guest: GuestId,
    /// When it last sent with the address.
    used: Time,
}

/// The claims of a guest that it was not given.
#[derive(Debug, Default)]
struct LearntClaims {
    claims: Vec<Claim>,
    /// Until then none gives way: saves the search.
    full_until: Time,
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
            let (guest, used) = (guest.id, Time::ZERO);
            let owner = ClaimOwner { guest, used };
            owners.by_claim.insert(Claim::Ip(addr), owner);
        }
    }

    /// Frees the addresses of a guest.
    pub(super) fn remove(&self, guest: GuestId) {
        let mut owners = self.owners.lock();
        owners.by_claim.retain(|_, owner| owner.guest != guest);
        owners.learnt.remove(&guest);
    }

    /// Moves the frames that the guest may send from `came` to `rx`.
    pub(super) fn filter(&self, guest: GuestId, now: Time, came: &mut Mbufq, rx: &mut Mbufq) {
        let (mut forged, mut head) = (Mbufq::new(), [0; HEAD_LEN]);
        // For all of them: one thread takes the frames of all guests in.
        let mut owners = self.owners.lock();
        while let Some(frame) = came.dequeue() {
            let (head, _) = head.split_at_mut(frame.len().min(HEAD_LEN));
            match frame.copy_to(0, head) && owners.admit(guest, now, head) {
                true => rx.enqueue(frame),
                false => forged.enqueue(frame),
            }
        }
        drop(owners);
        self.dropped
            .fetch_add(forged.len() as u64, Ordering::Relaxed);
    }

    /// Frames that were dropped since the last call.
    pub(super) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

impl Owners {
    /// Whether the guest may send the frame that begins so.
    fn admit(&mut self, guest: GuestId, now: Time, head: &[u8]) -> bool {
        each_claim(head, &mut |claim| self.admits(guest, now, claim)).unwrap_or(false)
    }

    fn admits(&mut self, guest: GuestId, now: Time, claim: Claim) -> bool {
        if let Some(owner) = self.by_claim.get_mut(&claim) {
            let is_its = owner.guest == guest;
            owner.used = if is_its { now } else { owner.used };
            return is_its;
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
        if learnt.claims.len() == CLAIMS_MAX && !learnt.give_way(&mut self.by_claim, guest, now) {
            return false;
        }
        learnt.claims.push(claim);
        let owner = ClaimOwner { guest, used: now };
        self.by_claim.insert(claim, owner);
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

impl LearntClaims {
    /// Makes room for another claim of the guest, if one is out of use.
    fn give_way(
        &mut self,
        all: &mut HashMap<Claim, ClaimOwner>,
        guest: GuestId,
        now: Time,
    ) -> bool {
        if now < self.full_until {
            return false;
        }
        // One that was given to another guest since is not used here.
        let used = |claim: &Claim| {
            all.get(claim)
                .filter(|owner| owner.guest == guest)
                .map(|owner| owner.used)
        };
        let oldest = self
            .claims
            .iter()
            .map(used)
            .enumerate()
            .min_by_key(|(_, used)| *used);
        let Some((at, used)) = oldest else {
            return false;
        };
        if let Some(used) = used {
            self.full_until = used + KEPT;
            if now < self.full_until {
                return false;
            }
            all.remove(&self.claims[at]);
        }
        self.claims.swap_remove(at);
        true
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
