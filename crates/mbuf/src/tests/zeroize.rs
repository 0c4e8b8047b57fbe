//! Zeros on the last free: read where the storage is taken next. A CPU allocates the storage that
//! it freed last, so that is the same storage, unless the thread migrated meanwhile.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::mbuf::Mbuf;
use crate::{Chain, ClusterSize, Live, MLEN, MbufPool, Packet, PoolConfig};

/// A small pool, so that looking for a cluster soon ends.
fn pool(mbufs_max: usize) -> MbufPool {
    let config = PoolConfig {
        mbufs_max,
        cluster_bytes_max: ClusterSize::K16.bytes(),
    };
    MbufPool::new(config).expect("there is address space")
}

const SECRET: u8 = 0xa5;

/// A packet over a cluster that is full of secrets, also in bytes that it does not show.
fn secret(pool: &MbufPool, size: ClusterSize) -> Packet {
    let mut packet = Packet::with_cluster(pool, size, 0).expect("the pool has one");
    packet
        .append(pool, &vec![SECRET; size.bytes()])
        .expect("it fits");
    packet.trim_front(100);
    packet.truncate(500);
    packet
}

fn address(packet: &Packet) -> usize {
    packet.first().ext().expect("it has a cluster").buf().addr()
}

/// Whether the cluster at `at` was overwritten: no byte of it is the secret. None if the allocations do not return it,
/// because it is in another CPU's cache.
fn is_wiped(pool: &MbufPool, size: ClusterSize, at: usize) -> Option<bool> {
    // Keep other clusters until this one comes.
    let mut others = Vec::new();
    loop {
        let mut m = Mbuf::with_cluster(pool, 0, size, 0).ok()?;
        if m.ext()?.buf().addr() == at {
            let bytes = m.room_mut();
            assert_eq!(bytes.len(), size.bytes());
            return Some(!bytes.contains(&SECRET));
        }
        others.push(m);
    }
}

/// Repeats a test until its cluster came back.
fn seen(test: impl Fn() -> Option<bool>) -> bool {
    (0..1000)
        .find_map(|_| test())
        .expect("a thread keeps its CPU for a moment now and then")
}

#[test]
fn a_cluster_is_overwritten_whole() {
    // Breaks if only the shown bytes are overwritten, or none.
    for size in ClusterSize::ALL {
        let pool = pool(64);
        let wiped = seen(|| {
            let mut packet = secret(&pool, size);
            let at = address(&packet);
            assert!(packet.zeroize());
            drop(packet);
            is_wiped(&pool, size, at)
        });
        assert!(wiped, "{size:?}");
        assert_eq!(pool.live(), Live::NONE);
    }
}

#[test]
#[cfg(not(feature = "invariants"))] // which overwrites free items
fn storage_without_a_request_is_not_overwritten() {
    // Breaks if these tests can't see a cluster's former bytes; or if each free overwrites, also without a request.
    for size in ClusterSize::ALL {
        let pool = pool(64);
        let wiped = seen(|| {
            let packet = secret(&pool, size);
            let at = address(&packet);
            drop(packet);
            is_wiped(&pool, size, at)
        });
        assert!(!wiped, "{size:?}");
    }
}

#[test]
fn the_last_release_overwrites_for_either_requester() {
    // Breaks if the request is lost with the reference that made it; or if the storage is overwritten while another
    // reference still reads.
    for size in ClusterSize::ALL {
        for (asks_first, goes_first) in [(true, true), (true, false), (false, true), (false, false)]
        {
            let pool = pool(64);
            let wiped = seen(|| {
                let mut first = secret(&pool, size);
                let at = address(&first);
                let mut second = first.copy_packet().expect("there are mbufs");
                let asks = if asks_first { &mut first } else { &mut second };
                assert!(asks.zeroize());
                let (gone, stays) = match goes_first {
                    true => (first, second),
                    false => (second, first),
                };
                drop(gone);
                assert!(stays.to_vec().iter().all(|&b| b == SECRET));
                drop(stays);
                is_wiped(&pool, size, at)
            });
            assert!(wiped, "{size:?}, {asks_first}, {goes_first}");
            assert_eq!(pool.live(), Live::NONE);
        }
    }
}

#[test]
fn concurrent_releases_overwrite_after_the_last() {
    // Breaks if two holders release at once and the last of them does not read the request.
    let pool = MbufPool::new(PoolConfig::default()).expect("there is address space");
    let ready = AtomicUsize::new(0);
    let drop_at_once = |packet: Packet, turn: usize| {
        ready.fetch_add(1, Ordering::AcqRel);
        for spins in 0.. {
            if ready.load(Ordering::Acquire) >= 2 * turn {
                break;
            }
            // Both release at the same time if each has a CPU; otherwise they wait for each other.
            match spins {
                0..20_000 => hint::spin_loop(),
                _ => thread::yield_now(),
            }
        }
        drop(packet);
    };
    let (to_other, from_one) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    thread::scope(|s| {
        s.spawn(|| {
            for (packet, turn) in from_one {
                drop_at_once(packet, turn);
                done.send(()).expect("it waits");
            }
            drop(done);
        });
        for turn in 1..=if cfg!(miri) { 20 } else { 3000 } {
            let mut first = secret(&pool, ClusterSize::K2);
            let at = address(&first);
            let second = first.copy_packet().expect("the pool is large");
            assert!(first.zeroize());
            to_other.send((second, turn)).expect("it waits");
            drop_at_once(first, turn);
            is_done.recv().expect("it is there");
            // If the other thread was the last, its CPU has the cluster, and the allocation returns another one.
            let mut m =
                Mbuf::with_cluster(&pool, 0, ClusterSize::K2, 0).expect("the pool is large");
            let same = m.ext().is_some_and(|ext| ext.buf().addr() == at);
            assert!(!same || !m.room_mut().contains(&SECRET), "turn {turn}");
        }
        drop(to_other);
    });
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
#[cfg(not(feature = "invariants"))]
fn a_request_for_zeros_ends_with_the_storage() {
    // Breaks if a cluster that once held a secret is overwritten at each later free.
    let (pool, size) = (pool(64), ClusterSize::K2);
    let wiped = seen(|| {
        let mut packet = secret(&pool, size);
        let at = address(&packet);
        assert!(packet.zeroize());
        drop(packet);
        let packet = secret(&pool, size);
        if address(&packet) != at {
            return None;
        }
        assert!(!packet.first().is_secret());
        drop(packet);
        is_wiped(&pool, size, at)
    });
    assert!(!wiped);
}

#[test]
fn internal_data_is_overwritten() {
    // Breaks if the bytes inside of an mbuf, or those it showed before, are left.
    let pool = pool(1);
    let mut chain = Chain::from_slice(&pool, &[SECRET; MLEN]).expect("the pool has one");
    assert!(chain.zeroize());
    chain.truncate(3);
    drop(chain);
    let mut m = Mbuf::alloc(pool.zones(), 0, 0).expect("the pool has one");
    assert!(!m.is_secret(), "the request ended with the data");
    // The front of the area lies where the packet zone keeps its reference.
    assert!(!m.room_mut().contains(&SECRET));
    drop(m);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn lent_bytes_are_never_overwritten() {
    // Breaks if lent storage is overwritten, or the result says that it will be.
    let pool = pool(64);
    let owner: std::sync::Arc<[u8]> = [SECRET; 300].as_slice().into();
    let mut chain = Chain::from_owner(&pool, owner.clone()).expect("there are mbufs");
    assert!(!chain.zeroize());
    drop(chain);
    assert_eq!(*owner, [SECRET; 300]);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_copy_of_a_secret_is_a_secret() {
    // Breaks if an operation that copies bytes does not copy the request to overwrite them: the
    // copy would keep them.
    let pool = MbufPool::new(PoolConfig::default()).expect("there is address space");
    let make = |pool: &MbufPool| {
        let mut packet = Packet::from_slice(pool, &[SECRET; 50], 0).expect("the pool is large");
        for _ in 0..5 {
            let more = Chain::from_slice(pool, &[SECRET; 400]).expect("the pool is large");
            packet.append_chain(more);
        }
        assert!(packet.zeroize());
        packet
    };
    type Op = fn(&mut Packet, &MbufPool);
    let ops: [(&str, Op); 6] = [
        ("pullup", |p, _| {
            p.pullup(600).expect("it is large");
        }),
        ("copy", |p, _| *p = p.copy_packet().expect("it is large")),
        ("unshare", |p, pool| {
            let copy = p.copy_packet().expect("it is large");
            p.unshare(pool).expect("it is large");
            drop(copy);
        }),
        ("defrag", |p, pool| {
            p.defrag(pool).expect("it is large");
        }),
        ("collapse", |p, pool| {
            p.collapse(pool, 2).expect("it is large");
        }),
        ("condense", |p, pool| {
            let sparse = p.share(60, 10).expect("it is large");
            let mut chain = Chain::new();
            chain.append_compact(pool, sparse);
            *p = Packet::from_chain(pool, chain).expect("it is large");
        }),
    ];
    for (name, op) in ops {
        let mut packet = make(&pool);
        op(&mut packet, &pool);
        let with_bytes = |m: &&Mbuf| m.len() > 0;
        let all = packet
            .first()
            .iter()
            .filter(with_bytes)
            .all(Mbuf::is_secret);
        assert!(all, "{name}");
        drop(packet);
        assert_eq!(pool.live(), Live::NONE);
    }
}
