//! Random use against a model that is a map: breaks when items overlap, move, lose their
//! content or alignment, or when a count is wrong.

use crate::common::{assert_balance, builder, free, read, write};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use proptest::prelude::*;
use std::collections::BTreeMap;
use uma::{AllocError, RawZone};

#[derive(Clone, Debug)]
enum Op {
    Alloc,
    AllocBulk(usize),
    Free(usize),
    FreeBulk(usize),
    Drain,
    Limit(Option<usize>),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        30 => Just(Op::Alloc),
        5 => (1usize..200).prop_map(Op::AllocBulk),
        28 => any::<usize>().prop_map(Op::Free),
        5 => (1usize..200).prop_map(Op::FreeBulk),
        2 => Just(Op::Drain),
        2 => proptest::option::of(0usize..300).prop_map(Op::Limit),
    ];
    proptest::collection::vec(op, 1..400)
}

/// Layouts of odd and even sizes, among them those of mbufs, clusters and jumbo buffers.
const LAYOUTS: [(usize, usize); 8] = [
    (8, 8),
    (24, 8),
    (256, 256),
    (1000, 8),
    (2048, 2048),
    (9216, 1024),
    (16_384, 16_384),
    (65_536, 65_536),
];

struct Model {
    zone: RawZone,
    size: usize,
    align: usize,
    limit: Option<usize>,
    /// Address of each live item, and the values written at its beginning, end and count.
    live: BTreeMap<NonNull<u8>, u64>,
    serial: u64,
}

impl Model {
    fn took(&mut self, item: NonNull<u8>) {
        let address = item.addr().get();
        assert_eq!(address % self.align, 0, "misaligned");
        let below = self.live.range(..item).next_back();
        assert!(
            below.is_none_or(|(i, _)| i.addr().get() + self.size <= address),
            "overlap below"
        );
        let above = self.live.range(item..).next();
        assert!(
            above.is_none_or(|(i, _)| address + self.size <= i.addr().get()),
            "overlap above"
        );
        self.serial += 1;
        write(item, self.serial);
        write(self.end(item), self.serial);
        // SAFETY: the item is live and of this zone.
        unsafe { self.zone.refcount(item) }.store(self.serial as u32, Relaxed);
        self.live.insert(item, self.serial);
        assert!(
            self.limit.is_none_or(|limit| self.live.len() <= limit),
            "limit passed"
        );
    }

    fn end(&self, item: NonNull<u8>) -> NonNull<u8> {
        // SAFETY: the sizes here are multiples of 8, so the last word is within the item.
        unsafe { item.add(self.size - 8) }
    }

    fn pick(&mut self, n: usize) -> Option<NonNull<u8>> {
        let item = *self.live.keys().nth(n.checked_rem(self.live.len())?)?;
        let serial = self.live.remove(&item)?;
        assert_eq!(read(item), serial, "content lost");
        assert_eq!(read(self.end(item)), serial, "content lost");
        // SAFETY: the item is live and of this zone.
        let count = unsafe { self.zone.refcount(item) };
        assert_eq!(count.load(Relaxed), serial as u32, "count lost");
        Some(item)
    }

    fn at_limit(&self) -> bool {
        self.limit.is_some_and(|limit| self.live.len() >= limit)
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Alloc => match self.zone.alloc() {
                Ok(item) => self.took(item),
                Err(error) => {
                    assert_eq!(error, AllocError::Limit);
                    assert!(self.at_limit(), "failed below the limit");
                }
            },
            Op::AllocBulk(n) => {
                let mut out = vec![MaybeUninit::uninit(); n];
                let got = self.zone.alloc_bulk(&mut out);
                for entry in &out[..got] {
                    // SAFETY: the first `got` were written.
                    self.took(unsafe { entry.assume_init() });
                }
                assert!(got == n || self.at_limit(), "{got} of {n} below the limit");
            }
            Op::Free(n) => {
                if let Some(item) = self.pick(n) {
                    free(&self.zone, item);
                }
            }
            Op::FreeBulk(n) => {
                let items: Vec<_> = (0..n).map_while(|i| self.pick(i * 7)).collect();
                // SAFETY: they are live, of this zone and different, and the model forgot them.
                unsafe { self.zone.free_bulk(&items) };
            }
            Op::Drain => drop(self.zone.drain()),
            Op::Limit(limit) => {
                self.zone.set_limit(limit);
                self.limit = limit;
            }
        }
        assert_eq!(self.zone.live(), self.live.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn zone_behaves_as_the_model(
        ops in ops(),
        (size, align) in prop::sample::select(&LAYOUTS),
        bucket in prop_oneof![Just(1usize), Just(3), Just(64)],
    ) {
        // Breaks when any layer loses, doubles or misplaces an item.
        let zone = builder(size, align).refcounts().bucket_items(bucket).build().unwrap();
        let mut model =
            Model { zone, size, align, limit: None, live: BTreeMap::new(), serial: 0 };
        for op in ops {
            model.step(op);
        }
        prop_assert!(model.zone.is_valid());
        let stats = model.zone.stats();
        prop_assert_eq!(stats.used, model.live.len());
        prop_assert_eq!(stats.requests, model.serial);
        while let Some(item) = model.pick(0) {
            free(&model.zone, item);
        }
        assert_balance(&model.zone);
    }
}
