//! How many clients of published TCP ports are served at once.
//!
//! Each takes a descriptor and a connection of the stack. Clients come from outside, and the guest's server may keep
//! them open: without a bound they would take all descriptors, and the guest could open no connection of its own.
//!
//! Locks: none. The count is Relaxed: it orders nothing, and only worker 0 adds to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One part in so many of the descriptors, and of the stack's connections, is kept for connections that the guest
/// opens.
const KEPT_SHARE: usize = 4;

/// The clients of all published ports.
#[derive(Clone, Debug)]
pub(super) struct ClientQuota {
    served: Arc<AtomicUsize>,
    max: usize,
}

/// The place that a client has in the quota, until it is dropped.
#[derive(Debug)]
pub(super) struct ClientSlot(Arc<AtomicUsize>);

impl ClientQuota {
    /// For a gateway that may have so many connections.
    pub(super) fn new(connections: usize) -> ClientQuota {
        ClientQuota {
            served: Arc::default(),
            max: connections - connections / KEPT_SHARE,
        }
    }

    /// Clients at most.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// A place for one more client, if there is one.
    pub(super) fn slot(&self) -> Option<ClientSlot> {
        if self.served.load(Ordering::Relaxed) >= self.max {
            return None;
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        Some(ClientSlot(Arc::clone(&self.served)))
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::ClientQuota;

    #[test]
    fn a_quarter_is_kept_and_places_come_back() {
        // Breaks when clients from outside may take every descriptor, or a client that left keeps its place.
        let quota = ClientQuota::new(48);
        let mut slots: Vec<_> = (0..36).map_while(|_| quota.slot()).collect();
        assert_eq!(slots.len(), 36);
        assert!(quota.slot().is_none() && quota.clone().slot().is_none());
        slots.pop();
        assert!(quota.slot().is_some_and(|_| quota.slot().is_none()));
    }
}
