//! The packet zone: its free items hold clusters. Other mbufs may still show such a cluster when its packet is freed,
//! and other threads may need one when no more are free.
//!
//! Locks: none.

use super::*;

/// At a shortage two kegs are closed, which is many steps: every order of two threads takes long.
const SWITCHES: usize = if cfg!(loom) { 1 } else { 3 };

/// A packet is freed while another thread drops its share of the cluster.
fn free_beside_a_sharer() {
    let world = World::new(2);
    let mut packet = world.packet(&[1; 8]);
    let part = Kept::new(packet.share(0, 8).expect("few are in use"));
    let again = world.clone();
    beside(
        move || {
            assert_eq!(part.to_vec(), [1; 8]);
            drop(part);
        },
        move || {
            drop(packet);
            // With or without its old cluster, the next packet has a cluster of its own.
            let next = again.packet(&[2; 40]);
            check_bytes(&next, &[2; 40]);
        },
    );
    world.finish();
}

#[test]
fn a_packet_is_freed_beside_a_sharer() {
    // Breaks if packet and sharer both keep the cluster, or neither does.
    holds(
        "packet freed beside a sharer",
        SWITCHES,
        free_beside_a_sharer,
    );
}

#[test]
#[should_panic]
fn finds_a_packet_that_keeps_a_shared_cluster() {
    // Breaks if the scenario is blind to a free packet whose cluster others show.
    finds(MbufFault::GreedyPacket, SWITCHES, free_beside_a_sharer);
}

#[test]
#[should_panic]
fn finds_a_bare_packet_without_its_mark() {
    // Breaks if the scenario is blind to a packet that comes back over a cluster of others.
    finds(MbufFault::Silent, SWITCHES, free_beside_a_sharer);
}

/// The pool is drained while two threads take, share and free packets.
#[cfg(shuttle)]
fn drain_beside_users() {
    let world = World::new(4);
    let use_packets = |world: &World, cpu: usize| {
        run_on(cpu);
        for n in 0..2 {
            let fill = [(cpu * 4 + n) as u8; 24];
            // While another thread takes packets as well, one may be refused: free items move.
            let Ok(mut packet) = world.try_packet(&fill) else {
                continue;
            };
            let part = Kept::new(packet.share(4, 8).expect("few are in use"));
            check_bytes(&packet, &fill);
            drop(packet);
            let next = world.try_packet(&[0xff; 8]);
            assert_eq!(part.to_vec(), fill[4..12]);
            drop(part);
            if let Ok(next) = next {
                check_bytes(&next, &[0xff; 8]);
            }
        }
    };
    let users: Vec<_> = (0..2)
        .map(|cpu| {
            let world = world.clone();
            thread::spawn(move || use_packets(&world, cpu))
        })
        .collect();
    point();
    world.pool.drain();
    for user in users {
        user.join().expect("no panic");
    }
    let stats = world.pool.stats();
    assert_eq!(stats.packets.used, 0);
    world.pool.drain();
    let stats = world.pool.stats();
    assert_eq!(stats.clusters_cached_in_packets, 0, "all were given back");
    assert!(stats.clusters.iter().all(|zone| zone.used == 0));
    world.finish();
}

#[test]
#[cfg(shuttle)]
fn a_drain_beside_users() {
    // Breaks if a drain takes the cluster of a packet that is in use, or forgets that one is bare.
    holds("drain beside users", 3, drain_beside_users);
}

#[test]
#[should_panic]
#[cfg(shuttle)]
fn finds_a_drain_of_shared_clusters() {
    // Breaks if the scenario is blind to a free packet whose cluster others show.
    finds(MbufFault::GreedyPacket, 3, drain_beside_users);
}

#[test]
#[should_panic]
#[cfg(shuttle)]
fn finds_a_drain_of_bare_packets() {
    // Breaks if the scenario is blind to a packet that does not say that it is bare.
    finds(MbufFault::Silent, 3, drain_beside_users);
}

/// The pool is drained while one thread uses no more items than the limit permits.
fn drain_beside_one_user() {
    let world = World::new(1);
    drop(world.packet(&[1; 8]));
    let again = world.clone();
    beside(
        move || again.pool.drain(),
        || {
            // It is free: cached, in the drain's hands, or back in its slab.
            let only = world.packet(&[3; 8]);
            check_bytes(&only, &[3; 8]);
        },
    );
    world.finish();
}

#[test]
fn no_allocation_fails_beside_a_drain() {
    // Breaks if an allocation fails for want of items that a drain carries.
    holds("drain beside one user", SWITCHES, drain_beside_one_user);
}

/// Two users on two CPUs have one cluster each at most, with a packet or without, and the limit is two. So each user
/// can always get one, also while a drain carries items.
#[cfg(shuttle)]
fn one_each() {
    let world = World::new(2);
    drop((world.packet(&[1; 8]), world.packet(&[2; 8])));
    let use_one = |world: &World, cpu: usize| {
        run_on(cpu);
        for n in 0..3 {
            if (n + cpu) % 2 == 0 {
                drop(world.packet(&[3; 8]));
            } else {
                drop(world.cluster(&[4; 300]));
            }
        }
    };
    let users: Vec<_> = (0..2)
        .map(|cpu| {
            let world = world.clone();
            thread::spawn(move || use_one(&world, cpu))
        })
        .collect();
    point();
    world.pool.drain();
    for user in users {
        user.join().expect("no panic");
    }
    world.finish();
}

#[test]
#[cfg(shuttle)]
fn no_allocation_fails_while_an_item_is_free() {
    // Breaks if a search misses a free cluster: in a free packet, or during the packet's `init` or `fini`.
    holds("one cluster each", 3, one_each);
}

#[test]
#[should_panic]
#[cfg(shuttle)]
fn finds_a_packet_zone_that_is_no_holder() {
    // Breaks if the scenario is blind to clusters that free packets hold.
    finds(MbufFault::Unheld, 3, one_each);
}

/// Free packets hold all free clusters, or are about to get them, and a thread allocates one without a packet.
fn a_cluster_at_the_limit() {
    let world = World::new(2);
    let (free, mut theirs) = (world.packet(&[1; 8]), world.packet(&[2; 8]));
    drop(free);
    beside(
        move || {
            let part = Kept::new(theirs.share(0, 8).expect("few are in use"));
            drop(theirs);
            assert_eq!(part.to_vec(), [2; 8]);
        },
        || drop(world.cluster(&[4; 300])),
    );
    world.finish();
}

#[test]
fn a_cluster_is_taken_from_free_packets_at_the_limit() {
    // Breaks if an allocation fails for want of items that are free.
    holds("cluster at the limit", SWITCHES, a_cluster_at_the_limit);
}

#[test]
#[should_panic]
fn finds_a_limit_that_does_not_drain_packets() {
    // Breaks if the scenario is blind to an allocation that gives up too early.
    finds(MbufFault::Unheld, SWITCHES, a_cluster_at_the_limit);
}
