//! Ours, through the explicit cache of a worker, as a program that pins its threads would use it.

use super::mbuma::{self, Construct};
use crate::alloc::design::{Absent, BATCH, Block, Design, mark, out_of_memory};
use std::array;
use std::ptr::NonNull;
use uma::{LocalCache, RawZone};

/// A zone of raw items.
pub(crate) struct MbumaLocal {
    zone: RawZone<Construct>,
}

impl Design for MbumaLocal {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        Ok(Self {
            zone: mbuma::zone(size, None)?,
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        match self.zone.alloc() {
            Ok(item) => Block(item),
            Err(_) => out_of_memory("mbuma-local"),
        }
    }

    #[inline]
    unsafe fn free(&self, item: Block) {
        // SAFETY: the caller says that it came from this zone and is done with.
        unsafe { self.zone.free(item.0) };
    }

    fn bytes(item: &mut Block) -> NonNull<u8> {
        item.0
    }

    fn taken(&self) -> Option<usize> {
        Some(mbuma::taken(&self.zone.stats()))
    }

    fn reclaim(&self) {
        self.zone.drain();
    }

    #[inline(never)]
    fn pairs(&self, n: u64) {
        let mut cache = self.zone.local(BATCH);
        for i in 0..n {
            let item = one(&mut cache);
            mark(item, i);
            // SAFETY: it came from this zone, two lines above.
            unsafe { cache.free(item) };
        }
    }

    #[inline(never)]
    fn batches<const LIVE: usize>(&self, n: u64) {
        let mut cache = self.zone.local(BATCH);
        for i in 0..n.div_ceil(LIVE as u64) {
            let items: [NonNull<u8>; LIVE] = array::from_fn(|_| {
                let item = one(&mut cache);
                mark(item, i);
                item
            });
            for item in items {
                // SAFETY: it came from this zone, above.
                unsafe { cache.free(item) };
            }
        }
    }
}

#[inline]
fn one(cache: &mut LocalCache<Construct>) -> NonNull<u8> {
    match cache.alloc() {
        Ok(item) => item,
        Err(_) => out_of_memory("mbuma-local"),
    }
}
