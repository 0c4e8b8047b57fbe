//! Page lists: tests that need private items.

use crate::raw::{PAGE_SIZE, PAGES_MAX, PgHdr};
use crate::{Chain, ExtPgs, Live, MbufPool, OwnedPages, Packet, PoolConfig};

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).expect("there is address space")
}

fn record(pool: &MbufPool, header: &[u8]) -> ExtPgs {
    let pages = OwnedPages::new(pool, 1).expect("the pool is large");
    let mut record = ExtPgs::new(pool, pages.into(), 1, 10).expect("the pool is large");
    record.set_header(header).expect("it fits");
    record
}

/// Whether the next mbuf of the pool still has such a header from its former life.
fn lies_there(pool: &MbufPool, header: &[u8]) -> bool {
    let next = record(pool, &[]).into_chain();
    let m = next.first().expect("there is one");
    m.pg_body().hdr[..header.len()] == *header
}

#[test]
fn a_secret_header_is_wiped_with_its_mbuf() {
    // Breaks if zeroize forgets bytes in the mbuf itself, in this one or in one that shares it.
    let pool = pool();
    let header = [0xa5; 13];
    drop(record(&pool, &header));
    // The feature fills free mbufs with a pattern of its own.
    assert!(lies_there(&pool, &header) || cfg!(feature = "invariants"));
    let mut chain = record(&pool, &header).into_chain();
    assert!(chain.zeroize(), "the pages are the pool's");
    let part = chain.share(3, 5).expect("the pool is large");
    drop(chain);
    assert!(!lies_there(&pool, &header));
    drop(part);
    assert!(!lies_there(&pool, &header));
    // A copy made for reading is as secret.
    let mut chain = record(&pool, &header).into_chain();
    assert!(chain.zeroize());
    let seen = chain.map(&pool).expect("the pool is large");
    let head = seen.first().expect("there is one");
    assert!(head.bytes() == header && head.is_secret());
    drop((chain, seen));
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_page_list_never_begins_a_packet() {
    // Breaks if a packet header is written over the list's head.
    let pool = pool();
    for pad in [0, 1] {
        let mut chain = record(&pool, &[7; 5]).into_chain();
        chain.trim_front(pad);
        let mut packet = Packet::from_chain(&pool, chain).expect("the pool is large");
        assert!(packet.is_valid());
        assert!(packet.front().is_empty());
        packet.trim_front(2);
        packet.prepend(20).expect("the pool is large").fill(1);
        assert_eq!(packet.len(), 33 - pad);
        let chain = packet.into_chain();
        assert!(chain.is_valid());
        let shown: Vec<usize> = chain.pieces().map(|piece| piece.len()).collect();
        assert_eq!(shown, [20, 3 - pad, 10]);
        let record = chain.records().next().expect("it is there");
        assert!(!record.is_whole() && record.len() == 15);
    }
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_list_out_of_bounds_is_not_valid() {
    // Breaks if the check passes a list whose bytes would be read from beyond it.
    let good = PgHdr {
        first_off: 4095,
        last_len: 4096,
        npages: 5,
        hdr_len: 24,
        trail_len: 64,
        record_type: 0,
        seqno: 0,
        _spare: [0; 4],
    };
    assert!(good.is_valid());
    assert_eq!(good.pages_len(), 1 + (PAGES_MAX - 1) * PAGE_SIZE);
    for bad in [
        PgHdr {
            first_off: 4096,
            ..good
        },
        PgHdr {
            last_len: 4097,
            ..good
        },
        PgHdr { npages: 6, ..good },
        PgHdr {
            hdr_len: 25,
            ..good
        },
        PgHdr {
            trail_len: 65,
            ..good
        },
    ] {
        assert!(!bad.is_valid());
    }
}

#[test]
fn a_part_of_pages_pins_whole_ones() {
    // Breaks if a chain that shows one byte is charged for one byte, and keeps a page.
    let pool = pool();
    let pages = OwnedPages::new(&pool, 3).expect("the pool is large");
    let record = ExtPgs::new(&pool, pages.into(), 4095, 4098).expect("the pool is large");
    let mut chain = record.into_chain();
    assert_eq!(chain.pinned(), 256 + 3 * PAGE_SIZE);
    let mut byte = chain.share(4097, 1).expect("the pool is large");
    assert_eq!(byte.pinned(), 256 + 3 * PAGE_SIZE);
    let seen: Chain = byte.map(&pool).expect("the pool is large");
    assert_eq!((seen.len(), seen.pinned()), (1, 256 + PAGE_SIZE));
    drop((chain, byte, seen));
    assert_eq!(pool.live(), Live::NONE);
}
