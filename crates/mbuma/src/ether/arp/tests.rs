use std::time::Duration;

use super::*;
use crate::config::Config;
use crate::device::Capabilities;
use crate::device::memory::Pipe;
use crate::ifnet::IfConfig;
use crate::neighbour::ENTRIES_MAX;
use crate::stack::Stack;
use kern::{Random, Time, VirtualClock};

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A stack with one interface on a link.
struct Bench {
    clock: Arc<VirtualClock>,
    stack: Stack,
    ifp: Arc<Ifnet>,
    _peer: Pipe,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let mut config = Config::new(clock.clone(), Random::from_seed(1));
        change(&mut config);
        let stack = Stack::new(config).unwrap();
        let (ours, peer) = Pipe::pair(Capabilities::plain(1500));
        let config = IfConfig::new("pipe0").with_addr(US, 8);
        let index = stack.attach(Arc::new(ours), config).unwrap();
        let ifp = stack.0.interface(index).unwrap();
        Self {
            clock,
            stack,
            ifp,
            _peer: peer,
        }
    }

    /// A millisecond later a station asks for our address.
    fn hears(&self, addr: Ipv4Addr) {
        self.clock.advance(Duration::from_millis(1));
        let [.., a, b, c] = addr.octets();
        let who = ArpPacket::request(MacAddr([2, 0, 0, a, b, c]), addr, US);
        self.stack.0.enter(|batch| {
            learn(batch, &self.ifp, &who, true);
        });
    }

    /// A millisecond later the stack sends a packet to a station that does not exist.
    fn looks_for(&self, addr: Ipv4Addr) {
        self.clock.advance(Duration::from_millis(1));
        self.stack.0.enter(|batch| {
            let packet = Packet::new(&batch.stack.pool).unwrap();
            let known = resolve(batch, &self.ifp, addr, packet, &mut None);
            assert!(known.is_none());
        });
        assert!(self.ifp.neighbours.len() <= ENTRIES_MAX);
    }

    fn has(&self, addr: Ipv4Addr) -> bool {
        self.ifp.neighbours.has(addr)
    }

    /// Drops everything, and checks that no buffer is left.
    fn finish(self) {
        self.stack.detach(self.ifp.index);
        let pool = self.stack.pool().clone();
        drop(self);
        assert_eq!(pool.live(), mbuf::Live::NONE);
    }
}

fn station(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a01_0000 + n)
}

/// Breaks if a link full of stations, or of forged addresses, makes the table grow without limit, or if an evicted
/// entry leaks the packets that wait in it.
#[test]
fn table_is_bounded() {
    let b = Bench::new();
    for n in (0..2000).step_by(2) {
        b.hears(station(n));
        b.looks_for(station(n + 1));
    }
    // The stations that answered the longest ago went first; the newest is still known.
    assert!(b.has(station(1998)));
    b.finish();
}

/// Breaks if a host that looks for absent stations evicts present ones, or hides a new one.
#[test]
fn a_scan_pushes_out_no_neighbour() {
    let b = Bench::new();
    (0..10).for_each(|n| b.hears(station(n)));
    (100..5000).for_each(|n| b.looks_for(station(n)));
    assert!((0..10).all(|n| b.has(station(n))));
    // The last questions are open.
    assert!((4500..5000).all(|n| b.has(station(n))));
    b.finish();
}

/// Breaks if stations that only announce themselves evict a question before it can be answered.
#[test]
fn a_crowd_pushes_out_no_question() {
    let b = Bench::new();
    b.looks_for(station(0));
    (100..5000).for_each(|n| b.hears(station(n)));
    assert!(b.has(station(0)));
    b.finish();
}

/// Breaks if each ARP packet, or each waiting packet, makes all senders look up their neighbours again.
#[test]
fn a_packet_that_tells_nothing_new_voids_no_kept_hop() {
    let b = Bench::new();
    b.hears(station(0));
    let mut hop = None;
    b.stack.0.enter(|batch| {
        let packet = Packet::new(&batch.stack.pool).unwrap();
        assert!(resolve(batch, &b.ifp, station(0), packet, &mut hop).is_some());
    });
    let kept = || b.ifp.neighbours.kept(b.stack.now(), &hop).is_some();
    b.hears(station(0));
    b.hears(station(1));
    (0..100).for_each(|n| b.looks_for(station(2 + n % 2)));
    assert!(kept());
    // Later its time is renewed, and the hop has its own.
    b.clock.advance(Duration::from_secs(60));
    b.hears(station(0));
    assert!(kept());
    b.clock.advance(Duration::from_secs(20 * 60));
    assert!(!kept());
    b.finish();
}

/// Breaks if a sender keeps the address of a station that has another one, or of one that was evicted.
#[test]
fn another_address_voids_kept_hops() {
    let b = Bench::new();
    b.hears(station(0));
    let hop = || {
        let mut hop = None;
        b.stack.0.enter(|batch| {
            let packet = Packet::new(&batch.stack.pool).unwrap();
            assert!(resolve(batch, &b.ifp, station(0), packet, &mut hop).is_some());
        });
        hop
    };
    let before = hop();
    let moved = ArpPacket::request(MacAddr([2, 0, 0, 9, 9, 9]), station(0), US);
    b.stack.0.enter(|batch| learn(batch, &b.ifp, &moved, true));
    let kept = |hop| b.ifp.neighbours.kept(b.stack.now(), hop).is_some();
    assert!(!kept(&before));
    let before = hop();
    assert!(kept(&before));
    (1..=ENTRIES_MAX as u32).for_each(|n| b.hears(station(n)));
    assert!(!b.has(station(0)) && !kept(&before));
    b.finish();
}

/// Breaks if a table has more entries than the program allows, or nothing shows that it is too small.
#[test]
fn the_program_bounds_the_table_and_sees_evictions() {
    for (max, held) in [(4, 4), (0, 1)] {
        let b = Bench::with(|config| config.neighbours_max = max);
        (1..=9).for_each(|n| b.hears(station(n)));
        let evicted = b.ifp.stats().neighbours_evicted;
        assert_eq!((b.ifp.neighbours.len(), evicted), (held, 9 - held as u64));
        assert!(b.has(station(9)) && !b.has(station(1)));
        b.finish();
    }
}
