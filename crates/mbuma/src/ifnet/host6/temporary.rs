//! Temporary addresses: random ones beside the stable address of a prefix, each used for a day, so that a host can't be
//! followed by its address.
//!
//! | event | effect |
//! |---|---|
//! | a prefix has a stable address, and no temporary one that stays preferred for some time | one is made, with a random identifier |
//! | `preferred` is nearly over | the next one is made; by the end of its probes this one is deprecated |
//! | a router says that the prefix is deprecated | none is made |
//! | four in succession are duplicates | none is made for the prefix any more |
//!
//! Invariants: at most [`TEMPORARY_MAX`] of an interface; no router can prolong one beyond the lifetime that was set
//! when it was made. Locks: none here. Sources: RFC 8981 sections 3.3 to 3.5 and 3.8.

use std::net::Ipv6Addr;
use std::time::Duration;

use kern::{Random, Time};

use super::config::{Autoconf, TemporaryPolicy};
use super::learnt::{AddrKind, LearntAddr};
use super::stable;
use super::tentative::PROBE_INTERVAL;
use super::{PREFIXES_MAX, TRIES_MAX};
use crate::faults::{StackFault, planted};

/// Temporary addresses at most: one in use for each prefix, and one that is deprecated.
const TEMPORARY_MAX: usize = 2 * PREFIXES_MAX;
/// The least that [`regen_advance`] is (RFC 8981 section 3.8).
const ADVANCE_MIN: Duration = Duration::from_secs(2);

/// The bounds of a temporary address.
#[derive(Debug, Clone, Copy)]
pub(super) struct TemporaryTerm {
    /// No router makes its lifetimes end later.
    pub(super) preferred_max: Time,
    pub(super) valid_max: Time,
    /// The next one was due, and may exist.
    pub(super) is_succeeded: bool,
}

/// How long before its end an address is followed by the next one: as long as the probes for all tries take (RFC 8981
/// section 3.8, REGEN_ADVANCE).
pub(super) fn regen_advance(autoconf: &Autoconf) -> Duration {
    let probes = u32::from(TRIES_MAX) * u32::from(autoconf.dad_transmits);
    ADVANCE_MIN + PROBE_INTERVAL * probes
}

/// The next temporary address of a prefix, if one is due. `known` are all learnt addresses of the interface.
pub(super) fn next(
    autoconf: &Autoconf,
    known: &[LearntAddr],
    now: Time,
    stable: &LearntAddr,
    random: &mut Random,
) -> Option<LearntAddr> {
    let policy = autoconf.temporary?;
    if planted(StackFault::NoNextAddress) && known.iter().any(LearntAddr::is_temporary) {
        return None;
    }
    let soon = now + regen_advance(autoconf);
    let temporary = || known.iter().filter(|known| known.is_temporary());
    let in_use = |known: &LearntAddr| known.is_beside(stable.addr) && known.preferred > soon;
    if temporary().any(in_use) || temporary().count() >= TEMPORARY_MAX {
        return None;
    }
    let term = term(policy, now, random);
    let valid = stable.valid.min(term.valid_max);
    let preferred = stable.preferred.min(term.preferred_max).min(valid);
    if preferred <= soon {
        return None;
    }
    let used = |addr| known.iter().any(|known| known.addr == addr);
    Some(LearntAddr {
        addr: address(stable.addr, random, used),
        tries: 0,
        preferred,
        valid,
        is_deprecated: false,
        kind: AddrKind::Temporary(term),
    })
}

/// The lifetimes, of which up to two fifths are taken off at random, so that hosts that began at once change at other
/// times (RFC 8981 section 3.8, DESYNC_FACTOR).
fn term(policy: TemporaryPolicy, now: Time, random: &mut Random) -> TemporaryTerm {
    let millis = u64::try_from(policy.preferred.as_millis()).unwrap_or(u64::MAX);
    let desync = Duration::from_millis(random.below(millis / 5 * 2 + 1));
    TemporaryTerm {
        preferred_max: now + policy.preferred.saturating_sub(desync),
        valid_max: now + policy.valid,
        is_succeeded: false,
    }
}

/// A random address beside `other` (RFC 8981 section 3.3.1).
pub(super) fn address(
    other: Ipv6Addr,
    random: &mut Random,
    used: impl Fn(Ipv6Addr) -> bool,
) -> Ipv6Addr {
    let network = other.to_bits() >> 64 << 64;
    loop {
        let id = random.next_u64();
        let addr = Ipv6Addr::from_bits(network | u128::from(id));
        if !stable::is_reserved(id) && !used(addr) {
            return addr;
        }
    }
}

/// Marks those whose successors are due. Returns an address of each of their prefixes.
pub(super) fn take_due(learnt: &mut [LearntAddr], now: Time, advance: Duration) -> Vec<Ipv6Addr> {
    let mut due = Vec::new();
    for learnt in learnt {
        if let AddrKind::Temporary(term) = &mut learnt.kind
            && !term.is_succeeded
            && learnt.preferred <= now + advance
        {
            term.is_succeeded = true;
            due.push(learnt.addr);
        }
    }
    due
}

/// The time at which the successor of each is due.
pub(super) fn deadlines(learnt: &[LearntAddr], advance: Duration) -> impl Iterator<Item = Time> {
    learnt.iter().filter_map(move |learnt| match learnt.kind {
        AddrKind::Temporary(term) if !term.is_succeeded => Some(learnt.preferred - advance),
        _ => None,
    })
}
