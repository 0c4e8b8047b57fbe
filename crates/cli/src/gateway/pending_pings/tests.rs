use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use kern::{Callout, CalloutId, Time};
use mbuf::{Chain, Live, MbufPool, PoolConfig};
use mbuma::socket::Echo;

use super::super::quote;
use super::{PINGS_MAX, PendingPings};

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn timer() -> CalloutId {
    Callout::new(Time::ZERO).schedule(Time::ZERO + Duration::from_secs(1), ())
}

fn echo(pool: &MbufPool, len: usize) -> Echo {
    Echo {
        src: crate::addressing::Addressing::DEFAULT.guest.into(),
        dst: HOST,
        id: 1,
        seq: 2,
        payload: Chain::from_slice(pool, &vec![7; len]).expect("buffers"),
        ttl: 64,
    }
}

#[test]
fn a_number_that_still_waits_is_passed_over() {
    // Breaks when after a flood of answered pings the sequence numbers wrap, and a new ping takes the place and the
    // timer of one that still waits.
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let mut pings = PendingPings::default();
    let silent = pings.free_seq().expect("room");
    pings.insert(&pool, silent, (echo(&pool, 56), HOST), timer());
    for _ in 0..70_000 {
        let seq = pings.free_seq().expect("room");
        assert_ne!(seq, silent);
        pings.insert(&pool, seq, (echo(&pool, 0), HOST), timer());
        assert!(pings.remove(seq).is_some());
    }
    assert_eq!(pings.host(silent), Some(HOST));
    let waits = pings.by_seq.get(&silent);
    assert_eq!(waits.map(|waits| waits.echo.payload.len()), Some(56));
    drop(pings);
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn as_many_wait_as_may_and_hold_little() {
    // Breaks when large pings to a silent host take the clusters that other connections need, or when their number has
    // no bound.
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let mut pings = PendingPings::default();
    while let Some(seq) = pings.free_seq() {
        pings.insert(&pool, seq, (echo(&pool, 60_000), HOST), timer());
    }
    assert_eq!(pings.by_seq.len(), PINGS_MAX);
    let mut kept = pings.by_seq.values().map(|pending| &pending.echo.payload);
    assert!(kept.all(|payload| payload.pinned() <= quote::KEPT_WHOLE_MAX));
    pings.clear();
    assert!(pings.free_seq().is_some());
    assert_eq!(pool.live(), Live::NONE);
}
