//! Ours, with coloured slabs, a whole batch in one call.

use super::mbuma;
use crate::alloc::design::{Absent, BATCH, Block, Design, mark, out_of_memory};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use uma::RawZone;

/// A zone of raw items with our constructor.
pub(crate) struct MbumaBulk {
    zone: RawZone<mbuma::Construct>,
}

impl Design for MbumaBulk {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        Ok(Self {
            zone: mbuma::coloured(size, mbuma::Construct)?,
        })
    }

    #[inline]
    fn alloc(&self) -> Block {
        match self.zone.alloc() {
            Ok(item) => Block(item),
            Err(_) => out_of_memory("mbuma-bulk"),
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
    fn batches<const LIVE: usize>(&self, n: u64) {
        let mut items = [const { MaybeUninit::<NonNull<u8>>::uninit() }; LIVE];
        for i in 0..n.div_ceil(LIVE as u64) {
            for call in items.as_chunks_mut::<BATCH>().0 {
                if self.zone.alloc_bulk(call) < BATCH {
                    out_of_memory("mbuma-bulk");
                }
                // SAFETY: all of them were filled, and an address in MaybeUninit is laid out as one without.
                let call = unsafe { &*(&raw const *call).cast::<[NonNull<u8>; BATCH]>() };
                for &item in call {
                    mark(item, i);
                }
            }
            for call in items.as_chunks::<BATCH>().0 {
                // SAFETY: as above.
                let call = unsafe { &*(&raw const *call).cast::<[NonNull<u8>; BATCH]>() };
                // SAFETY: they came from this zone, some lines above, and have no other owner.
                unsafe { self.zone.free_bulk(call) };
            }
        }
    }
}
