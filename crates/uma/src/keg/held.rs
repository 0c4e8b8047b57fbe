//! A keg with all locks of its zones held during a fork.
//!
//! Invariant: no zone of a held keg ends, because it would first have to leave the list of members.
//! Locks: as in `keg.rs`, then samples, weak references and slots; of all kegs, class by class.

use super::{Keg, KegState, Members};
use crate::depot::Depot;
use crate::percpu::SlotsHeld;
use crate::sample::TableHeld;
use crate::weak::WeakHeld;
use crate::zone_inner::ZoneInner;
use kern::prim::MutexGuard;
use std::sync::Arc;

/// The locks of some kegs, held by the thread that forks. They are released in the order of the fields.
pub(crate) struct KegsHeld {
    _slots: Vec<SlotsHeld<'static>>,
    weaks: Vec<WeakHeld<'static>>,
    tables: Vec<TableHeld<'static>>,
    #[cfg(feature = "invariants")]
    ledgers: Vec<crate::invariants::LedgerHeld<'static>>,
    states: Vec<MutexGuard<'static, KegState>>,
    depots: Vec<MutexGuard<'static, Depot>>,
    members: Vec<MutexGuard<'static, Members>>,
    zones: Vec<&'static ZoneInner>,
    /// Last: the kegs keep the locks that the other fields hold.
    _kegs: Vec<Arc<Keg>>,
}

impl KegsHeld {
    /// Waits for all these locks.
    pub(crate) fn take(kegs: Vec<Arc<Keg>>) -> Self {
        // SAFETY: the kegs are dropped after all that is made of these references, and no reference leaves.
        let each = || kegs.iter().map(|keg| unsafe { &*Arc::as_ptr(keg) });
        let members: Vec<_> = each()
            .map(|keg: &'static Keg| keg.members.lock_for_fork())
            .collect();
        let zones: Vec<&'static ZoneInner> = (members.iter().flat_map(|members| &members.zones))
            // SAFETY: a zone leaves the list, which is locked, before it ends.
            .map(|zone| unsafe { zone.as_ref() })
            .collect();
        Self {
            depots: zones.iter().map(|zone| zone.depot.hold()).collect(),
            states: each().map(|keg| keg.state.0.lock_for_fork()).collect(),
            tables: each().map(|keg| keg.samples.hold()).collect(),
            #[cfg(feature = "invariants")]
            ledgers: each().map(|keg| keg.ledger.hold()).collect(),
            weaks: zones.iter().map(|zone| zone.weak.hold()).collect(),
            _slots: zones.iter().map(|zone| zone.percpu.hold()).collect(),
            members,
            zones,
            _kegs: kegs,
        }
    }

    /// Called in the child of the fork: forgets threads that do not exist there, and the operations that they had
    /// begun.
    pub(crate) fn forget_others(&mut self) {
        self.members.iter().for_each(MutexGuard::forget_waiters);
        self.depots.iter().for_each(MutexGuard::forget_waiters);
        self.states.iter().for_each(MutexGuard::forget_waiters);
        self.tables.iter_mut().for_each(TableHeld::forget_others);
        #[cfg(feature = "invariants")]
        (self.ledgers.iter()).for_each(crate::invariants::LedgerHeld::forget_others);
        self.weaks.iter().for_each(WeakHeld::forget_others);
        self.zones.iter().for_each(|zone| zone.forget_others());
        for state in &mut self.states {
            (state.in_transit, state.sleepers) = (0, 0);
            if let Some(slabs) = &mut state.slabs {
                slabs.forget_purge();
            }
        }
    }
}
