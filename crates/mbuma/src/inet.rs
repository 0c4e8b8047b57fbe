//! The two ends of a flow, of whichever version of IP: the key of a connection, and the addresses of a datagram.
//!
//! Plain data. Layers between IP and the sockets pass [`Ends`] on and match on the version at one place each; a table
//! has one version's [`Pair`] for its key.
//!
//! Invariant: both ends are of one version.
//! Sources: RFC 9293 section 3.3.1 (a connection is named by its two ends).

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Bytes of the longest ends, for keyed hashes.
pub(crate) const ENDS_MAX: usize = 12;

/// The two ends, as seen from here, in one version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair<A> {
    pub(crate) local: A,
    pub(crate) peer: A,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
}

impl<A> Pair<A> {
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
        // Put together in registers: small stores would have to reach the cache before a hash could load words.
        let end = |addr: Ipv4Addr, port: u16| u128::from(addr.to_bits()) << 16 | u128::from(port);
        let both = end(self.local, self.local_port) << 48 | end(self.peer, self.peer_port);
        let mut out = [0; 12];
        out.copy_from_slice(&(both << 32).to_be_bytes()[..12]);
        out
    }
}

/// The two ends, as seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    V4(Pair<Ipv4Addr>),
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
            _ => None,
        }
    }

    /// Our end.
    #[inline]
    pub(crate) fn local(&self) -> SocketAddr {
        match self {
            Self::V4(pair) => SocketAddrV4::new(pair.local, pair.local_port).into(),
        }
    }

    /// The other one.
    #[inline]
    pub(crate) fn peer(&self) -> SocketAddr {
        match self {
            Self::V4(pair) => SocketAddrV4::new(pair.peer, pair.peer_port).into(),
        }
    }

    /// Our port.
    #[inline]
    pub(crate) fn local_port(&self) -> u16 {
        match self {
            Self::V4(pair) => pair.local_port,
        }
    }

    /// The peer's port.
    #[inline]
    pub(crate) fn peer_port(&self) -> u16 {
        match self {
            Self::V4(pair) => pair.peer_port,
        }
    }

    /// The same flow from another port of ours.
    pub(crate) fn with_local_port(mut self, port: u16) -> Self {
        match &mut self {
            Self::V4(pair) => pair.local_port = port,
        }
        self
    }

    /// The same flow as its peer sees it.
    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::V4(pair) => Self::V4(pair.reversed()),
        }
    }

    /// What `f` makes of the ends as bytes, for keyed hashes.
    #[inline]
    pub(crate) fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::V4(pair) => f(&pair.to_bytes()),
        }
    }
}
