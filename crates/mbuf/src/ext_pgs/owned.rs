//! Pages of the pool's own, written before they are shown: a record is encrypted into them.

use core::slice;
use std::io;

use super::ExtPgsError;
use crate::error::WriteError;
use crate::ext::Ext;
use crate::ext::{PageSource, Pages};
use crate::pool::{ClusterSize, MbufPool};
use crate::raw::{PAGE_SIZE, PAGES_MAX};

const _: () = assert!(ClusterSize::K4.bytes() == PAGE_SIZE);

/// Up to [`PAGES_MAX`] pages from the pool, numbered from 0. They can be written until they are
/// shown ([`Pages::new`]), and go back to the pool one by one with the last reference.
pub struct OwnedPages {
    /// The first `count` are there; each is the only reference to its cluster.
    pages: [Option<Ext>; PAGES_MAX],
    count: usize,
}

impl OwnedPages {
    /// Takes `count` pages. Their bytes are undefined.
    ///
    /// # Errors
    /// [`ExtPgsError`]; no page is allocated then.
    #[track_caller]
    pub fn new(pool: &MbufPool, count: usize) -> Result<Self, ExtPgsError> {
        let mut owned = Self {
            pages: [const { None }; PAGES_MAX],
            count,
        };
        let places = owned.pages.get_mut(..count);
        for place in places.ok_or(ExtPgsError::TooManyPages)? {
            *place = Some(Ext::cluster(pool.zones(), ClusterSize::K4)?);
        }
        Ok(owned)
    }

    /// Bytes in all pages.
    pub fn capacity(&self) -> usize {
        self.count * PAGE_SIZE
    }

    /// The pages in order, to be written.
    pub fn pages_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.pages.iter_mut().flatten().map(|ext| {
            // SAFETY: a whole cluster, initialised, to which this is the only reference and is
            // borrowed uniquely.
            unsafe { slice::from_raw_parts_mut(ext.buf(), ext.size()) }
        })
    }

    /// Writes `src` over the bytes from `off` on, counted over all pages.
    ///
    /// # Errors
    /// [`WriteError::OutOfRange`]; no byte is written then.
    pub fn write_at(&mut self, off: usize, mut src: &[u8]) -> Result<(), WriteError> {
        let end = off.checked_add(src.len());
        if end.is_none_or(|end| end > self.capacity()) {
            return Err(WriteError::OutOfRange);
        }
        let mut at = off % PAGE_SIZE;
        for page in self.pages_mut().skip(off / PAGE_SIZE) {
            let (here, rest) = src.split_at(src.len().min(PAGE_SIZE - at));
            page[at..at + here.len()].copy_from_slice(here);
            (src, at) = (rest, 0);
        }
        Ok(())
    }

    fn page(&self, page: u64) -> Option<&[u8]> {
        let ext = self.pages.get(usize::try_from(page).ok()?)?.as_ref()?;
        // SAFETY: as in `pages_mut`, and no thread writes while `self` is borrowed.
        Some(unsafe { slice::from_raw_parts(ext.buf(), ext.size()) })
    }
}

impl PageSource for OwnedPages {
    fn read(&self, mut page: u64, off: usize, dst: &mut [u8]) -> io::Result<()> {
        let (mut at, mut dst) = (off, dst);
        while !dst.is_empty() {
            let bytes = self.page(page).and_then(|bytes| bytes.get(at..));
            let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
            let (here, rest) = dst.split_at_mut(bytes.len().min(dst.len()));
            here.copy_from_slice(&bytes[..here.len()]);
            (page, at, dst) = (page + 1, 0, rest);
        }
        Ok(())
    }

    fn bytes(&self, page: u64) -> Option<&[u8]> {
        self.page(page)
    }

    fn zeroize(&self) -> bool {
        // Each is a cluster, which can be overwritten.
        self.pages.iter().flatten().all(Ext::zeroize)
    }
}

impl From<OwnedPages> for Pages {
    fn from(owned: OwnedPages) -> Self {
        Self::new(owned)
    }
}

kern::impl_debug!(OwnedPages |this| count: this.count);
