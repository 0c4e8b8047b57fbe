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
    let mut pings = PendingPings::new(true);
    let silent = pings.free_seq();
    pings.insert(&pool, silent, (echo(&pool, 56), HOST), timer());
    for _ in 0..70_000 {
        let seq = pings.free_seq();
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
    // no bound; or when pings of one guest to silent hosts have those of another lost, or its own later ones.
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let mut pings = PendingPings::new(true);
    let quiet = pings.free_seq();
    let its = Echo {
        src: [10, 0, 2, 101].into(),
        ..echo(&pool, 56)
    };
    assert!(pings.insert(&pool, quiet, (its, HOST), timer()).is_none());
    let mut gave_way = 0;
    for _ in 0..PINGS_MAX + 10 {
        let seq = pings.free_seq();
        let gone = pings.insert(&pool, seq, (echo(&pool, 60_000), HOST), timer());
        gave_way += usize::from(gone.is_some());
        assert_eq!(pings.host(seq), Some(HOST), "the newest waits");
    }
    assert_eq!((pings.by_seq.len(), gave_way), (PINGS_MAX, 11));
    assert_eq!(pings.host(quiet), Some(HOST), "another guest's");
    let mut kept = pings.by_seq.values().map(|pending| &pending.echo.payload);
    assert!(kept.all(|payload| payload.pinned() <= quote::KEPT_WHOLE_MAX));
    pings.clear();
    assert!(pings.waiting.in_the_way().is_none());
    assert_eq!(pool.live(), Live::NONE);
}
