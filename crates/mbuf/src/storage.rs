//! The kinds of mbufs that a list may hold, as a type: only bytes in memory, or also pages that need not be
//! mapped.

/// The kind of mbufs in a list: [`Mapped`] or [`Mixed`].
pub trait Storage: sealed::Sealed + Send + Sync + 'static {}

/// Every byte can be read: each mbuf gives a `&[u8]`.
#[derive(Debug, Clone, Copy)]
pub enum Mapped {}

/// Some of the bytes may be in pages that are not mapped ([`ExtPgs`](crate::ExtPgs)). Such a list
/// can be cut, joined, shared, queued and sent, and knows its length; code that needs its
/// bytes must map it first.
#[doc(alias = "M_EXTPG")]
#[derive(Debug, Clone, Copy)]
pub enum Mixed {}

impl Storage for Mapped {}
impl Storage for Mixed {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Mapped {}
    impl Sealed for super::Mixed {}
}
