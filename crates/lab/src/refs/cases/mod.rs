//! The cases: the operations on a design, and the timed part of them.
//!
//! Each is generic, so that a design is compiled into the loop.

#[cfg(test)]
pub(crate) mod check;
pub(crate) mod one;
pub(crate) mod splice;
pub(crate) mod two;

use super::design::{Design, Shape};
use std::fmt;
use std::hint;
use std::mem::ManuallyDrop;

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Case {
    /// The first share of a cluster, and its release.
    First,
    /// The same, 256 shares before the first release.
    Window,
    /// A further share, and its release.
    More,
    /// A share of 64 KiB.
    Chain,
    /// Two CPUs, a cluster each.
    TwoDifferent,
    /// Two CPUs, one cluster.
    TwoSame,
    /// From one CPU to the other.
    Splice,
}

impl Case {
    /// All of them, in the order in which they run.
    pub(crate) const ALL: [Case; 7] = [
        Self::First,
        Self::Window,
        Self::More,
        Self::Chain,
        Self::TwoDifferent,
        Self::TwoSame,
        Self::Splice,
    ];

    /// As it is typed and written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Window => "window",
            Self::More => "more",
            Self::Chain => "chain",
            Self::TwoDifferent => "two-different",
            Self::TwoSame => "two-same",
            Self::Splice => "splice",
        }
    }

    /// The measure, for a title.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::First => "a cluster that was never shared is shared, the share released",
            Self::Window => "256 such clusters are shared, then the 256 shares released",
            Self::More => "a cluster that others share is shared, the share released",
            Self::Chain => "64 KiB in 4 clusters are shared, the share released",
            Self::TwoDifferent => "two CPUs share and release, each its own cluster",
            Self::TwoSame => "two CPUs share and release the same cluster",
            Self::Splice => {
                "one CPU fills, shares, keeps its own 64 more; the other reads, releases"
            }
        }
    }

    /// The unit of its figures; the splice has two.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Chain => "ns/range",
            Self::Splice => "Gbit/s",
            _ => "ns/share",
        }
    }

    /// Whether it is done by two CPUs.
    pub(crate) fn crosses(self) -> bool {
        matches!(self, Self::TwoDifferent | Self::TwoSame | Self::Splice)
    }

    /// The shared storage.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Chain => Shape::SEGMENT,
            _ => Shape::FRAME,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Shares a view and releases the share.
///
/// # Safety
/// The view came from this design.
#[inline(always)]
unsafe fn pair<D: Design>(design: &D, view: &mut D::View) {
    // SAFETY: so says the caller.
    let mut share = ManuallyDrop::new(unsafe { design.share(view) });
    // A reader asks where its first bytes are.
    hint::black_box(D::pieces(&share).next().map(<[u8]>::as_ptr));
    // SAFETY: it came from this design, four lines above.
    unsafe { design.release_here(&mut share) };
}

/// The same `n` times.
///
/// # Safety
/// As for [`pair`].
#[inline(never)]
unsafe fn pairs<D: Design>(design: &D, view: &mut D::View, n: u64) {
    for _ in 0..n {
        // SAFETY: so says the caller.
        unsafe { pair(design, view) };
    }
}
