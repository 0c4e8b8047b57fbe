//! The stack copies no payload between a socket buffer and a device (seeds 000 and 004): the tests check the addresses
//! of bytes, and the counts of the pools.
//!
//! ```text
//!   addresses      what a device is given, and what a program is given, lies in clusters that a program
//!                  or a device put it into: the stack made no others (`strayed`)
//!   bytes_copied   what was copied from mbuf to mbuf, pullups too
//!   requests       the stack takes mbufs for headers, and no cluster
//! ```
//!
//! Frames that a device receives land in clusters of its own pool, as a TAP's `readv` has it; or it comes by
//! reference, in the sender's clusters, between stacks in one process.
//!
//! There is one copy by design: a receiver moves a few bytes out of a large cluster, so that they do not
//! pin the rest of it (`Chain::append_compact`). Full frames in clusters of their own are never touched;
//! the ends of large ones may be. Wherever it can happen it is accounted for to the byte.

mod pair;
mod recorder;

use mbuf::{Chain, ClusterSize, MHLEN, MLEN};
use mbuma::device::Capabilities;
use mbuma::{StackStats, UdpSocket};
use pair::{Pair, Setup};

/// Bytes of a bulk transfer. They do not end with a cluster.
const BULK: usize = 2872 * 1460;

/// A card that finishes checksums and leaves cutting to the stack.
const SUMS_ONLY: Capabilities = Capabilities {
    tso4_max: 0,
    tso6_max: 0,
    uso_max: 0,
    ..Capabilities::whole(1500)
};

/// The devices that a stack may meet: which offloads they have, and how large their frames are.
const DEVICES: [Capabilities; 5] = [
    Capabilities::plain(1500),
    SUMS_ONLY,
    Capabilities::whole(1500),
    Capabilities::plain(65_535),
    Capabilities::whole(65_535),
];

#[test]
fn bulk_over_lossy_wires_is_sent_from_the_very_clusters() {
    // Breaks if output, a retransmission, software segmentation or a software checksum copies payload,
    // or takes a cluster for it; or, at an MTU of 1500, if input, reassembly or the receive buffer do.
    for (caps, seed) in DEVICES.into_iter().zip(1..) {
        // Of large frames there are few, and so there are of losses.
        let few = caps.mtu > 1500;
        let (len, loss) = if few { (8 * BULK, 0.3) } else { (BULK, 0.1) };
        println!("{caps:?}, seed {seed}");
        let p = Pair::new(Setup::lands(caps).lossy(seed, loss));
        let source = p.source(len, ClusterSize::K16);
        let before = p.stats();
        let streams = p.connect();
        let strayed = p.transfer(&streams, source);
        let (after, seen) = (p.stats(), p.device(0).seen());
        let again = after[0].tcp.retransmitted_segments;
        assert!(again > 50, "only {again} retransmissions");
        assert!(seen.passed > len, "nothing went twice: {seen:?}");
        assert_eq!(seen.strayed, 0);
        assert_untouched(&before[0], &after[0]);
        if seen.largest == 1514 {
            assert_eq!(strayed, 0);
            assert_untouched(&before[1], &after[1]);
        }
        drop(streams);
        p.finish();
    }
}

#[test]
fn the_headers_of_a_small_message_lie_in_one_piece() {
    // Breaks if a packet with a copy of a message has too little room for its headers, so that another mbuf takes the
    // first of them, and the receiver copies all of them together.
    let setup = Setup::by_reference(Capabilities::whole(1500));
    for setup in [setup, setup.over6()] {
        let p = Pair::new(setup);
        let streams = p.connect();
        for len in 1..=256 {
            let small = [7; 256];
            assert_eq!(streams[0].send(&small[..len]), Ok(len));
            let mut read = [0; 256];
            while streams[1].recv(&mut read).is_err() {
                p.turn(false);
            }
        }
        let pullups = p.stats().map(|stats| stats.pool.calls.pullup_copied);
        assert_eq!(pullups, [0, 0], "{setup:?}");
        drop(streams);
        p.finish();
    }
}

#[test]
fn bulk_is_received_in_the_very_clusters() {
    // Breaks if the way from the device to the reader copies what fills a quarter of its cluster, or
    // copies anything twice.
    for caps in DEVICES {
        println!("{caps:?}");
        let p = Pair::new(Setup::lands(caps));
        let source = p.source(BULK, ClusterSize::K16);
        let before = p.stats();
        let streams = p.connect();
        let strayed = p.transfer(&streams, source);
        let (after, seen) = (p.stats(), p.device(0).seen());
        assert_eq!(seen.strayed, 0);
        assert_untouched(&before[0], &after[0]);
        assert_eq!(after[1].pool.bytes_copied, strayed as u64);
        assert_eq!(after[1].pool.calls.pullup_copied, 0);
        if seen.largest == 1514 {
            assert_untouched(&before[1], &after[1]);
        }
        assert!(strayed < BULK / 100, "{strayed} bytes were copied");
        drop(streams);
        p.finish();
    }
}

#[test]
fn bulk_by_reference_is_read_from_the_senders_clusters() {
    // Breaks if the memory device or the epair copies, or if the receiver copies more of a large segment, or of a batch
    // of frames of 1500 bytes, than its two ends, which lie in clusters that the segments around it share.
    for setup in [
        Setup::epair(),
        Setup::by_reference(Capabilities::plain(1500)),
        Setup::by_reference(Capabilities::whole(1500)),
        Setup::by_reference(Capabilities::plain(65_535)),
        Setup::by_reference(Capabilities::whole(65_535)),
    ] {
        println!("{setup:?}");
        let p = Pair::new(setup);
        let source = p.source(BULK, ClusterSize::K16);
        let before = p.stats();
        let streams = p.connect();
        let strayed = p.transfer(&streams, source);
        let (after, seen) = (p.stats(), p.device(0).seen());
        assert_eq!(seen.strayed, 0);
        assert_untouched(&before[0], &after[0]);
        assert_eq!(after[1].pool.bytes_copied, strayed as u64);
        assert!(strayed < BULK / 16, "{strayed} bytes were copied");
        drop(streams);
        p.finish();
    }
}

#[test]
fn an_echo_sends_the_very_clusters_that_it_received() {
    // Breaks if data that goes from one socket buffer into another, on one host, is copied, or sent out
    // again from another place than it arrived at.
    for (caps, loss) in [
        (Capabilities::plain(1500), 0.0),
        (SUMS_ONLY, 0.0),
        (Capabilities::plain(1500), 0.05),
    ] {
        println!("{caps:?}, {loss} lost");
        let p = Pair::new(Setup::lands(caps).lossy(6, loss));
        let source = p.source(BULK, ClusterSize::K16);
        let before = p.stats();
        let streams = p.connect();
        let strayed = p.echo(&streams, source);
        let after = p.stats();
        assert_eq!(strayed, 0);
        for n in [0, 1] {
            let seen = p.device(n).seen();
            assert!(seen.passed >= BULK);
            assert_eq!(seen.strayed, 0);
            assert_untouched(&before[n], &after[n]);
        }
        drop(streams);
        p.finish();
    }
}

#[test]
fn datagrams_are_not_copied_in_fragments_or_whole() {
    // Breaks if UDP, fragmentation, reassembly or a datagram's queue copies payload.
    const ROUNDS: usize = 50;
    // The last fragment is as long as the others: a short one would be copied out of its cluster.
    let fragmented = 40 * 1480 - 8;
    for (caps, len, fragments) in [
        (Capabilities::plain(1500), 1472, 0),
        (SUMS_ONLY, 1472, 0),
        (Capabilities::plain(1500), fragmented, 40),
        (Capabilities::whole(1500), fragmented, 40),
        (Capabilities::plain(65_535), 65_507, 0),
        (Capabilities::whole(65_535), 65_507, 0),
    ] {
        println!("{caps:?}, {len} bytes");
        let p = Pair::new(Setup::lands(caps));
        let mut source = p.source(ROUNDS * len, ClusterSize::K16);
        let before = p.stats();
        let [a, b] = p.bind();
        for round in 0..ROUNDS {
            a.send_to(source.take_front(len).unwrap(), p.addr(1))
                .unwrap();
            let there = arrival(&p, &b);
            p.check(round * len, &there);
            // And back, as it came.
            b.send_to(there, p.addr(0)).unwrap();
            p.check(round * len, &arrival(&p, &a));
        }
        let after = p.stats();
        for n in [0, 1] {
            let seen = p.device(n).seen();
            assert_eq!(seen.passed, ROUNDS * len);
            assert_eq!((seen.strayed, seen.fragments), (0, ROUNDS * fragments));
            assert_untouched(&before[n], &after[n]);
        }
        drop((a, b));
        p.finish();
    }
}

/// The longest headers of a datagram: Ethernet's, IPv6's and UDP's.
const HEADERS_MAX: usize = 14 + 40 + 8;

#[test]
fn a_datagram_of_bytes_is_one_mbuf_with_its_headers() {
    // Breaks if the copy of a program's bytes leaves too little room for the headers, or UDP takes another mbuf for
    // them although there is room. Bytes that fit one mbuf without the headers, but not with them, have two mbufs and
    // no cluster.
    let without_room = MHLEN - HEADERS_MAX + 1..=MLEN;
    let setup = Setup::by_reference(Capabilities::whole(1500));
    for setup in [setup, setup.over6()] {
        let p = Pair::new(setup);
        let [a, b] = p.bind();
        let bytes = [7; 1400];
        // The first waits for the neighbour's address.
        for len in (0..300).chain([1400]) {
            let before = mbufs_taken(&p);
            a.send_to(&bytes[..len], p.addr(1)).unwrap();
            let taken = mbufs_taken(&p) - before;
            let there = arrival(&p, &b);
            assert_eq!(there.to_vec(), bytes[..len]);
            let expected = if without_room.contains(&len) { 2 } else { 1 };
            assert!(
                len == 0 || taken == expected,
                "{taken} mbufs for {len} bytes"
            );
        }
        assert_eq!(p.stats()[1].pool.calls.pullup_copied, 0);
        drop((a, b));
        p.finish();
    }
}

#[test]
fn what_lies_inside_of_mbufs_is_copied_when_it_is_sent_and_only_then() {
    // Breaks if bytes in an mbuf itself are copied more than once a transmission: such a copy takes one
    // fresh mbuf, as a reference would. Every byte that a device is given was copied, and no other.
    // (Cutting in software would copy again what it cuts through.)
    // Two do not fit into one, and no send cuts one.
    const SMALL: usize = 128;
    let p = Pair::new(Setup::lands(Capabilities::whole(1500)).lossy(7, 0.3));
    let mut source = Chain::new();
    for at in (0..3000).map(|n| n * SMALL) {
        source.append(p.bytes(at, SMALL));
    }
    let len = source.len();
    let before = p.stats();
    let streams = p.connect();
    p.transfer(&streams, source);
    let (after, seen) = (p.stats(), p.device(0).seen());
    assert!(seen.passed > len, "nothing went twice: {seen:?}");
    assert_eq!(seen.strayed, seen.passed);
    assert_eq!(after[0].pool.bytes_copied, seen.passed as u64);
    assert_eq!(clusters_taken(&after[0]), clusters_taken(&before[0]));
    drop(streams);
    p.finish();
}

/// The next datagram's payload.
fn arrival(p: &Pair, socket: &UdpSocket) -> Chain {
    loop {
        if let Ok(datagram) = socket.recv() {
            return datagram.payload;
        }
        p.turn(false);
    }
}

/// The stack copied nothing and took no cluster: all it took are mbufs, for headers.
#[track_caller]
fn assert_untouched(before: &StackStats, after: &StackStats) {
    assert_eq!(after.pool.bytes_copied, before.pool.bytes_copied);
    assert_eq!(after.pool.calls.pullup_copied, 0);
    assert_eq!(clusters_taken(after), clusters_taken(before));
}

/// How often the first stack asked for an mbuf, with or without a cluster.
fn mbufs_taken(p: &Pair) -> u64 {
    let [stats, _] = p.stats();
    stats.pool.mbufs.requests + stats.pool.packets.requests
}

/// How often a cluster was asked for, of each kind.
fn clusters_taken(stats: &StackStats) -> Vec<u64> {
    let pool = &stats.pool;
    let kinds = [&pool.packets].into_iter().chain(&pool.clusters);
    kinds.map(|zone| zone.requests).collect()
}
