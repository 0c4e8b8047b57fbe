//! Ours, typed: `Zone<T>` gives boxes that go back where they came from when they are dropped.
//!
//! The type is a typical one: a header that is moved in, as the raw design's constructor writes one, and room that is
//! not initialised.

use super::mbuma;
use crate::alloc::design::{Absent, Design, out_of_memory};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use uma::{Zone, ZoneBox};

/// A zone of items of `N` bytes and a header.
pub(crate) struct MbumaTyped<const ROOM: usize> {
    zone: Zone<Item<ROOM>>,
}

/// An item: the header, then room.
#[repr(C, align(16))]
pub(crate) struct Item<const ROOM: usize> {
    next: usize,
    next_packet: usize,
    data: usize,
    len: u32,
    kind: u16,
    flags: u16,
    room: [MaybeUninit<u8>; ROOM],
}

impl<const ROOM: usize> Design for MbumaTyped<ROOM> {
    type Item = ZoneBox<Item<ROOM>>;

    fn new(size: usize) -> Result<Self, Absent> {
        if size != size_of::<Item<ROOM>>() {
            return Err(Absent("the types are for 256 and 2048 bytes".to_owned()));
        }
        let zone = Zone::new("lab").map_err(|e| Absent(e.to_string()))?;
        Ok(Self { zone })
    }

    #[inline]
    fn alloc(&self) -> ZoneBox<Item<ROOM>> {
        let made = self.zone.alloc(Item {
            next: 0,
            next_packet: 0,
            data: 0,
            len: 0,
            kind: 1,
            flags: 0,
            room: [MaybeUninit::uninit(); ROOM],
        });
        match made {
            Ok(item) => item,
            Err(_) => out_of_memory("mbuma-typed"),
        }
    }

    #[inline]
    unsafe fn free(&self, item: ZoneBox<Item<ROOM>>) {
        drop(item);
    }

    fn bytes(item: &mut ZoneBox<Item<ROOM>>) -> NonNull<u8> {
        NonNull::from(&mut **item).cast()
    }

    fn taken(&self) -> Option<usize> {
        Some(mbuma::taken(&self.zone.stats()))
    }

    fn reclaim(&self) {
        self.zone.raw().drain();
    }
}
