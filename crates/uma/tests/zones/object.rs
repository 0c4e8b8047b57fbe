//! Object zones: breaks when an object is built or dropped once too often, or not at all, or when
//! its owner finds it in another state than it was left in.

use crate::common::Dice;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::thread;
use uma::{AllocError, HookFailed, Object, ObjectBox, ObjectZone, Zone};

#[derive(Default)]
struct Ledger {
    inits: AtomicUsize,
    ctors: AtomicUsize,
    dtors: AtomicUsize,
    drops: AtomicUsize,
    /// The call of `init`, and of `ctor`, that refuses; 0: none.
    init_fails_at: AtomicUsize,
    ctor_fails_at: AtomicUsize,
}

impl Ledger {
    fn counts(&self) -> [usize; 4] {
        [&self.inits, &self.ctors, &self.dtors, &self.drops].map(|count| count.load(Relaxed))
    }
}

/// A value with memory of its own.
struct Buffer {
    ledger: Arc<Ledger>,
    bytes: Vec<u8>,
}

impl Object for Buffer {
    type Context = Arc<Ledger>;

    fn init(ledger: &Arc<Ledger>) -> Result<Self, HookFailed> {
        let n = ledger.inits.fetch_add(1, Relaxed) + 1;
        if n == ledger.init_fails_at.load(Relaxed) {
            ledger.inits.fetch_sub(1, Relaxed);
            ledger.init_fails_at.store(0, Relaxed);
            return Err(HookFailed);
        }
        Ok(Self {
            ledger: ledger.clone(),
            bytes: Vec::with_capacity(64),
        })
    }

    fn ctor(&mut self) -> Result<(), HookFailed> {
        let n = self.ledger.ctors.fetch_add(1, Relaxed) + 1;
        if n == self.ledger.ctor_fails_at.load(Relaxed) {
            self.ledger.ctors.fetch_sub(1, Relaxed);
            self.ledger.ctor_fails_at.store(0, Relaxed);
            return Err(HookFailed);
        }
        assert!(self.bytes.is_empty(), "the last owner left something");
        Ok(())
    }

    fn dtor(&mut self) {
        self.ledger.dtors.fetch_add(1, Relaxed);
        self.bytes.clear();
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.ledger.drops.fetch_add(1, Relaxed);
    }
}

fn buffers() -> (ObjectZone<Buffer>, Arc<Ledger>) {
    let ledger = Arc::new(Ledger::default());
    let builder = ObjectZone::<Buffer>::builder("buffer").bucket_items(8);
    let zone = ObjectZone::build(builder, ledger.clone()).unwrap();
    (zone, ledger)
}

/// All that was built is dropped, and all that went out came back.
fn assert_even(ledger: &Ledger) {
    let [inits, ctors, dtors, drops] = ledger.counts();
    assert_eq!((inits, ctors), (drops, dtors));
}

#[test]
fn an_object_is_built_once_and_dropped_once() {
    // Breaks when a free drops the object, or the end of the zone does not.
    let (zone, ledger) = buffers();
    for i in 0..1000_u32 {
        let mut buffer = zone.alloc().unwrap();
        assert!(buffer.bytes.capacity() >= 64, "it is not built");
        buffer.bytes.extend(i.to_ne_bytes());
    }
    let [inits, ctors, dtors, drops] = ledger.counts();
    assert!(
        inits <= 8 * kern::cpu::count(),
        "{inits} objects were built"
    );
    assert_eq!((ctors, dtors, drops), (1000, 1000, 0));
    zone.raw().drain();
    assert_even(&ledger);
    let last = zone.alloc().unwrap();
    drop(zone);
    drop(last);
    assert_even(&ledger);
    assert_eq!(Arc::strong_count(&ledger), 1, "something was not dropped");
}

#[test]
fn a_refused_object_is_neither_kept_nor_dropped() {
    // Breaks when a refused object is dropped without having been built, or stays behind.
    for n in 1..=40 {
        for ctor in [false, true] {
            let (zone, ledger) = buffers();
            let fails_at = match ctor {
                true => &ledger.ctor_fails_at,
                false => &ledger.init_fails_at,
            };
            fails_at.store(n, Relaxed);
            let mut held = Vec::new();
            let mut refused = 0;
            while held.len() < 40 {
                match zone.alloc() {
                    Ok(buffer) => held.push(buffer),
                    Err(AllocError::Hook) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(refused <= 1 && (refused == 1 || !ctor));
            drop(held);
            assert_eq!(zone.raw().live(), 0);
            drop(zone);
            assert_even(&ledger);
            assert_eq!(Arc::strong_count(&ledger), 1, "something was not dropped");
        }
    }
}

#[test]
fn objects_change_threads() {
    // Breaks when an object is in two hands, or lost between the caches.
    let (zone, ledger) = buffers();
    zone.raw().set_limit(Some(100));
    thread::scope(|scope| {
        let (give, take) = std::sync::mpsc::sync_channel::<ObjectBox<Buffer>>(50);
        let freer = zone.clone();
        scope.spawn(move || {
            let mut dice = Dice::new(1);
            for mut buffer in take {
                assert_eq!(buffer.bytes.len(), 8);
                buffer.bytes.push(1);
                if dice.below(100) == 0 {
                    freer.raw().drain();
                }
            }
        });
        for i in 0..20_000_u64 {
            let mut buffer = zone.alloc_wait(None).unwrap();
            buffer.bytes.extend(i.to_ne_bytes());
            give.send(buffer).unwrap();
        }
        drop(give);
    });
    drop(zone);
    assert_even(&ledger);
}

#[test]
#[should_panic(expected = "the master's hooks own the content of its items")]
fn other_types_stay_out_of_built_objects() {
    // Breaks when safe code may write another type where an object is to be dropped later.
    let (zone, _ledger) = buffers();
    let builder = zone.raw().secondary("impostor");
    let _ = Zone::<[usize; 4]>::build(builder);
}
