//! Tags of a packet: notes beside its bytes.

use super::Packet;
use crate::error::NoBufs;
use crate::storage::Storage;
use crate::tag::{self, Tag};

impl<S: Storage> Packet<S> {
    /// Notes `value`, and returns the one of its type that was noted before. It is dropped if the
    /// zone has no memory for a tag.
    ///
    /// ```
    /// # use mbuf::{MbufPool, Packet, PoolConfig};
    /// #[derive(Debug, Clone, Copy, PartialEq)]
    /// struct Vlan(u16);
    ///
    /// let pool = MbufPool::new(PoolConfig::default())?;
    /// let mut packet = Packet::new(&pool)?;
    /// packet.set_tag(Vlan(7))?;
    /// assert_eq!(packet.dup(&pool)?.tag(), Some(&Vlan(7)));
    /// assert_eq!(packet.take_tag(), Some(Vlan(7)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// The note of type `T`.
    #[doc(alias = "m_tag_find")]
    #[doc(alias = "m_tag_locate")]
    pub fn tag<T: Tag>(&self) -> Option<&T> {
        tag::get(self.0.tags())
    }

    /// The note of type `T`, to change.
    pub fn tag_mut<T: Tag>(&mut self) -> Option<&mut T> {
        tag::get_mut(self.0.tags_mut().0.as_mut())
    }

    /// Takes the note of type `T` off.
    #[doc(alias = "m_tag_unlink")]
    #[doc(alias = "m_tag_delete")]
    pub fn take_tag<T: Tag>(&mut self) -> Option<T> {
        let (tags, zones) = self.0.tags_mut();
        tag::take(tags, zones)
    }

    /// Takes over another packet's metadata: its header and copies of its notes, instead of those
    /// there are. On failure the packet is unchanged.
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
