#![doc = include_str!("../README.md")]
//! # The types
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
//! | type | is | freed by |
//! |---|---|---|
//! | [`Packet`] | a chain with a packet header | dropping it |
//! | [`Chain`] | bytes without one, as in a socket buffer | dropping it |
//! | [`Mbufq`] | packets in a row, taken whole in O(1) | dropping it |
//! | [`Scatter`] | empty clusters to read into | dropping it |
//! | [`ExtPgs`] | bytes in up to five pages, which need not be mapped: for a `Chain<Mixed>` | dropping it |
//! | [`ChainWriter`] | the place behind a chain's last byte, to write at | nothing: it borrows |
//! | a [`Tag`] | a small value of any type that goes with a packet's header | its packet |
//! | [`MbufPool`] | the zones that all of this comes from | its last handle and its last mbuf |
//!
//! `cargo run -p mbuma-mbuf --example packet` builds a packet, shares, splits and frees it, prints the buffers in use
//! after each step, and then the text of `netstat -m`.
//!
//! # The three faces of 256 bytes
//!
//! ```text
//!   0        8        16     20     24       32            64                       208          256
//!   | next   | data   | len  | flags| zones  |             |                        |            |
//!
//!   small     data, 224 bytes -------------->|~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~|
//!     that begins a packet, 176 ------------>|~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~| pkthdr     |
//!
//!   ext       data is elsewhere ------------>| ext: where, | idle                   | pkthdr, or |
//!             (a cluster, or what a program  | whose count |                        | idle       |
//!              lent)
//!   ext_pgs   data is in pages, `data` an -->| ext: the    | 5 page numbers,        | offsets,   |
//!             offset (a file, a memfd, pages | pages' count| header, trailer        | TLS type   |
//!             of the pool)
//! ```
//!
//! An mbuf that refers to outside storage uses one cache line, unless a packet begins with it: a share writes one
//! line, and one line goes to another CPU. An mbuf that shows a cluster can get and lose a packet header in place,
//! which is why a received frame becomes a socket buffer's data without a move. `raw.rs` has the layout, with
//! assertions.
//!
//! # A packet over clusters that a send buffer shares
//!
//! ```text
//!   send buffer     mbuf ----------> mbuf ----------> mbuf                 Chain
//!                    | ext            | ext            | ext
//!                    v                v                v
//!                 cluster 16 KiB   cluster 16 KiB   cluster 16 KiB
//!                 refs = 2         refs = 3         refs = 2
//!                    ^               ^    ^            ^
//!                    | ext       ext |    | ext        | ext
//!     mbuf -----> mbuf ---------> mbuf    |            |                   Packet, sent
//!     pkthdr                              |            |
//!     ETH IP TCP             mbuf -----> mbuf ------> mbuf                 Packet, sent next
//!                            pkthdr
//!                            ETH IP TCP
//! ```
//!
//! The counts lie with the clusters, in a side table of their zone: no mbuf leads others (seed 000). The owner of the
//! only reference may write, and makes the second one without an atomic read-modify-write.
//! Storage that is shared may be read through every reference and must not be written; [`Packet::make_writable`]
//! copies the part that must be written.
//!
//! # A page list
//!
//! ```text
//!   Packet<Mixed>   mbuf -> mbuf, 256 B                      pages 7 to 11 of a file
//!                   pkthdr  | first_off 3000, last_len 400 |   |...#####|#######|#######|#######|##.....|
//!                           | ext: the file, counted       |
//!                           | 7 8 9 10 11                  |   what it shows: header, the # bytes,
//!                           | TLS header | TLS trailer     |   trailer
//! ```
//!
//! Pages are mapped or read only when their bytes are needed: such a chain has [`pieces`](Chain::pieces) where others
//! have [`segments`](Chain::segments), and is another type ([`Mixed`]), so that a checksum loop that forgets to
//! [`map`](Chain::map) it does not compile (seed 001).
//!
//! # Where it comes from
//!
//! ```text
//!   a small mbuf, a reference      one with a cluster of 2 KiB    one with a larger cluster    a tag
//!          |                              |                              |                        |
//!          |                         packet zone                         |                        |
//!          |                  mbufs that have a cluster: one pop         |                        |
//!          v                    |                 |                      v                        v
//!      mbuf zone  <-------------+                 +------------>   cluster zones              tag zone
//!      256 B                       same slabs, same limit          2, 4, 9, 16 KiB            64 B
//! ```
//!
//! [`MbufPool::stats`] counts what is in use, cached and free in each, calls, refusals, pullups that
//! copied, bytes copied from mbuf to mbuf, pages mapped and read. Displayed, it is `netstat -m`.
//!
//! # Guarantees
//!
//! - Dropping a handle frees all its mbufs once, on every path: there is no `m_freem` to forget. A
//!   pool whose buffers were all dropped reports [`Live::NONE`].
//! - No byte of a cluster is copied by sharing, splitting, joining, prepending or trimming. Bytes inside
//!   of an mbuf (216 at most) are copied when they are shared: that takes the mbuf that a reference
//!   would. All copies from mbuf to mbuf are in [`PoolStats::bytes_copied`]; that the stack makes none
//!   on the way from a socket buffer to a device is a test (`crates/sim/tests/zero_copy`).
//! - Bytes that another reference can see are never written: a write to shared storage is refused or copies.
//! - An allocation that fails is an error ([`NoBufs`]), and each operation documents the state after it: most change
//!   nothing. An allocation under a limit fails only if that many items are live: the pool first takes back the items
//!   that other CPUs and free packets hold.
//! - After [`Chain::condense`] a chain pins at most [`PINNED_PER_BYTE_MAX`] bytes of storage a byte
//!   shown, and an mbuf each.
//! - Zeros, if ordered ([`Packet::zeroize`]), are written when the last reference is dropped.
//! - A packet and a chain, mapped bytes and unmapped, are different types: `misuse.rs` lists mistakes
//!   that do not compile.
//! - An mbuf may outlive its pool's last handle, and end on any thread.
//!
//! # From mbuf(9)
//!
//! | mbuf(9) | here |
//! |---|---|
//! | `m_gethdr`, `m_get` | [`Packet::new`]; [`Chain::from_slice`], [`Chain::writer`] |
//! | `m_getcl`, `m_getjcl`, `m_clget` | [`Packet::with_cluster`] |
//! | `m_getm2`, `m_append` | [`Chain::extend_from_slice`], [`ChainWriter::reserve`]; [`Packet::append`] |
//! | `m_free`, `m_freem` | drop; [`Chain::pop_front`] drops the first mbuf alone |
//! | `m_devget`, `m_uiotombuf` | [`Packet::from_slice`]; [`Scatter`], which does not copy |
//! | `m_extadd` | [`Chain::from_owner`]; `Chain::try_from((&pool, bytes))` for [`bytes::Bytes`] |
//! | `m_copym`, `m_copypacket` | [`Chain::share`], [`Chain::share_all`], [`Packet::share`], [`Packet::copy_packet`] |
//! | `m_dup` | [`Packet::copy_packet`], then [`Packet::unshare`] |
//! | `m_unshare`, `M_WRITABLE` | [`Packet::unshare`], [`Packet::make_writable`]; [`Packet::front_mut`] |
//! | `m_prepend`, `m_adj` | [`Packet::prepend`]; [`Packet::trim_front`], [`Packet::truncate`], [`Packet::adjust`] |
//! | `m_pullup` | [`Packet::pullup`] |
//! | `m_split`, `m_cat`, `m_catpkt` | [`Packet::split_off`], [`Chain::take_front`]; [`Chain::append`], [`Packet::append_chain`] |
//! | `m_copydata`, `m_copyback` | [`Packet::copy_to`], [`Packet::write_at`], which does not grow the packet |
//! | `m_getptr`, `m_apply` | [`Packet::segments_from`] |
//! | `m_defrag`, `m_collapse` | [`Packet::defrag`], [`Packet::collapse`] |
//! | `m_compress`, `sbcompress` | [`Chain::condense`], [`Chain::append_compact`] |
//! | `m_length`, `m_fixhdr` | [`Packet::len`]: the header is always right |
//! | `m_move_pkthdr`, `m_demote` | [`Packet::from_chain`], [`Packet::into_chain`] |
//! | `m_dup_pkthdr`, `m_tag_copy_chain` | [`Packet::copy_header`] |
//! | `M_LEADINGSPACE`, `M_TRAILINGSPACE` | [`Packet::leading_space`], [`Packet::trailing_space`] |
//! | `m_sanity`, `m_print` | [`Packet::is_valid`], `Debug` |
//! | `M_ZEROIZE` | [`Packet::zeroize`], [`Chain::zeroize`] |
//! | `mb_alloc_ext_pgs`, `M_EXTPG` | [`ExtPgs`], [`Mixed`] |
//! | `mb_unmapped_to_ext`, `m_unmapped_uiomove` | [`Chain::map`], [`Chain::pieces`] |
//! | `sendfile` | [`Chain::from_pages`] over [`FilePages`] or [`MemfdPages`] |
//! | `m_tag_alloc`, `m_tag_prepend` | [`Packet::set_tag`]: a type is what cookie and number were |
//! | `m_tag_find`, `m_tag_unlink`, `m_tag_delete` | [`Packet::tag`], [`Packet::tag_mut`]; [`Packet::take_tag`] |
//! | `m_tag_delete_chain` | [`Packet::into_chain`], or drop |
//! | `mbufq_enqueue`, `mbufq_dequeue`, `mbufq_flush`, `mbufq_concat` | [`Mbufq`]: `enqueue`, `dequeue`, `take_all`, `append` |
//! | `nmbufs`, `nmbclusters` (`uma_zone_set_max`) | [`PoolConfig`] |
//! | `zone_mbuf`, `zone_pack`, `zone_clust`, `zone_jumbo*` | [`PoolStats`]: `mbufs`, `packets`, `clusters`; in [`uma`] for all else |
//! | `mb_reclaim`, `uma_reclaim` | [`MbufPool::drain`] |
//! | `netstat -m` | [`MbufPool::stats`] |
//!
//! Each method has its BSD name as an alias: search these pages for `m_pullup`.
//!
//! # The modules, top to bottom
//!
//! A module uses those below it and those of its own layer; `cargo xtask tidy` checks that. Read from the bottom.
//!
//! | layer | modules |
//! |---|---|
//! | uses of lists | `mbufq.rs` (a queue of packets), `scatter.rs` (room for `readv`), `writer.rs` |
//! | lists of mbufs | `packet.rs`, `chain.rs`, `ext_pgs.rs` (pages that are not mapped), `list.rs`; `segments.rs` |
//! | one mbuf | `mbuf.rs` (nearly all `unsafe` code), `ext.rs` (outside storage), `tag.rs`, `pool.rs`, `raw.rs` (the layout) |
//! | leaves | `refs.rs` (reference counts), `pkthdr.rs`, `storage.rs`, `error.rs`, `histogram.rs`, `faults.rs` |
//!
//! Sources: seed 004 (mbufs, clusters, the packet zone, tags), seed 000 (shared clusters), seed 001 (page
//! lists in the mbuf itself), seed 003 (the queue that is taken whole).
#![deny(clippy::missing_errors_doc)]

mod blank;
mod mbufq;
mod scatter;
mod writer;

mod chain;
mod ext_pgs;
mod list;
mod packet;

mod segments;

mod ext;
mod mbuf;
mod pool;
mod raw;
mod tag;

mod error;
mod faults;
mod histogram;
mod pkthdr;
mod refs;
mod storage;

#[cfg(doctest)]
mod misuse;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use blank::Blank;
pub use chain::Chain;
pub use error::{CollapseError, NoBufs, PullupError, WriteError};
pub use ext_pgs::{
    ExtPgs, ExtPgsError, FilePages, MapError, MemfdPages, OwnedPages, PageRun, PageSource, Pages,
    Piece, Pieces, Record, RecordTooLong,
};
pub use histogram::{SizeCounts, SizeHistogram};
pub use mbuf::PINNED_PER_BYTE_MAX;
pub use mbufq::Mbufq;
pub use packet::Packet;
pub use pkthdr::{Csum, PktHdr};
pub use pool::{
    Calls, ClusterSize, Headroom, Live, MBUFS_RESERVED, MbufPool, NEAR_LIMIT_PERCENT, PoolConfig,
    PoolStats, Shortage,
};
pub use raw::{MHLEN, MLEN, MSIZE, PAGE_SIZE, PAGES_MAX, RECORD_HEADER_MAX, RECORD_TRAILER_MAX};
pub use scatter::Scatter;
pub use segments::Segments;
pub use storage::{Mapped, Mixed, Storage};
pub use tag::{TAG_LEN, Tag};
pub use writer::ChainWriter;
