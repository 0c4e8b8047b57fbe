//! The ports of the stations that have sent frames lately.
//!
//! Invariants: at most `max` entries; only addresses of single stations; none of a port that was removed. A full table
//! learns no new address until an entry was silent for a lifetime: a station that sends many forged sources causes
//! flooding, but uses no more memory and evicts no known station. Locks: none. Sources: IEEE 802.1D sections 7.8 and
//! 7.9.

use std::collections::HashMap;
use std::time::Duration;

use kern::{Random, SeededState, Time};
use wire::MacAddr;

use super::{BridgeConfig, PortId};

/// How often a full table is searched for silent stations.
const SWEEP: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Station {
    port: PortId,
    until: Time,
}

/// The table.
pub(super) struct Addresses {
    entries: HashMap<MacAddr, Station, SeededState>,
    max: usize,
    lifetime: Duration,
    /// The time before which a full table is not searched again.
    next_sweep: Time,
}

impl Addresses {
    pub(super) fn new(config: BridgeConfig, random: &mut Random) -> Self {
        Self {
            entries: HashMap::with_hasher(SeededState::new(random)),
            max: config.addresses_max,
            lifetime: config.lifetime,
            next_sweep: Time::from_secs(0),
        }
    }

    /// Learns that a station is at `port`. A source that can't be a single station's is ignored.
    #[doc(alias = "bridge_rtupdate")]
    pub(super) fn learn(&mut self, mac: MacAddr, port: PortId, now: Time) {
        if !mac.is_unicast() {
            return;
        }
        let until = now + self.lifetime;
        if let Some(entry) = self.entries.get_mut(&mac) {
            *entry = Station { port, until };
            return;
        }
        if self.entries.len() >= self.max && now >= self.next_sweep {
            self.entries.retain(|_, entry| now < entry.until);
            self.next_sweep = now + SWEEP;
        }
        if self.entries.len() < self.max {
            self.entries.insert(mac, Station { port, until });
        }
    }

    /// Where a station is.
    #[doc(alias = "bridge_rtlookup")]
    pub(super) fn find(&self, mac: MacAddr, now: Time) -> Option<PortId> {
        let entry = self.entries.get(&mac).filter(|entry| now < entry.until);
        entry.map(|entry| entry.port)
    }

    /// A port was removed.
    #[doc(alias = "bridge_rtdelete")]
    pub(super) fn forget(&mut self, port: PortId) {
        self.entries.retain(|_, entry| entry.port != port);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
