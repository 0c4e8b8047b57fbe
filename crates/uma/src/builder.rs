//! How a zone is described before it is made.

use crate::arena::Arena;
use crate::geometry::{ArenaOptions, Geometry};
use crate::hooks::{Hooks, NoHooks};
use crate::keg::{Keg, Store};
use crate::percpu::{Backend, Percpu};
use crate::sample::{SAMPLE_EVERY_DEFAULT, sample_slabs};
use crate::slabs::Slabs;
use crate::warning::{Warner, Warning};
use crate::zone_inner::{NO_LIMIT, ZoneInner, ZonePlan};
use crate::{RawZone, ZoneError};
use core::alloc::Layout;
use core::any::TypeId;
use std::sync::Arc;

#[cfg(feature = "extras")]
mod extras;

/// The most items that a bucket may hold.
pub const BUCKET_ITEMS_MAX: usize = 4096;

/// Describes a zone; [`build`](ZoneBuilder::build) makes it. From [`RawZone::builder`],
/// [`RawZone::secondary`] or [`Zone::builder`](crate::Zone::builder).
#[must_use = "a builder has no effect until build()"]
pub struct ZoneBuilder<H: Hooks = NoHooks> {
    name: &'static str,
    layout: Layout,
    limit: usize,
    reserve: usize,
    prealloc: usize,
    arena: ArenaOptions,
    bucket_items: Option<usize>,
    backend: Option<Backend>,
    master: Option<Arc<Keg>>,
    held_kegs: Vec<Arc<Keg>>,
    sample_every: u32,
    warner: Warner,
    hooks: H,
}

impl ZoneBuilder {
    pub(crate) fn new(name: &'static str, layout: Layout) -> Self {
        Self {
            name,
            layout,
            limit: NO_LIMIT,
            reserve: 0,
            prealloc: 0,
            arena: ArenaOptions::default(),
            bucket_items: None,
            backend: None,
            master: None,
            held_kegs: Vec::new(),
            sample_every: SAMPLE_EVERY_DEFAULT,
            warner: Warner::default(),
            hooks: NoHooks,
        }
    }

    pub(crate) fn secondary(name: &'static str, master: &ZoneInner) -> Self {
        Self {
            master: Some(master.keg.clone()),
            ..Self::new(name, master.layout)
        }
    }
}

impl<H: Hooks> ZoneBuilder<H> {
    /// At most `items` may be live. Without it only the reservation bounds the zone.
    /// [`RawZone::set_limit`] changes it later. A secondary zone shares its master's.
    #[doc(alias = "uma_zone_set_max")]
    pub fn limit(mut self, items: usize) -> Self {
        self.limit = items;
        self
    }

    /// Keeps the last `items` of the limit for [`alloc_urgent`](RawZone::alloc_urgent); their
    /// memory is allocated at the start.
    #[doc(alias = "uma_zone_reserve")]
    pub fn reserve(mut self, items: usize) -> Self {
        self.reserve = items;
        self
    }

    /// Gives each item a reference count beside it, on a cache line of its own: see
    /// [`RawZone::refcount`].
    #[doc(alias = "UMA_ZONE_REFCNT")]
    pub fn refcounts(mut self) -> Self {
        self.arena.refcounts = true;
        self
    }

    /// Reserves this much address space, which bounds the memory of the zone for ever; default
    /// [`RESERVE_BYTES_DEFAULT`](crate::RESERVE_BYTES_DEFAULT). Reserving costs no memory. When the address space is
    /// limited (`ulimit -v`) a zone takes at most an eighth of the rest; when there is no room, it tries half of the
    /// requested size, and so on.
    pub fn reserve_bytes(mut self, bytes: usize) -> Self {
        self.arena.reserve_bytes = bytes;
        self
    }

    /// Items that a bucket holds at most, from 1 to [`BUCKET_ITEMS_MAX`]; each CPU caches up to two buckets. By
    /// default at most 128, and at most 256 KiB of items in a bucket; four times that while nearly all items are freed
    /// by one CPU and allocated by another. Buckets start at 16 and grow when the depot is visited often.
    pub fn bucket_items(mut self, items: usize) -> Self {
        self.bucket_items = Some(items);
        self
    }

    /// How threads access the caches of the CPUs. The default is the fastest method that works here; the environment
    /// variable `UMA_PERCPU` (`rseq` or `locked`) changes it.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Records the site of one allocation in `refills` visits to the depot and the slabs, for
    /// [`RawZone::census`]; default 16, 0 is never. The allocations that a CPU's cache serves cost
    /// the same with and without. A secondary zone has samples only if its master does.
    pub fn sample_every(mut self, refills: u32) -> Self {
        self.sample_every = refills;
        self
    }

    /// Has `callback` called when the zone fills up ([`high_water`](Self::high_water)), when an
    /// allocation fails or has to sleep, and when the last handle goes while items are live: at
    /// most once a second for each kind. It runs on the thread that met the condition, which holds
    /// no lock of this crate and may hold others. A handle of the zone in it would keep the zone
    /// for ever.
    #[doc(alias = "uma_zone_set_warning")]
    #[doc(alias = "uma_zone_set_maxaction")]
    pub fn warn(mut self, callback: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.warner.set_callback(Box::new(callback));
        self
    }

    /// Warns when `items` items are out of the slabs, live or in caches, of all zones that share them: once each time
    /// that an allocation of this zone passes the mark.
    pub fn high_water(mut self, items: usize) -> Self {
        self.warner.set_high_water(items);
        self
    }

    /// Puts this many bytes behind each item; a write to them is reported when the item is freed. The default costs
    /// little memory: no red zone behind items that are aligned to their size.
    #[cfg(feature = "invariants")]
    pub fn redzone(mut self, bytes: usize) -> Self {
        self.arena.redzone = Some(bytes);
        self
    }

    /// Free items of this zone hold items of `zone`: `init` takes them, by [`alloc_near`](RawZone::alloc_near), and
    /// `fini` gives them back. Then no allocation of `zone` fails because of those: before it would, they are taken
    /// back, and while `zone` has no free item this zone keeps none either.
    pub fn holds_items_of<G: Hooks>(mut self, zone: &RawZone<G>) -> Self {
        self.held_kegs.push(zone.inner().keg.clone());
        self
    }

    /// Sets the hooks: functions that run for each item.
    #[doc(alias = "uma_ctor")]
    #[doc(alias = "uma_init")]
    pub fn hooks<G: Hooks>(self, hooks: G) -> ZoneBuilder<G> {
        ZoneBuilder {
            name: self.name,
            layout: self.layout,
            limit: self.limit,
            reserve: self.reserve,
            prealloc: self.prealloc,
            arena: self.arena,
            bucket_items: self.bucket_items,
            backend: self.backend,
            master: self.master,
            held_kegs: self.held_kegs,
            sample_every: self.sample_every,
            warner: self.warner,
            hooks,
        }
    }

    /// The items of a zone of values belong to the values, and are memory.
    ///
    /// # Panics
    /// If this builds a secondary zone whose master's hooks own the content of its items, or whose master is a
    /// cache-only zone, so that its items may be names.
    pub(crate) fn assert_items_are_free_memory(&self) {
        let Some(keg) = &self.master else { return };
        assert!(
            keg.hooks.is_none(),
            "the master's hooks own the content of its items"
        );
        assert!(
            keg.arena().is_some(),
            "items of an import may be names, and not memory"
        );
    }

    /// Makes the zone. By default it takes memory only with the first allocation.
    ///
    /// # Errors
    /// [`ZoneError`] when the layout does not suit a slab allocator, when there is no address
    /// space, or no memory for the reserve.
    #[doc(alias = "uma_zcreate")]
    pub fn build(mut self) -> Result<RawZone<H>, ZoneError> {
        if let Some(keg) = self.master.take() {
            return Ok(self.make(|_| keg));
        }
        #[cfg(feature = "invariants")]
        self.arena
            .redzone
            .get_or_insert(crate::invariants::redzone_for(self.layout));
        let geo = Geometry::new(self.layout, &self.arena)?;
        self.arena.sample_slabs = match self.sample_every {
            0 => 0,
            _ => sample_slabs(&geo),
        };
        let arena = Arena::reserve(geo, &self.arena)?;
        let slabs = Slabs::new(geo).named(self.name);
        self.make_master(Store::Slabs(arena), Some(slabs))
    }

    fn make_master(self, store: Store, slabs: Option<Slabs>) -> Result<RawZone<H>, ZoneError> {
        let ahead = self.prealloc.max(self.reserve);
        let (limit, reserve) = (self.limit, self.reserve);
        let zone = self.make(|hooks| {
            let hooks = has_hooks::<H>().then_some(hooks);
            let keg = Arc::new(Keg::new(store, slabs, hooks, limit, reserve));
            #[cfg(not(any(loom, shuttle)))]
            crate::fork::enlist(&keg);
            keg
        });
        match zone.inner().keg.prealloc(ahead) < ahead {
            true => Err(ZoneError::NoMemory),
            false => Ok(zone),
        }
    }

    /// Makes the zone, on the master's keg or on a new one.
    fn make(self, keg: impl FnOnce(Arc<dyn Hooks>) -> Arc<Keg>) -> RawZone<H> {
        let hooks: Arc<dyn Hooks> = Arc::new(self.hooks);
        let keg = keg(hooks.clone());
        let is_master = keg
            .hooks
            .as_ref()
            .is_some_and(|keg| Arc::ptr_eq(keg, &hooks));
        let size = self.layout.pad_to_align().size().max(1);
        let (items, cross_cpu) = match self.bucket_items {
            Some(items) => (items, items),
            None => (bucket_items_for(size), bucket_items_for_cross_cpu(size)),
        };
        let inner = ZoneInner::make(ZonePlan {
            name: self.name,
            layout: self.layout,
            keg,
            own_init: has_hooks::<H>() && !is_master,
            hooks,
            percpu: Percpu::new(self.backend.unwrap_or_else(Backend::choose)),
            bucket_items: items.clamp(1, BUCKET_ITEMS_MAX),
            cross_cpu_items: cross_cpu.clamp(1, BUCKET_ITEMS_MAX),
            depot_items: depot_items_for(size),
            sample_every: self.sample_every,
            warner: self.warner,
            held_kegs: self.held_kegs,
        });
        // SAFETY: it was just made, with one handle, and with hooks of type H.
        unsafe { RawZone::from_inner(inner) }
    }
}

/// Whether calls of these hooks are worth making.
pub(crate) fn has_hooks<H: Hooks>() -> bool {
    TypeId::of::<H>() != TypeId::of::<NoHooks>()
}

/// Two buckets a CPU of 2 KiB clusters are 512 KiB: together they fit a second-level cache of 1 MiB.
const BUCKET_BYTES: usize = 256 << 10;
/// The number of items that a depot keeps before it gives full buckets to the slabs.
const DEPOT_BYTES: usize = 8 << 20;

fn bucket_items_for(size: usize) -> usize {
    (BUCKET_BYTES / size).clamp(2, 128)
}

/// Where items go from one CPU to another, a visit to the depot costs several fetches of lines that the other one
/// wrote. With four times as many items to a visit, items of 2 KiB cost 6 % less where CPUs share a cache, and 17 %
/// where they do not; TCP between two threads costs the same. More would be more than DPDK's caches hold.
fn bucket_items_for_cross_cpu(size: usize) -> usize {
    4 * bucket_items_for(size)
}

fn depot_items_for(size: usize) -> usize {
    (DEPOT_BYTES / size).clamp(64, 64 << 10)
}
