//! The parts of scenarios: zones that fail by plan and count their hooks, items that are freed when
//! dropped, and the check that all is as before.

use super::common::assert_balance;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use uma::{AllocError, FailPlan, FailPoint, HookFailed, Hooks, RawZone, ZoneBuilder};

pub(crate) type Outcome = Result<(), AllocError>;
pub(crate) type Scenario = fn(&World) -> Outcome;

pub(crate) const POINTS: [FailPoint; 6] = [
    FailPoint::Alloc,
    FailPoint::Init,
    FailPoint::Ctor,
    FailPoint::Import,
    FailPoint::Pages,
    FailPoint::Bucket,
];

/// Which zone of a scenario, in the order in which they are made, fails how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) zone: usize,
    pub(crate) point: FailPoint,
    pub(crate) plan: FailPlan,
}

/// How often each hook of a zone ran.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) inits: AtomicI64,
    pub(crate) ctors: AtomicI64,
    /// All that were, without those undone.
    pub(crate) ctors_ever: AtomicI64,
}

/// Hooks that count, and leave a mark that must be found again.
#[derive(Clone)]
pub(crate) struct Tally(pub(crate) Arc<Counts>);

/// The value that `init` writes into an item's first word, which users leave alone.
const MARK: u64 = 0x1417_c70f_1417_c70f;

impl Hooks for Tally {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        super::common::write(item, MARK);
        self.0.inits.fetch_add(1, SeqCst);
        Ok(())
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        assert_eq!(super::common::read(item), MARK);
        self.0.inits.fetch_sub(1, SeqCst);
    }

    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        assert_eq!(super::common::read(item), MARK);
        self.0.ctors.fetch_add(1, SeqCst);
        self.0.ctors_ever.fetch_add(1, SeqCst);
        Ok(())
    }

    unsafe fn dtor(&self, item: NonNull<u8>) {
        assert_eq!(super::common::read(item), MARK);
        self.0.ctors.fetch_sub(1, SeqCst);
    }
}

/// A packet's hooks: its `init` attaches a cluster, its `fini` takes it away.
pub(crate) struct Attach {
    pub(crate) clusters: RawZone<Tally>,
    pub(crate) tally: Tally,
}

fn cluster_in(item: NonNull<u8>) -> NonNull<Option<NonNull<u8>>> {
    // SAFETY: the tests' packets have 64 bytes.
    unsafe { item.add(8) }.cast()
}

impl Hooks for Attach {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        let cluster = self.clusters.alloc().map_err(|_| HookFailed)?;
        // SAFETY: the packet is ours during the call.
        unsafe { cluster_in(item).write(Some(cluster)) };
        // SAFETY: as above.
        unsafe { self.tally.init(item) }
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        // SAFETY: as above.
        unsafe { self.tally.fini(item) };
        // SAFETY: as above, and `init` wrote it.
        let cluster = unsafe { cluster_in(item).read() }.expect("attached");
        // SAFETY: the packet was its only owner.
        unsafe { self.clusters.free(cluster) };
    }

    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        // SAFETY: as above.
        unsafe { self.tally.ctor(item) }
    }

    unsafe fn dtor(&self, item: NonNull<u8>) {
        // SAFETY: as above.
        unsafe { self.tally.dtor(item) };
    }
}

/// A zone whatever its hooks are.
trait Made {
    fn consulted(&self) -> [u64; POINTS.len()];
    fn stop_failing(&self);
    fn drain(&self);
    fn check(&self, keeps_memory: bool);
}

impl<H: Hooks> Made for RawZone<H> {
    fn consulted(&self) -> [u64; POINTS.len()] {
        POINTS.map(|point| RawZone::consulted(self, point))
    }

    fn stop_failing(&self) {
        POINTS
            .iter()
            .for_each(|&point| self.fail_at(point, FailPlan::Off));
    }

    fn drain(&self) {
        RawZone::drain(self);
    }

    fn check(&self, keeps_memory: bool) {
        if !keeps_memory {
            return assert_balance(self);
        }
        let stats = self.stats();
        assert!(self.is_valid());
        assert_eq!((stats.used, stats.cached()), (0, 0));
        assert_eq!(stats.requests, stats.frees);
    }
}

/// Asks a zone how many requests it has served.
type Requests = Box<dyn Fn() -> u64>;

/// The zones of one run.
pub(crate) struct World {
    plan: Option<Plan>,
    zones: RefCell<Vec<Option<Box<dyn Made>>>>,
    forgotten: RefCell<Vec<(usize, [u64; POINTS.len()])>>,
    /// Those of the zones whose hooks count, and the requests that they should have seen.
    counts: RefCell<Vec<(Arc<Counts>, Option<Requests>)>>,
    /// Local caches take items before they are asked for: requests must not be compared.
    pub(crate) has_local: Cell<bool>,
    /// Zones have memory from the start, and keep it.
    pub(crate) keeps_memory: Cell<bool>,
}

impl World {
    pub(crate) fn new(plan: Option<Plan>) -> Self {
        Self {
            plan,
            zones: RefCell::default(),
            forgotten: RefCell::default(),
            counts: RefCell::default(),
            has_local: Cell::new(false),
            keeps_memory: Cell::new(false),
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        let counts = Arc::<Counts>::default();
        self.counts.borrow_mut().push((counts.clone(), None));
        Tally(counts)
    }

    /// Has the zone fail by plan, and checked at the end.
    pub(crate) fn join<H: Hooks>(&self, zone: RawZone<H>) -> RawZone<H> {
        let mut zones = self.zones.borrow_mut();
        POINTS
            .iter()
            .for_each(|&point| zone.fail_at(point, FailPlan::Off));
        if let Some(plan) = self.plan.filter(|plan| plan.zone == zones.len()) {
            zone.fail_at(plan.point, plan.plan);
        }
        zones.push(Some(Box::new(zone.clone())));
        zone
    }

    /// A zone without hooks.
    pub(crate) fn plain(&self, builder: ZoneBuilder) -> RawZone {
        self.join(builder.build().expect("there is address space"))
    }

    /// A zone whose hooks count.
    pub(crate) fn zone(&self, builder: ZoneBuilder) -> RawZone<Tally> {
        let zone = builder.hooks(self.tally()).build();
        let zone = self.join(zone.expect("there is address space"));
        let asked = zone.clone();
        if let Some((_, requests)) = self.counts.borrow_mut().last_mut() {
            *requests = Some(Box::new(move || asked.stats().requests));
        }
        zone
    }

    /// Lets go of the zones, so that a scenario may drop its last handles.
    pub(crate) fn forget(&self) {
        for (at, zone) in self.zones.borrow_mut().iter_mut().enumerate() {
            let zone = zone.take().expect("forgotten once");
            self.forgotten.borrow_mut().push((at, zone.consulted()));
        }
        self.counts
            .borrow_mut()
            .iter_mut()
            .for_each(|of| of.1 = None);
    }

    /// All items came back.
    pub(crate) fn check(self) -> Vec<[u64; POINTS.len()]> {
        let zones = self.zones.take();
        let consulted = match self.forgotten.take() {
            none if none.is_empty() => zones.iter().flatten().map(|z| z.consulted()).collect(),
            forgotten => forgotten.into_iter().map(|(_, counts)| counts).collect(),
        };
        for zone in zones.iter().flatten() {
            zone.stop_failing();
        }
        // Packets give their clusters back when they are drained: the last zones made are first.
        zones.iter().flatten().rev().for_each(|zone| zone.drain());
        zones
            .iter()
            .flatten()
            .rev()
            .for_each(|zone| zone.check(self.keeps_memory.get()));
        drop(zones);
        for (counts, requests) in self.counts.take() {
            let ever = counts.ctors_ever.load(SeqCst) as u64;
            if let Some(requests) = requests.filter(|_| !self.has_local.get()) {
                assert_eq!(requests(), ever, "requests");
            }
            // The zone, and with it its cached items, went with its last handle, just now.
            assert_eq!(counts.inits.load(SeqCst), 0, "init and fini");
            assert_eq!(counts.ctors.load(SeqCst), 0, "ctor and dtor");
        }
        consulted
    }
}

/// An item that is freed when dropped, into the zone that it came from.
pub(crate) struct Held<'a, H: Hooks>(pub(crate) &'a RawZone<H>, pub(crate) NonNull<u8>);

impl<H: Hooks> Drop for Held<'_, H> {
    fn drop(&mut self) {
        // SAFETY: it came from this zone, and goes once.
        unsafe { self.0.free(self.1) };
    }
}

/// One item, or the error.
pub(crate) fn one<H: Hooks>(zone: &RawZone<H>) -> Result<Held<'_, H>, AllocError> {
    zone.alloc().map(|item| Held(zone, item))
}

/// So many, or the error, with those before it freed.
pub(crate) fn many<H: Hooks>(zone: &RawZone<H>, n: usize) -> Result<Vec<Held<'_, H>>, AllocError> {
    (0..n).map(|_| one(zone)).collect()
}

/// The result of a bulk allocation.
pub(crate) fn bulk<H: Hooks>(zone: &RawZone<H>, n: usize) -> Vec<NonNull<u8>> {
    let mut out = vec![MaybeUninit::uninit(); n];
    let got = zone.alloc_bulk(&mut out);
    // SAFETY: the first `got` were written.
    out[..got]
        .iter()
        .map(|entry| unsafe { entry.assume_init() })
        .collect()
}
