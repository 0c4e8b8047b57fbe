//! The interface of a way of sharing storage.
//!
//! Invariant: a view is released once, by the design that made it; its bytes stay as they are until then.

pub(crate) use crate::harness::choice::Absent;
use std::mem::ManuallyDrop;

/// The storage behind a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of a cluster.
    pub(crate) cluster: usize,
    /// Clusters, one behind the other.
    pub(crate) clusters: usize,
}

impl Shape {
    /// A frame of Ethernet's usual size.
    pub(crate) const FRAME: Self = Self {
        cluster: 2 << 10,
        clusters: 1,
    };
    /// The most that TCP sends at once.
    pub(crate) const SEGMENT: Self = Self {
        cluster: 16 << 10,
        clusters: 4,
    };

    /// Bytes that a view shows.
    pub(crate) fn bytes(self) -> usize {
        self.cluster * self.clusters
    }
}

/// A way of sharing storage.
pub(crate) trait Design: Send + Sync + Sized + 'static {
    /// A view of clusters, by one of the references that share them.
    type View: Send;

    /// A design for views of a shape.
    ///
    /// # Errors
    /// [`Absent`] where it is not there or cannot do this.
    fn new(shape: Shape) -> Result<Self, Absent>;

    /// Fresh clusters that hold a copy of `from`, which is as long as the shape says. Running out of memory ends the
    /// experiment with a panic.
    fn fresh(&self, from: &[u8]) -> Self::View;

    /// One more view of all that `view` shows. No other thread uses `view` meanwhile, and a design may rely on that.
    ///
    /// # Safety
    /// The view came from this very value.
    unsafe fn share(&self, view: &mut Self::View) -> Self::View;

    /// Gives a view back; the clusters go with their last one.
    ///
    /// # Safety
    /// The view came from this very value.
    unsafe fn release(&self, view: Self::View);

    /// The same where the view is, as the end of its scope does: a view that frees itself is not moved for that.
    ///
    /// # Safety
    /// As there, and the view is not used again.
    #[inline(always)]
    unsafe fn release_here(&self, view: &mut ManuallyDrop<Self::View>) {
        // SAFETY: it is not used again.
        let view = unsafe { ManuallyDrop::take(view) };
        // SAFETY: so says the caller.
        unsafe { self.release(view) };
    }

    /// The bytes of a view, a piece for each cluster.
    fn pieces(view: &Self::View) -> impl Iterator<Item = &[u8]>;

    /// The items that are out of the design's zones. Exact when no other thread uses the design.
    fn live(&self) -> Live {
        Live::default()
    }
}

/// The items that are out of a design's zones.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    /// Mbufs; none where there are none, or they are not counted.
    pub(crate) mbufs: Option<usize>,
    /// Clusters; none where they are not counted.
    pub(crate) clusters: Option<usize>,
    /// The items allocated for counts.
    pub(crate) records: usize,
}

impl Live {
    /// Whether no item is out.
    pub(crate) fn is_none(self) -> bool {
        (
            self.mbufs.unwrap_or(0),
            self.clusters.unwrap_or(0),
            self.records,
        ) == (0, 0, 0)
    }
}

/// The first word of a view's bytes.
#[inline]
pub(crate) fn first_word<D: Design>(view: &D::View) -> u64 {
    let piece = D::pieces(view).next().unwrap_or_default();
    piece
        .first_chunk()
        .map_or(0, |&word| u64::from_ne_bytes(word))
}

/// The end of an experiment whose design has no more memory.
#[cold]
#[inline(never)]
pub(crate) fn out_of_memory(design: &str) -> ! {
    panic!("{design} has run out of memory")
}
