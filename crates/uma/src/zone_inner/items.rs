//! Items on their way between the keg and the caches, through the hooks of both.

use super::ZoneInner;
use crate::bucket::Owned;
use crate::caught::Caught;
use crate::hooks::Hooks;
use core::ptr::NonNull;

impl ZoneInner {
    /// Returns items that no caller has to the keg, through `fini` if they have been through `init`. The caller is
    /// inside or has a handle.
    pub(crate) fn give_to_keg(
        &self,
        items: &[NonNull<u8>],
        initialised: bool,
        caught: &mut Caught,
    ) {
        // The last free poisoned it.
        items.iter().for_each(|&item| self.unpoison_item(item));
        if initialised {
            (items.iter()).for_each(|&item| self.finalise(item, caught));
        }
        items.iter().for_each(|&item| self.fill_trash(item));
        items.iter().for_each(|&item| self.poison_item(item));
        caught.call(|| self.keg.give(items));
        self.count_returned(items.len());
    }

    /// Runs `init` on items from the keg. Returns how many succeeded: neither the first item that is refused nor any
    /// after it has been through `init`.
    pub(crate) fn initialise(&self, items: &[NonNull<u8>], caught: &mut Caught) -> usize {
        if self.keg.hooks.is_none() && !self.own_init {
            return items.len();
        }
        let refuses = |&item: &NonNull<u8>| !self.init_one(item, caught);
        items.iter().position(refuses).unwrap_or(items.len())
    }

    fn init_one(&self, item: NonNull<u8>, caught: &mut Caught) -> bool {
        #[cfg(feature = "invariants")]
        if self.fails.init.fails() {
            return false;
        }
        let master = self.keg.hooks.as_deref();
        let refuses = |hooks: &dyn Hooks, caught: &mut Caught| {
            // SAFETY: the item was just taken from the keg, and only this thread has it.
            let init = caught.call(|| unsafe { hooks.init(item) });
            !matches!(init, Some(Ok(())))
        };
        if master.is_some_and(|hooks| refuses(hooks, caught)) {
            return false;
        }
        if self.own_init && refuses(&*self.hooks, caught) {
            if let Some(hooks) = master {
                // SAFETY: it went through the master's `init`, above.
                caught.call(|| unsafe { hooks.fini(item) });
            }
            return false;
        }
        true
    }

    /// Runs `fini` over a free item that went through `init` and that only the caller has.
    pub(crate) fn finalise(&self, item: NonNull<u8>, caught: &mut Caught) {
        if self.keg.hooks.is_none() && !self.own_init {
            return;
        }
        if self.own_init {
            // SAFETY: the item is free, went through `init`, and only this thread has it.
            caught.call(|| unsafe { self.hooks.fini(item) });
        }
        if let Some(hooks) = &self.keg.hooks {
            // SAFETY: as above.
            caught.call(|| unsafe { hooks.fini(item) });
        }
        self.counts.finalised.inc();
    }

    /// Returns the items of a bucket to the keg, and the bucket to the depot. The caller is inside or has a handle.
    pub(crate) fn empty_into_keg(&self, bucket: Owned, caught: &mut Caught) {
        let bucket = self.emptied(bucket, caught);
        self.depot.lock().push(bucket);
    }

    /// Returns the items of a bucket to the keg.
    pub(crate) fn emptied(&self, mut bucket: Owned, caught: &mut Caught) -> Owned {
        self.give_to_keg(bucket.items(), true, caught);
        bucket.truncate(0);
        bucket
    }
}
