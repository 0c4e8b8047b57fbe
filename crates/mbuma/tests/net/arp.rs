//! ARP over a wire that the test holds the other end of.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::common::net::*;
use mbuma::{DropReason, IcmpError};
use wire::{ArpOp, ArpPacket, EtherHeader, EtherType, MacAddr};

fn arp_in(frame: &[u8]) -> (EtherHeader, ArpPacket) {
    let (header, rest) = EtherHeader::parse(frame).unwrap();
    assert_eq!(header.ethertype(), EtherType::ARP);
    (*header, ArpPacket::parse(rest).unwrap())
}

fn strangers() -> Lab {
    Lab::new(Setup {
        introduced: false,
        ..Setup::default()
    })
}

/// Breaks if the stack does not answer for its address, or to the wrong station.
#[test]
fn answers_for_its_own_address() {
    let lab = strangers();
    lab.give(&arp_frame(&ArpPacket::request(PEER_MAC, PEER, US)));
    let (header, reply) = arp_in(&lab.frame());
    assert_eq!((header.dst, header.src), (PEER_MAC, OUR_MAC));
    assert_eq!(reply, ArpPacket::reply(OUR_MAC, US, PEER_MAC, PEER));
}

/// Breaks if a gateway that accepts any address also answers ARP for any: the guest would find its
/// own address taken when it probes for it.
#[test]
fn answers_for_no_other_station() {
    let lab = Lab::new(Setup {
        introduced: false,
        accept_any: true,
        ..Setup::default()
    });
    lab.give(&arp_frame(&ArpPacket::request(
        PEER_MAC,
        Ipv4Addr::UNSPECIFIED,
        PEER,
    )));
    lab.give(&arp_frame(&ArpPacket::request(
        PEER_MAC,
        PEER,
        Ipv4Addr::new(10, 0, 2, 50),
    )));
    assert!(lab.frames().is_empty());
    // A probe for our address is answered: the prober must not take it.
    lab.give(&arp_frame(&ArpPacket::request(
        PEER_MAC,
        Ipv4Addr::UNSPECIFIED,
        US,
    )));
    assert_eq!(arp_in(&lab.frame()).1.sender_ip, US);
}

/// Breaks if packets that wait for an answer are lost, sent out of order, or sent without one.
#[test]
fn asks_and_sends_what_waited() {
    let lab = strangers();
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    for n in 0..3 {
        socket.send_to(lab.chain(&[n]), at(PEER, 9)).unwrap();
    }
    let (header, request) = arp_in(&lab.frame());
    assert_eq!(header.dst, MacAddr::BROADCAST);
    assert_eq!(request, ArpPacket::request(OUR_MAC, US, PEER));
    lab.give(&arp_frame(&ArpPacket::reply(PEER_MAC, PEER, OUR_MAC, US)));
    let sent: Vec<_> = lab.frames().iter().map(|f| parse_udp(f).2).collect();
    assert_eq!(sent, [[0], [1], [2]]);
}

/// Breaks if the stack asks for an address without a station for ever, never drops the packets to it, or does not tell
/// their sender.
#[test]
fn gives_up_after_three_questions() {
    let lab = strangers();
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    socket.send_to(lab.chain(b"anybody?"), at(PEER, 9)).unwrap();
    for question in 1..=3 {
        assert_eq!(lab.frames().len(), 1, "question {question}");
        assert_eq!(
            lab.stack.next_deadline(),
            Some(lab.stack.now() + Duration::from_secs(1))
        );
        lab.advance(Duration::from_secs(1));
    }
    assert!(lab.frames().is_empty());
    assert_eq!(lab.dropped(DropReason::ArpNoAnswer), 1);
    assert_eq!(lab.stack.next_deadline(), None);
    let error = socket.take_error().map(|error| (error.dst, error.kind));
    assert_eq!(error, Some((at(PEER, 9).into(), IcmpError::Host)));
}

/// Breaks if one silent neighbour can make the stack hold packets without limit.
#[test]
fn queue_is_bounded() {
    let lab = Lab::new(Setup {
        introduced: false,
        tune: |c| c.arp_queue_max = 4,
        ..Setup::default()
    });
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    for _ in 0..10 {
        socket.send_to(lab.chain(b"x"), at(PEER, 9)).unwrap();
    }
    assert_eq!(lab.dropped(DropReason::ArpQueueFull), 6);
    lab.stack.detach(lab.iface);
    assert_eq!(lab.dropped(DropReason::InterfaceGone), 4);
    drop(socket);
    let pool = lab.stack.pool().clone();
    drop(lab);
    assert_eq!(pool.live(), mbuf::Live::NONE);
}

/// Breaks if the stack uses an old answer for ever, or if the check of it holds traffic up.
#[test]
fn checks_old_answers_without_stopping() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    lab.advance(Duration::from_secs(21 * 60));
    socket
        .send_to(lab.chain(b"still there?"), at(PEER, 9))
        .unwrap();
    let frames = lab.frames();
    assert_eq!(frames.len(), 2, "a question and the datagram");
    let (header, request) = arp_in(&frames[0]);
    assert_eq!(
        (header.dst, request.op),
        (PEER_MAC, ArpOp::Request),
        "asked directly"
    );
    assert_eq!(parse_udp(&frames[1]).2, b"still there?");
    // It moved to another station: the next datagram goes there.
    let moved = MacAddr([2, 0, 0, 0, 0, 101]);
    lab.give(&arp_frame(&ArpPacket::gratuitous(moved, PEER)));
    socket.send_to(lab.chain(b"there"), at(PEER, 9)).unwrap();
    assert_eq!(parse(&lab.frame()).ether.dst, moved);
}

/// RFC 1122 2.3.2.1: breaks if the entry of a station that is gone stays until the timer of another happens to run.
#[test]
fn a_station_that_answers_no_check_is_forgotten() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    lab.advance(Duration::from_secs(21 * 60));
    let send = || socket.send_to(lab.chain(b"x"), at(PEER, 9)).unwrap();
    send();
    for _ in 0..3 {
        lab.advance(Duration::from_secs(1));
    }
    lab.frames();
    send();
    assert_eq!(arp_in(&lab.frame()).0.dst, MacAddr::BROADCAST);
}

/// Breaks if a station can take our address, claim a group's, or fill the table with answers to questions
/// that were not asked.
#[test]
fn believes_no_nonsense() {
    let lab = strangers();
    lab.give(&arp_frame(&ArpPacket::gratuitous(PEER_MAC, US)));
    lab.give(&arp_frame(&ArpPacket::request(
        MacAddr::BROADCAST,
        PEER,
        US,
    )));
    lab.give(&arp_frame(&ArpPacket::request(
        PEER_MAC,
        Ipv4Addr::new(10, 0, 2, 255),
        US,
    )));
    lab.give(&arp_frame(&ArpPacket::request(
        PEER_MAC,
        Ipv4Addr::new(224, 0, 0, 1),
        US,
    )));
    // Our own announcement, come back over a loop of bridges.
    lab.give(&arp_frame(&ArpPacket::gratuitous(OUR_MAC, US)));
    assert_eq!(lab.dropped(DropReason::ArpDuplicateAddress), 1);
    assert_eq!(lab.dropped(DropReason::BadArp), 4);
    assert!(lab.frames().is_empty());
    // An answer without a question teaches nothing: the next packet still asks.
    lab.give(&arp_frame(&ArpPacket::reply(PEER_MAC, PEER, OUR_MAC, US)));
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    socket.send_to(lab.chain(b"x"), at(PEER, 9)).unwrap();
    assert_eq!(arp_in(&lab.frame()).1.op, ArpOp::Request);
}

/// Breaks if the stack does not announce a new address, or a neighbour ignores the announcement.
#[test]
fn a_new_address_is_announced_and_announcements_are_believed() {
    let lab = Lab::plain();
    lab.stack.announce(lab.iface);
    let (header, arp) = arp_in(&lab.frame());
    assert_eq!(header.dst, MacAddr::BROADCAST);
    assert_eq!(arp, ArpPacket::gratuitous(OUR_MAC, US));
    lab.stack.announce(mbuma::IfIndex::LOOPBACK);
    assert!(lab.frames().is_empty(), "there is nobody to tell");
    // The peer moves.
    let moved = MacAddr([2, 0, 0, 0, 9, 9]);
    lab.give(&arp_frame(&ArpPacket::gratuitous(moved, PEER)));
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    socket.send_to(lab.chain(b"x"), at(PEER, 9)).unwrap();
    assert_eq!(parse(&lab.frame()).ether.dst, moved);
}

/// Breaks if an embedder can't see which stations its links have, and which do not answer.
#[test]
fn stations_are_listed() {
    let lab = Lab::plain();
    let absent = Ipv4Addr::new(10, 0, 2, 77);
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    socket.send_to(b"to", at(PEER, 9)).unwrap();
    socket.send_to(b"absent", at(absent, 9)).unwrap();
    let all = lab.stack.neighbours();
    let all: Vec<_> = all.iter().map(|n| (n.interface, n.addr, n.mac)).collect();
    let of = |addr: Ipv4Addr, mac| (lab.iface, addr.into(), mac);
    assert_eq!(all, [of(absent, None), of(PEER, Some(PEER_MAC))]);
}
