//! The meaning of an IPv6 address: its scope, its solicited-node group, impossible sources.
//!
//! Invariants: pure functions. Locks: none.
//! Sources: RFC 4291 (architecture), RFC 4007 (scopes), RFC 2464 section 7 (Ethernet groups), RFC 6890 (special
//! purposes), RFC 4607 (source-specific multicast).

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::MacAddr;

/// The scope of an address (RFC 4007).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope6 {
    /// Inside of a host, or an interface.
    Interface,
    /// On one link: it names an interface only with a zone.
    Link,
    /// Further: a realm, a site, an organization.
    Site,
    /// Everywhere.
    Global,
}

/// The scope of `addr` (RFC 4007 section 4, RFC 6724 section 3.1).
pub const fn scope6(addr: Ipv6Addr) -> Scope6 {
    let [first, second, ..] = addr.octets();
    if first == 0xff {
        return match second & 0x0f {
            0 | 1 => Scope6::Interface,
            2 => Scope6::Link,
            3..=13 => Scope6::Site,
            _ => Scope6::Global,
        };
    }
    // The loopback address has link-local scope, on a link inside of the host (RFC 4291 section 2.5.3).
    if addr.is_loopback() || is_link_local6(addr) {
        return Scope6::Link;
    }
    match (first, second & 0xc0) {
        (0xfe, 0xc0) => Scope6::Site,
        _ => Scope6::Global,
    }
}

/// Whether it is an fe80::/10 address.
pub const fn is_link_local6(addr: Ipv6Addr) -> bool {
    let [first, second, ..] = addr.octets();
    first == 0xfe && second & 0xc0 == 0x80
}

/// Whether the address needs a zone, which names its link.
pub const fn needs_zone(addr: Ipv6Addr) -> bool {
    !addr.is_loopback() && matches!(scope6(addr), Scope6::Link | Scope6::Interface)
}

/// The group in which a station with this address is: ff02::1:ff00:0 and the last 24 bits (RFC 4291 section 2.7.1).
pub const fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    let (mid, low) = (0xff00 | a as u16, u16::from_be_bytes([b, c]));
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, mid, low)
}

/// Whether it is a group of source-specific multicast, ff3x::/32: hosts listen to named senders of it only (RFC 4607
/// section 1).
pub const fn is_source_specific6(addr: Ipv6Addr) -> bool {
    let [first, second, third, fourth, ..] = addr.octets();
    first == 0xff && second & 0xf0 == 0x30 && third == 0 && fourth == 0
}

/// All stations on a link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers on a link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// Whether no honest packet on a link has this source: a group, the loopback address, an embedded IPv4 address of a
/// form that never appears on a wire (RFC 4291 section 2.5.3, 2.7; RFC 6890).
pub const fn is_martian_source6(addr: Ipv6Addr) -> bool {
    addr.is_multicast() || is_martian_destination6(addr)
}

/// Whether no packet on a link may have this destination.
pub const fn is_martian_destination6(addr: Ipv6Addr) -> bool {
    addr.is_unspecified() || addr.is_loopback() || wraps_ipv4(addr)
}

/// Whether it is an IPv4-mapped or an IPv4-compatible address, which stands for an IPv4 address inside of a program.
pub const fn wraps_ipv4(addr: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, ..] = addr.segments();
    let zero = a == 0 && b == 0 && c == 0 && d == 0 && e == 0;
    zero && (f == 0 || f == 0xffff) && !addr.is_loopback() && !addr.is_unspecified()
}

/// The IPv4 address that a translator or a tunnel takes out of this one: NAT64's (RFC 6052, RFC 8215), 6to4's (RFC
/// 3056).
pub const fn translated_ipv4(addr: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = addr.segments();
    let (high, low) = match (a, b) {
        (0x64, 0xff9b) if c == 1 || (c == 0 && d == 0 && e == 0 && f == 0) => (g, h),
        (0x2002, _) => (b, c),
        _ => return None,
    };
    let ([w, x], [y, z]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(w, x, y, z))
}

/// The link-local address that is made of an Ethernet address (RFC 4291 appendix A).
pub const fn link_local_of(mac: MacAddr) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        u16::from_be_bytes([a ^ 0x02, b]),
        u16::from_be_bytes([c, 0xff]),
        u16::from_be_bytes([0xfe, d]),
        u16::from_be_bytes([e, f]),
    )
}

/// Whether `a` and `b` agree in their first `prefix_len` bits.
pub const fn is_same_prefix(a: Ipv6Addr, b: Ipv6Addr, prefix_len: u8) -> bool {
    let differ = a.to_bits() ^ b.to_bits();
    prefix_len == 0 || (differ.leading_zeros() as u8) >= prefix_len
}

#[cfg(test)]
mod tests;
