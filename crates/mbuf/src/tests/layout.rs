//! The bytes of an mbuf and the fields that they lie over.

use crate::mbuf::Mbuf;
use crate::raw::{EXT, MHLEN, MLEN, MSIZE, PKTHDR};
use crate::{Chain, ClusterSize, Live, MbufPool, Packet, PktHdr, PoolConfig};

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).expect("there is address space")
}

#[test]
fn internal_data_may_have_any_bytes() {
    // Breaks if a byte of internal data is taken for a field: a flag, a length, outside storage.
    let pool = pool();
    for fill in [0, 0xff, 0x5a] {
        let mut m = Mbuf::alloc(pool.zones(), 0, 0).expect("the pool is large");
        m.push(&[fill; MLEN]);
        assert_eq!((m.len(), m.room(), m.front_room()), (MLEN, 0, 0));
        assert_eq!(m.pinned(), MSIZE);
        assert!(m.is_valid() && m.is_writable() && !m.is(EXT | PKTHDR));
        assert_eq!(m.bytes(), [fill; MLEN]);
        let part = m.share(1, MLEN - 1).expect("the pool is large");
        assert_eq!(part.bytes(), [fill; MLEN - 1]);
    }
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_header_leaves_its_data_alone() {
    // Breaks if the header or outside storage is written over data, or data over them, in an mbuf
    // that is filled to the last byte.
    let pool = pool();
    let mut packet = Packet::from_slice(&pool, &[7; MHLEN], 0).expect("the pool is large");
    (packet.header_mut().stamp_ns, packet.header_mut().flow) = (u64::MAX, u32::MAX);
    assert_eq!(packet.front(), [7; MHLEN]);
    assert_eq!(packet.pinned(), MSIZE);
    let mut chain = packet.into_chain();
    assert_eq!(chain.to_vec(), [7; MHLEN]);
    // The place of the header is now room at the end.
    for (n, mbufs) in [(MLEN - MHLEN, 1), (1, 2)] {
        chain
            .extend_from_slice(&pool, &[8; MLEN][..n])
            .expect("the pool is large");
        assert_eq!(chain.mbufs(), mbufs);
    }
    assert_eq!(chain.to_vec()[..MHLEN], [7; MHLEN]);
    drop(chain);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_recycled_mbuf_has_a_fresh_header() {
    // Breaks if the fields of a packet's former life show: its mbuf is the first to be taken again.
    let pool = pool();
    for _ in 0..10 {
        let mut packet = Packet::with_cluster(&pool, ClusterSize::K2, 9).expect("it is large");
        assert_eq!(*packet.header(), PktHdr::default());
        assert_eq!((packet.len(), packet.front().len()), (0, 0));
        packet.append(&pool, &[1; 3000]).expect("the pool is large");
        packet.header_mut().flow = 5;
        let chain = packet.into_chain();
        let packet = chain.into_packet(&pool).expect("its first mbuf serves");
        assert_eq!(*packet.header(), PktHdr::default());
        assert_eq!(packet.len(), 3000);
    }
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_header_write_does_not_change_the_length() {
    // Breaks if overwriting a packet's whole header changes the length that its operations use:
    // they would run off the end of the list.
    let pool = pool();
    let long = Packet::from_slice(&pool, &[1; 1000], 0).expect("the pool is large");
    let mut short = Packet::from_slice(&pool, &[2; 10], 0).expect("the pool is large");
    *short.header_mut() = *long.header();
    assert!(short.is_valid());
    assert_eq!(short.len(), 10);
    assert!(!short.copy_to(0, &mut [0; 11]));
    assert_eq!(short.share(0, 1000).expect("the pool is large").len(), 10);
}

#[test]
fn a_lead_larger_than_the_storage_is_clamped() {
    // Breaks if a lead larger than the storage overflows, or moves the data out of the storage.
    let pool = pool();
    for lead in [
        0,
        1,
        176,
        177,
        2048,
        16_383,
        16_384,
        20_000,
        usize::MAX - 5,
        usize::MAX,
    ] {
        let bytes = [3; 20];
        let mut packet = Packet::from_slice(&pool, &bytes, lead).expect("the pool is large");
        assert!(packet.is_valid());
        let live = pool.live();
        packet
            .prepend(lead.min(16_384))
            .expect("the room is there")
            .fill(4);
        assert_eq!(pool.live(), live, "no mbuf was added for {lead}");
        packet.trim_front(lead.min(16_384));
        assert_eq!(packet.to_vec(), bytes);
        let packet = Packet::with_cluster(&pool, ClusterSize::K4, lead).expect("it is large");
        assert!(packet.is_valid());
    }
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn prepending_into_room_takes_no_mbuf() {
    // Breaks if the common case is not the cheap one: a header in front of a chain.
    let pool = pool();
    let data = Chain::from_slice(&pool, &[1; 1000]).expect("the pool is large");
    let mut packet = Packet::before_chain(&pool, data).expect("the pool is large");
    let live = pool.live();
    for n in [20, 20, 14, MHLEN - 54] {
        packet.prepend(n).expect("the room is there").fill(0);
    }
    assert_eq!(pool.live(), live);
    packet.prepend(1).expect("the pool is large").fill(0);
    assert_eq!(pool.live().mbufs, live.mbufs + 1);
    assert_eq!(packet.front().len(), 1);
}

#[test]
fn a_header_is_put_where_no_data_lies() {
    // Breaks if a header is written over data, or takes an mbuf although its place and the room are free.
    let pool = pool();
    let room = 42;
    for len in 1..=MLEN - room {
        let bytes = [9; MLEN];
        let data = || {
            let mut data = Chain::from_slice(&pool, &bytes[..room + len]).expect("it is large");
            data.trim_front(room);
            data
        };
        for (more, fits) in [(0, len <= MHLEN - room), (1, false)] {
            let packet = Packet::under_headers(&pool, data(), room + more);
            let mut packet = packet.expect("the pool is large");
            assert_eq!(pool.live().mbufs, if fits { 1 } else { 2 }, "{len} bytes");
            *packet.header_mut() = filled_header();
            packet
                .prepend(room + more)
                .expect("the room is there")
                .fill(4);
            assert_eq!(pool.live().mbufs, if fits { 1 } else { 2 }, "{len} bytes");
            assert!(packet.is_valid());
            assert_eq!(packet.to_vec()[room + more..], bytes[..len]);
            assert_eq!(*packet.header(), filled_header());
        }
    }
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_header_is_put_over_outside_storage_that_may_be_written() {
    // Breaks if headers are written into storage that another chain shows, or a sole owner's room is not used.
    let pool = pool();
    for (shared, mbufs) in [(false, 1), (true, 3)] {
        let data = Packet::from_slice(&pool, &[9; 1000], 42).expect("the pool is large");
        let mut data = data.into_chain();
        let other = shared.then(|| data.share(0, 1000).expect("the pool is large"));
        let packet = Packet::under_headers(&pool, data, 42);
        let mut packet = packet.expect("the pool is large");
        packet.prepend(42).expect("the room is there").fill(4);
        assert_eq!(pool.live().mbufs, mbufs);
        assert_eq!(packet.to_vec()[42..], [9; 1000]);
        drop((packet, other));
    }
    assert_eq!(pool.live(), Live::NONE);
}

fn filled_header() -> PktHdr {
    PktHdr {
        stamp_ns: u64::MAX,
        flow: u32::MAX,
        hops: u8::MAX,
        ..PktHdr::default()
    }
}
