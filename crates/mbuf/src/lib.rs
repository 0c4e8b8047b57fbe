//! Network buffers: packets as chains of small fixed-size mbufs, their bytes inside or shared.
//!
//! ```text
//!   Packet
//!     |
//!   +-------------+      +-------------+      +-------------+
//!   | mbuf, 256 B |----->| mbuf, 256 B |----->| mbuf, 256 B |
//!   | pkthdr      |      |         ext |      |         ext |
//!   | "IP TCP"    |      +----------|--+      +----------|--+
//!   +-------------+                 v                    v
//!                         cluster 16 KiB         cluster 16 KiB <---- also in the send buffer
//!                         refs = 2               refs = 2             of the connection
//! ```
//!
//! The allocation is fixed-size and fast, headers are prepended and trimmed without moving data, and
//! data moves by reference: what TCP sends is shared with its send buffer, so that a retransmission
//! copies nothing.
//!
//! | type | is | freed by |
//! |---|---|---|
//! | [`Packet`] | a chain with a packet header | dropping it |
//! | [`Chain`] | bytes without one, as in a socket buffer | dropping it |
//! | [`Mbufq`] | packets in a row, taken whole in O(1) | dropping it |
//! | [`Scatter`] | empty clusters to read into | dropping it |
//! | [`ExtPgs`] | bytes in up to five pages, which need not be mapped: for a `Chain<Mixed>` | dropping it |
//! | [`MbufPool`] | the zones that all of this comes from | its last handle |
//!
//! # Example
//! ```
//! use mbuf::{Chain, Live, MbufPool, Packet, PoolConfig};
//!
//! let pool = MbufPool::new(PoolConfig::default())?;
//! // A send buffer with data, and a packet that shows 100 bytes of it.
//! let mut sndbuf = Chain::from_slice(&pool, &[7; 5000])?;
//! let mut packet = Packet::before_chain(&pool, sndbuf.share(1000, 100)?)?;
//! packet.prepend(20)?.fill(0); // a header
//! assert_eq!(packet.len(), 120);
//!
//! // The packet is sent and freed; the data stays until it is acknowledged.
//! drop(packet);
//! sndbuf.trim_front(5000);
//! assert_eq!(pool.live(), Live::NONE);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Read in this order: `raw.rs` (the layout), `refs.rs` and `ext.rs` (sharing), `mbuf.rs` (one mbuf: here is
//! nearly all that is `unsafe`), `list.rs`, [`Packet`], [`Chain`], [`Mbufq`], [`Scatter`],
//! [`ExtPgs`], [`MbufPool`].
//!
//! Sources: seed 004 (mbufs, clusters, the packet zone), seed 000 (shared clusters), seed 001 (page
//! lists in the mbuf itself), seed 003 (the queue that is taken whole).

mod chain;
mod cursor;
mod error;
mod ext;
mod ext_pgs;
mod histogram;
mod list;
mod mbuf;
mod mbufq;
#[cfg(doctest)]
mod misuse;
mod packet;
mod pkthdr;
mod planted;
mod pool;
mod raw;
mod refs;
mod scatter;
#[cfg(all(test, any(loom, shuttle)))]
mod schedules;
mod segments;
mod storage;
mod tag;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod writer;

pub use chain::{Chain, PINNED_PER_BYTE_MAX};
pub use cursor::{Cursor, CursorMut};
pub use error::{CollapseError, NoBufs, PullupError, WriteError};
pub use ext_pgs::{
    ExtPgs, ExtPgsError, FilePages, MapError, MemfdPages, OwnedPages, PageRun, PageSource, Pages,
    Piece, Pieces, Record, RecordTooLong,
};
pub use histogram::{SizeCounts, SizeHistogram};
pub use mbufq::Mbufq;
pub use packet::Packet;
pub use pkthdr::{Csum, PktHdr};
pub use pool::{Calls, ClusterSize, Live, MbufPool, PoolConfig, PoolStats};
pub use raw::{MHLEN, MLEN, MSIZE, PAGE_SIZE, PAGES_MAX, RECORD_HEADER_MAX, RECORD_TRAILER_MAX};
pub use scatter::Scatter;
pub use segments::Segments;
pub use storage::{Mapped, Mixed, Storage};
pub use tag::{TAG_LEN, Tag};
pub use writer::ChainWriter;
