//! Hooks that fail at the n-th call, for every n: breaks when a failure leaks an item, runs a
//! hook too often or not at all, or upsets a count.

use crate::common::{assert_balance, builder, free};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use uma::{AllocError, HookFailed, Hooks, RawZone};

/// Where each item is, as far as its hooks know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Cached,
    Live,
}

#[derive(Default)]
struct Ledger {
    stages: HashMap<usize, Stage>,
    inits: usize,
    ctors: usize,
    init_fails_at: Option<usize>,
    ctor_fails_at: Option<usize>,
}

#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Ledger>>);

impl Watch {
    fn go(&self, item: NonNull<u8>, from: Option<Stage>, to: Option<Stage>) {
        let mut ledger = self.0.lock().unwrap();
        let address = item.addr().get();
        assert_eq!(
            ledger.stages.get(&address).copied(),
            from,
            "a hook ran out of turn"
        );
        match to {
            Some(stage) => ledger.stages.insert(address, stage),
            None => ledger.stages.remove(&address),
        };
    }

    fn items(&self) -> usize {
        self.0.lock().unwrap().stages.len()
    }
}

impl Hooks for Watch {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        kern::witness::assert_none("init hook");
        {
            let mut ledger = self.0.lock().unwrap();
            ledger.inits += 1;
            if ledger.init_fails_at == Some(ledger.inits) {
                return Err(HookFailed);
            }
        }
        crate::common::write(item, 0x1417);
        self.go(item, None, Some(Stage::Cached));
        Ok(())
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        kern::witness::assert_none("fini hook");
        assert_eq!(
            crate::common::read(item),
            0x1417,
            "the data of init did not survive"
        );
        self.go(item, Some(Stage::Cached), None);
    }

    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        kern::witness::assert_none("ctor hook");
        {
            let mut ledger = self.0.lock().unwrap();
            ledger.ctors += 1;
            if ledger.ctor_fails_at == Some(ledger.ctors) {
                return Err(HookFailed);
            }
        }
        assert_eq!(
            crate::common::read(item),
            0x1417,
            "the data of init did not survive"
        );
        self.go(item, Some(Stage::Cached), Some(Stage::Live));
        Ok(())
    }

    unsafe fn dtor(&self, item: NonNull<u8>) {
        kern::witness::assert_none("dtor hook");
        self.go(item, Some(Stage::Live), Some(Stage::Cached));
    }
}

fn watched(bucket_items: usize) -> (RawZone<Watch>, Watch) {
    let watch = Watch::default();
    let zone = builder(512, 64)
        .bucket_items(bucket_items)
        .hooks(watch.clone());
    (zone.build().unwrap(), watch)
}

/// Allocates 40 one by one and 40 at once, frees all; how many allocations failed.
fn exercise(zone: &RawZone<Watch>) -> usize {
    let mut failed = 0;
    let mut items = Vec::new();
    for _ in 0..40 {
        match zone.alloc() {
            Ok(item) => items.push(item),
            Err(error) => {
                assert_eq!(error, AllocError::Hook);
                failed += 1;
            }
        }
    }
    let mut out = [MaybeUninit::uninit(); 40];
    let got = zone.alloc_bulk(&mut out);
    failed += usize::from(got < out.len());
    // SAFETY: the first `got` were written.
    items.extend(
        out[..got]
            .iter()
            .map(|entry| unsafe { entry.assume_init() }),
    );
    assert_eq!(zone.live(), items.len());
    items.into_iter().for_each(|item| free(zone, item));
    failed
}

#[test]
fn init_failing_at_the_nth_call_leaks_nothing() {
    // Breaks when the items of a half initialised bucket are lost, or finalised without init.
    for bucket_items in [1, 7, 32] {
        for n in 1..=96 {
            let (zone, watch) = watched(bucket_items);
            watch.0.lock().unwrap().init_fails_at = Some(n);
            // A bucket that is initialised in part serves; only an empty one fails the caller.
            let failed = exercise(&zone);
            assert_eq!(failed as u64, zone.stats().failures);
            assert!(failed <= 1);
            assert_balance(&zone);
            assert_eq!(watch.items(), 0, "an item missed its fini");
        }
    }
}

#[test]
fn ctor_failing_at_the_nth_call_leaks_nothing() {
    // Breaks when the refused item, or those behind it in a bulk allocation, do not go back.
    for n in 1..=80 {
        let (zone, watch) = watched(8);
        watch.0.lock().unwrap().ctor_fails_at = Some(n);
        assert_eq!(exercise(&zone), 1);
        assert_eq!(zone.stats().failures, 1);
        assert_balance(&zone);
        assert_eq!(watch.items(), 0, "an item missed its fini");
    }
}

#[test]
fn a_refused_item_does_not_count_against_the_limit() {
    // Breaks when a failed constructor leaves its item in the count of live items.
    let (zone, watch) = watched(4);
    zone.set_limit(Some(1));
    watch.0.lock().unwrap().ctor_fails_at = Some(1);
    assert_eq!(zone.alloc(), Err(AllocError::Hook));
    let item = zone.alloc().expect("nothing is live");
    assert_eq!(zone.alloc(), Err(AllocError::Limit));
    free(&zone, item);
    assert_balance(&zone);
}

#[test]
fn init_runs_once_for_many_allocations() {
    // Breaks when items go to their slabs and back in the steady state.
    let (zone, watch) = watched(8);
    for _ in 0..1000 {
        let item = zone.alloc().unwrap();
        free(&zone, item);
    }
    let (inits, ctors) = {
        let ledger = watch.0.lock().unwrap();
        (ledger.inits, ledger.ctors)
    };
    assert_eq!(ctors, 1000);
    // One bucket for each CPU that this thread may have run on.
    assert!(inits <= 8 * kern::cpu::count(), "{inits} inits");
    drop(zone);
    assert_eq!(
        watch.items(),
        0,
        "the end of a zone did not finalise its cached items"
    );
}
