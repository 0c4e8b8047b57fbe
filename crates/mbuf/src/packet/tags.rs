//! Tags of a packet: values beside its bytes.

use super::Packet;
use crate::error::NoBufs;
use crate::storage::Storage;
use crate::tag::{self, Tag};

impl<S: Storage> Packet<S> {
    /// Sets the tag of type `T` to `value`, and returns the former one. `value` is dropped if the zone has no memory
    /// for a tag.
    ///
    /// ```
    /// # use mbuf::{MbufPool, Packet, PoolConfig};
    /// #[derive(Debug, Clone, Copy, PartialEq)]
    /// struct Vlan(u16);
    ///
    /// let pool = MbufPool::new(PoolConfig::default())?;
    /// let mut packet = Packet::new(&pool)?;
    /// packet.set_tag(Vlan(7))?;
    /// assert_eq!(packet.copy_packet()?.tag(), Some(&Vlan(7)));
    /// assert_eq!(packet.take_tag(), Some(Vlan(7)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NoBufs`]: the zone has no memory for a tag.
    #[doc(alias = "m_tag_prepend")]
    #[doc(alias = "m_tag_alloc")]
    #[track_caller]
    pub fn set_tag<T: Tag>(&mut self, value: T) -> Result<Option<T>, NoBufs> {
        if let Some(old) = self.tag_mut::<T>() {
            return Ok(Some(core::mem::replace(old, value)));
        }
        let (tags, zones) = self.0.tags_mut();
        tag::push(tags, zones, value)?;
        Ok(None)
    }

    /// The tag of type `T`.
    #[doc(alias = "m_tag_find")]
    #[doc(alias = "m_tag_locate")]
    pub fn tag<T: Tag>(&self) -> Option<&T> {
        tag::get(self.0.tags())
    }

    /// The tag of type `T`, to change.
    pub fn tag_mut<T: Tag>(&mut self) -> Option<&mut T> {
        tag::get_mut(self.0.tags_mut().0.as_mut())
    }

    /// Removes the tag of type `T`.
    #[doc(alias = "m_tag_unlink")]
    #[doc(alias = "m_tag_delete")]
    pub fn take_tag<T: Tag>(&mut self) -> Option<T> {
        let (tags, zones) = self.0.tags_mut();
        tag::take(tags, zones)
    }

    /// Replaces this packet's metadata by a copy of another packet's header and tags. On failure the packet is
    /// unchanged.
    ///
    /// # Errors
    /// [`NoBufs`]: the zone has no memory for a tag.
    #[doc(alias = "m_dup_pkthdr")]
    #[track_caller]
    pub fn copy_header<R: Storage>(&mut self, from: &Packet<R>) -> Result<(), NoBufs> {
        let (tags, zones) = self.0.tags_mut();
        let copy = tag::copy(from.0.tags(), zones)?;
        tag::free(tags, zones);
        *tags = copy;
        *self.header_mut() = *from.header();
        Ok(())
    }
}
