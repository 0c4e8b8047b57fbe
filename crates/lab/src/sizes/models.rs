//! The memory of a packet in buffers of others, computed from their layout.
//!
//! ```text
//!   skb        sk_buff 256 | kmalloc( headroom 64 | data, to 64 | skb_shared_info 320 )
//!   pktmbuf    header 128 | headroom 128 | data room 2048                      chained
//!   exact      header 80 | data
//!   mini       header 64 | storage of 256, 512, 1024, ... 16384                chained
//! ```
//!
//! The allocator's own memory (slab headers, side tables of counts, the 64 bytes that DPDK puts before each item of a
//! mempool) is left out here, as in the measurement of ours.
//! Sources: Linux include/linux/skbuff.h and net/core/skbuff.c, with 64-byte lines on x86-64, where NET_IP_ALIGN
//! is 0; DPDK rte_mbuf_core.h and its RTE_MBUF_DEFAULT_BUF_SIZE; seed 004 section 5.6 (the mini-mbuf).

/// The memory of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footprint {
    /// Bytes of memory.
    pub(super) bytes: u64,
    /// Allocations.
    pub(super) items: u64,
}

/// An sk_buff of 232 bytes in its cache, whose items begin at cache lines.
const SK_BUFF: usize = 256;
/// NET_SKB_PAD: room that receivers leave at the front.
const NET_SKB_PAD: usize = 64;
/// The skb_shared_info at the end of the data.
const SHARED_INFO: usize = 320;
/// SMP_CACHE_BYTES, to which SKB_DATA_ALIGN rounds.
const LINE: usize = 64;
const PAGE: usize = 4 << 10;
/// SKB_MAX_ALLOC: the largest allocation in one piece is four pages.
const LINEAR_MAX: usize = 4 * PAGE;
/// Where a packet is longer than that, the headers are in the linear part and the data in pages.
const LINEAR_HEADERS: usize = 256;

/// Linux: headroom, data and shared info in one piece from kmalloc, whose sizes are powers of two at this length.
pub(super) fn skb(len: usize) -> Footprint {
    match skb_head(len) {
        head if head <= LINEAR_MAX => sk_buff_and(head.next_power_of_two(), 1),
        _ => {
            let pages = (len - LINEAR_HEADERS).div_ceil(PAGE);
            let head = skb_head(LINEAR_HEADERS).next_power_of_two();
            sk_buff_and(head + pages * PAGE, 1 + pages)
        }
    }
}

/// Linux: the same piece cut from a fragment of pages, without rounding to a power of two, where it fits a page.
/// A fragment of 32 KiB is kept by any one piece of it; that is not charged here.
pub(super) fn skb_frag(len: usize) -> Footprint {
    match skb_head(len) {
        head if head <= PAGE => sk_buff_and(head, 1),
        _ => skb(len),
    }
}

fn skb_head(len: usize) -> usize {
    (NET_SKB_PAD + len).next_multiple_of(LINE) + SHARED_INFO
}

fn sk_buff_and(bytes: usize, items: usize) -> Footprint {
    footprint(SK_BUFF + bytes, 1 + items)
}

/// A struct rte_mbuf.
const RTE_MBUF: usize = 128;
/// RTE_PKTMBUF_HEADROOM.
const RTE_HEADROOM: usize = 128;
/// RTE_MBUF_DEFAULT_DATAROOM.
const RTE_DATAROOM: usize = 2048;

/// DPDK: one item for header, headroom and data; as many as it takes.
pub(super) fn pktmbuf(len: usize) -> Footprint {
    let segments = len.div_ceil(RTE_DATAROOM).max(1);
    footprint(
        segments * (RTE_MBUF + RTE_HEADROOM + RTE_DATAROOM),
        segments,
    )
}

/// The bytes of an mbuf with a packet header before its data.
const HEADER: usize = mbuf::MSIZE - mbuf::MHLEN;

/// A header and the bytes: the least that any design needs.
pub(super) fn exact(len: usize) -> Footprint {
    footprint(HEADER + len, 1)
}

/// The same from a general allocator, glibc's: 8 bytes of its own before it, rounded to 16, 32 at least.
pub(super) fn malloc(len: usize) -> Footprint {
    footprint((HEADER + len + 8).next_multiple_of(16).max(32), 1)
}

/// A mini-mbuf: an mbuf without an internal data area.
const MINI: usize = 64;
/// The least and the most that it refers to.
const STORAGE_MIN: usize = 256;
const STORAGE_MAX: usize = 16 << 10;

/// Mini-mbufs, each with storage of the smallest power of two that fits.
pub(super) fn mini(len: usize) -> Footprint {
    let whole = len / STORAGE_MAX;
    let rest = len % STORAGE_MAX;
    let last = usize::from(rest > 0 || whole == 0);
    let storage = whole * STORAGE_MAX + last * rest.next_power_of_two().max(STORAGE_MIN);
    let minis = whole + last;
    footprint(minis * MINI + storage, 2 * minis)
}

fn footprint(bytes: usize, items: usize) -> Footprint {
    Footprint {
        bytes: bytes as u64,
        items: items as u64,
    }
}
