//! Selects the source address of a packet.
//!
//! Invariants: a pure choice among the addresses of one interface. Locks: none.
//! Sources: RFC 6724 section 5 (rules).

use std::net::Ipv6Addr;

use wire::scope6;

use super::policy_table::PolicyTable;

/// The properties of an address that the selection needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// It is deprecated.
    pub(crate) deprecated: bool,
    /// The next hop advertises its prefix.
    pub(crate) assigned: bool,
    /// It is of the kind that the interface prefers for new connections: temporary, or not temporary.
    pub(crate) favoured: bool,
}

/// The best of `own` to send from to `dst`, if there is one.
pub(crate) fn select(
    own: impl Iterator<Item = Ipv6Addr>,
    dst: Ipv6Addr,
    table: &PolicyTable,
    standing: impl Fn(Ipv6Addr) -> Standing,
) -> Option<Ipv6Addr> {
    own.reduce(|best, next| {
        if is_better(next, best, (dst, table), &standing) {
            next
        } else {
            best
        }
    })
}

/// Whether `a` is better than `b`. Of two equal ones the first stays.
fn is_better(
    a: Ipv6Addr,
    b: Ipv6Addr,
    (dst, table): (Ipv6Addr, &PolicyTable),
    standing: impl Fn(Ipv6Addr) -> Standing,
) -> bool {
    // Rule 1: the same address.
    if (a == dst) != (b == dst) {
        return a == dst;
    }
    // Rule 2: the smallest scope that includes the destination; else the largest scope.
    let (scope_a, scope_b, wanted) = (scope6(a), scope6(b), scope6(dst));
    if scope_a != scope_b {
        return if scope_a < scope_b {
            scope_a >= wanted
        } else {
            scope_b < wanted
        };
    }
    // Rule 3: prefer an address that is not deprecated.
    let (of_a, of_b) = (standing(a), standing(b));
    if of_a.deprecated != of_b.deprecated {
        return of_b.deprecated;
    }
    // Rule 5.5: an address of a prefix that the next hop advertises. Rules 4 and 5 are about home addresses and other
    // interfaces.
    if of_a.assigned != of_b.assigned {
        return of_a.assigned;
    }
    // Rule 6: an address with the label of the destination.
    let same_label = |addr| table.label(addr) == table.label(dst);
    if same_label(a) != same_label(b) {
        return same_label(a);
    }
    // Rule 7: a temporary address, or one that is not temporary, as the interface prefers.
    if of_a.favoured != of_b.favoured {
        return of_a.favoured;
    }
    // Rule 8: the longest prefix in common.
    common_prefix(a, dst) > common_prefix(b, dst)
}

/// Bits of the common prefix: at most 64, because the bits after that do not belong to the network.
pub(super) fn common_prefix(a: Ipv6Addr, b: Ipv6Addr) -> u32 {
    (a.to_bits() ^ b.to_bits()).leading_zeros().min(64)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
