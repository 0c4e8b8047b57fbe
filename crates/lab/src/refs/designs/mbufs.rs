//! The bare mbuf of all protocols of sharing, so that they differ only in the protocol.
//!
//! ```text
//!   View -> mbuf, 256 B -> mbuf, 256 B       next
//!             | cluster      | cluster       a zone of 2 or 16 KiB
//!             | link         | link          what the protocol keeps: two neighbours, a record, a leader, a count
//! ```
//!
//! Invariants: an mbuf is used by the owner of the view that it is in, but its `link`, which those that share the
//! cluster may reach by the protocol's rules; so no reference to a whole mbuf is made once it is initialised. Locks:
//! the protocol's. Sources: 4.4BSD's mbuf with `m_ext`; seed 004 section 2.

use crate::refs::design::{Absent, Design, Live, Shape, out_of_memory};
use std::alloc::Layout;
use std::ptr::{self, NonNull};
use std::{iter, slice};
use uma::{RawZone, ZoneBuilder};

/// How mbufs share a cluster.
pub(crate) trait Protocol: Send + Sync + Sized + 'static {
    /// The design's name in a panic.
    const NAME: &'static str;
    /// Bytes of an mbuf.
    const MBUF_BYTES: usize = 256;

    /// Its state in an mbuf.
    type Link;

    /// The protocol's own state.
    ///
    /// # Errors
    /// [`Absent`] where it cannot be made.
    fn new() -> Result<Self, Absent>;

    /// Additions to the clusters' zone.
    fn clusters(zone: ZoneBuilder) -> ZoneBuilder {
        zone
    }

    /// The link of `mbuf`, which is the first to refer to `cluster`.
    ///
    /// # Safety
    /// Both are fresh from the zones, and the link is written before anything else happens to them.
    unsafe fn first(&self, zones: &Zones, mbuf: Address<Self>, cluster: NonNull<u8>) -> Self::Link;

    /// Makes `to`, whose link is not written yet, refer to the cluster of `from` too.
    ///
    /// # Safety
    /// The caller alone has both mbufs, which are live and of these zones; `to` has its cluster's address.
    unsafe fn share(&self, from: Address<Self>, to: Address<Self>);

    /// Gives up the reference of `mbuf`: it goes back to its zone, with the last reference so does the cluster.
    ///
    /// # Safety
    /// The caller alone has the mbuf, which is live and of these zones, and does not use it again.
    unsafe fn release(&self, zones: &Zones, mbuf: Address<Self>);

    /// The items that are out of zones of its own.
    fn records(&self) -> usize {
        0
    }
}

/// Where an mbuf of a protocol is.
pub(crate) type Address<P> = NonNull<Mbuf<<P as Protocol>::Link>>;

/// An mbuf whose data is outside.
#[repr(C)]
pub(crate) struct Mbuf<L> {
    head: Head<L>,
    /// The protocol's.
    link: L,
}

/// The common part of all of them.
#[repr(C)]
struct Head<L> {
    next: Option<NonNull<Mbuf<L>>>,
    next_packet: Option<NonNull<Mbuf<L>>>,
    data: NonNull<u8>,
    len: u32,
    kind: u16,
    flags: u16,
    cluster: NonNull<u8>,
}

/// `M_EXT`.
const EXT: u16 = 1;

/// Where mbufs and clusters come from.
pub(crate) struct Zones {
    mbufs: RawZone,
    clusters: RawZone,
}

impl Zones {
    fn new<P: Protocol>(shape: Shape) -> Result<Self, Absent> {
        const { assert!(size_of::<Mbuf<P::Link>>() <= P::MBUF_BYTES) };
        let clusters = zone("lab_cluster", shape.cluster)?;
        Ok(Self {
            mbufs: built(zone("lab_mbuf", P::MBUF_BYTES)?)?,
            clusters: built(P::clusters(clusters))?,
        })
    }

    /// The zone of clusters.
    pub(super) fn clusters(&self) -> &RawZone {
        &self.clusters
    }

    /// Gives an mbuf back.
    ///
    /// # Safety
    /// It came from here, and is not used again.
    #[inline]
    pub(super) unsafe fn free_mbuf<L>(&self, mbuf: NonNull<Mbuf<L>>) {
        // SAFETY: so says the caller.
        unsafe { self.mbufs.free(mbuf.cast()) };
    }

    /// Gives a cluster back.
    ///
    /// # Safety
    /// It came from here, and is not used again.
    #[inline]
    pub(super) unsafe fn free_cluster(&self, cluster: NonNull<u8>) {
        // SAFETY: so says the caller.
        unsafe { self.clusters.free(cluster) };
    }
}

/// The beginning of a zone for items that are as aligned as they are long.
pub(super) fn zone(name: &'static str, bytes: usize) -> Result<ZoneBuilder, Absent> {
    let layout = Layout::from_size_align(bytes, bytes).map_err(|e| Absent(e.to_string()))?;
    Ok(RawZone::builder(name, layout))
}

/// The zone, if there is room for it.
pub(super) fn built(zone: ZoneBuilder) -> Result<RawZone, Absent> {
    zone.build().map_err(|e| Absent(e.to_string()))
}

/// The state of a protocol in an mbuf.
///
/// # Safety
/// The mbuf is live for as long as the result is used.
#[inline]
pub(super) unsafe fn link<'a, L>(mbuf: NonNull<Mbuf<L>>) -> &'a L {
    // SAFETY: the mbuf is live, and links are written through this type's own means only.
    unsafe { &(*mbuf.as_ptr()).link }
}

/// Writes the link of an mbuf that has none.
///
/// # Safety
/// The mbuf is live, and has no other user.
#[inline]
pub(super) unsafe fn set_link<L>(mbuf: NonNull<Mbuf<L>>, link: L) {
    // SAFETY: a field of a live mbuf.
    let field = unsafe { &raw mut (*mbuf.as_ptr()).link };
    // SAFETY: as above; the place held no link.
    unsafe { field.write(link) };
}

/// The cluster of an mbuf.
///
/// # Safety
/// The mbuf is live, and that field is not written.
#[inline]
pub(super) unsafe fn cluster<L>(mbuf: NonNull<Mbuf<L>>) -> NonNull<u8> {
    // SAFETY: so says the caller.
    unsafe { (*mbuf.as_ptr()).head.cluster }
}

/// Mbufs that share by a protocol.
pub(crate) struct Mbufs<P> {
    protocol: P,
    zones: Zones,
    cluster: usize,
}

impl<P: Protocol> Mbufs<P> {
    /// An mbuf that shows bytes of a cluster, without a link (`m_get`, and the `m_ext` that `m_copym` copies).
    #[inline]
    fn mbuf(&self, data: NonNull<u8>, len: u32, cluster: NonNull<u8>) -> Address<P> {
        let Ok(item) = self.zones.mbufs.alloc() else {
            out_of_memory(P::NAME)
        };
        let at: Address<P> = item.cast();
        let mbuf = at.as_ptr().cast::<Head<P::Link>>();
        let head = Head {
            next: None,
            next_packet: None,
            data,
            len,
            kind: 1,
            flags: EXT,
            cluster,
        };
        // SAFETY: the zone's items are long and aligned enough (asserted in Zones::new), and this one is ours.
        unsafe { mbuf.write(head) };
        at
    }

    /// A cluster with a copy of these bytes, and its first mbuf.
    #[inline]
    fn filled(&self, from: &[u8]) -> Address<P> {
        let Ok(cluster) = self.zones.clusters.alloc() else {
            out_of_memory(P::NAME)
        };
        // SAFETY: pieces are no longer than a cluster (see `fresh`), and this one is ours.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), cluster.as_ptr(), from.len()) };
        let mbuf = self.mbuf(cluster, from.len() as u32, cluster);
        // SAFETY: both are fresh.
        let link = unsafe { self.protocol.first(&self.zones, mbuf, cluster) };
        // SAFETY: no other code knows the mbuf.
        unsafe { set_link(mbuf, link) };
        mbuf
    }

    /// One more mbuf that shows the same bytes.
    ///
    /// # Safety
    /// The caller alone has the mbuf, which is live and of this design.
    #[inline]
    unsafe fn shared(&self, from: Address<P>) -> Address<P> {
        let of = from.as_ptr();
        // SAFETY: the mbuf is live, and the caller's.
        let data = unsafe { (*of).head.data };
        // SAFETY: as above.
        let len = unsafe { (*of).head.len };
        // SAFETY: as above.
        let cluster = unsafe { (*of).head.cluster };
        let to = self.mbuf(data, len, cluster);
        // SAFETY: `to` is fresh and has its cluster's address.
        unsafe { self.protocol.share(from, to) };
        to
    }
}

/// A list of mbufs, for its only owner.
#[derive(Debug)]
pub(crate) struct List<L>(NonNull<Mbuf<L>>);

// SAFETY: its mbufs belong to its owner, and protocols are for many threads.
unsafe impl<L> Send for List<L> {}

/// Puts `next` behind an mbuf.
///
/// # Safety
/// The mbuf is live, and the caller alone has it.
#[inline]
unsafe fn set_next<L>(mbuf: NonNull<Mbuf<L>>, next: NonNull<Mbuf<L>>) {
    // SAFETY: so says the caller.
    unsafe { (*mbuf.as_ptr()).head.next = Some(next) };
}

/// The storage of an mbuf.
///
/// # Safety
/// As for [`set_next`].
#[inline]
unsafe fn next<L>(mbuf: NonNull<Mbuf<L>>) -> Option<NonNull<Mbuf<L>>> {
    // SAFETY: so says the caller.
    unsafe { (*mbuf.as_ptr()).head.next }
}

impl<P: Protocol> Design for Mbufs<P> {
    type View = List<P::Link>;

    fn new(shape: Shape) -> Result<Self, Absent> {
        Ok(Self {
            protocol: P::new()?,
            zones: Zones::new::<P>(shape)?,
            cluster: shape.cluster,
        })
    }

    #[inline]
    fn fresh(&self, from: &[u8]) -> List<P::Link> {
        let mut pieces = from.chunks(self.cluster);
        let head = self.filled(pieces.next().unwrap_or_default());
        let mut tail = head;
        for piece in pieces {
            let mbuf = self.filled(piece);
            // SAFETY: the tail is an mbuf that was made here, and no other code knows it.
            unsafe { set_next(tail, mbuf) };
            tail = mbuf;
        }
        List(head)
    }

    #[inline]
    unsafe fn share(&self, view: &mut List<P::Link>) -> List<P::Link> {
        // SAFETY: the view's mbufs are live, of this design, and the caller's alone.
        let head = unsafe { self.shared(view.0) };
        let (mut from, mut tail) = (view.0, head);
        // SAFETY: as above.
        while let Some(behind) = unsafe { next(from) } {
            // SAFETY: as above.
            let mbuf = unsafe { self.shared(behind) };
            // SAFETY: the tail is an mbuf that was made here.
            unsafe { set_next(tail, mbuf) };
            (from, tail) = (behind, mbuf);
        }
        List(head)
    }

    #[inline]
    unsafe fn release(&self, view: List<P::Link>) {
        let mut rest = Some(view.0);
        while let Some(mbuf) = rest {
            // SAFETY: the view's mbufs are live, of this design, and the caller's alone.
            rest = unsafe { next(mbuf) };
            // SAFETY: as above, and it is not used again.
            unsafe { self.protocol.release(&self.zones, mbuf) };
        }
    }

    #[inline]
    fn pieces(view: &List<P::Link>) -> impl Iterator<Item = &[u8]> {
        // SAFETY: the view's mbufs are live as long as it is.
        let mbufs = iter::successors(Some(view.0), |&mbuf| unsafe { next(mbuf) });
        mbufs.map(|mbuf| {
            // SAFETY: as above.
            let data = unsafe { (*mbuf.as_ptr()).head.data };
            // SAFETY: as above.
            let len = unsafe { (*mbuf.as_ptr()).head.len };
            // SAFETY: the cluster stays as long as the view does, and so do its bytes, which `filled` wrote.
            unsafe { slice::from_raw_parts(data.as_ptr(), len as usize) }
        })
    }

    fn live(&self) -> Live {
        Live {
            mbufs: Some(self.zones.mbufs.live()),
            clusters: Some(self.zones.clusters.live()),
            records: self.protocol.records(),
        }
    }
}
