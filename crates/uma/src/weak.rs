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
    /// Pages stay. What other threads had in their hands meanwhile may have escaped it.
    pub fn drain_caches(&self) -> Drained {
        let others = self.0.visit(|zone| {
            zone.drain_caches();
            zone.others_inside()
        });
        match others {
            None => Drained::Gone,
            Some(true) => Drained::Partly,
            Some(false) => Drained::All,
        }
    }
}

/// What came of [`WeakZone::drain_caches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what escaped it comes back in a moment"]
pub enum Drained {
    /// What was free when it began is in the slabs.
    All,
    /// Other threads carry free items between the layers: to their slabs, or into caches again.
    Partly,
    /// The zone has no handle any more.
    Gone,
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
