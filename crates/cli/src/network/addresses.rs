//! Addresses of a network's guests.
//!
//! Invariants: each is a host of the network; an address is reused only after all others, because guests may still have
//! its last owner in their tables. Locks: none.

use std::net::Ipv4Addr;

use crate::addressing::Addressing;

/// Guests at most.
pub(super) const GUESTS_MAX: usize = 128;

/// The next free address after `last`, the one that was given last; after the last address of the network, the search
/// continues at the first guest's.
pub(super) fn next_free(
    network: &Addressing,
    last: Option<Ipv4Addr>,
    is_taken: impl Fn(Ipv4Addr) -> bool,
) -> Option<Ipv4Addr> {
    let first = network.guest.to_bits();
    let broadcast = network.gateway.to_bits() | (u32::MAX >> network.prefix_len);
    let end = broadcast.min(first + GUESTS_MAX as u32);
    let next = last.map_or(first, |addr| addr.to_bits() + 1).min(end);
    let all = (next..end).chain(first..next).map(Ipv4Addr::from_bits);
    all.into_iter().find(|addr| !is_taken(*addr))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_of_the_network() {
        // Breaks if a guest gets the broadcast address, one of another network, another guest's, or one that a guest
        // has just left.
        for (text, count) in [("10.9.0.0/25", 27), ("10.0.2.0/24", 128)] {
            let network: Addressing = text.parse().expect("a network");
            let mut taken = Vec::new();
            while let Some(addr) = next_free(&network, taken.last().copied(), |addr| {
                taken.contains(&addr)
            }) {
                let is_inside = wire::is_same_subnet(addr, network.gateway, network.prefix_len);
                assert!(is_inside && !taken.contains(&addr), "{addr}");
                assert!(addr != network.gateway && addr != network.dns);
                taken.push(addr);
            }
            assert_eq!((taken.len(), taken[0]), (count, network.guest));
            let last = taken.last().copied();
            assert!(!wire::is_subnet_broadcast(
                taken[count - 1],
                network.prefix_len
            ));
            // One that is free again comes after those behind it.
            assert_eq!(
                next_free(&network, last, |addr| addr == taken[0]),
                Some(taken[1])
            );
            assert_eq!(
                next_free(&network, Some(taken[3]), |_| false),
                Some(taken[4])
            );
        }
    }
}
