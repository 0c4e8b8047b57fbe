//! The packet zone: mbufs that come with a cluster, in one pop.
//!
//! ```text
//!   packet zone       free items are mbufs with `ext` in place: a cluster whose count is 1
//!     | init: takes a cluster, fini: gives it back
//!     v
//!   mbuf zone         same slabs, same limit
//! ```
//!
//! A packet that has the only reference to its cluster when it is freed keeps the cluster, and its next allocation only
//! writes the mbuf's head. If the cluster has other references it stays with them: the mbuf is freed without a cluster,
//! and its next allocation adds one.
//!
//! Free packets hold clusters, and the zone declares that ([`uma::ZoneBuilder::holds_items_of`]): when clusters run
//! out, those of free packets are taken back, and until there are more this zone keeps none.
//!
//! The pool is a handle of this zone, which keeps the mbuf zone through its hooks.
//!
//! Source: seed 004, section 5.4.

use core::mem::offset_of;
use core::ptr::{self, NonNull};

use uma::{HookFailed, Hooks, RawZone};

use super::{ClusterSize, Zones};
use crate::ext::Ext;
use crate::mbuf::Mbuf;
use crate::raw::RawMbuf;

/// The packet zone's hooks, and the zones that they need.
pub(crate) struct Packets {
    pub(super) mbufs: RawZone<Zones>,
}

/// The address of a packet's reference to its cluster.
fn place(item: NonNull<u8>) -> *mut Ext {
    item.as_ptr().wrapping_add(offset_of!(RawMbuf, ext)).cast()
}

impl Hooks for Packets {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        // A cluster that is refused here may be available for a caller without a packet: `with_cluster`.
        let ext = Ext::cluster_near(self.mbufs.hooks(), ClusterSize::K2);
        let ext = ext.map_err(|_| HookFailed)?;
        // SAFETY: inside of the item, which is free and ours during the call.
        unsafe { place(item).write(ext) };
        // SAFETY: as above.
        unsafe { Mbuf::prepare(item, self.mbufs.hooks()) };
        self.mbufs.hooks().stats.paired.inc();
        Ok(())
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        // SAFETY: `init` put a reference there, and a free that took it away since has recorded that.
        if unsafe { Ext::is_gone(place(item)) } {
            self.mbufs.hooks().bare_packet_ends();
        } else {
            // SAFETY: a reference that is not used otherwise, and not read again.
            unsafe { ptr::drop_in_place(place(item)) };
        }
    }
}
