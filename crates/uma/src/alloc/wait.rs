//! Allocation by a thread that may sleep (feature `extras`).

use crate::AllocError;
use crate::caught::Caught;
use crate::keg::Urgency;
use crate::sample::Site;
use crate::zone_inner::ZoneInner;
use core::ptr::NonNull;
use std::time::Instant;

impl ZoneInner {
    /// An item, after a sleep if need be, until `deadline` if there is one.
    pub(crate) fn take_or_wait(
        &self,
        deadline: Option<Instant>,
        site: Site,
    ) -> Result<NonNull<u8>, AllocError> {
        if let Some(item) = self.percpu.pop().or_else(|| self.sample(Some(site))) {
            return Ok(item);
        }
        let mut caught = Caught::default();
        match self.refill_or_take_built(&mut caught) {
            Err(AllocError::Limit | AllocError::NoMemory) if !caught.is_some() => {}
            settled => return self.settled(settled, caught),
        }
        self.counts.shortages.inc();
        kern::witness::assert_none("an allocation that may sleep");
        self.keg.close();
        if let Some(error) = self.keg.shortage() {
            self.warn_of(error);
        }
        let item = self.keg.sleep(Urgency::Normal, deadline);
        let item = item.and_then(|item| self.taken_directly(item, &mut caught));
        self.settled(item, caught)
    }
}
