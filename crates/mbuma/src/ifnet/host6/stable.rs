//! Stable addresses, which other stations can't guess.
//!
//! Locks: none. Sources: RFC 7217 section 5, RFC 5453.

use std::net::Ipv6Addr;

use kern::KeyedHash;

/// An address in the network of `prefix`: attempt number `tries`.
pub(super) fn address(secret: &KeyedHash, prefix: Ipv6Addr, tries: u8) -> Ipv6Addr {
    let network = prefix.to_bits() >> 64;
    for salt in 0_u8.. {
        let mut bytes = [0; 10];
        let (first, rest) = bytes.split_at_mut(8);
        first.copy_from_slice(&(network as u64).to_be_bytes());
        rest.copy_from_slice(&[tries, salt]);
        let id = secret.hash(&bytes);
        if !is_reserved(id) {
            return Ipv6Addr::from_bits(network << 64 | u128::from(id));
        }
    }
    prefix
}

/// Interface identifiers that have a meaning (RFC 5453): the subnet routers', and the anycast ones.
pub(super) fn is_reserved(id: u64) -> bool {
    id == 0 || (0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff).contains(&id)
}
