//! Taking the buckets of a CPU whose threads may be using them.
//!
//! [`drain`](Percpu::drain), in four steps:
//!
//! 1. The drainer sets `stop` in the slots (Relaxed), then calls [`fence`](Percpu::fence): a thread
//!    in an exchange that has not read the flag starts again and reads it. From now on only the
//!    drainer changes `loaded` and `previous`. Pops and pushes continue: they do not read the flag.
//! 2. The drainer puts the sentinel in their place.
//! 3. The drainer calls `fence` again: a thread in a pop or push on an old bucket starts again, and
//!    finds the sentinel, which has no item and no room.
//! 4. The drainer owns the old buckets.
//!
//! One fence is not enough: an exchange could put back a bucket that the drainer has taken already,
//! and a pop could take an item that the drainer has passed on (`models/exchange.rs` finds the
//! missing fence).
//!
//! Locks: the caller's, which makes it the only one to drain, stop or start.

#[cfg(not(any(loom, shuttle)))]
use super::SlotsHeld;
#[cfg(any(loom, shuttle))]
use super::sys::section;
use super::{CpuSlot, Owned, Percpu, fence, locked};
use crate::bucket::Bucket;
use crate::faults::{ZoneFault, planted};
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, Release};

impl Percpu {
    /// Takes the buckets of all CPUs, busy or not, and gives each to `each`. Exchanges are
    /// forbidden from then on, until [`start`](Self::start). The caller must ensure that only one
    /// thread drains, stops or starts at a time.
    ///
    /// False: the system refused a fence, and the slots have kept their buckets.
    #[must_use]
    pub(crate) fn drain(&self, each: impl FnMut(Owned)) -> bool {
        self.drain_cpus(|_| true, each)
    }

    /// As [`drain`](Self::drain), for some CPUs: only they are stopped, with two fences in all.
    #[must_use]
    pub(crate) fn drain_cpus(
        &self,
        cpus: impl Fn(usize) -> bool,
        mut each: impl FnMut(Owned),
    ) -> bool {
        self.stop_cpus(&cpus);
        if !self.fence() {
            return false;
        }
        for (_, slot) in self.chosen(&cpus) {
            #[cfg(any(loom, shuttle))]
            section::point();
            slot.take();
        }
        let fenced = planted(ZoneFault::SecondFence) || self.fence();
        for (_, slot) in self.chosen(&cpus) {
            if !fenced {
                // A thread may still be in a section on the loaded bucket, so both go back into the
                // slot. No exchange came between, because the slot is stopped.
                slot.put_back();
                continue;
            }
            for bucket in slot.taken() {
                // SAFETY: the slot does not point to it any more, and after the fence no section uses it.
                unsafe { Owned::from_slot(bucket) }.map(&mut each);
            }
        }
        fenced
    }

    /// Forbids exchanges on some CPUs. After the next fence none is in progress there.
    pub(super) fn stop_cpus(&self, cpus: impl Fn(usize) -> bool) {
        for (_, slot) in self.chosen(cpus) {
            #[cfg(any(loom, shuttle))]
            section::point();
            slot.stop.store(1, Relaxed);
        }
    }

    /// Allows exchanges on every CPU again.
    pub(crate) fn start(&self) {
        self.start_cpus(|_| true);
    }

    /// Allows exchanges on some CPUs again.
    pub(crate) fn start_cpus(&self, cpus: impl Fn(usize) -> bool) {
        for (_, slot) in self.chosen(cpus) {
            slot.stop.store(0, Release);
        }
    }

    /// Waits out the operations on the slots. After true, every operation that had begun has either
    /// committed, and its store is visible to the caller, or it begins again and sees the caller's
    /// earlier stores.
    #[must_use]
    pub(super) fn fence(&self) -> bool {
        if self.area == 0 {
            locked::fence(self);
            return true;
        }
        fence()
    }

    /// Shows the buckets of every CPU (the CPU, the loaded one, the previous one), for statistics
    /// and tests. Each may be exchanged, and change, at any time; one may be the sentinel.
    pub(crate) fn each_slot(&self, mut each: impl FnMut(usize, NonNull<Bucket>, NonNull<Bucket>)) {
        for (cpu, slot) in self.chosen(|_| true) {
            each(cpu, slot.loaded(), slot.previous());
        }
    }

    /// Locks the slots for a fork, in the locked backend. With sections there is no lock to take: a section that has
    /// not committed has not changed its slot.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn hold(&self) -> SlotsHeld<'_> {
        locked::hold(self)
    }

    fn chosen(&self, cpus: impl Fn(usize) -> bool) -> impl Iterator<Item = (usize, &CpuSlot)> {
        let slots = self.places().iter().map(|place| &place.slot).enumerate();
        slots.filter(move |&(cpu, _)| cpus(cpu))
    }
}
