//! Properties of IPv4 addresses that the standard library does not have.
//!
//! Invariants: a martian is an address that no honest packet can carry in that place, whatever the interface;
//! functions that depend on the interface (its own broadcast, its own address) take it as an argument.
//! Locks: none.
//! Sources: RFC 1122 section 3.2.1.3, RFC 1812 sections 4.2.2.11 and 5.3.7, RFC 6890.

use core::net::Ipv4Addr;

/// Whether no honest packet from a link can have this source: loopback, a group, class E with the
/// limited broadcast, or network zero.
///
/// The unspecified address is no martian: a host without an address yet sends from it (DHCP), and the caller decides
/// where to accept that.
#[inline]
pub const fn is_martian_source(addr: Ipv4Addr) -> bool {
    !addr.is_unspecified() && (is_reserved(addr) || addr.is_multicast())
}

/// Whether no honest packet from a link can have this destination: loopback, network zero, or class E
/// other than the limited broadcast.
#[inline]
pub const fn is_martian_destination(addr: Ipv4Addr) -> bool {
    is_reserved(addr) && !addr.is_broadcast()
}

/// Whether `addr` names every host of a subnet with this prefix length: its bits behind the prefix are
/// all ones. Prefixes of 31 and 32 bits have no such address (RFC 3021).
#[doc(alias = "in_broadcast")]
#[inline]
pub const fn is_subnet_broadcast(addr: Ipv4Addr, prefix_len: u8) -> bool {
    let host_bits = host_mask(prefix_len);
    prefix_len < 31 && addr.to_bits() & host_bits == host_bits
}

/// Whether both addresses lie in the same subnet of this prefix length.
#[inline]
pub const fn is_same_subnet(a: Ipv4Addr, b: Ipv4Addr, prefix_len: u8) -> bool {
    (a.to_bits() ^ b.to_bits()) & !host_mask(prefix_len) == 0
}

/// Loopback, network zero and class E, the limited broadcast included.
#[inline]
const fn is_reserved(addr: Ipv4Addr) -> bool {
    let [first, ..] = addr.octets();
    matches!(first, 0 | 127 | 240..=255)
}

/// Whether this is a group of source-specific multicast: 232/8 (RFC 4607 section 1).
pub const fn is_source_specific4(addr: Ipv4Addr) -> bool {
    addr.octets()[0] == 232
}

/// Ones where a subnet of this prefix length counts its hosts; a prefix above 32 counts as 32.
#[inline]
const fn host_mask(prefix_len: u8) -> u32 {
    match u32::MAX.checked_shr(prefix_len as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

#[cfg(test)]
mod tests;
