//! The mistakes that the models of this crate plant ([`kern::fault`]), and points at which other threads may run.
//!
//! `models/` runs every scenario once more with the mistake that it is there to find, and must then fail. Only the
//! models of this crate make them, in no other build: some are unsound. There a [`point`] is empty, too.
//!
//! Locks: none.

/// The mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MbufFault {
    /// A reference is made from a shared one by a plain store: `refs/word.rs`.
    PlainShare,
    /// A reference is given back by a plain store: `refs/word.rs`.
    PlainRelease,
    /// The request for zeros is set in the count's word by a plain store: `refs/word.rs`.
    PlainRequest,
    /// Storage with two references may be written: `ext.rs`, `is_writable`.
    TwoWriters,
    /// A packet keeps a cluster that other mbufs show: `mbuf/free.rs`.
    GreedyPacket,
    /// A packet's mbuf goes back to its zone without a mark that its cluster is gone: `mbuf/free.rs`.
    Silent,
    /// The packet zone does not declare that its free items hold clusters: `pool.rs`.
    Unheld,
}

/// Whether this fault is planted.
#[inline]
pub(crate) fn planted(fault: MbufFault) -> bool {
    cfg!(all(test, any(loom, shuttle))) && kern::fault::is_planted(fault)
}

/// Any other thread may run here, for any time.
#[inline]
pub(crate) fn point() {
    #[cfg(all(test, any(loom, shuttle)))]
    STEPS.fetch_add(1, kern::prim::Ordering::SeqCst);
}

#[cfg(all(test, any(loom, shuttle)))]
kern::prim::lazy_static! {
    // Every point touches it, so that a checker tries every order of points.
    static ref STEPS: kern::prim::AtomicUsize = kern::prim::AtomicUsize::new(0);
}
