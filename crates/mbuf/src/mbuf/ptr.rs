//! The address of an mbuf: for the tail and the hint that a list has beside the mbufs that it owns.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::Mbuf;
use crate::raw::RawMbuf;

/// The address of an mbuf, without ownership.
///
/// Using it is unsafe; each method states its conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MbufPtr(NonNull<RawMbuf>);

// SAFETY: an address; each use argues why the access is right.
unsafe impl Send for MbufPtr {}
// SAFETY: as above.
unsafe impl Sync for MbufPtr {}

impl MbufPtr {
    #[inline]
    pub(crate) fn of(m: &Mbuf) -> Self {
        Self(m.0)
    }

    /// # Safety
    /// The mbuf lives, and is not written, while the mark is borrowed.
    #[inline]
    pub(crate) unsafe fn get(&self) -> &Mbuf {
        // SAFETY: an Mbuf is transparent over this field; the caller promises the rest.
        unsafe { NonNull::from(&self.0).cast().as_ref() }
    }

    /// # Safety
    /// The mbuf lives, and is reached in no other way, while the mark is borrowed. The result is
    /// not replaced by another mbuf.
    #[inline]
    pub(crate) unsafe fn get_mut(&mut self) -> &mut Mbuf {
        // SAFETY: as above.
        unsafe { NonNull::from(&mut self.0).cast().as_mut() }
    }
}

/// A borrowed mbuf, by its own address. A `&Mbuf` is the address of a handle, which then has to lie in memory, with the
/// chain that it is part of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Borrowed<'a>(NonNull<RawMbuf>, PhantomData<&'a Mbuf>);

// SAFETY: it can be sent where `&Mbuf` can, since it can do no more than that.
unsafe impl Send for Borrowed<'_> {}
// SAFETY: as above.
unsafe impl Sync for Borrowed<'_> {}

impl<'a> Borrowed<'a> {
    /// This mbuf.
    #[inline(always)]
    pub(crate) fn of(m: &'a Mbuf) -> Self {
        Self(m.0, PhantomData)
    }

    /// The next of its list.
    #[inline(always)]
    pub(crate) fn next(self) -> Option<Self> {
        // SAFETY: live and borrowed for 'a, and its successors with it.
        let head = unsafe { &(*self.0.as_ptr()).head };
        head.next.as_ref().map(Self::of)
    }

    /// Its bytes.
    #[inline(always)]
    pub(crate) fn bytes(self) -> &'a [u8] {
        let m = ManuallyDrop::new(Mbuf(self.0));
        let bytes: *const [u8] = m.bytes();
        // SAFETY: the borrow of the mbuf, of which these are the bytes, lasts for 'a.
        unsafe { &*bytes }
    }
}
