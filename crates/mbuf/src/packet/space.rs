//! The room around a packet's bytes: how much there is, and where it is in an empty one.

use super::Packet;
use crate::list;
#[cfg(doc)]
use crate::mbuf::Mbuf;
use crate::storage::Storage;

impl<S: Storage> Packet<S> {
    /// Bytes that can be [prepended](Packet::prepend) without another mbuf. 0 where the first mbuf's
    /// storage is shared.
    #[doc(alias = "M_LEADINGSPACE")]
    #[inline]
    pub fn leading_space(&self) -> usize {
        self.0.front_room()
    }

    /// Bytes that can be [appended](Packet::append) without another mbuf. 0 where the last mbuf's
    /// storage is shared. Walks the packet.
    #[doc(alias = "M_TRAILINGSPACE")]
    #[inline]
    pub fn trailing_space(&self) -> usize {
        list::last(&self.0).room()
    }

    /// Places the data of an mbuf that is still empty so that `len` bytes fit behind its start, which
    /// is a multiple of 8 bytes in memory, and all other room is before it, for headers.
    ///
    /// False, without a change, if the first mbuf has bytes, its storage is shared, or that is smaller than `len`
    /// bytes.
    #[doc(alias = "m_align")]
    #[doc(alias = "M_ALIGN")]
    #[must_use = "the room may be too small"]
    pub fn align(&mut self, len: usize) -> bool {
        let m = &mut self.0;
        let may = m.len() == 0 && m.is_writable() && len <= m.storage_size();
        if may {
            m.align(len);
        }
        may
    }
}
