//! Sources of pages: the trait of all sources, and the counted reference to one.

use std::io;
use std::sync::Arc;

use super::Ext;
use crate::error::NoBufs;

/// An owner of pages of [`PAGE_SIZE`](crate::PAGE_SIZE) bytes, with numbers of its own. It is
/// dropped with the last reference to it, on any thread.
///
/// The pages should not change while they are shown: bytes that are sent twice (TCP sends lost ones again)
/// must be the same twice.
#[doc(alias = "sf_buf")]
pub trait PageSource: Send + Sync + 'static {
    /// Fills `dst` with the bytes from byte `off` of `page` on. They may reach into the pages that
    /// follow it by number.
    ///
    /// # Errors
    /// The source's error: the bytes do not exist (any more), or a device failed.
    fn read(&self, page: u64, off: usize, dst: &mut [u8]) -> io::Result<()>;

    /// The bytes of `page`, if they lie in memory that is not changed while the source exists; from its first byte,
    /// and with those of the pages that follow it by number if they follow it in memory too. By default none.
    fn bytes(&self, page: u64) -> Option<&[u8]> {
        let _ = page;
        None
    }

    /// Has all pages overwritten with zeros when they are freed. Returns false if the source must not overwrite them,
    /// for example those of a file. By default false.
    fn zeroize(&self) -> bool {
        false
    }
}

/// A source that is shared.
impl<T: PageSource + ?Sized> PageSource for Arc<T> {
    fn read(&self, page: u64, off: usize, dst: &mut [u8]) -> io::Result<()> {
        (**self).read(page, off, dst)
    }

    fn bytes(&self, page: u64) -> Option<&[u8]> {
        (**self).bytes(page)
    }

    fn zeroize(&self) -> bool {
        (**self).zeroize()
    }
}

/// A counted reference to a [`PageSource`], of which each mbuf that shows its pages has one.
///
/// ```text
///   Pages ----+
///   ExtPgs ---+--> refs = 3 | source
///   Chain  ---+
/// ```
///
/// The source is dropped with the last reference. The program has references, and so have mbufs that are still to be
/// sent, or are in a send buffer until they are acknowledged. Making the first takes an allocation, sharing takes none.
pub struct Pages(Ext);

impl Pages {
    /// The first reference to `source`.
    pub fn new(source: impl PageSource) -> Self {
        Self(Ext::pages(source))
    }

    /// One more reference. Refused if there are more than 2^30.
    ///
    /// # Errors
    /// [`NoBufs`]: there are more than 2^30 references.
    #[inline]
    pub fn share(&self) -> Result<Self, NoBufs> {
        Ok(Self(self.0.share()?))
    }

    /// The source of the pages.
    pub fn source(&self) -> &dyn PageSource {
        match self.0.source() {
            Some(source) => source,
            None => unreachable!("made of a source"),
        }
    }

    /// The reference, for an mbuf.
    pub(crate) fn into_ext(self) -> Ext {
        self.0
    }
}

kern::impl_debug!(Pages);
