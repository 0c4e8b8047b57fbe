//! What all handles of a zone point to, and what keeps it.
//!
//! The ways of an item are in `alloc.rs`, `free.rs` and `reclaim/trim.rs`; here is what they share.
//!
//! Locking key of [`ZoneInner`]: (c) constant, (s) a section of the CPU it is of, (d) the depot's
//! lock, (a) atomic. Never is a hook called, nor are pages given back, with a lock held.
//!
//! # What keeps a zone
//!
//! `holds` counts the handles, as one, the items that are out of the keg for this zone, and the
//! threads inside a slow path. It stands beside the depot, where those threads go. Whoever brings it
//! to zero ends the zone. An allocation or a free that finds what it needs on its CPU does not touch
//! it: there the item itself, which is out before and after, is what keeps the zone until the section
//! commits, and nothing is touched after that.
//!
//! `schedules/end.rs` checks that a zone ends once, and that every use of it comes before.
//!
//! When the last handle goes, the zone is shut for good ([`ZoneInner::retire`]): its caches are
//! emptied, frees of the items still live go straight to the keg, and the last one of them ends
//! the zone. Until then it stays a member of its keg, so that whoever looks for free items sees
//! those that are in its threads' hands.

use crate::asan;
use crate::bucket::Owned;
use crate::caught::Caught;
use crate::depot::{Depot, DepotSlot};
use crate::hooks::Hooks;
use crate::keg::Keg;
use crate::percpu::Percpu;
use crate::planted::{Bug, Life, free_zone, planted};
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

/// The value of a limit that stands for none.
pub(crate) const NO_LIMIT: usize = usize::MAX;

/// Zones whose last handle went while items were live.
static LEAKED: Tally = Tally::new(0);

/// How many zones have lost their last handle while items of theirs are live. Those who hold the
/// items may still use and free them; the last free ends the zone and lowers this number.
#[must_use]
pub fn leaked_zones() -> usize {
    // Relaxed: a number to look at, that orders nothing.
    LEAKED.load(Ordering::Relaxed)
}

/// A zone's state. What an allocation and a free read stands in one line, which is the second: at the place of
/// the first one in its page items begin that are written to meanwhile (`percpu/slot.rs` says what that costs).
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
    /// (c) What a bucket may grow to; more, where items go from CPU to CPU.
    pub(crate) bucket_items_max: usize,
    /// (s) The caches.
    pub(crate) percpu: Percpu,
    /// (c) Where the items that `free` expects begin, and how many bytes of them there are.
    base: usize,
    len: usize,
    /// (c) The `H` of `RawZone<H>`, inside `hooks`.
    hooks_data: NonNull<()>,
    /// (a) Whether a CPU that frees an item does it for another one ([`hands_over`](Self::hands_over)).
    handing_over: AtomicBool,
    /// (c) Whether `init` and `fini` of ours are to be called as well as the keg's: that of a
    /// secondary zone with hooks.
    pub(crate) own_init: bool,
    /// (d)
    pub(crate) depot: DepotSlot,
    /// (a) Handles ([`RawZone`](crate::RawZone)).
    pub(crate) handles: PaddedCount,
    /// (a) Whether [`LEAKED`] counts this zone.
    leaked: AtomicBool,
    /// The way here for those who watch the zone and do not keep it.
    pub(crate) weak: Arc<WeakZone>,
    /// (c) Kegs whose items free items of this zone hold.
    held_kegs: Vec<Arc<Keg>>,
    /// (a) How many of these are closed, which keeps this zone shut; below 0 for a moment where one
    /// opens before its closing came here. Written and read with the keg's members locked.
    pub(crate) pins: AtomicIsize,
    /// (a) Whether it is shut for good. Written and read with the keg's members locked.
    pub(crate) retired: AtomicBool,
    pub(crate) counts: ZoneCounts,
    /// For the models.
    pub(crate) life: Life,
    /// (a) Whose allocation is remembered.
    pub(crate) sampler: Sampler,
    /// (a) Who hears of shortages.
    pub(crate) warner: Warner,
    /// (a) What tests let fail.
    #[cfg(feature = "invariants")]
    pub(crate) fails: crate::fail::FailPoints,
}

/// What the fast paths read is on one line, and not on a first one.
const _: () = {
    assert!(offset_of!(ZoneInner, percpu) == 64);
    assert!(offset_of!(ZoneInner, handing_over) < 128);
};

/// (a) Events off the fast path.
#[derive(Default)]
pub(crate) struct ZoneCounts {
    /// Items given out and taken back past the buckets, while the keg was closed.
    pub(crate) direct: Counter,
    /// Allocations whose constructor refused: given out by a bucket, never seen by a caller.
    pub(crate) refused: Counter,
    pub(crate) failures: Counter,
    /// A CPU's buckets had nothing: the depot or the keg was asked.
    pub(crate) misses: Counter,
    /// The depot had nothing either: the keg was asked.
    pub(crate) imports: Counter,
    /// Items went through `fini`: whoever was refused by `init` before asks again.
    pub(crate) finalised: Counter,
    /// Nothing was left anywhere near: all CPUs were asked.
    pub(crate) shortages: Counter,
}

/// One thread inside, in the unit of `holds`; below it are the items.
const TRANSIT: u64 = 1 << 44;
/// The handles together.
const HANDLES: u64 = 1;

/// An atomic that may be written often, away from what is only read.
#[repr(align(128))]
pub(crate) struct PaddedCount(pub(crate) AtomicUsize);

impl PaddedCount {
    pub(crate) fn new(n: usize) -> Self {
        Self(AtomicUsize::new(n))
    }
}

/// What a builder decided.
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
    /// A zone with one handle and nothing in it, on the list of its keg.
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
        // SAFETY: it has its first handle, and `retire` cuts the link.
        unsafe { weak.attach(inner) };
        keg.join(inner);
        // SAFETY: made just now, and kept by its handle.
        for held in unsafe { &inner.as_ref().held_kegs } {
            held.join_holder(inner);
        }
        inner
    }

    /// The hooks as what they are.
    ///
    /// # Safety
    /// The zone was made with hooks of type `H`.
    #[inline]
    pub(crate) unsafe fn hooks<H: Hooks>(&self) -> &H {
        // SAFETY: it points to the value inside `hooks`, which the caller says is an `H`.
        unsafe { self.hooks_data.cast::<H>().as_ref() }
    }

    /// Whether `item` may be an item of this zone, at the price of a subtraction.
    #[inline]
    pub(crate) fn may_own(&self, item: NonNull<u8>) -> bool {
        item.addr().get().wrapping_sub(self.base) < self.len
    }

    /// Whether who frees an item should make it ready for another CPU ([`cacheline::claim_exclusive`](crate::cacheline::own)). Only of
    /// zones whose items are memory.
    #[inline]
    pub(crate) fn hands_over(&self) -> bool {
        // Relaxed: a hint.
        self.handing_over.load(Ordering::Relaxed)
    }

    /// Notes what the depot saw, which is locked so that the last one to see is the last one to write.
    pub(crate) fn note_cross_cpu(&self, depot: &Depot) {
        let crossing = depot.is_cross_cpu() && self.keg.arena().is_some();
        // The line is every CPU's.
        if crossing != self.hands_over() {
            self.handing_over.store(crossing, Ordering::Relaxed);
        }
    }

    /// Whether [`may_own`](Self::may_own) is true of all these items, or false where it is hard to
    /// say: of a union of their bits, which is not less than any of them, with one comparison for
    /// all. It errs only where items lie beyond the largest power of two in the range.
    #[inline]
    pub(crate) fn surely_owns(&self, items: &[NonNull<u8>]) -> bool {
        let offset = |item: &NonNull<u8>| item.addr().get().wrapping_sub(self.base);
        items.iter().fold(0, |bits, item| bits | offset(item)) < self.len
    }

    /// Notes, in builds that check it, that an item goes to a caller.
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

    /// Notes, in builds that check it, that an item comes back, or says what is wrong with that.
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

    /// Makes the contents of a freed item recognisable, in builds that check, where no hooks keep
    /// anything in it.
    #[inline]
    pub(crate) fn trash_plain(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        if self.is_plain() {
            self.trash(item);
        }
        let _ = item;
    }

    /// The same for an item on its way into a slab that hooks kept something in.
    pub(crate) fn fill_trash(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        if !self.is_plain() {
            self.trash(item);
        }
        let _ = item;
    }

    /// Tells AddressSanitizer that nobody holds an item; not of what an import brought, which is its owner's, or no memory.
    #[inline]
    pub(crate) fn poison_item(&self, item: NonNull<u8>) {
        if self.keg.arena().is_some() {
            asan::poison(item, self.layout.size());
        }
    }

    /// The same: that somebody does.
    #[inline]
    pub(crate) fn unpoison_item(&self, item: NonNull<u8>) {
        if self.keg.arena().is_some() {
            asan::unpoison(item, self.layout.size());
        }
    }

    /// Looks, in builds that check, whether an item from a slab was written to.
    pub(crate) fn check_trash(&self, item: NonNull<u8>) {
        #[cfg(feature = "invariants")]
        self.check_trashed(item);
        let _ = item;
    }

    /// Says that this thread is inside, maybe with free items in its hands.
    pub(crate) fn enter(&self) {
        // Relaxed: whoever enters has a handle, a live item, or the lock of the keg's members or
        // of a link, so the zone cannot end; and who looks for threads inside does so after a fence on all
        // CPUs or under the keg's lock, under which items are put down.
        self.life.touch();
        self.depot.holds.fetch_add(TRANSIT, Ordering::Relaxed);
    }

    /// Says that this thread has left, and ends the zone if nothing keeps it.
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
        if planted(Bug::LateCheck) {
            // SAFETY: none; that is the mistake.
            before = unsafe { &*holds }.load(Ordering::Relaxed) + TRANSIT;
        }
        if before == TRANSIT {
            // SAFETY: nothing keeps the zone, and only this thread saw that happen.
            unsafe { Self::end(inner) };
        }
    }

    /// Forgets the threads inside, of which the child of a fork has none. The caller holds all locks of
    /// the zone.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn forget_others(&self) {
        let holds = &self.depot.holds;
        holds.store(holds.load(Ordering::Relaxed) % TRANSIT, Ordering::Relaxed);
    }

    /// Whether threads are inside.
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

    /// Gives items that no caller holds back to the keg, after `fini` if they went through
    /// `init`. The caller is inside or has a handle.
    pub(crate) fn give_to_keg(
        &self,
        items: &[NonNull<u8>],
        initialised: bool,
        caught: &mut Caught,
    ) {
        // Whoever freed it last poisoned it.
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

    /// Runs `init` over items fresh from the keg; says how many are good. From the first that is
    /// refused on, none has been through it.
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
            // SAFETY: the item was just taken from the keg and is in our hands alone.
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

    /// Runs `fini` over a free item that went through `init` and is in the caller's hands alone.
    pub(crate) fn finalise(&self, item: NonNull<u8>, caught: &mut Caught) {
        if self.keg.hooks.is_none() && !self.own_init {
            return;
        }
        if self.own_init {
            // SAFETY: the item is free, went through `init`, and is in our hands alone.
            caught.call(|| unsafe { self.hooks.fini(item) });
        }
        if let Some(hooks) = &self.keg.hooks {
            // SAFETY: as above.
            caught.call(|| unsafe { hooks.fini(item) });
        }
        self.counts.finalised.inc();
    }

    /// Puts the items of a bucket into the keg, and the bucket into the depot. The caller is
    /// inside or has a handle.
    pub(crate) fn empty_into_keg(&self, bucket: Owned, caught: &mut Caught) {
        let bucket = self.emptied(bucket, caught);
        self.depot.lock().push(bucket);
    }

    /// Puts the items of a bucket into the keg.
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

    /// The end of the last handle: shuts the zone for good, and ends it unless items are live.
    ///
    /// # Safety
    /// `inner` came from [`make`](Self::make), its last handle is gone, and this is called once.
    pub(crate) unsafe fn retire(inner: NonNull<Self>) {
        // SAFETY: what the handles held is given up only below.
        let zone = unsafe { inner.as_ref() };
        zone.weak.detach();
        // From handle to visitor: what the caches hold is in transit, so that an allocation from
        // another zone of the keg waits for it; and one place decides about the end.
        if !planted(Bug::Retire) {
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
        if planted(Bug::Retire) {
            zone.depot
                .holds
                .fetch_add(TRANSIT - HANDLES, Ordering::Relaxed);
        }
        // SAFETY: entered just now, and `zone` is not used after.
        caught.call(|| unsafe { Self::leave(inner) });
        caught.resume();
    }

    /// Tells whoever hears warnings of this zone that items are live without a handle.
    fn report_leak(&self) {
        self.warn(WarningKind::Leaked);
        #[cfg(feature = "invariants")]
        if !self.has_warner() {
            eprintln!("{}", self.warning(WarningKind::Leaked, 0));
        }
    }

    /// # Safety
    /// Nothing keeps the zone, and the caller alone knows.
    #[cold]
    unsafe fn end(inner: NonNull<Self>) {
        // Acquire: all that was done by those who left comes before.
        fence(Ordering::Acquire);
        // SAFETY: it is freed only below. Without items it has no filled bucket, for which alone
        // someone who finds it among the keg's members would enter it.
        let keg = unsafe { inner.as_ref() }.keg.clone();
        keg.part(inner);
        // SAFETY: as above.
        for held in unsafe { &inner.as_ref().held_kegs } {
            held.part(inner);
        }
        // SAFETY: as above.
        unsafe { inner.as_ref() }.life.end();
        // SAFETY: from Box::leak in `make`, and nobody else is inside or may enter.
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

/// The value inside an `Arc<dyn Hooks>`, whatever it is.
fn hooks_data(hooks: &Arc<dyn Hooks>) -> NonNull<()> {
    NonNull::from(&**hooks).cast()
}
