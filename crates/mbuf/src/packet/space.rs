//! The room around a packet's bytes.

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
}
