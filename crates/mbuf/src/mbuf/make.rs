//! Making an mbuf: empty with its room where it is wanted, or showing what exists already.
//!
//! Called by: every handle type. Calls: the pool's zones, `ext.rs`.

use core::mem::offset_of;
use core::ptr::NonNull;

use super::{Mbuf, internal};
use crate::error::NoBufs;
use crate::ext::Ext;
use crate::pkthdr::PktHdr;
use crate::pool::{ClusterSize, Zones};
use crate::raw::{EXT, Head, MHLEN, MLEN, PKTHDR, Pkt, RawMbuf};

impl Mbuf {
    /// An empty mbuf, whose data starts `lead` bytes into the internal area.
    #[inline]
    #[track_caller]
    pub(crate) fn alloc(zones: &Zones, flags: u8, lead: usize) -> Result<Self, NoBufs> {
        assert!(flags & EXT == 0 && lead <= internal(flags).1);
        let mut m = Self(zones.alloc_mbuf()?.cast());
        let data = m.at(internal(flags).0 + lead);
        let zones = NonNull::from(zones);
        let head = Head {
            next: None,
            nextpkt: None,
            data,
            len: 0,
            flags,
            _spare: [0; 3],
            zones,
        };
        // SAFETY: the zone gave us 256 bytes, aligned to 256, that nobody else has.
        unsafe { m.0.cast().write(head) };
        if flags & PKTHDR != 0 {
            m.set_pkt(Pkt {
                len: 0,
                _spare: [0; 3],
                hdr: PktHdr::default(),
            });
        }
        Ok(m)
    }

    /// An empty mbuf over a fresh cluster, its data at the cluster's start.
    #[track_caller]
    pub(crate) fn with_cluster(
        zones: &Zones,
        flags: u8,
        size: ClusterSize,
    ) -> Result<Self, NoBufs> {
        let mut m = Self::alloc(zones, flags, 0)?;
        m.attach(Ext::cluster(zones, size)?);
        Ok(m)
    }

    /// An empty plain mbuf over as much storage as suits `len` bytes.
    #[track_caller]
    pub(crate) fn with_room(zones: &Zones, len: usize) -> Result<Self, NoBufs> {
        match len {
            0..=MLEN => Self::alloc(zones, 0, 0),
            _ => Self::with_cluster(zones, 0, ClusterSize::fitting(len)),
        }
    }

    /// An empty packet header whose data starts `n` bytes before the end of the storage: what is
    /// before that is left for headers. Refused if no storage is that large.
    #[track_caller]
    pub(crate) fn with_end(zones: &Zones, n: usize) -> Result<Self, NoBufs> {
        if n <= MHLEN {
            return Self::alloc(zones, PKTHDR, MHLEN - n);
        }
        let size = ClusterSize::fitting(n);
        let lead = size.bytes().checked_sub(n).ok_or(NoBufs)?;
        let mut m = Self::with_cluster(zones, PKTHDR, size)?;
        m.skip_room(lead);
        Ok(m)
    }

    /// A plain mbuf that shows lent bytes.
    #[track_caller]
    pub(crate) fn with_lent(zones: &Zones, ext: Ext) -> Result<Self, NoBufs> {
        let mut m = Self::alloc(zones, 0, 0)?;
        let len = ext.size();
        m.attach(ext);
        m.head_mut().len = len as u32;
        Ok(m)
    }

    /// A new plain mbuf that shows bytes `off..off + len` of this one: shared where they are
    /// outside, copied where they are inside.
    ///
    /// # Panics
    /// If this one has no such bytes.
    #[track_caller]
    pub(crate) fn share(&self, off: usize, len: usize) -> Result<Self, NoBufs> {
        let bytes = &self.bytes()[off..off + len];
        let mut m = Self::alloc(self.zones(), 0, 0)?;
        if let Some(ext) = self.ext() {
            m.attach(ext.share()?);
            let head = m.head_mut();
            // From our data pointer, not from `bytes`, which nobody could write through.
            head.data = self.head().data.wrapping_add(off);
            head.len = len as u32;
        } else {
            m.push(bytes);
            self.zones().stats.bytes_copied.add(len as u64);
        }
        Ok(m)
    }

    /// Moves an empty mbuf's bytes-to-be outside.
    fn attach(&mut self, ext: Ext) {
        assert!(self.len() == 0 && !self.is(EXT));
        let data = ext.buf();
        // SAFETY: the field is inside of our mbuf; without EXT nothing in it needs a drop.
        unsafe { self.at(offset_of!(RawMbuf, ext)).cast::<Ext>().write(ext) };
        let head = self.head_mut();
        head.data = data;
        head.flags |= EXT;
    }
}
