//! How many clients of published and outward TCP ports are served at once.
//!
//! One of a published port takes a descriptor and a connection of the stack, one of an outward port two descriptors.
//! Clients come from outside, and the guest's server may keep them open: without a bound they would take all
//! descriptors, and the guest could open no connection of its own. Clients from outside and the guest's own have a
//! quota each, so neither takes the places of the other. The last part of a quota is for ports with few clients: those
//! of a server that keeps its clients for ever leave places to other ports, such as one for ssh.
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
/// One part in so many of a quota is for ports with less than [`FEW`] places.
const KEPT_SHARE: usize = 8;
/// Places of a port with few clients.
const FEW: usize = 16;

/// The clients of all published ports, or of all outward ones, and of one of them.
#[derive(Debug)]
pub(super) struct ClientQuota {
    served: Arc<AtomicUsize>,
    of_port: Arc<AtomicUsize>,
    max: usize,
}

/// The places that a client has in the quota, until it is dropped.
#[derive(Debug)]
pub(super) struct ClientSlot {
    served: [Arc<AtomicUsize>; 2],
    places: usize,
}

impl ClientQuota {
    /// One part in `share` of so many connections, which the gateway may have.
    pub(super) fn new(connections: usize, share: usize) -> ClientQuota {
        ClientQuota {
            served: Arc::default(),
            of_port: Arc::default(),
            max: (connections / share).max(CLIENT_DESCRIPTORS),
        }
    }

    /// The same for another port.
    pub(super) fn for_port(&self) -> ClientQuota {
        ClientQuota {
            served: Arc::clone(&self.served),
            of_port: Arc::default(),
            max: self.max,
        }
    }

    /// Places at most.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// A slot for one more client, which takes so many descriptors, if there are as many places.
    pub(super) fn slot(&self, places: usize) -> Option<ClientSlot> {
        let served = [&self.served, &self.of_port];
        let [all, of_port] = served.map(|count| count.load(Ordering::Relaxed) + places);
        let kept = match of_port <= FEW {
            true => 0,
            false => self.max / KEPT_SHARE,
        };
        if all + kept > self.max {
            return None;
        }
        let served = served.map(|count| {
            count.fetch_add(places, Ordering::Relaxed);
            Arc::clone(count)
        });
        Some(ClientSlot { served, places })
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        for count in &self.served {
            count.fetch_sub(self.places, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientQuota, FEW};

    #[test]
    fn a_part_is_kept_and_places_come_back() {
        // Breaks when clients from outside may take every descriptor, or a client that left keeps its place.
        let quota = ClientQuota::new(720, 2);
        let mut slots: Vec<_> = (0..720).map_while(|_| quota.slot(1)).collect();
        assert_eq!(slots.len(), 360 / 8 * 7);
        assert!(quota.slot(1).is_none());
        // Breaks when clients of one port that never leave keep those of another out.
        let other = quota.for_port();
        slots.extend((0..720).map_while(|_| other.slot(1)));
        assert_eq!(slots.len(), 360 / 8 * 7 + FEW);
        let others = std::iter::repeat_with(|| quota.for_port()).take(100);
        slots.extend(others.filter_map(|other| other.slot(1)));
        assert_eq!(slots.len(), 360);
        assert!(quota.for_port().slot(1).is_none());
        slots.pop();
        assert!(quota.for_port().slot(2).is_none());
        assert!(
            quota
                .for_port()
                .slot(1)
                .is_some_and(|_| quota.for_port().slot(1).is_none())
        );
    }

    #[test]
    fn a_client_with_two_descriptors_takes_two_places() {
        // Breaks when clients of outward ports take the descriptors of the guest's own connections.
        let quota = ClientQuota::new(32, 2);
        let slots: Vec<_> = (0..36).map_while(|_| quota.slot(2)).collect();
        assert_eq!(slots.len(), 8);
        assert!(quota.slot(1).is_none());
        drop(slots);
        assert!(quota.slot(16).is_some());
    }
}
