//! Clusters that two threads share: each drops its part at any time, and the thread with the last
//! reference may write it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;

use crate::common::{balanced, sized};
use mbuf::{Chain, ClusterSize, Live, MbufPool, Mbufq, Packet, Scatter, Segments};

const ROUNDS: usize = sized(20_000, 30);

#[test]
fn handles_may_go_to_other_threads() {
    // Breaks when a handle type gets a field that may not go to another thread.
    fn crosses<T: Send + Sync>() {}
    crosses::<Packet>();
    crosses::<Chain>();
    crosses::<Mbufq>();
    crosses::<Scatter>();
    crosses::<Segments<'_>>();
    crosses::<MbufPool>();
}

#[test]
fn two_halves_of_a_cluster_go_at_once() {
    // Breaks if both think that the other has the last reference (a leak), or both that they have
    // it (a double free).
    balanced(|pool| {
        let start = Barrier::new(2);
        let (to_other, from_one) = mpsc::channel::<Chain>();
        thread::scope(|s| {
            s.spawn(|| {
                for half in from_one {
                    start.wait();
                    drop(half);
                }
            });
            for _ in 0..ROUNDS / 10 {
                let mut whole = Chain::from_slice(pool, &[7; 2000]).expect("the pool is large");
                to_other
                    .send(whole.take_front(1000).expect("the pool is large"))
                    .expect("it waits");
                start.wait();
                drop(whole);
            }
            drop(to_other);
        });
    });
}

#[test]
fn two_threads_share_the_same_packet_and_their_own() {
    // Breaks if the count of a cluster is lost in a race of sharers and droppers.
    balanced(|pool| {
        let bytes = crate::common::pattern(3, 3000);
        let mut packet = Packet::from_slice(pool, &bytes, 0).expect("the pool is large");
        let work = |own: &mut Chain, same: &mut Chain| {
            let mut kept = Vec::new();
            for i in 0..ROUNDS {
                let off = i % 2000;
                let mut part = same.share(off, 1000).expect("the pool is large");
                part.append(own.share(off, 500).expect("the pool is large"));
                if i % 64 == 0 {
                    assert_eq!(part.to_vec(), [&bytes[off..off + 1000], &[9; 500]].concat());
                    kept.clear();
                }
                kept.push(part);
            }
        };
        thread::scope(|s| {
            for _ in 0..2 {
                let mut same = packet.share(0, 3000).expect("the pool is large");
                s.spawn(move || {
                    let mut own = Chain::from_slice(pool, &[9; 2500]).expect("the pool is large");
                    work(&mut own, &mut same);
                    assert_eq!(own.write_at(0, &[1; 2500]), Ok(()), "alone again");
                });
            }
        });
        assert_eq!(packet.write_at(0, &bytes), Ok(()), "alone again");
    });
}

#[test]
fn a_writer_waits_for_the_last_reader() {
    // Breaks if a writer sees a count of one before the last reader has read: the reader then reads the new bytes.
    balanced(|pool| {
        let (to_reader, from_writer) = mpsc::channel::<(u8, Chain)>();
        thread::scope(|s| {
            s.spawn(|| {
                for (value, part) in from_writer {
                    assert!(part.segments().flatten().all(|&b| b == value), "torn");
                }
            });
            let mut chain = Chain::from_slice(pool, &[0; 600]).expect("the pool is large");
            for i in 0..ROUNDS {
                let value = i as u8;
                while chain.write_at(0, &[value; 600]).is_err() {
                    thread::yield_now();
                }
                let part = chain.share(50, 500).expect("the pool is large");
                to_reader.send((value, part)).expect("it reads");
            }
            drop(to_reader);
        });
    });
}

#[test]
fn lent_storage_goes_once() {
    // Breaks if an owner is dropped twice, or never, by two threads that hold its last references.
    struct Owner(Vec<u8>, Arc<AtomicUsize>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    balanced(|pool| {
        let drops = Arc::new(AtomicUsize::new(0));
        let rounds = ROUNDS / 100;
        for _ in 0..rounds {
            let owner = Owner(vec![5; 100], drops.clone());
            let mut one = Chain::from_owner(pool, owner).expect("the pool is large");
            let other = one.share(10, 50).expect("the pool is large");
            thread::scope(|s| {
                s.spawn(move || {
                    assert_eq!(other.to_vec(), [5; 50]);
                    drop(other);
                });
                drop(one);
            });
        }
        assert_eq!(drops.load(Ordering::Relaxed), rounds);
    });
}

#[test]
fn no_allocation_fails_while_a_cluster_is_free() {
    // Breaks if an allocation misses a free cluster in a free packet, in another CPU's cache, or on its way in another
    // thread.
    let pool = crate::common::pool_of(1000, USERS * ClusterSize::K2.bytes());
    let users_left = AtomicUsize::new(USERS);
    thread::scope(|s| {
        for user in 0..USERS {
            let (pool, users_left) = (&pool, &users_left);
            s.spawn(move || {
                for n in 0..ROUNDS / 10 {
                    // Each has one at most, in turns with its packet and without.
                    let packet = match (n + user) % 2 {
                        0 => Packet::with_cluster(pool, ClusterSize::K2, 0),
                        _ => Packet::from_slice(pool, &[7; 1000], 0),
                    };
                    drop(packet.expect("fewer are in use than may be"));
                }
                users_left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while users_left.load(Ordering::Relaxed) > 0 {
            pool.drain();
            thread::yield_now();
        }
    });
    assert_eq!(pool.live(), Live::NONE);
}

const USERS: usize = 3;
