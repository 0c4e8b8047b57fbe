//! Panics of hooks, imports and callbacks: none loses an item or a bucket, leaves a keg closed, or counts wrong.
//!
//! Each scenario runs with the n-th call of one kind panicking, for every kind and every n, until a run has fewer
//! calls. Then all must be as before: nothing live or cached, as many frees as requests, as many `fini` as `init`.

use crate::common::{assert_balance, builder, free};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use uma::{AllocError, HookFailed, Hooks, Import, Imported, Object, ObjectZone, RawZone, Zone};

/// The hook that panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Init,
    Fini,
    Ctor,
    Dtor,
    Import,
    Release,
    Warning,
    Available,
}

/// The number of the call that panics, and the counts of all calls.
struct Fuse {
    kind: Kind,
    /// Calls until that one.
    left: AtomicUsize,
    blown: AtomicBool,
    built: AtomicUsize,
    fresh: AtomicUsize,
}

impl Fuse {
    fn new(kind: Kind, nth: usize) -> Arc<Self> {
        Arc::new(Self {
            kind,
            left: AtomicUsize::new(nth),
            blown: AtomicBool::new(false),
            built: AtomicUsize::new(0),
            fresh: AtomicUsize::new(0),
        })
    }

    fn burn(&self, kind: Kind) {
        if kind == self.kind
            && self.left.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)) == Ok(1)
        {
            self.blown.store(true, SeqCst);
            panic!("as planned: {kind:?}");
        }
    }

    /// Nothing panics from now on.
    fn put_out(&self) {
        self.left.store(0, SeqCst);
    }
}

#[derive(Clone)]
struct Burning(Arc<Fuse>);

impl Hooks for Burning {
    unsafe fn init(&self, _: NonNull<u8>) -> Result<(), HookFailed> {
        self.0.burn(Kind::Init);
        self.0.built.fetch_add(1, SeqCst);
        Ok(())
    }

    unsafe fn fini(&self, _: NonNull<u8>) {
        self.0.built.fetch_sub(1, SeqCst);
        self.0.burn(Kind::Fini);
    }

    unsafe fn ctor(&self, _: NonNull<u8>) -> Result<(), HookFailed> {
        self.0.burn(Kind::Ctor);
        Ok(())
    }

    unsafe fn dtor(&self, _: NonNull<u8>) {
        self.0.burn(Kind::Dtor);
    }
}

/// Boxes, without end.
impl Import for Burning {
    fn import(&self, items: &mut Imported<'_>) {
        while items.room() > 0 {
            if items.len() == 1 {
                self.0.burn(Kind::Import);
            }
            let item = NonNull::from(Box::leak(Box::new([0_u64; 8]))).cast();
            // SAFETY: a new box, which `release` frees.
            unsafe { items.push(item) };
            self.0.fresh.fetch_add(1, SeqCst);
        }
    }

    unsafe fn release(&self, items: &[NonNull<u8>]) {
        for item in items {
            // SAFETY: from `import`, and not used any more.
            drop(unsafe { Box::from_raw(item.cast::<[u64; 8]>().as_ptr()) });
            self.0.fresh.fetch_sub(1, SeqCst);
        }
        self.0.burn(Kind::Release);
    }
}

/// Calls a function that may panic; returns its result if it did not.
fn tried<T>(what: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(what)).ok()
}

/// An allocation at a time, in bulk, through a local cache; past the limit; a drain, a trim.
fn exercise(zone: &RawZone<Burning>, fuse: &Arc<Fuse>) {
    let mut held = Vec::new();
    for _ in 0..50 {
        held.extend(tried(|| zone.alloc()).and_then(Result::ok));
    }
    // The limit is reached, and a thread waits.
    let again = fuse.clone();
    let _ = tried(|| zone.call_when_available(move || again.burn(Kind::Available)));
    for item in held.drain(..) {
        let _ = tried(|| free(zone, item));
    }
    let mut out = [MaybeUninit::uninit(); 24];
    for _ in 0..2 {
        let got = tried(|| zone.alloc_bulk(&mut out)).unwrap_or(0);
        // SAFETY: alloc_bulk wrote so many.
        let items: Vec<_> = out[..got]
            .iter()
            .map(|item| unsafe { item.assume_init() })
            .collect();
        // SAFETY: they are live, of this zone, and different.
        let _ = tried(|| unsafe { zone.free_bulk(&items) });
    }
    let mut cache = zone.local(4);
    held.extend((0..20).filter_map(|_| tried(|| cache.alloc()).and_then(Result::ok)));
    for item in held.drain(..) {
        // SAFETY: it is live, and of this zone.
        let _ = tried(|| unsafe { cache.free(item) });
    }
    let _ = tried(|| cache.flush());
    let _ = tried(|| drop(cache));
    let _ = tried(|| zone.trim());
    let item = tried(|| zone.alloc_wait(Some(core::time::Duration::from_millis(1))));
    held.extend(item.and_then(Result::ok));
    let _ = tried(|| zone.drain());
    for item in held {
        let _ = tried(|| free(zone, item));
    }
    // Whatever a closed keg keeps out shows here: all of the limit may be had, and is cached when it comes back.
    fuse.put_out();
    let all: Vec<_> = std::iter::from_fn(|| zone.alloc().ok()).collect();
    assert_eq!(all.len(), LIMIT, "something stays out");
    all.into_iter().for_each(|item| free(zone, item));
    assert!(zone.stats().cached() > 0, "the keg stays closed");
}

const LIMIT: usize = 40;

/// Runs a scenario with each call of each kind panicking.
fn every(kinds: &[Kind], run: impl Fn(&Arc<Fuse>)) {
    let mut runs = 0;
    for &kind in kinds {
        for nth in 1.. {
            let fuse = Fuse::new(kind, nth);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&fuse))) {
                eprintln!("with {kind:?} number {nth} panicking");
                resume_unwind(panic);
            }
            if !fuse.blown.load(SeqCst) {
                assert!(nth > 1, "{kind:?} is never called");
                break;
            }
            runs += 1;
        }
    }
    println!("{runs} runs with a panic");
}

fn burning(fuse: &Arc<Fuse>) -> uma::ZoneBuilder<Burning> {
    let warned = fuse.clone();
    builder(64, 8)
        .limit(LIMIT)
        .bucket_items(4)
        .high_water(8)
        .warn(move |_| warned.burn(Kind::Warning))
        .hooks(Burning(fuse.clone()))
}

#[test]
fn a_panic_in_a_hook_of_a_zone_loses_nothing() {
    // Breaks when a panic in init, fini, ctor, dtor or a callback loses an item or a bucket, or miscounts.
    let kinds = [
        Kind::Init,
        Kind::Fini,
        Kind::Ctor,
        Kind::Dtor,
        Kind::Warning,
        Kind::Available,
    ];
    every(&kinds, |fuse| {
        let zone = burning(fuse).build().unwrap();
        exercise(&zone, fuse);
        assert_balance(&zone);
        assert_eq!(fuse.built.load(SeqCst), 0, "init and fini");
    });
}

#[test]
fn a_panic_in_a_hook_of_a_sampled_zone_loses_nothing() {
    // Breaks when the same happens to an item whose allocation is remembered.
    let kinds = [
        Kind::Init,
        Kind::Fini,
        Kind::Ctor,
        Kind::Dtor,
        Kind::Available,
    ];
    every(&kinds, |fuse| {
        let zone = burning(fuse).sample_every(1).build().unwrap();
        exercise(&zone, fuse);
        assert_balance(&zone);
        assert_eq!(fuse.built.load(SeqCst), 0, "init and fini");
    });
}

#[test]
fn a_panic_in_a_hook_of_a_secondary_zone_loses_nothing() {
    // Breaks when the hooks of a master are not run for an item because those of its second panicked.
    every(&[Kind::Init, Kind::Fini], |fuse| {
        let master = burning(fuse).build().unwrap();
        let second = master
            .secondary("second")
            .bucket_items(4)
            .hooks(Burning(fuse.clone()));
        let second = second.build().unwrap();
        exercise(&second, fuse);
        second.drain();
        assert_balance(&master);
        assert_balance(&second);
        assert_eq!(fuse.built.load(SeqCst), 0, "init and fini");
    });
}

#[test]
fn a_panic_in_an_import_or_a_release_loses_nothing() {
    // Breaks when the items that an import brought before its panic are lost, or the items that it did not bring stay
    // counted.
    let kinds = [
        Kind::Import,
        Kind::Release,
        Kind::Init,
        Kind::Fini,
        Kind::Available,
    ];
    every(&kinds, |fuse| {
        let zone = burning(fuse)
            .build_cache_only(Burning(fuse.clone()))
            .unwrap();
        exercise(&zone, fuse);
        assert_balance(&zone);
        assert_eq!(fuse.built.load(SeqCst), 0, "init and fini");
        assert_eq!(fuse.fresh.load(SeqCst), 0, "import and release");
    });
}

/// Panics where it is dropped, or made ready.
struct Fragile(Arc<Fuse>);

impl Drop for Fragile {
    fn drop(&mut self) {
        self.0.burn(Kind::Fini);
    }
}

impl Object for Fragile {
    type Context = Arc<Fuse>;

    fn init(fuse: &Self::Context) -> Result<Self, HookFailed> {
        fuse.burn(Kind::Init);
        Ok(Self(fuse.clone()))
    }

    fn ctor(&mut self) -> Result<(), HookFailed> {
        self.0.burn(Kind::Ctor);
        Ok(())
    }

    fn dtor(&mut self) {
        self.0.burn(Kind::Dtor);
    }
}

#[test]
fn a_panic_in_an_object_loses_nothing() {
    // Breaks when an object whose drop, ctor or dtor panics takes its memory, or others, with it.
    every(&[Kind::Init, Kind::Fini, Kind::Ctor, Kind::Dtor], |fuse| {
        let builder = ObjectZone::<Fragile>::builder("fragile")
            .limit(LIMIT)
            .bucket_items(4);
        let zone = ObjectZone::<Fragile>::build(builder, fuse.clone()).unwrap();
        let held: Vec<_> = (0..50)
            .filter_map(|_| tried(|| zone.alloc())?.ok())
            .collect();
        held.into_iter()
            .for_each(|object| _ = tried(|| drop(object)));
        let _ = tried(|| zone.raw().drain());
        fuse.put_out();
        assert_balance(zone.raw());
        assert_eq!(
            Arc::strong_count(fuse),
            2,
            "an object was never dropped, or twice"
        );
    });
}

#[test]
fn a_panic_in_the_drop_of_an_item_frees_it() {
    // Breaks when an item of a typed zone stays live because its drop panicked.
    every(&[Kind::Fini], |fuse| {
        let zone = Zone::<Fragile>::build(Zone::<Fragile>::builder("fragile").limit(1)).unwrap();
        for _ in 0..5 {
            let item = zone
                .alloc(Fragile(fuse.clone()))
                .expect("the one before is free");
            let _ = tried(|| drop(item));
        }
        assert_balance(zone.raw());
        assert_eq!(Arc::strong_count(fuse), 1);
    });
}

#[test]
fn a_panic_while_others_sleep_leaves_them_served() {
    // Breaks when a sleeper whose import panics stays counted: the keg would never open again.
    let fuse = Fuse::new(Kind::Import, 1);
    let zone = burning(&fuse)
        .build_cache_only(Burning(fuse.clone()))
        .unwrap();
    assert!(
        tried(|| zone.alloc_wait(None)).is_none(),
        "the import panics"
    );
    let items: Vec<_> = (0..LIMIT).map(|_| zone.alloc_wait(None).unwrap()).collect();
    assert_eq!(zone.alloc(), Err(AllocError::Limit));
    items.into_iter().for_each(|item| free(&zone, item));
    assert!(zone.stats().cached() > 0, "the keg stays closed");
    assert_balance(&zone);
}
