//! The packet zone: an mbuf and its cluster in one pop, together for as long as no other mbuf shows
//! the cluster, and never at the expense of allocations of one of the two alone.

use std::sync::mpsc;
use std::thread;

use crate::common::{balanced, pattern, pool_of, sized};
use mbuf::{Chain, ClusterSize, Live, MBUFS_RESERVED, MSIZE, MbufPool, NoBufs, Packet};

const K2: ClusterSize = ClusterSize::K2;

fn packet(pool: &MbufPool, bytes: &[u8]) -> Packet {
    let mut packet = Packet::with_cluster(pool, K2, 0).expect("the pool is large");
    packet.append(pool, bytes).expect("there is room");
    packet
}

/// Allocations of the mbuf zone, the packet zone and the zone of 2 KiB clusters.
fn requests(pool: &MbufPool) -> (u64, u64, u64) {
    let stats = pool.stats();
    (
        stats.mbufs.requests,
        stats.packets.requests,
        stats.clusters[0].requests,
    )
}

#[test]
fn one_pop_gives_mbuf_and_cluster() {
    // Breaks if a recycled packet takes an mbuf or a cluster of its own.
    balanced(|pool| {
        drop(packet(pool, &[1; 100]));
        let before = requests(pool);
        for n in 0..100 {
            let one = packet(pool, &[n; 1000]);
            assert_eq!(one.pinned(), MSIZE + K2.bytes());
            assert_eq!(
                pool.live(),
                Live {
                    mbufs: 1,
                    clusters: 1,
                    ..Live::NONE
                }
            );
        }
        let after = requests(pool);
        assert_eq!(
            after,
            (before.0, before.1 + 100, before.2),
            "nothing but packets"
        );
    });
}

#[test]
fn only_chains_and_packets_of_2_kib_use_the_packet_zone() {
    // Breaks if a size that the zone does not have is taken from it, or one that it has is not.
    balanced(|pool| {
        let asked = |make: &dyn Fn()| {
            let before = requests(pool).1;
            make();
            requests(pool).1 - before
        };
        assert_eq!(asked(&|| drop(Chain::from_slice(pool, &[1; 2000]))), 1);
        assert_eq!(asked(&|| drop(Packet::from_slice(pool, &[1; 300], 20))), 1);
        assert_eq!(asked(&|| drop(Chain::from_slice(pool, &[1; 100]))), 0);
        assert_eq!(asked(&|| drop(Chain::from_slice(pool, &[1; 3000]))), 0);
        assert_eq!(asked(&|| drop(Packet::new(pool))), 0);
    });
}

#[test]
fn a_cluster_that_others_show_stays_with_them() {
    // Breaks if the mbuf goes back with a cluster that another mbuf still shows: the next packet
    // would write over it. And if it is not given another when it comes out again.
    balanced(|pool| {
        for round in 0..sized(50, 5) {
            let bytes = pattern(round as u8, 900);
            let mut first = packet(pool, &bytes);
            let part = first.share(100, 700).expect("the pool is large");
            drop(first);
            assert_eq!(
                pool.live(),
                Live {
                    mbufs: 1,
                    clusters: 1,
                    ..Live::NONE
                },
                "the part and the cluster"
            );
            let others: Vec<_> = (0..5).map(|n| packet(pool, &[n; 2048])).collect();
            assert_eq!(part.to_vec(), bytes[100..800]);
            assert_eq!(pool.live().clusters, 6);
            drop(part);
            assert_eq!(pool.live().clusters, 5);
            for (n, one) in others.iter().enumerate() {
                assert_eq!(one.to_vec(), [n as u8; 2048]);
            }
        }
    });
}

#[test]
fn a_bare_packet_that_finds_no_cluster_is_kept_for_later() {
    // Breaks if a packet without a cluster is handed out, or lost, when there is no cluster.
    let pool = pool_of(10, K2.bytes());
    let mut first = packet(&pool, &[1; 900]);
    let part = first.share(0, 900).expect("there are mbufs");
    drop(first);
    let refused = Packet::with_cluster(&pool, K2, 0).map(drop);
    assert_eq!(refused, Err(NoBufs), "the only cluster is shown");
    assert_eq!(part.to_vec(), [1; 900]);
    assert_eq!(pool.live().mbufs, 1);
    drop(part);
    drop(packet(&pool, &[2; 2048]));
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn an_allocation_takes_clusters_back_from_free_packets() {
    // Breaks if clusters of free packets count as live: all clusters lie in the packet zone's
    // caches, and one is allocated without a packet.
    let pool = pool_of(100, 8 * K2.bytes());
    for _ in 0..3 {
        let packets: Vec<_> = (0..8).map(|n| packet(&pool, &[n; 10])).collect();
        drop(packets);
        // An mbuf of the mbuf zone has to come with them: `prepend` takes both apart.
        let mut small = Packet::new(&pool).expect("there are mbufs");
        for _ in 0..8 {
            let room = small.prepend(2048).expect("free packets hold clusters");
            room.fill(9);
        }
        assert_eq!(pool.live().clusters, 8);
        assert_eq!(small.prepend(2048).map(drop), Err(NoBufs));
        drop(small);
        assert_eq!(pool.live(), Live::NONE);
    }
}

#[test]
fn an_allocation_takes_mbufs_back_from_free_packets() {
    // Breaks likewise with mbufs: all that there are lie in the packet zone's caches.
    let pool = pool_of(8, 100 * K2.bytes());
    for _ in 0..3 {
        let packets: Vec<_> = (0..8).map(|n| packet(&pool, &[n; 10])).collect();
        assert_eq!(Packet::new(&pool).map(drop), Err(NoBufs));
        drop(packets);
        let small: Vec<_> = (0..8)
            .map(|_| Packet::new(&pool).expect("free packets hold mbufs"))
            .collect();
        assert_eq!(Packet::with_cluster(&pool, K2, 0).map(drop), Err(NoBufs));
        drop(small);
        assert_eq!(pool.live(), Live::NONE);
    }
}

#[test]
fn live_counts_only_items_in_use() {
    // Breaks if a cluster of a free packet counts as in use, or one that outlived its packet does
    // not.
    balanced(|pool| {
        let mut kept = Vec::new();
        for n in 1..=sized(300, 30) {
            let mut one = packet(pool, &[1; 500]);
            let part = one.share(0, 400).expect("the pool is large");
            match n % 3 {
                0 => kept.push(one.into_chain()),
                1 => kept.push(part),
                _ => {}
            }
        }
        let live = Live {
            mbufs: kept.len(),
            clusters: kept.len(),
            ..Live::NONE
        };
        assert_eq!(pool.live(), live);
        pool.drain();
        assert_eq!(pool.live(), live, "draining is no use");
        for chain in &kept {
            assert!(chain.to_vec().iter().all(|&b| b == 1));
        }
    });
}

#[test]
fn drain_gives_everything_back() {
    // Breaks if free packets keep their clusters' memory, or clusters are drained before the
    // packets that hold them.
    balanced(|pool| {
        let packets: Vec<_> = (0..sized(2000, 50))
            .map(|n| packet(pool, &[n as u8; 100]))
            .collect();
        drop(packets);
        let held = pool.stats();
        assert!(held.clusters[0].bytes > 0 && held.mbufs.bytes > 0);
        pool.drain();
        let stats = pool.stats();
        assert_eq!(stats.packets.cached(), 0);
        assert_eq!(stats.clusters[0].used, 0, "no free packet holds one");
        assert_eq!(stats.clusters[0].bytes, 0);
        assert!(
            stats.mbufs.bytes <= MBUFS_RESERVED * MSIZE,
            "more than the reserve"
        );
        drop(packet(pool, &[1; 100]));
    });
}

#[test]
fn a_pool_may_go_before_its_packets() {
    // Breaks if the packet zone's end frees memory that live packets need: their zone, or the
    // cluster that the next reader shows.
    for last in 0..3 {
        let pool = pool_of(1000, 1 << 20);
        let bytes = pattern(4, 1500);
        let mut one = packet(&pool, &bytes);
        let part = one.share(500, 1000).expect("the pool is large");
        let cached = packet(&pool, &[1; 10]);
        drop(cached);
        let mut things: Vec<Box<dyn FnOnce()>> = vec![
            Box::new(move || drop(pool)),
            Box::new(move || {
                assert_eq!(one.to_vec(), bytes);
                drop(one);
            }),
            Box::new(move || {
                assert_eq!(part.to_vec(), pattern(4, 1500)[500..]);
                drop(part);
            }),
        ];
        let end = things.remove(last);
        things.into_iter().for_each(|thing| thing());
        end();
    }
}

#[test]
fn packets_may_be_freed_on_another_thread() {
    // Breaks if a packet that another thread frees, with or without its cluster, is given out twice
    // or never again.
    balanced(|pool| {
        let (to_other, from_one) = mpsc::sync_channel::<(Packet, Option<Chain>)>(64);
        let rounds = sized(20_000, 50);
        thread::scope(|s| {
            s.spawn(|| {
                for (n, (packet, part)) in from_one.into_iter().enumerate() {
                    let byte = [n as u8];
                    assert!(packet.segments().flatten().all(|b| [*b] == byte));
                    // In either order: the last of the two frees the cluster.
                    if n % 2 == 0 {
                        drop(packet);
                        assert!(part.is_none_or(|part| part.to_vec() == [n as u8; 50]));
                    } else {
                        drop(part);
                        assert_eq!(packet.to_vec(), [n as u8; 300]);
                    }
                }
            });
            for n in 0..rounds {
                let mut one = packet(pool, &[n as u8; 300]);
                let part = (n % 3 != 0).then(|| one.share(10, 50).expect("the pool is large"));
                to_other.send((one, part)).expect("it waits");
            }
            drop(to_other);
        });
    });
}
