//! The six-byte address of an Ethernet interface.
//!
//! Invariants: bytes are in the order of the wire.
//! Locks: none.
//! Sources: IEEE 802-2014 section 8, RFC 1112 section 6.4 (groups), RFC 7042 section 2.1.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An Ethernet address, as `ether_addr` in BSD.
///
/// ```
/// let mac: wire::MacAddr = "02:00:00:00:00:01".parse().unwrap();
/// assert!(mac.is_unicast());
/// ```
#[doc(alias = "ether_addr")]
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address of every station on the link.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// The all-zero address: "not known" in ARP requests, never a station.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// Whether this is the address of every station.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == MacAddr::BROADCAST
    }

    /// Whether this names a group of stations. Broadcast is such a group too.
    #[doc(alias = "ETHER_IS_MULTICAST")]
    #[inline]
    pub const fn is_multicast(self) -> bool {
        let [first, ..] = self.0;
        first & 1 != 0
    }

    /// Whether this can name one station: neither a group nor zero.
    #[inline]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != MacAddr::ZERO
    }

    /// The group address that carries an IPv4 group: 01:00:5e and the low 23 bits (RFC 1112 6.4).
    #[doc(alias = "ETHER_MAP_IP_MULTICAST")]
    pub const fn from_ipv4_multicast(group: Ipv4Addr) -> MacAddr {
        let [_, b, c, d] = group.octets();
        MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address that carries an IPv6 group: 33:33 and the low 32 bits (RFC 2464 section 7).
    #[doc(alias = "ETHER_MAP_IPV6_MULTICAST")]
    pub const fn from_ipv6_multicast(group: Ipv6Addr) -> MacAddr {
        let [.., a, b, c, d] = group.octets();
        MacAddr([0x33, 0x33, a, b, c, d])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(bytes: [u8; 6]) -> MacAddr {
        MacAddr(bytes)
    }
}

/// The text is not six two-digit hexadecimal bytes joined by `:` or by `-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an Ethernet address: expected six hexadecimal bytes such as 02:00:00:00:00:01")]
pub struct MacAddrParseError;

impl FromStr for MacAddr {
    type Err = MacAddrParseError;

    fn from_str(text: &str) -> Result<MacAddr, MacAddrParseError> {
        let separator = if text.contains(':') { ':' } else { '-' };
        let mut parts = text.split(separator);
        let mut bytes = [0; 6];
        for byte in &mut bytes {
            *byte = parts.next().and_then(hex_byte).ok_or(MacAddrParseError)?;
        }
        match parts.next() {
            None => Ok(MacAddr(bytes)),
            Some(_) => Err(MacAddrParseError),
        }
    }
}

/// Two hexadecimal digits. The digits are checked first because `from_str_radix` admits a sign.
fn hex_byte(part: &str) -> Option<u8> {
    let two_digits = part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
    two_digits
        .then(|| u8::from_str_radix(part, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests;
