//! The packet zone: mbufs that come with a cluster, in one pop.
//!
//! ```text
//!   packet zone       free items are mbufs with `ext` in place: a cluster whose count is 1
//!     | init: takes a cluster, fini: gives it back
//!     v
//!   mbuf zone         same slabs, same limit
//! ```
//!
//! What is freed with its cluster to itself goes back as it is, and comes out again with nothing
//! to be done but the mbuf's own head. Where somebody else still shows the cluster it stays with
//! them: the mbuf goes back bare, and gets another when it is taken next.
//!
//! Free packets hold clusters, and the zone says so ([`uma::ZoneBuilder::holds_items_of`]): when there are no
//! more, those come back, and until there are again this zone keeps none.
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

/// The packet zone's hooks, and what they need.
pub(crate) struct Packets {
    pub(super) mbufs: RawZone<Zones>,
}

/// Where a packet's reference to its cluster lies.
fn place(item: NonNull<u8>) -> *mut Ext {
    item.as_ptr().wrapping_add(offset_of!(RawMbuf, ext)).cast()
}

impl Hooks for Packets {
    unsafe fn init(&self, item: NonNull<u8>) -> Result<(), HookFailed> {
        // What is refused here may be there for who asks for it without a packet: `with_cluster`.
        let ext = Ext::cluster_near(self.mbufs.hooks(), ClusterSize::K2);
        let ext = ext.map_err(|_| HookFailed)?.kept();
        // SAFETY: inside of the item, which is free and ours during the call.
        unsafe { place(item).write(ext) };
        // SAFETY: as above.
        unsafe { Mbuf::prepare(item, self.mbufs.hooks()) };
        self.mbufs.hooks().stats.paired.inc();
        Ok(())
    }

    unsafe fn fini(&self, item: NonNull<u8>) {
        // SAFETY: `init` put a reference there, and whoever took it away since left word.
        if unsafe { Ext::is_gone(place(item)) } {
            self.mbufs.hooks().bare_packet_ends();
        } else {
            // SAFETY: a reference that nobody uses; it is not looked at again.
            unsafe { ptr::drop_in_place(place(item)) };
        }
    }
}
