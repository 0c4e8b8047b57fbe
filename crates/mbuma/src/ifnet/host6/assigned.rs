//! The routers with the prefixes that they advertise for addresses: packets that leave by a router must have a source
//! of its prefix, because the router of another provider may drop them.
//!
//! Invariants: at most [`ASSIGNED_MAX`], and what is beyond is ignored.
//! Locks: none here. Sources: RFC 6724 section 5 (rule 5.5), RFC 8028 section 3.

use std::net::Ipv6Addr;

use kern::Time;
use wire::PrefixInfo;

use super::{PREFIXES_MAX, end};

/// Pairs of a prefix and a router at most: two routers for each prefix.
const ASSIGNED_MAX: usize = 2 * PREFIXES_MAX;

/// The prefixes of each router.
#[derive(Debug, Default)]
pub(super) struct AssignedPrefixes(Vec<AssignedPrefix>);

#[derive(Debug, Clone, Copy)]
struct AssignedPrefix {
    prefix: Ipv6Addr,
    router: Ipv6Addr,
    until: Time,
}

impl AssignedPrefixes {
    /// A router advertises a prefix of 64 bits.
    pub(super) fn note(&mut self, now: Time, router: Ipv6Addr, prefix: &PrefixInfo) {
        let until = end(now, prefix.valid_s);
        self.0
            .retain(|known| known.router != router || known.prefix != prefix.prefix);
        if until > now && self.0.len() < ASSIGNED_MAX {
            self.0.push(AssignedPrefix {
                prefix: prefix.prefix,
                router,
                until,
            });
        }
    }

    /// Removes those whose lifetime is over.
    pub(super) fn expire(&mut self, now: Time) {
        self.0.retain(|known| known.until > now);
    }

    /// When the next lifetime ends.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.0.iter().map(|known| known.until)
    }

    /// The prefixes that this router advertises.
    pub(super) fn of(&self, router: Ipv6Addr) -> Vec<Ipv6Addr> {
        let its = self.0.iter().filter(|known| known.router == router);
        its.map(|known| known.prefix).collect()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
