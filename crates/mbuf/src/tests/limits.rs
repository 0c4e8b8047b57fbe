//! Numbers at their limits: packets of 4 GiB, lists longer than a stack is deep.

use crate::{Chain, Live, MbufPool, Packet, PoolConfig};

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).expect("there is address space")
}

/// A chain of more bytes than a packet may have; they are all the same, and never touched.
#[cfg(not(miri))]
fn endless(pool: &MbufPool) -> Chain {
    const PIECE: usize = 128 << 20;
    let mut piece = Chain::from_owner(pool, vec![0; PIECE]).expect("the pool is large");
    let mut chain = Chain::new();
    while u32::try_from(chain.len()).is_ok() {
        chain.append(piece.share(0, PIECE).expect("the pool is large"));
    }
    chain
}

#[test]
#[cfg(not(miri))]
fn a_packet_is_shorter_than_4_gib() {
    // Breaks if a length wraps: the packet would show less than it holds.
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let pool = pool();
    assert!(Packet::from_chain(&pool, endless(&pool)).is_err());
    assert!(Packet::before_chain(&pool, endless(&pool)).is_err());
    let mut most = endless(&pool);
    most.truncate(u32::MAX as usize - 4);
    let mut packet = Packet::before_chain(&pool, most).expect("just short enough");
    assert!(packet.prepend(5).is_err());
    assert!(packet.append(&pool, &[1; 5]).is_err());
    assert!(packet.append(&pool, &[1; 4]).is_ok());
    assert!(packet.prepend(1).is_err());
    let one = Chain::from_slice(&pool, &[1]).expect("the pool is large");
    assert!(catch_unwind(AssertUnwindSafe(|| packet.append_chain(one))).is_err());
    assert!(packet.is_valid());
    assert_eq!(packet.len(), u32::MAX as usize);
    packet.trim_front(u32::MAX as usize - 1);
    assert_eq!(packet.to_vec(), [1]);
    drop(packet);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_long_list_is_freed_without_recursion() {
    // Breaks if every mbuf's drop calls the next one's: a stack holds some ten thousand.
    let pool = pool();
    let count = if cfg!(miri) { 200 } else { 100_000 };
    let mut chain = Chain::new();
    for _ in 0..count {
        let one = Packet::new(&pool).expect("the pool is large").into_chain();
        chain.append(one);
    }
    chain.append(Chain::from_slice(&pool, &[1]).expect("the pool is large"));
    assert_eq!(chain.mbufs(), count + 1);
    drop(chain);
    assert_eq!(pool.live(), Live::NONE);
}
