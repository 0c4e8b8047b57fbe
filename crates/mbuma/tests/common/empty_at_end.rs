//! The check that each test ends with.

use mbuf::{Live, MbufPool};

/// Pools of which all buffers must be free when this goes: the last field of what holds a test's stacks.
pub(crate) struct EmptyAtEnd(Vec<MbufPool>);

impl EmptyAtEnd {
    pub(crate) fn new<'a>(pools: impl IntoIterator<Item = &'a MbufPool>) -> Self {
        Self(pools.into_iter().cloned().collect())
    }
}

impl Drop for EmptyAtEnd {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let full = |pool: &&MbufPool| pool.live() != Live::NONE;
            assert_eq!(self.0.iter().filter(full).count(), 0, "buffers are left");
        }
    }
}
