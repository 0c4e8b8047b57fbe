//! External storage: bytes that somebody else owns, shown by mbufs without a copy.
//!
//! The count of references sits in the storage's own header (clusters have theirs in their zone's
//! side table), so no mbuf is a leader that must outlive the others.

use core::sync::atomic::AtomicU32;

/// The header of lent storage: its count, and the owner that is dropped with the last reference.
#[doc(alias = "m_ext")]
pub(crate) struct ExtOwner {
    pub(crate) refs: AtomicU32,
    /// Dropping this is the caller's free function (`ext_free`).
    _owner: Box<dyn Send + Sync>,
}

impl ExtOwner {
    /// Puts `owner` on the heap, then asks it where its bytes are: they must not move any more.
    pub(crate) fn new<T>(owner: T) -> (*mut Self, *mut u8, usize)
    where
        T: AsRef<[u8]> + Send + Sync + 'static,
    {
        let owner = Box::new(owner);
        let bytes: &[u8] = (*owner).as_ref();
        let (buf, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        let this = Box::new(Self { refs: AtomicU32::new(1), _owner: owner });
        (Box::into_raw(this), buf, len)
    }
}
