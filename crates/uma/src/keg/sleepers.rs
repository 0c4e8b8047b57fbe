//! Threads that wait for an item of a closed keg, and callbacks (feature `extras`).
//!
//! A sleeper keeps the keg closed, so each free reaches one; `keg/closed.rs` wakes them, and has the proof.
//!
//! Locks: the keg's; sleepers wait on it.
//! Sources: FreeBSD's `uz_sleepers`.

use super::{Callback, Keg, Urgency};
use crate::AllocError;
use crate::caught::Caught;
use crate::faults::{ZoneFault, planted};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::time::Duration;
use std::time::Instant;

impl Keg {
    /// Why an allocation would have to wait now; none if an item is available.
    pub(crate) fn shortage(&self) -> Option<AllocError> {
        let state = self.lock();
        (state.available() == 0).then(|| state.why_none(Urgency::Normal))
    }

    /// Waits for an item, until `deadline` if there is one.
    pub(crate) fn sleep(
        &self,
        urgency: Urgency,
        deadline: Option<Instant>,
    ) -> Result<NonNull<u8>, AllocError> {
        let mut state = self.lock();
        state.sleepers += 1;
        state.sleeps += 1;
        drop(state);
        // From here on the keg can't open, even if items have come back meanwhile. It may have been open before.
        let mut caught = Caught::default();
        caught.call(|| self.close());
        state = self.lock();
        let taken = loop {
            let refill_generation = state.refill_generation;
            drop(state);
            let mut one = [MaybeUninit::uninit()];
            let taken = caught.call(|| self.take(&mut one, urgency));
            state = self.lock();
            let error = match taken {
                // SAFETY: `take` wrote as many as it says.
                Some(Ok(_)) => break Ok(unsafe { one[0].assume_init() }),
                Some(Err(error)) => error,
                None => AllocError::NoMemory,
            };
            if caught.is_some() {
                break Err(error);
            }
            if state.refill_generation != refill_generation && !planted(ZoneFault::StaleGeneration)
            {
                continue;
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break Err(error);
            }
            state = self.items_returned.wait(state, left);
        };
        state.sleepers -= 1;
        let followup = self.note_refill(&mut state, 0);
        drop(state);
        caught.call(|| self.run_followup(followup));
        if let (true, Ok(item)) = (caught.is_some(), taken) {
            caught.call(|| self.give(&[item]));
            caught.resume();
            return Err(AllocError::NoMemory);
        }
        caught.resume();
        taken
    }

    /// Registers a callback that is called once, when items have come back. Returns false, and drops the callback, if
    /// an item is available now.
    pub(crate) fn call_back(&self, callback: Callback) -> bool {
        loop {
            self.close();
            let mut state = self.lock();
            if state.available() > 0 {
                let followup = self.note_refill(&mut state, 0);
                drop(state);
                self.run_followup(followup);
                return false;
            }
            // Else another thread has opened the keg, and its items were taken again: close it once more.
            if state.closed {
                state.limit_was_overstated |= state.in_transit > 0;
                state.callbacks.push(callback);
                return true;
            }
        }
    }
}
