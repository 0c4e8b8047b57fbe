//! The memory that a zone asks for.

/// The address space that a zone reserves by default.
pub const RESERVE_BYTES_DEFAULT: usize = if cfg!(miri) { 4 << 20 } else { 8 << 30 };

/// The memory that a zone asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArenaOptions {
    /// Address space for its slabs, which bounds them for ever.
    pub(crate) reserve_bytes: usize,
    /// A reference count beside each item.
    pub(crate) refcounts: bool,
    /// Slabs of huge pages, given back only whole: giving back a part of a huge page would lower the resident size at
    /// once, but free no memory until all of it is given back.
    pub(crate) huge: bool,
    /// The first items of different slabs begin at different cache sets ([`Geometry`](crate::geometry::Geometry)).
    pub(crate) colour: bool,
    /// Each item has pages of its own and ends at a page that can't be accessed: finds a write beyond an item. Slow,
    /// and the system allows some 32,000 such items.
    pub(crate) guard: bool,
    /// This many more slabs behind the others, which [`Slabs`](crate::slabs::Slabs) never uses.
    pub(crate) sample_slabs: usize,
    /// Bytes behind each item that its owner must not touch, for builds that check it.
    pub(crate) redzone: Option<usize>,
}

impl Default for ArenaOptions {
    fn default() -> Self {
        Self {
            reserve_bytes: RESERVE_BYTES_DEFAULT,
            refcounts: false,
            huge: false,
            colour: false,
            guard: false,
            sample_slabs: 0,
            redzone: None,
        }
    }
}
