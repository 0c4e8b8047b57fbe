//! Addresses that were made from routers' prefixes, with their lifetimes.
//!
//! Locks: none here. Sources: RFC 4862 sections 5.5.3 and 5.5.4.

use std::net::Ipv6Addr;
use std::time::Duration;

use kern::Time;
use wire::is_same_prefix;

use super::HostAction;
use super::temporary::TemporaryTerm;

/// A router can't make a valid address invalid sooner (RFC 4862 section 5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);

/// An address that was made from a router's prefix.
#[derive(Debug, Clone, Copy)]
pub(super) struct LearntAddr {
    pub(super) addr: Ipv6Addr,
    /// How often another station had it before.
    pub(super) tries: u8,
    pub(super) preferred: Time,
    pub(super) valid: Time,
    /// `preferred` is over, and that was noted.
    pub(super) is_deprecated: bool,
    pub(super) kind: AddrKind,
}

/// The kind of its identifier.
#[derive(Debug, Clone, Copy)]
pub(super) enum AddrKind {
    /// With the secret.
    Stable {
        /// Other stations had its temporary addresses too often: no more are made.
        is_alone: bool,
    },
    /// At random.
    Temporary(TemporaryTerm),
}

impl LearntAddr {
    /// A router gives the prefix new lifetimes.
    pub(super) fn renew(&mut self, now: Time, preferred: Time, valid: Time) {
        self.preferred = preferred;
        let soon = now + TWO_HOURS;
        if valid > soon || valid > self.valid {
            self.valid = valid;
        } else if self.valid > soon {
            self.valid = soon;
        }
        if let AddrKind::Temporary(term) = &mut self.kind {
            self.preferred = self.preferred.min(term.preferred_max);
            self.valid = self.valid.min(term.valid_max);
            term.is_succeeded = false;
        }
    }

    /// Whether its identifier is random.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self.kind, AddrKind::Temporary(_))
    }

    /// Whether it was made from the prefix of `addr`.
    pub(super) fn is_beside(&self, addr: Ipv6Addr) -> bool {
        is_same_prefix(self.addr, addr, 64)
    }
}

/// Removes those whose lifetime is over.
pub(super) fn expire(learnt: &mut Vec<LearntAddr>, now: Time, actions: &mut Vec<HostAction>) {
    learnt.retain(|learnt| {
        let is_over = learnt.valid <= now;
        actions.extend(is_over.then_some(HostAction::Remove(learnt.addr)));
        !is_over
    });
}

/// When each is deprecated or invalid.
pub(super) fn deadlines(learnt: &[LearntAddr]) -> impl Iterator<Item = Time> {
    let preferred = learnt.iter().filter(|learnt| !learnt.is_deprecated);
    let preferred = preferred.map(|learnt| learnt.preferred);
    let valid = learnt.iter().map(|learnt| learnt.valid);
    valid.chain(preferred)
}
