//! An interface that is detached while packets come in and go out of it, under a schedule checker: shuttle
//! tries random orders of three threads' steps over the real stack, the real epair and the real pool.
//!
//! | thread | does |
//! |---|---|
//! | input | takes in pings from the cable, two batches of one, and answers them |
//! | output | sends a datagram to a neighbour that is known |
//! | destroy | detaches the interface |
//!
//! The claims, in any order: each packet on the cable is received once, also those that were not taken;
//! `received = delivered + dropped`; each packet that was sent or answered reached the other end or was
//! dropped for a reason; nothing waits anywhere; no thread has the interface when the last one has left
//! it. Each mistake of [`faults`](crate::faults) breaks one of them, and must be found.
//!
//! Only the locks and atomics of the interface, its neighbours, the epair and UDP's table are the
//! checker's. The lists of interfaces and routes are under real locks, inside of which no thread is stopped:
//! a thread that takes a real lock of the stack and goes on to an interface with it makes this test hang.
//!
//! `cargo xtask shuttle` runs it.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use kern::model::Model;
use kern::{Clock, Random, Time, VirtualClock};
use mbuf::{Chain, Live, MbufPool, Mbufq, Packet};
use shuttle::scheduler::PctScheduler;
use shuttle::thread;
use wire::{
    ArpPacket, EtherHeader, EtherType, IcmpHeader, IcmpMessage, IpProto, Ipv4Fields, MacAddr,
};

use crate::device::epair::{EpairConfig, EpairEnd, Plug};
use crate::device::{Budget, Device};
use crate::faults::StackFault;
use crate::{Config, IfConfig, Stack};

/// The number of orders that are tried to find a mistake. With eight seeds the last mistake was found after 646 orders,
/// most after 100.
const RUNS: usize = 20_000;
/// Always the same; a failure prints its schedule.
const SEED: u64 = 2004;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// Pings on the cable.
const PINGS: u64 = 2;

const ONE: Budget = Budget {
    frames: 1,
    bytes: usize::MAX,
};
const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// By two switches in a run, at places that matter the more for it.
fn finds(fault: StackFault) {
    let _planted = kern::fault::plant(fault);
    let scheduler = PctScheduler::new_from_seed(SEED, 2, RUNS);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    shuttle::Runner::new(scheduler, config).run(scenario);
}

fn frame(pool: &MbufPool, dst: MacAddr, ethertype: EtherType, payload: &[u8]) -> Packet {
    let mut bytes = vec![0; EtherHeader::LEN];
    EtherHeader::new(dst, PEER_MAC, ethertype).emit(&mut bytes);
    bytes.extend_from_slice(payload);
    Packet::from_slice(pool, &bytes, 0).expect("the pool is large")
}

fn arp(pool: &MbufPool) -> Packet {
    let mut bytes = [0; ArpPacket::LEN];
    ArpPacket::request(PEER_MAC, PEER, US).emit(&mut bytes);
    frame(pool, MacAddr::BROADCAST, EtherType::ARP, &bytes)
}

fn ping(pool: &MbufPool) -> Packet {
    let mut bytes = [0; 20 + IcmpHeader::LEN];
    let fields = Ipv4Fields {
        payload_len: IcmpHeader::LEN as u16,
        protocol: IpProto::ICMP,
        src: PEER,
        dst: US,
        ..Ipv4Fields::default()
    };
    fields.emit(&mut bytes);
    let no_payload: [&[u8]; 0] = [];
    IcmpMessage::EchoRequest { id: 1, seq: 1 }.emit(&mut bytes[20..], no_payload);
    frame(pool, OUR_MAC, EtherType::IPV4, &bytes)
}

fn put(plug: &Plug, frame: Packet) {
    let mut tx = Mbufq::new();
    tx.enqueue(frame);
    plug.transmit(&mut tx).expect("the cable is there");
}

/// The IP packets that reached the other end.
fn taken(plug: &Plug) -> u64 {
    let mut rx = Mbufq::new();
    while plug.receive(&mut rx, ALL).expect("the cable is there") {}
    let is_ip = |frame: &Packet| {
        let (header, _) = EtherHeader::parse(frame.front()).expect("it is whole");
        header.ethertype() == EtherType::IPV4
    };
    rx.filter(is_ip).count() as u64
}

fn scenario() {
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let mut config = Config::new(clock, Random::from_seed(1));
    config.tcp.connections_max = 16;
    let stack = Stack::new(config).expect("address space");
    let pool = stack.pool().clone();
    let (a, b) = EpairEnd::pair(EpairConfig::default());
    let (ours, theirs) = (a.plug(), b.plug());
    let config = IfConfig {
        mac: Some(OUR_MAC),
        ..IfConfig::new("epair0").with_addr(US, 24)
    };
    let index = stack.attach(Arc::new(ours), config).unwrap();
    // Kept, so that its waiting packets do not go with it, unseen.
    let ifp = stack.0.interface(index).expect("just attached");
    let socket = stack.udp_bind(SocketAddrV4::new(US, 9)).expect("a port");
    put(&theirs, arp(&pool));
    assert!(stack.poll_interface(index, ALL).is_ok());
    (0..PINGS).for_each(|_| put(&theirs, ping(&pool)));

    let input = {
        let stack = stack.clone();
        thread::spawn(move || {
            for _ in 0..PINGS {
                // Its end may be here already.
                let _ = stack.poll_interface(index, ONE);
            }
        })
    };
    let output = {
        let pool = pool.clone();
        thread::spawn(move || {
            let payload = Chain::from_slice(&pool, b"x").expect("the pool is large");
            let _ = socket.send_to(payload, SocketAddrV4::new(PEER, 9));
        })
    };
    stack.detach(index);
    input.join().expect("no panic");
    output.join().expect("no panic");

    let stats = stack.stats();
    let sum = |outward| -> u64 {
        let these = stats
            .dropped
            .iter()
            .filter(|(r, _)| r.is_outward() == outward);
        these.map(|&(_, n)| n).sum()
    };
    assert_eq!(stats.received, 1 + PINGS, "every packet on the cable, once");
    assert_eq!(stats.received, stats.delivered + sum(false), "{stats:?}");
    let reached = taken(&theirs);
    assert_eq!(Arc::strong_count(&ifp), 1, "somebody has the interface");
    assert_eq!(pool.live(), Live::NONE, "something waits");
    // One delivered packet was the ARP request; each of the others was answered.
    let produced = 1 + (stats.delivered - 1);
    let ended = reached + sum(true);
    assert_eq!(produced, ended, "sent or counted: {stats:?}");
    assert!(stats.interfaces.is_empty() && stack.routes().len() == 3);
    drop((theirs, a, b));
}

/// Breaks if a packet is lost, counted twice or left behind when its interface goes, or if a reference to
/// the interface stays.
#[test]
fn destroy_against_input() {
    Model::new("interface destroy against input")
        .seed(SEED)
        .check(scenario);
}

/// Breaks if the model does not find an interface whose end is not announced.
#[test]
#[should_panic(expected = "something waits")]
fn destroy_against_input_finds_unmarked() {
    finds(StackFault::Unmarked);
}

/// Breaks if the model does not see a packet that comes to wait when no thread will check any more.
#[test]
#[should_panic(expected = "something waits")]
fn destroy_against_input_finds_flushed_early() {
    finds(StackFault::FlushedEarly);
}

/// Breaks if the model does not see a frame that is left in the queue.
#[test]
#[should_panic(expected = "something waits")]
fn destroy_against_input_finds_one_look() {
    finds(StackFault::OneLook);
}

/// Breaks if the model does not see packets in a plug that is out.
#[test]
#[should_panic(expected = "every packet on the cable, once")]
fn destroy_against_input_finds_kept_outside() {
    finds(StackFault::KeptOutside);
}
