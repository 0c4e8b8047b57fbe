//! The state of a zone, which all its handles share, and the count that keeps it.
//!
//! `alloc.rs`, `free.rs` and `reclaim/trim.rs` allocate and free items; this file has the parts that they share.
//!
//! Locking key of [`ZoneInner`]: (c) constant, (s) a section of its CPU, (d) the depot's lock, (a) atomic. No lock is
//! held while a hook runs or pages are given back.
//!
//! # The count that keeps a zone
//!
//! `holds` counts three things: the handles together, as one; the items that are out of the keg for this zone; and
//! the threads inside a slow path. It lies beside the depot, which those threads use. The thread that brings it to
//! zero ends the zone.
//!
//! An allocation or a free that its CPU's bucket can serve does not touch `holds`. There the item itself, which is out
//! before and after, keeps the zone until the section commits; the thread must not access the zone after that.
//!
//! `models/end.rs` checks that a zone ends once, and after all its uses.
//!
//! When the last handle is dropped, the caches are closed for good ([`ZoneInner::retire`]): they are emptied, frees of
//! live items go straight to the keg, and the last of them ends the zone. Until then the zone stays a member of its
//! keg, so that a thread that searches for free items also counts the items that threads of this zone carry.

use crate::depot::{Depot, DepotSlot};
use crate::hooks::Hooks;
use crate::keg::Keg;
use crate::life::Life;
use crate::percpu::Percpu;
use crate::sample::Sampler;
use crate::warning::Warner;
use crate::weak::WeakZone;
use core::alloc::Layout;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicIsize};
use kern::Counter;
use kern::prim::{AtomicUsize, Ordering};
use std::sync::Arc;

#[cfg(all(test, any(loom, shuttle)))]
pub(crate) use ended::{ended_zones, forget_ended_zones};

mod checks;
mod ended;
mod holds;
mod items;

pub use holds::leaked_zones;

/// The limit that means no limit.
pub(crate) const NO_LIMIT: usize = usize::MAX;

/// A zone's state. The fields that an allocation and a free read are on the second cache line. The first has the page
/// offset at which page-aligned items begin, and a load from it would wait for stores to such items (4K aliasing:
/// `percpu/slot.rs` has the cost).
#[repr(C, align(128))]
pub(crate) struct ZoneInner {
    /// (c)
    pub(crate) keg: Arc<Keg>,
    /// (c)
    pub(crate) hooks: Arc<dyn Hooks>,
    /// (c)
    pub(crate) name: &'static str,
    /// (c)
    pub(crate) layout: Layout,
    /// (c) The most items of a bucket; more, where items go from CPU to CPU.
    pub(crate) bucket_items_max: usize,
    /// (s) The caches.
    pub(crate) percpu: Percpu,
    /// (c) The start of the items that `free` expects, and their length in bytes.
    base: usize,
    len: usize,
    /// (c) The `H` of `RawZone<H>`, inside `hooks`.
    hooks_data: NonNull<()>,
    /// (a) Whether a CPU that frees an item prepares it for another CPU ([`hands_over`](Self::hands_over)).
    handing_over: AtomicBool,
    /// (c) Whether this zone's own `init` and `fini` are called as well as the keg's: true for a secondary zone with
    /// hooks.
    pub(crate) own_init: bool,
    /// (d)
    pub(crate) depot: DepotSlot,
    /// (a) Handles ([`RawZone`](crate::RawZone)).
    pub(crate) handles: PaddedCount,
    /// (a) Whether [`leaked_zones`] counts this zone.
    leaked: AtomicBool,
    /// For code that watches the zone and must not keep it.
    pub(crate) weak: Arc<WeakZone>,
    /// (c) Kegs whose items are held by free items of this zone.
    held_kegs: Vec<Arc<Keg>>,
    /// (a) How many of these kegs are closed, which keeps this zone's caches closed. Below 0 for a moment if a keg
    /// opens before its closing has come here. Written and read with the keg's members locked.
    pub(crate) pins: AtomicIsize,
    /// (a) Whether the caches are closed for good. Written and read with the keg's members locked.
    pub(crate) retired: AtomicBool,
    pub(crate) counts: ZoneCounts,
    /// For the models.
    pub(crate) life: Life,
    /// (a) Decides which allocations are recorded.
    pub(crate) sampler: Sampler,
    /// (a) The owner's callback for warnings.
    pub(crate) warner: Warner,
    /// (a) Failures that a test has ordered.
    #[cfg(feature = "invariants")]
    pub(crate) fails: crate::fail::FailPoints,
}

/// The fields that the fast paths read are on one line, which is not the first.
const _: () = {
    assert!(offset_of!(ZoneInner, percpu) == 64);
    assert!(offset_of!(ZoneInner, handing_over) < 128);
};

/// (a) Events off the fast path.
#[derive(Default)]
pub(crate) struct ZoneCounts {
    /// Items allocated and freed without the buckets, while the keg was closed.
    pub(crate) direct: Counter,
    /// Allocations whose constructor refused: a bucket gave an item out, but no caller got it.
    pub(crate) refused: Counter,
    pub(crate) failures: Counter,
    /// Visits to the depot or the keg, because a CPU's buckets had no item or no room.
    pub(crate) misses: Counter,
    /// Visits to the keg, because the depot had no items either.
    pub(crate) imports: Counter,
    /// Items that went through `fini`: an allocation that `init` refused before tries again.
    pub(crate) finalised: Counter,
    /// Searches of all CPUs' caches, because no other layer had an item.
    pub(crate) shortages: Counter,
}

/// The handles together.
const HANDLES: u64 = 1;

/// An atomic that is written often, apart from fields that are only read.
#[repr(align(128))]
pub(crate) struct PaddedCount(pub(crate) AtomicUsize);

impl PaddedCount {
    pub(crate) fn new(n: usize) -> Self {
        Self(AtomicUsize::new(n))
    }
}

/// The decisions of a builder.
pub(crate) struct ZonePlan {
    pub(crate) name: &'static str,
    pub(crate) layout: Layout,
    pub(crate) keg: Arc<Keg>,
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) own_init: bool,
    pub(crate) percpu: Percpu,
    pub(crate) bucket_items: usize,
    pub(crate) cross_cpu_items: usize,
    pub(crate) depot_items: usize,
    pub(crate) sample_every: u32,
    pub(crate) warner: Warner,
    pub(crate) held_kegs: Vec<Arc<Keg>>,
}

impl ZoneInner {
    /// A zone with one handle and no items, on the list of its keg.
    pub(crate) fn make(plan: ZonePlan) -> NonNull<Self> {
        let (base, len) = plan.keg.arena().map_or((0, usize::MAX), |arena| {
            (arena.base().addr().get(), arena.normal_len())
        });
        let keg = plan.keg.clone();
        let sample_every = match keg.samples.has_slots() {
            true => plan.sample_every,
            false => 0,
        };
        let inner = NonNull::from(Box::leak(Box::new(Self {
            percpu: plan.percpu,
            base,
            len,
            hooks_data: hooks_data(&plan.hooks),
            handing_over: AtomicBool::new(false),
            keg: plan.keg,
            hooks: plan.hooks,
            own_init: plan.own_init,
            name: plan.name,
            layout: plan.layout,
            bucket_items_max: plan.bucket_items,
            depot: DepotSlot::new(
                plan.bucket_items,
                plan.cross_cpu_items,
                plan.depot_items,
                HANDLES,
            ),
            handles: PaddedCount::new(1),
            leaked: AtomicBool::new(false),
            weak: WeakZone::new(),
            held_kegs: plan.held_kegs,
            pins: AtomicIsize::new(0),
            retired: AtomicBool::new(false),
            counts: ZoneCounts::default(),
            life: Life::new(),
            sampler: Sampler::new(sample_every),
            warner: plan.warner,
            #[cfg(feature = "invariants")]
            fails: crate::fail::FailPoints::of_environment(plan.name),
        })));
        // SAFETY: made just now, and kept by the handle that it counts.
        let weak = unsafe { &inner.as_ref().weak };
        // SAFETY: it has its first handle, and `retire` detaches the reference.
        unsafe { weak.attach(inner) };
        keg.join(inner);
        // SAFETY: made just now, and kept by its handle.
        for held in unsafe { &inner.as_ref().held_kegs } {
            held.join_holder(inner);
        }
        inner
    }

    /// The hooks, as their own type.
    ///
    /// # Safety
    /// The zone was made with hooks of type `H`.
    #[inline]
    pub(crate) unsafe fn hooks<H: Hooks>(&self) -> &H {
        // SAFETY: it points to the value inside `hooks`, which the caller says is an `H`.
        unsafe { self.hooks_data.cast::<H>().as_ref() }
    }

    /// Whether `item` may be an item of this zone, by one subtraction.
    #[inline]
    pub(crate) fn may_own(&self, item: NonNull<u8>) -> bool {
        item.addr().get().wrapping_sub(self.base) < self.len
    }

    /// Whether a CPU that frees an item should make its first line ready for another CPU
    /// ([`claim_exclusive`](crate::cacheline::claim_exclusive)). False for zones whose items are not memory.
    #[inline]
    pub(crate) fn hands_over(&self) -> bool {
        // Relaxed: a hint.
        self.handing_over.load(Ordering::Relaxed)
    }

    /// Copies the depot's finding. The caller has locked the depot, so that the last finding is the one that stays.
    pub(crate) fn note_cross_cpu(&self, depot: &Depot) {
        let cross_cpu = depot.is_cross_cpu() && self.keg.arena().is_some();
        // Write only on a change: all CPUs read this line.
        if cross_cpu != self.hands_over() {
            self.handing_over.store(cross_cpu, Ordering::Relaxed);
        }
    }

    /// Whether [`may_own`](Self::may_own) is true of all these items. It compares once, with the union of the
    /// offsets' bits, which is not less than any of them. So it may return false for an item beyond the largest power
    /// of two in the range.
    #[cfg(feature = "extras")]
    #[inline]
    pub(crate) fn surely_owns(&self, items: &[NonNull<u8>]) -> bool {
        let offset = |item: &NonNull<u8>| item.addr().get().wrapping_sub(self.base);
        items.iter().fold(0, |bits, item| bits | offset(item)) < self.len
    }

    /// Live items. Exact when no other thread allocates or frees.
    pub(crate) fn live(&self) -> usize {
        let cached = self.depot.lock().sums().0;
        self.out().saturating_sub(cached)
    }

    /// Whether all layers are sound. Locks one after the other, so that it may run at any time.
    pub(crate) fn is_valid(&self) -> bool {
        let depot_is_valid = self.depot.lock().is_valid();
        depot_is_valid && self.keg.lock().is_valid()
    }
}

/// The value inside an `Arc<dyn Hooks>`, of any type.
fn hooks_data(hooks: &Arc<dyn Hooks>) -> NonNull<()> {
    NonNull::from(&**hooks).cast()
}
