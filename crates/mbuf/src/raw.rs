//! The 256 bytes of an mbuf.
//!
//! ```text
//!   0        8        16       24     28  29       32       40
//!   | next   | nextpkt| data   | len  |fl| spare   | zones  |
//!   40                                            80
//!   | packet header (PKTHDR), else internal data ..| ext (EXT), else internal data ...  256
//! ```
//!
//! An mbuf with neither bit holds 216 bytes itself; one with a packet header 176. With [`EXT`] the
//! bytes are elsewhere (a cluster, or storage that its owner lent) and the internal area is idle:
//! that is why a plain ext mbuf can become a packet header, and back, in place.
//!
//! Internal data lies over the fields behind the first 40 bytes, so a `&RawMbuf` never exists: it
//! would promise a valid [`Ext`] where there are somebody's bytes, and forbid the data pointer to
//! write them. References are made to [`Head`], and to [`Pkt`] and [`Ext`] where the bits say that
//! they are there.
//!
//! Called by: [`Mbuf`], which alone looks inside. Calls nothing.

use core::mem::{offset_of, size_of};
use core::ptr::NonNull;

use crate::ext::Ext;
use crate::mbuf::Mbuf;
use crate::packet::Packet;
use crate::pkthdr::PktHdr;
use crate::pool::Zones;

/// Bytes of an mbuf.
pub const MSIZE: usize = 256;
/// Internal data of an mbuf without a packet header.
pub const MLEN: usize = MSIZE - offset_of!(RawMbuf, pkt);
/// Internal data of an mbuf with a packet header.
pub const MHLEN: usize = MSIZE - offset_of!(RawMbuf, ext);

/// The mbuf begins a packet: `pkt` is valid.
pub(crate) const PKTHDR: u8 = 1 << 0;
/// The data is outside of the mbuf: `ext` is valid.
pub(crate) const EXT: u8 = 1 << 1;

/// What every mbuf has.
#[repr(C)]
pub(crate) struct Head {
    /// The next mbuf of the same list, owned by this one.
    pub(crate) next: Option<Mbuf>,
    /// The next packet of a queue, owned by this one. None outside of queues.
    pub(crate) nextpkt: Option<Packet>,
    /// The first byte shown. Made from the address of the storage, never from a reference to the
    /// bytes, so that it may be written through wherever the storage may be.
    pub(crate) data: *mut u8,
    /// Bytes shown.
    pub(crate) len: u32,
    /// [`PKTHDR`], [`EXT`].
    pub(crate) flags: u8,
    pub(crate) _spare: [u8; 3],
    /// Where the mbuf came from.
    pub(crate) zones: NonNull<Zones>,
}

/// What the first mbuf of a packet has as well.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Pkt {
    /// Bytes in the whole packet. Not in [`PktHdr`], which users may overwrite whole.
    pub(crate) len: u32,
    pub(crate) _spare: [u32; 3],
    pub(crate) hdr: PktHdr,
}

/// The layout. Bytes that are no field are initialised all the same, because zones hand out
/// initialised pages and no type here has padding: any part of the area may become data.
#[repr(C, align(256))]
pub(crate) struct RawMbuf {
    pub(crate) head: Head,
    pub(crate) pkt: Pkt,
    pub(crate) ext: Ext,
    _rest: [u8; MSIZE - 80 - size_of::<Ext>()],
}

const _: () = assert!(size_of::<RawMbuf>() == MSIZE);
const _: () = assert!(size_of::<Head>() == 40);
const _: () = assert!(offset_of!(RawMbuf, pkt) == 40);
const _: () = assert!(size_of::<Pkt>() == 40);
const _: () = assert!(size_of::<PktHdr>() == 24);
const _: () = assert!(offset_of!(RawMbuf, ext) == 80);
const _: () = assert!(size_of::<Ext>() == 40);
const _: () = assert!(MLEN == 216 && MHLEN == 176);
