//! Storage that is reached by page numbers: a reference to a [`PageSource`].
//!
//! The source lies behind a header that begins like that of any lent storage, so counting and dropping are the same.
//! Code that needs its pages follows one more pointer.
//!
//! Invariant: Only the header of a [`LentPages`] has [`Shows::Pages`].

use core::ptr::NonNull;

use super::PageSource;
use super::{Ext, LentHead, Shows};
use crate::error::NoBufs;
use crate::raw::PAGE_SIZE;
use crate::refs::Refs;

/// The header of a source of pages.
#[repr(C)]
struct PagesHead {
    lent: LentHead,
    /// The address of the source that lies behind this header.
    source: unsafe fn(NonNull<LentHead>) -> NonNull<dyn PageSource>,
}

/// A source of pages and its header, which comes first: one address serves for both.
#[repr(C)]
pub(super) struct LentPages<T> {
    head: PagesHead,
    source: T,
}

impl<T: PageSource> LentPages<T> {
    /// # Safety
    /// `head` begins a leaked box of this very type.
    unsafe fn source(head: NonNull<LentHead>) -> NonNull<dyn PageSource> {
        let this = head.cast::<Self>().as_ptr();
        // SAFETY: the field of a live box, as the caller says.
        let source = unsafe { &raw mut (*this).source };
        // SAFETY: a field has an address.
        unsafe { NonNull::new_unchecked(source as *mut dyn PageSource) }
    }

    /// # Safety
    /// `head` begins a leaked box of this type, and is not used again.
    unsafe fn free(head: NonNull<LentHead>) {
        // SAFETY: as the caller says; the pointer is the box's own, cast.
        drop(unsafe { Box::from_raw(head.cast::<Self>().as_ptr()) });
    }
}

impl Ext {
    /// The first reference to the pages of `source`.
    pub(crate) fn pages<T: PageSource>(source: T) -> Self {
        let head = PagesHead {
            lent: LentHead {
                refs: Refs::one(),
                shows: Shows::Pages,
                free: LentPages::<T>::free,
            },
            source: LentPages::<T>::source,
        };
        let lent = NonNull::from(Box::leak(Box::new(LentPages { head, source })));
        Self {
            buf: NonNull::dangling().as_ptr(),
            refs: lent.cast(),
            zone: None,
            size: 0,
            _spare: 0,
        }
    }

    /// The same reference, as that of a list of `npages`, for which it is charged.
    #[inline]
    pub(crate) fn of_pages(mut self, npages: usize) -> Self {
        self.size = (npages * PAGE_SIZE) as u32;
        self
    }

    /// The source of the pages, if this is a reference to one.
    #[inline]
    pub(crate) fn source(&self) -> Option<&dyn PageSource> {
        let lent = self.lent_head()?;
        // SAFETY: we have a reference, so the header lives; the field is never written.
        if unsafe { (*lent.as_ptr()).shows } != Shows::Pages {
            return None;
        }
        let head = lent.cast::<PagesHead>().as_ptr();
        // SAFETY: `head` then begins a `LentPages`, and no code writes the field.
        let find = unsafe { (*head).source };
        // SAFETY: the function that was made for it.
        let source = unsafe { find(lent) };
        // SAFETY: it lives as long as a reference does, and no unique reference to it exists before that.
        Some(unsafe { source.as_ref() })
    }

    /// A reference to bytes `off..` of a page that the source shows in memory, and how many of
    /// `len` there are. None where it shows none.
    pub(crate) fn show(
        &self,
        page: u64,
        off: usize,
        len: usize,
    ) -> Result<Option<(Self, usize)>, NoBufs> {
        let bytes = self.source().and_then(|source| source.bytes(page));
        let Some(bytes) = bytes.filter(|bytes| bytes.len() > off) else {
            return Ok(None);
        };
        let n = len.min(bytes.len() - off);
        // Whole pages, because the mbuf pins all of them.
        let size = (off + n).next_multiple_of(PAGE_SIZE).min(bytes.len());
        let mut ext = self.share()?;
        // The source lent these bytes for as long as it is borrowed, and this reference keeps it
        // so; an owner's bytes are never written.
        ext.buf = bytes.as_ptr().cast_mut();
        ext.size = u32::try_from(size).map_err(|_| NoBufs)?;
        Ok(Some((ext, n)))
    }
}
