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

use crate::asan;
use crate::bucket::Owned;
use crate::caught::Caught;
use crate::depot::{Depot, DepotSlot};
use crate::faults::{ZoneFault, planted};
use crate::hooks::Hooks;
use crate::keg::Keg;
use crate::life::Life;
use crate::percpu::Percpu;
use crate::sample::{Sampler, Site};
use crate::warning::{Warner, WarningKind};
use crate::weak::WeakZone;
use core::alloc::Layout;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize as Tally};
use kern::Counter;
use kern::prim::{AtomicUsize, Ordering, fence};
use std::sync::Arc;

use ended::free_zone;
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) use ended::{ended_zones, forget_ended_zones};

mod ended;

/// The limit that means no limit.
pub(crate) const NO_LIMIT: usize = usize::MAX;

/// Zones whose last handle was dropped while items were live.
static LEAKED: Tally = Tally::new(0);

/// How many zones have lost their last handle while items of theirs are live. The owners of these items may still use
/// and free them. The last free ends the zone and lowers this number.
#[must_use]
pub fn leaked_zones() -> usize {
    // Relaxed: a statistic; no data depends on it.
    LEAKED.load(Ordering::Relaxed)
}

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
    /// (a) Whether [`LEAKED`] counts this zone.
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

/// One thread inside, in the unit of `holds`. The bits below it count items.
const TRANSIT: u64 = 1 << 44;
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
    #[inline]
    pub(crate) fn surely_owns(&self, items: &[NonNull<u8>]) -> bool {
        let offset = |item: &NonNull<u8>| item.addr().get().wrapping_sub(self.base);
        items.iter().fold(0, |bits, item| bits | offset(item)) < self.len
    }

    /// In builds with checks: records that an item goes to a caller.
    #[inline]
    pub(crate) fn mark_taken(&self, item: NonNull<u8>, site: Site) {
        #[cfg(feature = "invariants")]
        self.note_taken(item, site);
        #[cfg(any(debug_assertions, feature = "invariants"))]
        if let Some(arena) = self.keg.arena() {
            arena.mark_taken(item);
        }
        let _ = (item, site);
    }

    /// In builds with checks: records that an item comes back, or reports an invalid free.
    #[inline]
    pub(crate) fn mark_freed(&self, item: NonNull<u8>, site: Site) {
        #[cfg(feature = "invariants")]
        self.note_freed(item, site);
        #[cfg(any(debug_assertions, feature = "invariants"))]
        if let Some(arena) = self.keg.arena() {
            arena.mark_freed(item, self.name);
        }
        let _ = (item, site);
    }

    /// In builds with checks: fills a freed item with a pattern, where no hook keeps anything in it.
    #[inline]
    pub(crate) fn trash_plain(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        if self.is_plain() {
            self.trash(item);
        }
        let _ = item;
    }

    /// The same for an item that returns to its slab and in which hooks kept data.
    pub(crate) fn fill_trash(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        if !self.is_plain() {
            self.trash(item);
        }
        let _ = item;
    }

    /// Tells AddressSanitizer that the item is free. Not for items of an import: they are their owner's, or not
    /// memory.
    #[inline]
    pub(crate) fn poison_item(&self, item: NonNull<u8>) {
        if self.keg.arena().is_some() {
            asan::poison(item, self.layout.size());
        }
    }

    /// Tells AddressSanitizer that the item is in use.
    #[inline]
    pub(crate) fn unpoison_item(&self, item: NonNull<u8>) {
        if self.keg.arena().is_some() {
            asan::unpoison(item, self.layout.size());
        }
    }

    /// In builds with checks: reports if an item from a slab was written to while it was free.
    pub(crate) fn check_trash(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        self.check_trashed(item);
        let _ = item;
    }

    /// Counts this thread as inside; it may carry free items.
    pub(crate) fn enter(&self) {
        // Relaxed: the calling thread has a handle, a live item, or the lock of the keg's members or of the weak
        // reference, so the zone can't end. A thread that reads the count of threads inside does so after a fence on
        // all CPUs, or under the keg's lock, which this thread must take to return items.
        self.life.touch();
        self.depot.holds.fetch_add(TRANSIT, Ordering::Relaxed);
    }

    /// Counts this thread as outside, and ends the zone if the count is then zero.
    ///
    /// # Safety
    /// Entered before, and not left since; `inner` is not used after.
    pub(crate) unsafe fn leave(inner: NonNull<Self>) {
        // SAFETY: we are inside, which keeps the zone.
        unsafe { inner.as_ref() }.life.touch();
        // SAFETY: as above.
        let holds = unsafe { &raw const (*inner.as_ptr()).depot.holds };
        // SAFETY: as above; and the reference ends with this call, after which another thread may
        // end the zone. AtomicU64 has interior mutability, so no promise outlasts the access.
        let mut before = unsafe { &*holds }.fetch_sub(TRANSIT, Ordering::Release);
        if planted(ZoneFault::LateCheck) {
            // SAFETY: none; that is the mistake.
            before = unsafe { &*holds }.load(Ordering::Relaxed) + TRANSIT;
        }
        if before == TRANSIT {
            // SAFETY: the count is zero, and only this thread brought it there.
            unsafe { Self::end(inner) };
        }
    }

    /// Forgets the threads inside: the child of a fork has none of them. The caller holds all locks of the zone.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn forget_others(&self) {
        let holds = &self.depot.holds;
        holds.store(holds.load(Ordering::Relaxed) % TRANSIT, Ordering::Relaxed);
    }

    /// Whether any thread is inside.
    pub(crate) fn in_transit(&self) -> bool {
        self.life.touch();
        self.depot.holds.load(Ordering::Acquire) >= TRANSIT
    }

    /// Items out of the keg for this zone: live or cached.
    pub(crate) fn out(&self) -> usize {
        let holds = self.depot.holds.load(Ordering::Acquire) % TRANSIT;
        let handles = u64::from(self.handles.0.load(Ordering::Relaxed) > 0);
        usize::try_from(holds.saturating_sub(handles * HANDLES)).unwrap_or(usize::MAX)
    }

    /// Counts items as out. The caller is inside or has a handle.
    pub(crate) fn count_out(&self, items: usize) {
        self.life.touch();
        self.depot.holds.fetch_add(items as u64, Ordering::Relaxed);
    }

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

    /// Counts items as back in the keg. The caller is inside or has a handle.
    pub(crate) fn count_returned(&self, items: usize) {
        self.life.touch();
        self.depot.holds.fetch_sub(items as u64, Ordering::Release);
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

    /// Live items. Exact when no other thread allocates or frees.
    pub(crate) fn live(&self) -> usize {
        let cached = self.depot.lock().sums().0;
        self.out().saturating_sub(cached)
    }

    /// The end of the last handle: closes the caches for good, and ends the zone unless items are live.
    ///
    /// # Safety
    /// `inner` came from [`make`](Self::make), its last handle is gone, and this is called once.
    pub(crate) unsafe fn retire(inner: NonNull<Self>) {
        // SAFETY: this thread releases the handles' share of the count only below.
        let zone = unsafe { inner.as_ref() };
        zone.weak.detach();
        // The handles' part of `holds` becomes this thread's. So the items of the caches are in transit, and an
        // allocation from another zone of the keg waits for them; and only `leave` decides about the end.
        if !planted(ZoneFault::Retire) {
            zone.depot
                .holds
                .fetch_add(TRANSIT - HANDLES, Ordering::Relaxed);
        }
        zone.close_caches_for_good();
        let mut caught = Caught::default();
        zone.empty_depot(&mut caught);
        kern::invariant!(zone.is_valid(), "zone '{}' is not sound", zone.name);
        if !zone
            .depot
            .holds
            .load(Ordering::Acquire)
            .is_multiple_of(TRANSIT)
        {
            zone.leaked.store(true, Ordering::Relaxed);
            LEAKED.fetch_add(1, Ordering::Relaxed);
            caught.call(|| zone.report_leak());
        }
        if planted(ZoneFault::Retire) {
            zone.depot
                .holds
                .fetch_add(TRANSIT - HANDLES, Ordering::Relaxed);
        }
        // SAFETY: entered just now, and `zone` is not used after.
        caught.call(|| unsafe { Self::leave(inner) });
        caught.resume();
    }

    /// Warns the owner that items are live without a handle.
    fn report_leak(&self) {
        self.warn(WarningKind::Leaked);
        #[cfg(feature = "invariants")]
        if !self.has_warner() {
            eprintln!("{}", self.warning(WarningKind::Leaked, 0));
        }
    }

    /// # Safety
    /// The count is zero, and the caller's subtraction made it so.
    #[cold]
    unsafe fn end(inner: NonNull<Self>) {
        // Acquire: pairs with the Release of every subtraction from `holds`, so all accesses of threads that left come
        // before.
        fence(Ordering::Acquire);
        // SAFETY: it is freed only below. It has no items, so no filled bucket, and a thread that finds it among the
        // keg's members would enter it only to take a filled bucket.
        let keg = unsafe { inner.as_ref() }.keg.clone();
        keg.part(inner);
        // SAFETY: as above.
        for held in unsafe { &inner.as_ref().held_kegs } {
            held.part(inner);
        }
        // SAFETY: as above.
        unsafe { inner.as_ref() }.life.end();
        // SAFETY: from Box::leak in `make`; no other thread is inside or can enter.
        let zone = unsafe { Box::from_raw(inner.as_ptr()) };
        if zone.leaked.load(Ordering::Relaxed) {
            LEAKED.fetch_sub(1, Ordering::Relaxed);
        }
        free_zone(zone);
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
