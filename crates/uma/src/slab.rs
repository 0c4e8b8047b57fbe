//! A slab: a run of pages cut into items, described out of line.
//!
//! Called by: `keg.rs`. Calls: nothing.
//!
//! The free items of slab n are the ones in the keg's bitmap; here is only what decides which
//! slab is taken from next. Nothing is ever written into a free item, so pages go back to the
//! system, and come again, without this noticing.

/// Classes of fullness. Within one the lowest address is preferred.
pub(crate) const CLASSES: usize = 16;

/// What a slab is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Has pages (or will on the next touch). Operations: take, give.
    Backed,
    /// Being given back by a drain, without the lock. Operations: none until it is Unbacked.
    Leaving,
    /// Empty and without pages. Operations: take, after becoming Backed.
    Unbacked,
}

/// The list on which a slab waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// No free item: on no list.
    Full,
    /// Some items taken, some free; class 0 is the fullest.
    Partial(usize),
    /// All items free.
    Empty,
    /// All items free, pages gone.
    Unbacked,
    /// In the hands of a drain: on no list.
    Leaving,
}

/// One slab's entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slab {
    /// Free items.
    pub(crate) free: usize,
    pub(crate) state: State,
}

impl Slab {
    /// Where a slab of `per_slab` items belongs.
    pub(crate) fn shelf(&self, per_slab: usize) -> Shelf {
        match self.state {
            State::Leaving => Shelf::Leaving,
            State::Unbacked => Shelf::Unbacked,
            State::Backed if self.free == 0 => Shelf::Full,
            State::Backed if self.free == per_slab => Shelf::Empty,
            State::Backed => Shelf::Partial((self.free - 1) * CLASSES / per_slab),
        }
    }
}
