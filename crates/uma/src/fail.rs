//! Fail points: allocations, and the operations under them, that fail when a test says so.
//!
//! Code that handles a failed allocation hardly ever runs, so a test forces it: it lets the n-th allocation fail, for
//! every n, and checks for leaks. Only with the feature `invariants`; without it these functions are empty.
//!
//! ```
//! # #[cfg(feature = "invariants")] {
//! use core::alloc::Layout;
//! use uma::{AllocError, FailPlan, FailPoint, RawZone};
//!
//! let zone = RawZone::builder("request", Layout::new::<[u64; 8]>()).build().unwrap();
//! zone.fail(FailPlan::Nth { n: 2, forever: false });
//! let items = [zone.alloc(), zone.alloc(), zone.alloc()];
//! assert_eq!(items[1], Err(AllocError::NoMemory));
//! assert_eq!(zone.consulted(FailPoint::Alloc), 3);
//! # // SAFETY: they came from this zone and are not used any more.
//! # items.into_iter().flatten().for_each(|item| unsafe { zone.free(item) });
//! # }
//! ```
//!
//! The environment variable `UMA_FAIL` makes allocations of a whole program fail: a comma-separated list of `ZONE:N`,
//! the N-th allocation of that zone, or `ZONE:N+`, that one and all after it.
//!
//! Locks: none.
//! Source: FreeBSD's `uma_dbg_nowait` fail point and `vm.uma` fault injection.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

/// Which of the calls that consult a [`FailPoint`] fail (fail(9)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailPlan {
    /// None.
    #[default]
    Off,
    /// The `n`-th from now, counted from 1, and with `forever` all that come after it.
    Nth {
        /// Which one.
        n: u64,
        /// Whether those after it fail as well.
        forever: bool,
    },
    /// One in `one_in`, at random; a seed always gives the same ones.
    Seeded {
        /// Where the chance begins.
        seed: u64,
        /// One call in this many fails.
        one_in: u64,
    },
}

/// The operations that can be made to fail (fail(9)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailPoint {
    /// An allocation, each of a bulk by itself, as if there was no memory: of this zone.
    Alloc,
    /// The `init` hooks of an item: of this zone, if it or its master has any.
    Init,
    /// The `ctor` hook of an item: of this zone, if it has one.
    Ctor,
    /// The import of a cache-only zone.
    #[cfg(feature = "extras")]
    Import,
    /// One more slab: of all zones that share the slabs.
    Pages,
    /// Memory for one more bucket: of this zone.
    Bucket,
}

/// One place that consults a plan. All fields relaxed: a test sets a plan and allocates on one
/// thread, or orders its threads itself.
#[derive(Debug, Default)]
pub(crate) struct Point {
    consulted: AtomicU64,
    /// Calls from which on, and up to which, all fail; counted as `consulted` is.
    from: AtomicU64,
    to: AtomicU64,
    seed: AtomicU64,
    /// 0: no call fails by chance.
    one_in: AtomicU64,
}

impl Point {
    /// Sets the plan; calls are counted from now on.
    pub(crate) fn set(&self, plan: FailPlan) {
        let (from, to) = match plan {
            FailPlan::Nth { n, forever: true } => (n, u64::MAX),
            FailPlan::Nth { n, forever: false } => (n, n),
            _ => (u64::MAX, 0),
        };
        let (seed, one_in) = match plan {
            FailPlan::Seeded { seed, one_in } => (seed, one_in.max(1)),
            _ => (0, 0),
        };
        self.from.store(from, Relaxed);
        self.to.store(to, Relaxed);
        self.seed.store(seed, Relaxed);
        self.one_in.store(one_in, Relaxed);
        self.consulted.store(0, Relaxed);
    }

    /// Whether this call fails.
    pub(crate) fn fails(&self) -> bool {
        let n = self.consulted.fetch_add(1, Relaxed) + 1;
        let by_count = (self.from.load(Relaxed)..=self.to.load(Relaxed)).contains(&n);
        let one_in = self.one_in.load(Relaxed);
        by_count || one_in > 0 && mix(self.seed.load(Relaxed), n).is_multiple_of(one_in)
    }

    pub(crate) fn consulted(&self) -> u64 {
        self.consulted.load(Relaxed)
    }
}

/// The points that belong to one zone.
#[derive(Debug, Default)]
pub(crate) struct FailPoints {
    pub(crate) alloc: Point,
    pub(crate) init: Point,
    pub(crate) ctor: Point,
}

impl FailPoints {
    /// With the plan of the environment for a zone of this name.
    pub(crate) fn of_environment(zone: &str) -> Self {
        let points = Self::default();
        for point in [&points.alloc, &points.init, &points.ctor] {
            point.set(FailPlan::Off);
        }
        static PLANS: OnceLock<Vec<(String, FailPlan)>> = OnceLock::new();
        let read = || parse(&std::env::var("UMA_FAIL").unwrap_or_default());
        let plans = PLANS.get_or_init(read);
        if let Some((_, plan)) = plans.iter().find(|(name, _)| name == zone) {
            points.alloc.set(*plan);
        }
        points
    }
}

/// Reads `ZONE:N,ZONE:N+`. Entries that can't be read are left out.
fn parse(plans: &str) -> Vec<(String, FailPlan)> {
    let one = |plan: &str| {
        let (zone, n) = plan.rsplit_once(':')?;
        let digits = n.strip_suffix('+');
        let plan = FailPlan::Nth {
            n: digits.unwrap_or(n).parse().ok()?,
            forever: digits.is_some(),
        };
        Some((zone.to_owned(), plan))
    };
    plans.split(',').filter_map(one).collect()
}

/// splitmix64: the n-th number of a seed without those before it.
fn mix(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
