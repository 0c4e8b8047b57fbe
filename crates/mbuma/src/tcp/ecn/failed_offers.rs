//! The hosts to which no SYN seems to get through that offers AccECN: for a while no SYN to them has its bits, so that
//! each connection does not wait for two timeouts (RFC 9768 3.1.4.1 allows such a cache).
//!
//! Invariants: at most [`HOSTS_MAX`] hosts, of which the oldest is evicted; each is forgotten after [`LIFETIME`],
//! because two lost SYNs may have been congestion, and paths change. Locks: the table (ROUTE); while it is empty a
//! client takes no lock.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kern::{LockClass, Mutex, Time, order};

static HOSTS: LockClass = LockClass::new("failed offers of AccECN", order::ROUTE);

/// Hosts at most.
const HOSTS_MAX: usize = 256;

/// The time for which no offer is made, as for the MTU of a path.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The hosts, each with the time of the next offer.
#[derive(Debug)]
pub(crate) struct FailedOffers {
    hosts: Mutex<BTreeMap<IpAddr, Time>>,
    /// Relaxed: a client that misses the first host makes one offer too many.
    is_empty: AtomicBool,
}

impl FailedOffers {
    pub(crate) fn new() -> Self {
        Self {
            hosts: Mutex::new(&HOSTS, BTreeMap::new()),
            is_empty: AtomicBool::new(true),
        }
    }

    /// A host answered a SYN without the bits, and none of those before.
    pub(crate) fn note(&self, host: IpAddr, now: Time) {
        let mut hosts = self.hosts.lock();
        if hosts.len() >= HOSTS_MAX && !hosts.contains_key(&host) {
            let oldest = hosts.iter().min_by_key(|(_, until)| **until);
            if let Some(oldest) = oldest.map(|(host, _)| *host) {
                hosts.remove(&oldest);
            }
        }
        hosts.insert(host, now + LIFETIME);
        self.is_empty.store(false, Ordering::Relaxed);
    }

    /// Whether an offer to this host would fail, as far as is known.
    pub(crate) fn includes(&self, host: IpAddr, now: Time) -> bool {
        !self.is_empty.load(Ordering::Relaxed)
            && self
                .hosts
                .lock()
                .get(&host)
                .is_some_and(|until| now < *until)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_oldest_host_makes_room() {
        // Breaks if a client of many hosts keeps all of them in memory, or forgets the last one.
        let offers = FailedOffers::new();
        let host = |n: u32| IpAddr::from(Ipv4Addr::from_bits(n));
        for n in 0..=HOSTS_MAX as u32 {
            assert!(!offers.includes(host(n), Time::from_secs(n.into())));
            offers.note(host(n), Time::from_secs(n.into()));
        }
        let now = Time::from_secs(HOSTS_MAX as u64);
        assert!(!offers.includes(host(0), now));
        assert!((1..=HOSTS_MAX as u32).all(|n| offers.includes(host(n), now)));
        assert!(!offers.includes(host(1), now + LIFETIME));
        assert_eq!(offers.hosts.lock().len(), HOSTS_MAX);
    }
}
