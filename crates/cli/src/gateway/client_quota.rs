//! How many clients of published and outward TCP ports are served at once.
//!
//! One of a published port takes a descriptor and a connection of the stack, one of an outward port two descriptors.
//! Clients come from outside, and the guest's server may keep them open: without a bound they would take all
//! descriptors, and the guest could open no connection of its own. Clients from outside and the guest's own have a
//! quota each, so neither takes the places of the other.
//!
//! Locks: none. The count is Relaxed: it orders nothing, and only worker 0 adds to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Clients of published ports have at most one part in so many of the descriptors, and of the stack's connections.
pub(super) const PUBLISHED_SHARE: usize = 2;
/// Clients of outward ports, which are programs of the guest.
pub(super) const OUTWARD_SHARE: usize = 8;
/// Descriptors of a client at most.
const CLIENT_DESCRIPTORS: usize = 2;

/// The clients of all published ports, or of all outward ones.
#[derive(Clone, Debug)]
pub(super) struct ClientQuota {
    served: Arc<AtomicUsize>,
    max: usize,
}

/// The places that a client has in the quota, until it is dropped.
#[derive(Debug)]
pub(super) struct ClientSlot {
    served: Arc<AtomicUsize>,
    places: usize,
}

impl ClientQuota {
    /// One part in `share` of so many connections, which the gateway may have.
    pub(super) fn new(connections: usize, share: usize) -> ClientQuota {
        ClientQuota {
            served: Arc::default(),
            max: (connections / share).max(CLIENT_DESCRIPTORS),
        }
    }

    /// Places at most.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// A slot for one more client, which takes so many descriptors, if there are as many places.
    pub(super) fn slot(&self, places: usize) -> Option<ClientSlot> {
        if self.served.load(Ordering::Relaxed) + places > self.max {
            return None;
        }
        self.served.fetch_add(places, Ordering::Relaxed);
        let served = Arc::clone(&self.served);
        Some(ClientSlot { served, places })
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.served.fetch_sub(self.places, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::ClientQuota;

    #[test]
    fn a_part_is_kept_and_places_come_back() {
        // Breaks when clients from outside may take every descriptor, or a client that left keeps its place.
        let quota = ClientQuota::new(72, 2);
        let mut slots: Vec<_> = (0..36).map_while(|_| quota.slot(1)).collect();
        assert_eq!(slots.len(), 36);
        assert!(quota.slot(1).is_none() && quota.clone().slot(1).is_none());
        slots.pop();
        assert!(quota.slot(2).is_none());
        assert!(quota.slot(1).is_some_and(|_| quota.slot(1).is_none()));
    }

    #[test]
    fn a_client_with_two_descriptors_takes_two_places() {
        // Breaks when clients of outward ports take the descriptors of the guest's own connections.
        let quota = ClientQuota::new(72, 2);
        let slots: Vec<_> = (0..36).map_while(|_| quota.slot(2)).collect();
        assert_eq!(slots.len(), 18);
        assert!(quota.slot(1).is_none());
        drop(slots);
        assert!(quota.slot(36).is_some());
    }
}
