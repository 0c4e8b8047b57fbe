//! The two ends of a flow, in either version of IP: the key of a connection, and the addresses of a datagram.
//!
//! Plain data. The layers between IP and the sockets pass [`Ends`] on, and each matches on the version at one place;
//! the key of a table is the [`Pair`] of one version.
//!
//! Invariant: both ends are of one version.
//! Sources: RFC 9293 section 3.3.1 (a connection is named by its two ends).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use wire::needs_zone;

pub(crate) mod destination;
pub(crate) mod policy_table;
pub(crate) mod source;

/// All addresses of the stack, of either version, and any port.
pub(crate) const ANY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// Each port for sockets that ask for none in particular (RFC 6335 section 6), once. The search for a free one begins
/// where `random` says (RFC 6056).
pub(crate) fn dynamic_ports(random: usize) -> impl Iterator<Item = u16> {
    const FIRST: usize = 49_152;
    const COUNT: usize = 65_536 - FIRST;
    const { assert!(COUNT.is_power_of_two(), "or the sum must not wrap") };
    (0..COUNT).map(move |n| (FIRST + random.wrapping_add(n) % COUNT) as u16)
}

/// Bytes of the longest ends, for keyed hashes.
pub(crate) const ENDS_MAX: usize = 40;

/// The two ends, as seen from here, in one version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pair<A> {
    pub(crate) local: A,
    pub(crate) peer: A,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
}

impl<A> Pair<A> {
    /// Both ports in one word, ours first.
    #[inline]
    pub(crate) fn ports(&self) -> u32 {
        u32::from(self.local_port) << 16 | u32::from(self.peer_port)
    }

    /// The same as the peer sees it.
    pub(crate) fn reversed(self) -> Self {
        Self {
            local: self.peer,
            peer: self.local,
            local_port: self.peer_port,
            peer_port: self.local_port,
        }
    }
}

impl Pair<Ipv4Addr> {
    /// The pair as bytes, for keyed hashes.
    #[inline]
    pub(crate) fn to_bytes(self) -> [u8; 12] {
        // Composed in registers: with small stores to memory the hash would have to wait for them before it could load
        // words.
        let end = |addr: Ipv4Addr, port: u16| u128::from(addr.to_bits()) << 16 | u128::from(port);
        let both = end(self.local, self.local_port) << 48 | end(self.peer, self.peer_port);
        let mut out = [0; 12];
        out.copy_from_slice(&(both << 32).to_be_bytes()[..12]);
        out
    }
}

impl Pair<Ipv6Addr> {
    /// The pair, on the link `zone`, as bytes for keyed hashes.
    #[inline]
    pub(crate) fn to_bytes(self, zone: u32) -> [u8; 40] {
        let mut out = [0; 40];
        let (hosts, rest) = out.split_at_mut(32);
        let (local, peer) = hosts.split_at_mut(16);
        local.copy_from_slice(&self.local.octets());
        peer.copy_from_slice(&self.peer.octets());
        let last = u64::from(self.ports()) << 32 | u64::from(zone);
        rest.copy_from_slice(&last.to_be_bytes());
        out
    }
}

/// The two ends, as seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ends {
    V4(Pair<Ipv4Addr>),
    /// With the zone: the number of the interface if an address is link-local, else 0.
    V6(Pair<Ipv6Addr>, u32),
}

impl Ends {
    /// The flow between two ends; `None` if they are of different versions.
    #[inline]
    pub(crate) fn between(local: SocketAddr, peer: SocketAddr) -> Option<Self> {
        match (local, peer) {
            (SocketAddr::V4(local), SocketAddr::V4(peer)) => Some(Self::V4(Pair {
                local: *local.ip(),
                peer: *peer.ip(),
                local_port: local.port(),
                peer_port: peer.port(),
            })),
            (SocketAddr::V6(local), SocketAddr::V6(peer)) => {
                let pair = Pair {
                    local: *local.ip(),
                    peer: *peer.ip(),
                    local_port: local.port(),
                    peer_port: peer.port(),
                };
                Some(Self::V6(
                    pair,
                    zone_of(&peer).or(zone_of(&local)).unwrap_or(0),
                ))
            }
            _ => None,
        }
    }

    /// Our end.
    #[inline]
    pub(crate) fn local(&self) -> SocketAddr {
        match self {
            Self::V4(pair) => SocketAddrV4::new(pair.local, pair.local_port).into(),
            Self::V6(pair, zone) => at(pair.local, pair.local_port, *zone),
        }
    }

    /// The other one.
    #[inline]
    pub(crate) fn peer(&self) -> SocketAddr {
        match self {
            Self::V4(pair) => SocketAddrV4::new(pair.peer, pair.peer_port).into(),
            Self::V6(pair, zone) => at(pair.peer, pair.peer_port, *zone),
        }
    }

    /// Our port.
    #[inline]
    pub(crate) fn local_port(&self) -> u16 {
        match self {
            Self::V4(pair) => pair.local_port,
            Self::V6(pair, _) => pair.local_port,
        }
    }

    /// The peer's port.
    #[inline]
    pub(crate) fn peer_port(&self) -> u16 {
        match self {
            Self::V4(pair) => pair.peer_port,
            Self::V6(pair, _) => pair.peer_port,
        }
    }

    /// The same flow from another port of ours.
    pub(crate) fn with_local_port(mut self, port: u16) -> Self {
        match &mut self {
            Self::V4(pair) => pair.local_port = port,
            Self::V6(pair, _) => pair.local_port = port,
        }
        self
    }

    /// Whether our address needs a zone, and neither end names one.
    pub(crate) fn lacks_zone(&self) -> bool {
        matches!(self, Self::V6(pair, 0) if needs_zone(pair.local))
    }

    /// The same flow on the link `zone`.
    pub(crate) fn on_link(mut self, zone: u32) -> Self {
        if let Self::V6(_, named) = &mut self {
            *named = zone;
        }
        self
    }

    /// The same flow as its peer sees it.
    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::V4(pair) => Self::V4(pair.reversed()),
            Self::V6(pair, zone) => Self::V6(pair.reversed(), zone),
        }
    }

    /// The result of `f` for the ends as bytes, for keyed hashes.
    #[inline]
    pub(crate) fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::V4(pair) => f(&pair.to_bytes()),
            Self::V6(pair, zone) => f(&pair.to_bytes(*zone)),
        }
    }
}

/// The zone of an address, if it needs and has one.
fn zone_of(addr: &SocketAddrV6) -> Option<u32> {
    (needs_zone(*addr.ip()) && addr.scope_id() != 0).then_some(addr.scope_id())
}

/// An end, with its zone if it needs one.
fn at(addr: Ipv6Addr, port: u16, zone: u32) -> SocketAddr {
    let zone = if needs_zone(addr) { zone } else { 0 };
    SocketAddrV6::new(addr, port, 0, zone).into()
}
