//! A keg over another allocator (feature `extras`).
//!
//! An import counts items as out before they arrive, and may bring fewer. An allocation that was refused meanwhile
//! must then try again: otherwise it would fail, or sleep, below the limit.
//!
//! Locks: the keg's, but not while the import runs.

use super::{Keg, KegState};
use crate::caught::Caught;
use crate::faults::{ZoneFault, planted};
use crate::hooks::{Import, Imported};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use kern::prim::MutexGuard;

impl Keg {
    /// Takes items from the owner of a cache-only zone. All that may come counts as out; a thread that is refused
    /// meanwhile tries again after the import. Returns how many came.
    pub(super) fn take_imported<'a>(
        &'a self,
        mut state: MutexGuard<'a, KegState>,
        store: &dyn Import,
        out: &mut [MaybeUninit<NonNull<u8>>],
    ) -> (MutexGuard<'a, KegState>, usize) {
        let want = out.len();
        state.out += want;
        state.in_transit += 1;
        drop(state);
        let mut imported = Imported::new(out);
        let mut caught = Caught::default();
        if !self.import_fails() {
            caught.call(|| store.import(&mut imported));
        }
        let got = imported.len();
        state = self.lock();
        state.out -= want - got;
        state.starved = false;
        state.in_transit -= 1;
        if got < want && state.limit_was_overstated && !planted(ZoneFault::SilentImport) {
            state.limit_was_overstated = false;
            state.refill_generation += 1;
            let followup = self.note_refill(&mut state, usize::MAX);
            drop(state);
            caught.call(|| self.run_followup(followup));
            state = self.lock();
        }
        if caught.is_some() {
            drop(state);
            if got > 0 {
                caught.call(|| self.give(imported.items()));
            }
            caught.resume();
            return (self.lock(), 0);
        }
        (state, got)
    }

    fn import_fails(&self) -> bool {
        #[cfg(feature = "invariants")]
        return self.import_point.fails();
        #[cfg(not(feature = "invariants"))]
        false
    }
}
