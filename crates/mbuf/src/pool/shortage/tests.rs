//! Small pools that are filled up.

use super::*;
use crate::{ClusterSize, Live, MbufPool, Packet, PoolConfig};

fn pool() -> MbufPool {
    let config = PoolConfig {
        mbufs_max: 1000,
        cluster_bytes_max: 1 << 20,
    };
    MbufPool::new(config).unwrap()
}

fn of(pool: &MbufPool, zone: &str) -> Shortage {
    pool.shortages().find(|s| s.zone == zone).unwrap()
}

#[test]
fn mbufs_and_packets_fill_one_limit() {
    // Breaks when a zone near its limit, or at it, is not noticed, or when mbufs with and without a cluster are counted
    // apart although they share their limit.
    let pool = pool();
    let size = ClusterSize::K2;
    let with: Vec<_> = (0..450)
        .map(|_| Packet::with_cluster(&pool, size, 0).unwrap())
        .collect();
    assert_eq!(of(&pool, "mbuf").near_limit, 0);
    let alone: Vec<_> = (0..500).map(|_| Packet::new(&pool).unwrap()).collect();
    let mbufs = of(&pool, "mbuf");
    assert_eq!((mbufs.near_limit, mbufs.at_limit), (1, 0), "{mbufs:?}");
    let rest: Vec<_> = std::iter::from_fn(|| Packet::new(&pool).ok()).collect();
    assert_eq!(alone.len() + with.len() + rest.len(), 1000);
    assert_eq!(of(&pool, "mbuf").at_limit, 1);
    drop((with, alone, rest));
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_shortage_names_its_cluster_size() {
    // Breaks when the warning names another zone than the one that was short.
    let pool = pool();
    let size = ClusterSize::K16;
    let all = || Packet::with_cluster(&pool, size, 0).ok();
    let held: Vec<_> = std::iter::from_fn(all).collect();
    assert_eq!(held.len(), 64);
    let short: Vec<_> = pool
        .shortages()
        .filter(|s| s.near_limit + s.at_limit + s.no_memory > 0)
        .collect();
    let expected = Shortage {
        zone: size.zone_name(),
        near_limit: 1,
        at_limit: 1,
        no_memory: 0,
    };
    assert_eq!(short, [expected]);
    drop(held);
    assert_eq!(pool.live(), Live::NONE);
}
