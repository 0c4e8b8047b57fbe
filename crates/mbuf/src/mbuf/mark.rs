//! Where an mbuf is: the tail and the hint that a list remembers beside owning its mbufs.
//!
//! Called by: [`Chain`](crate::Chain), [`Mbufq`](crate::Mbufq). Calls nothing.

use core::ptr::NonNull;

use super::Mbuf;
use crate::raw::RawMbuf;

/// Where an mbuf is, without owning it.
///
/// Using it is unsafe, and says what must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(NonNull<RawMbuf>);

// SAFETY: an address; whoever uses it says why that may be.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    #[inline]
    pub(crate) fn of(m: &Mbuf) -> Self {
        Self(m.0)
    }

    /// # Safety
    /// The mbuf lives, and is not written, while the mark is borrowed.
    #[inline]
    pub(crate) unsafe fn get(&self) -> &Mbuf {
        // SAFETY: an Mbuf is transparent over what we hold; the caller says the rest.
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
