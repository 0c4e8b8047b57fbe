//! A zone seen by those who do not keep it.
//!
//! Called by: programs whose zones hold items of each other. Calls: `link.rs`, `reclaim.rs`.

use crate::hooks::Hooks;
use crate::link::Link;
use crate::raw::RawZone;
use core::fmt;
use std::sync::Arc;

/// A way to a zone that does not keep it: what a zone needs whose free items hold items of another
/// one, which in turn has to get them back when it runs out.
#[derive(Clone)]
pub struct WeakZone(Arc<Link>);

impl WeakZone {
    /// Empties the zone's caches, of all CPUs and in the depot, into its slabs, through `fini`.
    /// Pages stay. False if the zone has no handle any more.
    pub fn drain_caches(&self) -> bool {
        self.0.visit(crate::inner::Inner::drain_caches).is_some()
    }
}

impl<H: Hooks> From<&RawZone<H>> for WeakZone {
    fn from(zone: &RawZone<H>) -> Self {
        Self(zone.inner().link.clone())
    }
}

impl fmt::Debug for WeakZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakZone")
    }
}
