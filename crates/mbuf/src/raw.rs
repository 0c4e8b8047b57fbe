//! The 256 bytes of an mbuf.
//!
//! ```text
//!   0        8        16     20     24       32
//!   | next   | data   | len  | flags| zones  |
//!   32               64                                     208                       256
//!   | internal data ...................................................................|  no bit
//!   | internal data .......................................| packet header             |  PKTHDR
//!   | ext            | idle                                | packet header or idle     |  EXT
//!   | ext            | 5 pages, TLS header and trailer     | page list: offsets, TLS   |  EXT | PGS
//! ```
//!
//! An mbuf with neither bit holds 224 bytes itself; one with a packet header 176. With [`EXT`] the
//! bytes are elsewhere (a cluster, or storage that its owner lent) and the internal area is idle:
//! that is why a plain ext mbuf can become a packet header, and back, in place.
//!
//! A plain mbuf that shows storage outside uses only its first cache line: sharing a
//! cluster writes one line, and one line goes to the CPU that the share is for. The packet header is at
//! the end so that it leaves data the place of the reference.
//!
//! With [`PGS`] as well they are in pages that need not be mapped (seed 001). Such an mbuf never
//! begins a packet, so the list's head lies where a packet header would, and the pages themselves
//! where the data of a small mbuf would: the whole list is in the mbuf, in the lines that are in
//! cache already. `data` is then no address but an offset into the record.
//!
//! Internal data lies over the fields behind the first 32 bytes, so a `&RawMbuf` must never exist: it
//! would promise a valid [`Ext`] where there are data bytes, and the data pointer could not
//! write them. References are made to [`Head`], and to the other parts where the bits say that
//! they are there.

use core::mem::{offset_of, size_of};
use core::ptr::NonNull;

use crate::ext::Ext;
use crate::mbuf::Mbuf;
use crate::pkthdr::PktHdr;
use crate::pool::Zones;
use crate::tag::Tags;

/// Bytes of an mbuf.
pub const MSIZE: usize = 256;
/// Internal data of an mbuf without a packet header.
pub const MLEN: usize = MSIZE - offset_of!(RawMbuf, ext);
/// Internal data of an mbuf with a packet header.
pub const MHLEN: usize = MLEN - size_of::<Pkt>();

/// The mbuf begins a packet: `pkt` is valid.
pub(crate) const PKTHDR: u32 = 1 << 0;
/// The data is outside of the mbuf: `ext` is valid.
pub(crate) const EXT: u32 = 1 << 1;
/// The data is in a list of pages, which may be unmapped: `pg` and `body` are valid, and so is
/// `ext`, which counts the reference to the pages. Never together with [`PKTHDR`].
#[doc(alias = "M_EXTPG")]
pub(crate) const PGS: u32 = 1 << 2;
/// The mbuf is an item of the packet zone, and has its cluster from there: [`EXT`] is set.
#[doc(alias = "EXT_PACKET")]
pub(crate) const PACK: u32 = 1 << 3;
/// The internal area is overwritten with zeros when the mbuf is freed.
#[doc(alias = "M_ZEROIZE")]
pub(crate) const ZERO: u32 = 1 << 4;

/// Pages in one list: enough for a TLS record of 16 KiB that begins anywhere in a page.
#[doc(alias = "MBUF_PEXT_MAX_PGS")]
pub const PAGES_MAX: usize = 5;
/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;
/// Bytes of a record's header that fit into the mbuf.
#[doc(alias = "MBUF_PEXT_HDR_LEN")]
pub const RECORD_HEADER_MAX: usize = 24;
/// Bytes of a record's trailer that fit into the mbuf.
#[doc(alias = "MBUF_PEXT_TRAIL_LEN")]
pub const RECORD_TRAILER_MAX: usize = 64;

/// The fields of every mbuf.
#[repr(C)]
pub(crate) struct Head {
    /// The next mbuf of the same list, owned by this one.
    pub(crate) next: Option<Mbuf>,
    /// The first byte shown. Made from the address of the storage, never from a reference to the
    /// bytes, so that it allows writes wherever the storage does.
    pub(crate) data: *mut u8,
    /// Bytes shown.
    pub(crate) len: u32,
    /// [`PKTHDR`], [`EXT`], [`PGS`], [`PACK`], [`ZERO`].
    pub(crate) flags: u32,
    /// The zones of the mbuf.
    pub(crate) zones: NonNull<Zones>,
}

/// The further fields of the first mbuf of a packet.
#[repr(C)]
pub(crate) struct Pkt {
    /// The packet's tags. They come first, like the count in [`Ext`], because a free of a packet reads them.
    pub(crate) tags: Option<Tags>,
    /// The next packet of a queue, owned by this one. None outside of queues.
    pub(crate) nextpkt: Option<Mbuf>,
    /// Bytes in the whole packet. Not in [`PktHdr`], which users may overwrite whole.
    pub(crate) len: u32,
    pub(crate) _spare: u32,
    pub(crate) hdr: PktHdr,
}

impl Pkt {
    /// An empty packet's.
    #[inline]
    pub(crate) fn fresh() -> Self {
        Self {
            len: 0,
            _spare: 0,
            tags: None,
            nextpkt: None,
            hdr: PktHdr::default(),
        }
    }
}

/// The head of a page list, where a packet would have its header.
///
/// The record that it describes is `hdr_len` bytes of `body.hdr`, the bytes of the pages (from
/// `first_off` in the first to `last_len` in the last), and `trail_len` bytes of `body.trail`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PgHdr {
    /// Offset of the first byte in the first page.
    pub(crate) first_off: u16,
    /// Bytes used of the last page, counted from `first_off` if it is the first too.
    pub(crate) last_len: u16,
    pub(crate) npages: u8,
    pub(crate) hdr_len: u8,
    pub(crate) trail_len: u8,
    pub(crate) record_type: u8,
    /// The record's number, for the code that encrypts it.
    pub(crate) seqno: u64,
    pub(crate) _spare: [u64; 4],
}

impl PgHdr {
    /// Bytes in the pages.
    pub(crate) fn pages_len(&self) -> usize {
        match usize::from(self.npages) {
            0 => 0,
            1 => usize::from(self.last_len),
            n => (n - 1) * PAGE_SIZE - usize::from(self.first_off) + usize::from(self.last_len),
        }
    }

    /// Bytes in the record: header, pages, trailer.
    pub(crate) fn record_len(&self) -> usize {
        usize::from(self.hdr_len) + self.pages_len() + usize::from(self.trail_len)
    }

    /// Whether the fields are within their bounds.
    pub(crate) fn is_valid(&self) -> bool {
        usize::from(self.npages) <= PAGES_MAX
            && usize::from(self.first_off) < PAGE_SIZE
            && usize::from(self.last_len) <= PAGE_SIZE
            && usize::from(self.hdr_len) <= RECORD_HEADER_MAX
            && usize::from(self.trail_len) <= RECORD_TRAILER_MAX
    }
}

/// The rest of a page list, where a small mbuf would have its data.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PgBody {
    /// The numbers of the pages in their source.
    pub(crate) pages: [u64; PAGES_MAX],
    pub(crate) hdr: [u8; RECORD_HEADER_MAX],
    pub(crate) trail: [u8; RECORD_TRAILER_MAX],
    pub(crate) _spare: [u8; 16],
}

/// The layout. Bytes that are no field are initialised all the same, because zones hand out
/// initialised pages and no type here has padding: any part of the area may become data.
#[repr(C, align(256))]
pub(crate) struct RawMbuf {
    pub(crate) head: Head,
    pub(crate) ext: Ext,
    pub(crate) body: PgBody,
    pub(crate) pkt: Pkt,
}

const _: () = assert!(size_of::<RawMbuf>() == MSIZE);
const _: () = assert!(size_of::<Head>() == 32);
const _: () = assert!(offset_of!(RawMbuf, ext) == 32);
const _: () = assert!(size_of::<Ext>() == 32);
const _: () = assert!(offset_of!(RawMbuf, body) == 64);
const _: () = assert!(size_of::<Pkt>() == 48);
const _: () = assert!(size_of::<PktHdr>() == 24);
const _: () = assert!(size_of::<PgHdr>() == size_of::<Pkt>());
const _: () = assert!(offset_of!(RawMbuf, pkt) == 208);
const _: () = assert!(MLEN == 224 && MHLEN == 176);
