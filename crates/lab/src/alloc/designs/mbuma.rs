//! Ours: a raw zone, called as a user of the crate calls it, with a constructor and with its statistics.

use crate::alloc::design::{ALIGN, Absent, Attendant, Block, Design, out_of_memory};
use crate::alloc::header;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::time::Duration;
use uma::{Backend, HookFailed, Hooks, RECLAIM_INTERVAL, RawZone, Reclaimer, ZoneStats};

/// A zone of raw items, its caches in restartable sequences if `RSEQ`, else under a try-lock a CPU; its slabs
/// coloured or not.
pub(crate) struct Mbuma<const RSEQ: bool, const COLOUR: bool> {
    zone: RawZone<Construct>,
}

/// Our constructor.
#[derive(Default)]
pub(crate) struct Construct;

impl Hooks for Construct {
    #[inline]
    unsafe fn ctor(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        // SAFETY: the zone gives us an item of its own, which is longer than the header.
        unsafe { header::construct(item) };
        Ok(())
    }
}

/// A zone with coloured slabs, as for a user that allocates big items in runs: a batch of them
/// does not collide in two cache sets, and an item that stays pins one and a half pages, not one.
pub(crate) fn coloured<H: Hooks>(size: usize, hooks: H) -> Result<RawZone<H>, Absent> {
    build(size, None, true, hooks)
}

fn build<H: Hooks>(
    size: usize,
    backend: Option<Backend>,
    colour: bool,
    hooks: H,
) -> Result<RawZone<H>, Absent> {
    let layout = Layout::from_size_align(size, ALIGN).map_err(|e| Absent(e.to_string()))?;
    let mut builder = RawZone::builder("lab", layout).hooks(hooks);
    if colour {
        builder = builder.colour();
    }
    if let Some(backend) = backend {
        builder = builder.backend(backend);
    }
    let zone = builder.build().map_err(|e| Absent(e.to_string()))?;
    match backend {
        Some(backend) if zone.stats().backend != backend => {
            Err(Absent(kern::rseq::reason().to_owned()))
        }
        _ => Ok(zone),
    }
}

/// Items that are live or in a cache.
pub(crate) fn taken(stats: &ZoneStats) -> usize {
    stats.used + stats.cached()
}

impl<const RSEQ: bool, const COLOUR: bool> Design for Mbuma<RSEQ, COLOUR> {
    type Item = Block;

    fn new(size: usize) -> Result<Self, Absent> {
        let backend = if RSEQ { Backend::Rseq } else { Backend::Locked };
        let zone = build(size, Some(backend), COLOUR, Construct)?;
        Ok(Self { zone })
    }

    #[inline]
    fn alloc(&self) -> Block {
        match self.zone.alloc() {
            Ok(item) => Block(item),
            Err(_) => out_of_memory("mbuma"),
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
        Some(taken(&self.zone.stats()))
    }

    fn reclaim(&self) {
        self.zone.drain();
    }

    fn attend(&self) -> Option<Box<dyn Attendant>> {
        let reclaimer = Reclaimer::start(RECLAIM_INTERVAL).ok()?;
        reclaimer.watch(&self.zone);
        Some(Box::new(Tended(reclaimer)))
    }
}

/// The crate's own thread for that.
struct Tended(Reclaimer);

impl Attendant for Tended {
    fn busy(&self) -> Duration {
        self.0.stats().busy
    }
}
