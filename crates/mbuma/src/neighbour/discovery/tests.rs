//! Tests of the table of RFC 4861 appendix C, by rows.

use std::time::Duration;

use super::*;
use crate::neighbour::{ENTRIES_MAX, NeighbourLimits, Resolution, Timing, WAITING_MAX};

const ADDR: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);
const OLD: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const NEW: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const NOW: Time = Time::from_secs(100);
const LIFETIME: Duration = Duration::from_secs(30);

/// The known address, and whether the table counts it as reachable now.
fn state(table: &Neighbours<Ipv6Addr>) -> Option<(MacAddr, bool)> {
    match *table.table.read().get(ADDR)? {
        NeighbourEntry::Known { mac, until } => Some((mac, NOW < until)),
        _ => None,
    }
}

fn table(reachable: bool) -> Neighbours<Ipv6Addr> {
    let table = Neighbours::new(NeighbourLimits::waiting(8), Timing::discovery(LIFETIME));
    table.solicited_by(NOW, ADDR, OLD);
    if reachable {
        table.confirm(NOW, ADDR);
    }
    table
}

#[test]
fn n4_an_advertisement_does_what_its_flags_say() {
    // Breaks if a station can replace another one's address without the override flag, or an unsolicited advertisement
    // makes it reachable.
    let advert = |solicited, overrides| AdvertFlags {
        router: false,
        solicited,
        overrides,
    };
    let all = [
        // Was reachable, says (solicited, overrides, other address): then at, reachable.
        (true, advert(true, false), Some(OLD), (OLD, true)),
        (false, advert(true, false), Some(OLD), (OLD, true)),
        (false, advert(true, false), None, (OLD, true)),
        (true, advert(true, false), Some(NEW), (OLD, false)),
        (false, advert(true, false), Some(NEW), (OLD, false)),
        (true, advert(true, true), Some(NEW), (NEW, true)),
        (true, advert(false, true), Some(NEW), (NEW, false)),
        (true, advert(false, true), Some(OLD), (OLD, true)),
        (true, advert(false, false), Some(NEW), (OLD, false)),
    ];
    for (row, (reachable, flags, mac, expected)) in all.into_iter().enumerate() {
        let table = table(reachable);
        table.advertised(NOW, ADDR, mac, flags, true);
        assert_eq!(state(&table), Some(expected), "row {row}");
    }
}

#[test]
fn n4_an_advertisement_that_was_not_asked_for_makes_no_entry_of_a_host() {
    // Breaks if a station can fill the table with unsolicited advertisements.
    let table = Neighbours::new(NeighbourLimits::waiting(8), Timing::discovery(LIFETIME));
    let flags = AdvertFlags::default();
    assert!(
        table
            .advertised(NOW, ADDR, Some(NEW), flags, false)
            .is_none()
    );
    assert_eq!(table.len(), 0);
}

#[test]
fn n4_a_router_takes_an_advertisement_that_was_not_asked_for() {
    // RFC 9131 6.1.1: breaks if the first packets for a new station must wait for an answer; or if the entry is
    // REACHABLE, or is made without an Ethernet address.
    let table = Neighbours::new(NeighbourLimits::waiting(8), Timing::discovery(LIFETIME));
    for solicited in [false, true] {
        let flags = AdvertFlags {
            solicited,
            ..AdvertFlags::default()
        };
        assert!(table.advertised(NOW, ADDR, None, flags, true).is_none());
        assert_eq!(table.len(), 0);
        let told = table.advertised(NOW, ADDR, Some(NEW), flags, true);
        assert!(told.is_some_and(|(mac, waiting)| mac == NEW && waiting.is_empty()));
        assert_eq!(state(&table), Some((NEW, false)));
        assert_eq!(table.flush().count(), 1);
    }
}

#[test]
fn n4_advertisements_that_were_not_asked_for_leave_half_of_the_table() {
    // Breaks if a station that advertises address after address fills a router's table, or evicts a neighbour from it.
    let table = table(false);
    let station = |n: usize| Ipv6Addr::from_bits(ADDR.to_bits() + 1 + n as u128);
    for n in 0..2 * ENTRIES_MAX {
        table.advertised(NOW, station(n), Some(NEW), AdvertFlags::default(), true);
    }
    assert_eq!(table.len(), ENTRIES_MAX / 2);
    assert_eq!(state(&table), Some((OLD, false)));
    // A solicitation still makes an entry.
    table.solicited_by(NOW, station(2 * ENTRIES_MAX), NEW);
    assert_eq!(table.len(), ENTRIES_MAX / 2 + 1);
}

#[test]
fn n3_a_solicitation_makes_a_stale_entry_and_no_older() {
    // Breaks if a solicitation counts as an answer, or makes the entry of a known station stale.
    let table = table(false);
    assert_eq!(state(&table), Some((OLD, false)));
    table.confirm(NOW, ADDR);
    table.solicited_by(NOW, ADDR, OLD);
    assert_eq!(state(&table), Some((OLD, true)));
    table.solicited_by(NOW, ADDR, NEW);
    assert_eq!(state(&table), Some((NEW, false)));
}

#[test]
fn n7_a_scan_leaves_the_table_bounded() {
    // Breaks if packets to thousands of absent stations grow the table without end, or evict those that are there (RFC
    // 6583).
    let pool = mbuf::MbufPool::new(mbuf::PoolConfig::default()).unwrap();
    let table = table(true);
    for n in 1..=4 * ENTRIES_MAX {
        let absent = Ipv6Addr::from_bits(ADDR.to_bits() + n as u128);
        let packet = mbuf::Packet::from_slice(&pool, &[7], 0).unwrap();
        drop(table.resolve(NOW, || false, absent, packet, &mut None));
        assert!(table.len() <= ENTRIES_MAX);
    }
    assert_eq!(state(&table), Some((OLD, true)));
    drop(table.flush().collect::<Vec<_>>());
    assert_eq!(pool.live(), mbuf::Live::NONE);
}

#[test]
fn n7_packets_for_a_scan_leave_the_storage_to_others() {
    // Breaks if a host that sends many packets to each of many absent stations pins the storage of all other traffic,
    // if a station that is there gets no packet meanwhile, or if the room does not come back.
    let pool = mbuf::MbufPool::new(mbuf::PoolConfig::default()).unwrap();
    let table = Neighbours::new(NeighbourLimits::waiting(64), Timing::discovery(LIFETIME));
    let send = |to, n: u8| {
        let packet = mbuf::Packet::from_slice(&pool, &[n], 0).unwrap();
        drop(table.resolve(NOW, || false, to, packet, &mut None));
    };
    let addr = |n: usize| Ipv6Addr::from_bits(ADDR.to_bits() + n as u128);
    let heard = |n| {
        let told = table.advertised(NOW, addr(n), Some(NEW), AdvertFlags::default(), false);
        let (_, waiting) = told.expect("it is asked for");
        waiting.map(|packet| packet.to_vec()[0]).collect::<Vec<_>>()
    };
    for (stations, learnt) in [(400, Some(64)), (0, None)] {
        for n in 1..=stations {
            (0..64).for_each(|of| send(addr(n), of));
        }
        assert!(pool.live().mbufs <= WAITING_MAX + 400);
        // The latest packet to the station waits, and those to a few before the scan do.
        send(addr(0), 8);
        send(addr(0), 9);
        match learnt {
            Some(all) => assert_eq!((heard(0), heard(1).len()), (vec![9], all)),
            None => assert_eq!(heard(0), [8, 9]),
        }
        drop(table.flush().collect::<Vec<_>>());
    }
    assert_eq!(pool.live(), mbuf::Live::NONE);
}

#[test]
fn packets_to_an_absent_host_keep_no_sender_waiting() {
    // Breaks if each packet to a host that does not answer locks the table against all senders.
    let pool = mbuf::MbufPool::new(mbuf::PoolConfig::default()).unwrap();
    let packet = |n: u8| mbuf::Packet::from_slice(&pool, &[n], 0).unwrap();
    let table = Neighbours::new(NeighbourLimits::waiting(2), Timing::discovery(LIFETIME));
    let send = |n| table.resolve(NOW, || false, ADDR, packet(n), &mut None);
    assert!(matches!(send(0), Resolution::Ask(_)));
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let sender = table.table.read();
        scope.spawn(|| {
            assert!(matches!(send(1), Resolution::Waits));
            let Resolution::Full(oldest) = send(2) else {
                panic!("two wait at most");
            };
            assert_eq!(oldest.to_vec(), [0]);
            done.send(()).unwrap();
        });
        let waited = is_done.recv_timeout(Duration::from_secs(60));
        drop(sender);
        waited.expect("a packet that waits needs no other sender's lock");
    });
    let mut waiting = table
        .flush()
        .flat_map(|packets| packets.map(|packet| packet.to_vec()));
    assert_eq!(
        [waiting.next(), waiting.next()],
        [Some(vec![1]), Some(vec![2])]
    );
    drop(waiting);
    assert_eq!(pool.live(), mbuf::Live::NONE);
}
