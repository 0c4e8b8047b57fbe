//! Orders the addresses of a host, the one that a program should try first before the others.
//!
//! Invariants: a pure function of destinations whose sources are known. Locks: none.
//! Sources: RFC 6724 sections 3.2 (scopes of IPv4) and 6 (rules).

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv6Addr};

use wire::{Scope6, scope6};

use super::policy_table::PolicyTable;
use super::source::common_prefix;

/// A destination, with the source that packets to it have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) dst: IpAddr,
    /// None: no route leads there.
    pub(crate) src: Option<IpAddr>,
    /// The source is deprecated.
    pub(crate) deprecated: bool,
}

impl Candidate {
    /// The rank of the destination: the least is the best. Rules 1 (it is usable), 2 (its source has its scope), 3 (and
    /// is not deprecated), 5 (and has its label), 6 (its precedence), 8 (the smaller scope) and 9 (the longest prefix
    /// in common with the source); 4 and 7 are about home addresses and tunnels.
    pub(crate) fn rank(&self, table: &PolicyTable) -> impl Ord + use<> {
        let (dst, src) = (mapped(self.dst), self.src.map(mapped));
        let is_like_src = |like: &dyn Fn(Ipv6Addr) -> bool| src.is_some_and(like);
        let has_label = |src| table.label(src) == table.label(dst);
        (
            src.is_none(),
            !is_like_src(&|src| scope(src) == scope(dst)),
            self.deprecated,
            !is_like_src(&has_label),
            Reverse(table.precedence(dst)),
            scope(dst),
            // Rule 9 compares destinations of one version only, so one version has to come first.
            self.dst.is_ipv4(),
            Reverse(src.map(|src| common_prefix(src, dst))),
        )
    }
}

fn mapped(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    }
}

/// The scope; of IPv4, loopback and link-local addresses are good on a link, and all others everywhere.
fn scope(addr: Ipv6Addr) -> Scope6 {
    match addr.to_ipv4_mapped() {
        Some(addr) if addr.is_loopback() || addr.is_link_local() => Scope6::Link,
        Some(_) => Scope6::Global,
        None => scope6(addr),
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn candidate(dst: &str, src: Option<&str>) -> Candidate {
        Candidate {
            dst: dst.parse().expect("an address"),
            src: src.map(|src| src.parse().expect("an address")),
            deprecated: false,
        }
    }

    /// The first of two destinations, each with its source, is better.
    fn first_is_better(first: (&str, &str), second: (&str, &str)) {
        let table = PolicyTable::default();
        let [better, worse] = [first, second].map(|(dst, src)| candidate(dst, Some(src)));
        assert!(
            better.rank(&table) < worse.rank(&table),
            "{first:?}, {second:?}"
        );
    }

    #[test]
    fn destinations_are_ordered_as_in_rfc_6724() {
        // Breaks if a program tries an address first that is worse by a rule of section 6: the examples of section
        // 10.2.
        first_is_better(
            ("2001:db8:1::1", "2001:db8:1::2"),
            ("198.51.100.121", "169.254.13.78"),
        );
        first_is_better(
            ("198.51.100.121", "198.51.100.117"),
            ("2001:db8:1::1", "fe80::1"),
        );
        first_is_better(("2001:db8:1::1", "2001:db8:1::2"), ("10.1.2.3", "10.1.2.4"));
        first_is_better(("fe80::1", "fe80::2"), ("2001:db8:1::1", "2001:db8:1::2"));
        first_is_better(
            ("2001:db8:1::1", "2001:db8:1::2"),
            ("2002:c633:6401::1", "2002:c633:6401::2"),
        );
        first_is_better(
            ("2001:db8:1::1", "2001:db8:1::2"),
            ("2001:db8:3ffe::1", "2001:db8:3f44::2"),
        );
        // Rules 1 and 3.
        let table = PolicyTable::default();
        let good = candidate("2001:db8::1", Some("2001:db8::2"));
        let deprecated = Candidate {
            deprecated: true,
            ..good
        };
        let unreachable = candidate("2001:db8::1", None);
        assert!(good.rank(&table) < deprecated.rank(&table));
        assert!(deprecated.rank(&table) < unreachable.rank(&table));
    }
}
