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
            let live: Vec<Live> = self.0.iter().map(MbufPool::live).collect();
            assert!(
                live.iter().all(|live| *live == Live::NONE),
                "left: {live:?}"
            );
        }
    }
}
