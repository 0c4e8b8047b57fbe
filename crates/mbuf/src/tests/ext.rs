//! References to outside storage: the count at its limits, and owners that misbehave.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ext::Ext;
use crate::refs::REFS_MAX;
use crate::{Chain, ClusterSize, Live, MbufPool, NoBufs, PoolConfig, WriteError};

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).expect("there is address space")
}

#[test]
fn too_many_references_are_refused() {
    // Breaks if the count can overflow, which would free storage that other mbufs show; or if a refused share changes
    // the count.
    let pool = pool();
    let mut ext = Ext::cluster(pool.zones(), ClusterSize::K2).expect("the pool is large");
    ext.refs().set(REFS_MAX);
    let last = ext.share_mut().expect("the last one that may be");
    for _ in 0..3 {
        assert_eq!(ext.share_mut().map(drop), Err(NoBufs));
    }
    drop(last);
    assert_eq!(ext.refs().get(), REFS_MAX);
    ext.refs().set(1);
    drop(ext);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_refused_share_frees_its_mbuf() {
    // Breaks if the mbuf that was to show the range is forgotten.
    let pool = pool();
    let mut chain = Chain::from_slice(&pool, &[1; 1000]).expect("the pool is large");
    let refs = chain
        .first()
        .and_then(|m| m.ext())
        .map(Ext::refs)
        .expect("it is a cluster");
    refs.set(REFS_MAX + 1);
    assert_eq!(chain.take_front(10).map(drop), Err(NoBufs));
    assert_eq!(chain.share(10, 10).map(drop), Err(NoBufs));
    assert!(chain.is_valid());
    assert_eq!((chain.len(), pool.live().mbufs), (1000, 1));
    let refs = chain
        .first()
        .and_then(|m| m.ext())
        .map(Ext::refs)
        .expect("it is a cluster");
    refs.set(1);
    drop(chain);
    assert_eq!(pool.live(), Live::NONE);
}

/// An owner that shows `len` bytes, or panics when called.
struct Owner {
    bytes: [u8; 64],
    len: Option<usize>,
    drops: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len.expect("the test wants a panic")]
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn owner(len: Option<usize>) -> (Owner, Arc<AtomicUsize>) {
    let drops = Arc::new(AtomicUsize::new(0));
    (
        Owner {
            bytes: [6; 64],
            len,
            drops: drops.clone(),
        },
        drops,
    )
}

#[test]
fn bytes_inside_of_their_owner_stay_where_they_are() {
    // Breaks if the owner moves after it said where its bytes are.
    let pool = pool();
    let (owner, drops) = owner(Some(64));
    let mut chain = Chain::from_owner(&pool, owner).expect("the pool is large");
    let shared = chain.share(1, 62).expect("the pool is large");
    assert_eq!(chain.to_vec(), [6; 64]);
    assert_eq!(chain.write_at(0, &[0]), Err(WriteError::Shared));
    drop(chain);
    assert_eq!(shared.to_vec(), [6; 62]);
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    drop(shared);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn lent_storage_is_never_written() {
    // Breaks if the only reference makes it writable: the owner may show the bytes elsewhere.
    let pool = pool();
    let (owner, _) = owner(Some(10));
    let mut chain = Chain::from_owner(&pool, owner).expect("the pool is large");
    assert_eq!(chain.write_at(0, &[0]), Err(WriteError::Shared));
    assert_eq!(chain.write_at(5, &[]), Ok(()), "nothing is written");
    chain
        .extend_from_slice(&pool, &[1; 5])
        .expect("the pool is large");
    assert_eq!(chain.mbufs(), 2, "it has no room behind its bytes either");
    let mut packet = chain.into_packet(&pool).expect("its first mbuf serves");
    assert!(packet.front_mut().is_none());
    packet.trim_front(4);
    packet.prepend(4).expect("the pool is large").fill(2);
    assert_eq!(
        packet.to_vec(),
        [2, 2, 2, 2, 6, 6, 6, 6, 6, 6, 1, 1, 1, 1, 1]
    );
}

#[test]
fn an_owner_of_no_bytes_is_dropped() {
    // Breaks if a chain without bytes is taken for one without mbufs.
    let pool = pool();
    let (owner, drops) = owner(Some(0));
    let chain = Chain::from_owner(&pool, owner).expect("the pool is large");
    assert!(chain.is_empty() && chain.is_valid());
    assert_eq!(chain.segments().count(), 0);
    drop(chain);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn an_owner_that_panics_is_dropped() {
    // Breaks if a panic in foreign code leaks the owner, or an mbuf.
    let pool = pool();
    let (owner, drops) = owner(None);
    let made = catch_unwind(AssertUnwindSafe(|| Chain::from_owner(&pool, owner)));
    assert!(made.is_err());
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert_eq!(pool.live(), Live::NONE);
}
