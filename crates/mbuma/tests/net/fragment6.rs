//! Fragments of IPv6, in both directions. Each test is named after the point that it stands for.

use std::net::Ipv6Addr;
use std::ops::Range;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::{
    PEER6, US6, at6, frame6, from_peer6, icmp6, icmp6_frame, introduce6, introduced, lab, nd_frame,
    parse_icmp6, parse6,
};
use kern::Random;
use mbuma::{DropReason, UdpSocket};
use wire::{
    Icmp6Message, IpProto, Ipv6Fields, Ipv6Fragment, NeighborMessage, TimeExceeded, UdpHeader,
    pseudo_header_v6,
};

/// A datagram from the peer to us, with its checksum.
fn datagram(data: &[u8]) -> Vec<u8> {
    let len = (UdpHeader::LEN + data.len()) as u16;
    let mut header = UdpHeader::new(9, 7, len);
    let mut out = vec![0; UdpHeader::LEN];
    header.emit(&mut out);
    out.extend_from_slice(data);
    let mut sum = pseudo_header_v6(PEER6, US6, IpProto::UDP, u32::from(len));
    sum.add_bytes(&out);
    header.set_checksum(sum.finish_nonzero());
    header.emit(&mut out);
    out
}

/// One fragment, behind `before`, headers whose last names the fragment header; `first` names the first of them.
fn fragment_behind(
    (first, before): (IpProto, &[u8]),
    class: u8,
    header: Ipv6Fragment,
    data: &[u8],
) -> Vec<u8> {
    let mut payload = before.to_vec();
    let mut bytes = [0; Ipv6Fragment::LEN];
    header.emit(&mut bytes);
    payload.extend_from_slice(&bytes);
    payload.extend_from_slice(data);
    let fields = Ipv6Fields {
        class,
        ..from_peer6(first)
    };
    frame6(&fields, &payload)
}

fn piece(next: IpProto, offset: usize, more: bool, id: u32, data: &[u8]) -> Vec<u8> {
    let header = Ipv6Fragment {
        next,
        offset: offset as u16,
        more,
        id,
    };
    fragment_behind((IpProto::FRAGMENT, &[]), 0, header, data)
}

/// All fragments of a payload, in order.
fn pieces(payload: &[u8], each: usize, id: u32) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(each);
    let chunks = payload.chunks(each).enumerate();
    chunks
        .map(|(i, data)| piece(IpProto::UDP, i * each, i + 1 < count, id, data))
        .collect()
}

/// A stack that knows its peer, and its socket for [`datagram`]s.
fn served() -> (Lab, UdpSocket) {
    let lab = introduced();
    let socket = bound(&lab);
    (lab, socket)
}

fn bound(lab: &Lab) -> UdpSocket {
    lab.stack.udp_bind(at6(US6, 7)).unwrap()
}

/// The one error that the stack sent.
fn error(lab: &Lab) -> (Icmp6Message, Vec<u8>) {
    let (header, body) = parse_icmp6(&parse6(&lab.frame()));
    (header.message(), body)
}

#[test]
fn f11_there_and_back_in_any_order() {
    // Breaks if a datagram of 60,000 bytes is not cut so that it can be put together, shuffled and with duplicates, or
    // if two datagrams have the same number.
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let (lab, socket) = served();
        let data = pattern_bytes(60_000);
        socket.send_to(lab.chain(&data), at6(PEER6, 9)).unwrap();
        let frames = lab.frames();
        assert!(frames.iter().all(|frame| frame.len() <= 1514));
        let mut sent = Vec::new();
        let mut ids = Vec::new();
        for frame in &frames {
            let seen = parse6(frame);
            assert_eq!((seen.next, seen.to), (IpProto::FRAGMENT, PEER_MAC));
            let header = Ipv6Fragment::parse(&seen.payload).unwrap();
            assert_eq!(
                (header.next, usize::from(header.offset)),
                (IpProto::UDP, sent.len())
            );
            sent.extend_from_slice(&seen.payload[Ipv6Fragment::LEN..]);
            ids.push(header.id);
            assert_eq!(header.more, sent.len() < 60_008);
        }
        assert!(ids.iter().all(|id| *id == ids[0]));
        let mut sum = pseudo_header_v6(US6, PEER6, IpProto::UDP, sent.len() as u32);
        sum.add_bytes(&sent);
        assert!(sum.is_valid() && sent[UdpHeader::LEN..] == data);
        let mut back = pieces(&datagram(&data), 1448, ids[0]);
        back.extend_from_within(3..8);
        for i in (1..back.len()).rev() {
            back.swap(i, random.below(i as u64 + 1) as usize);
        }
        back.iter().for_each(|frame| lab.put(frame));
        lab.poll();
        assert_eq!(socket.recv().unwrap().payload.to_vec(), data, "seed {seed}");
        assert!(socket.recv().is_err());
        socket.send_to(lab.chain(&data), at6(PEER6, 9)).unwrap();
        let next = parse6(&lab.frames()[0]);
        assert_ne!(Ipv6Fragment::parse(&next.payload).unwrap().id, ids[0]);
    }
}

#[test]
fn f11_no_host_can_guess_the_next_number_and_no_report_makes_atomic_fragments() {
    // Breaks if numbers follow one another, so that a host off the path can forge a fragment (RFC 7739), or if a report
    // of a path smaller than IPv6's minimum makes the stack send fragments of whole datagrams (RFC 8021).
    let (lab, socket) = served();
    let mut ids: Vec<u32> = Vec::new();
    for _ in 0..64 {
        let data = pattern_bytes(2000);
        socket.send_to(lab.chain(&data), at6(PEER6, 9)).unwrap();
        let seen = parse6(&lab.frames()[0]);
        ids.push(Ipv6Fragment::parse(&seen.payload).unwrap().id);
    }
    let mut steps: Vec<u32> = ids
        .windows(2)
        .map(|pair| pair[1].wrapping_sub(pair[0]))
        .collect();
    let high: u32 = ids.iter().fold(0, |all, id| all | id >> 24);
    steps.sort_unstable();
    steps.dedup();
    assert_eq!((steps.len(), high), (63, 0xff));
    let data = pattern_bytes(1400);
    socket.send_to(lab.chain(&data), at6(PEER6, 9)).unwrap();
    let sent = lab.frame();
    let small = Icmp6Message::PacketTooBig { mtu: 1000 };
    lab.give(&icmp6_frame(PEER6, US6, 64, small, &sent[14..1200]));
    for len in [1400, 100] {
        let data = pattern_bytes(len);
        socket.send_to(lab.chain(&data), at6(PEER6, 9)).unwrap();
        assert_eq!(parse6(&lab.frame()).next, IpProto::UDP);
    }
}

#[test]
fn f1_an_incomplete_datagram_is_told_of_if_its_beginning_came() {
    // Breaks if fragments are kept for ever, or the sender gets an error although the first fragment is missing.
    let whole = datagram(&pattern_bytes(2000));
    for (n, told) in [(0, true), (1, false)] {
        let lab = introduced();
        let frames = pieces(&whole, 1000, 5);
        lab.give(&frames[n]);
        lab.advance(Duration::from_secs(59));
        assert!(lab.frames().is_empty());
        lab.advance(Duration::from_secs(2));
        if told {
            let (message, body) = error(&lab);
            let late = Icmp6Message::TimeExceeded(TimeExceeded::Reassembly);
            assert_eq!(message, late);
            assert_eq!(body, frames[n][14..], "the fragment is quoted");
        }
        assert!(lab.frames().is_empty());
        assert_eq!(lab.dropped(DropReason::FragmentTimeout), 1);
    }
}

#[test]
fn f2_an_overlap_takes_the_whole_datagram_and_what_comes_later() {
    // Breaks if the bytes of an overlap reach a socket (RFC 5722), or the rest is put together without them; an exact
    // duplicate does no harm.
    let (lab, socket) = served();
    let data = pattern_bytes(3000);
    let whole = datagram(&data);
    let frames = pieces(&whole, 1000, 5);
    // Within another, with its bytes, and still no duplicate.
    let within = piece(IpProto::UDP, 1000, true, 5, &whole[1000..1496]);
    for frame in [&frames[0], &frames[1], &within, &frames[2], &frames[3]] {
        lab.give(frame);
    }
    assert!(socket.recv().is_err());
    assert_eq!(lab.dropped(DropReason::FragmentOverlap), 5);
    frames.iter().for_each(|frame| lab.give(frame));
    assert!(socket.recv().is_err(), "till its time is over");
    lab.advance(Duration::from_secs(61));
    lab.give(&frames[0]);
    for frame in &frames {
        lab.give(frame);
    }
    assert_eq!(socket.recv().unwrap().payload.to_vec(), data);
    assert_eq!(lab.dropped(DropReason::FragmentDuplicate), 1);
    assert!(lab.frames().is_empty(), "no error is sent about it");
}

#[test]
fn f3_and_f4_fragments_of_impossible_length_are_told_with_the_field() {
    // Breaks if a fragment whose length is no multiple of 8, or one past 65,535, is accepted, or the error does not
    // point at the field with the mistake.
    let lab = introduced();
    lab.give(&piece(IpProto::UDP, 0, true, 5, &[0; 1001]));
    let problem = |pointer| Icmp6Message::ParamProblem { code: 0, pointer };
    assert_eq!(error(&lab).0, problem(4));
    lab.give(&piece(IpProto::UDP, 65_528, false, 5, &[0; 8]));
    assert_eq!(error(&lab).0, problem(42));
    lab.give(&piece(IpProto::UDP, 8, true, 5, &[]));
    assert_eq!(lab.dropped(DropReason::FragmentBad), 1, "an empty one");
}

#[test]
fn f5_a_first_fragment_without_the_whole_chain_is_told() {
    // Breaks if a filter can be passed by a packet whose ports are in its second fragment (RFC 7112).
    let lab = introduced();
    let problem = Icmp6Message::ParamProblem {
        code: 3,
        pointer: 0,
    };
    // Options that go on in the next fragment; then a UDP header that does not begin here.
    lab.give(&piece(
        IpProto::DEST_OPTIONS,
        0,
        true,
        5,
        &[17, 3, 1, 4, 0, 0, 0, 0],
    ));
    assert_eq!(error(&lab).0, problem);
    lab.give(&piece(
        IpProto::DEST_OPTIONS,
        0,
        true,
        6,
        &[17, 0, 1, 4, 0, 0, 0, 0],
    ));
    assert_eq!(error(&lab).0, problem);
}

#[test]
fn f6_an_atomic_fragment_is_handled_alone() {
    // Breaks if a fragment that is all of its packet is mixed with others of its number (RFC 6946).
    let (lab, socket) = served();
    let data = pattern_bytes(1500);
    let frames = pieces(&datagram(&data), 1000, 5);
    lab.give(&frames[0]);
    lab.give(&piece(IpProto::UDP, 0, false, 5, &datagram(b"alone")));
    assert_eq!(socket.recv().unwrap().payload.to_vec(), b"alone");
    lab.give(&frames[1]);
    assert_eq!(socket.recv().unwrap().payload.to_vec(), data);
}

#[test]
fn f7_the_first_fragment_names_the_protocol_and_has_the_options() {
    // Breaks if a later fragment's next header counts, or options before the fragment header are lost or unexamined.
    let (lab, socket) = served();
    let data = pattern_bytes(1500);
    let whole = datagram(&data);
    let options = [44, 0, 1, 4, 0, 0, 0, 0];
    let before = (IpProto::HOP_BY_HOP, &options[..]);
    let header = |next, offset, more| Ipv6Fragment {
        next,
        offset,
        more,
        id: 5,
    };
    let first = header(IpProto::UDP, 0, true);
    let second = header(IpProto::TCP, 1000, false);
    lab.give(&fragment_behind(
        (IpProto::FRAGMENT, &[]),
        0,
        second,
        &whole[1000..],
    ));
    lab.give(&fragment_behind(before, 0, first, &whole[..1000]));
    assert_eq!(socket.recv().unwrap().payload.to_vec(), data);
    // An unknown option that asks for an error: before the fragment header, and behind the first one.
    let unknown = |next| [next, 0, 0x9e, 4, 0, 0, 0, 0];
    let before = (IpProto::HOP_BY_HOP, &unknown(44)[..]);
    lab.give(&fragment_behind(before, 0, first, &whole[..1000]));
    let problem = Icmp6Message::ParamProblem {
        code: 2,
        pointer: 42,
    };
    assert_eq!(error(&lab).0, problem);
    let behind = [&unknown(17)[..], &whole].concat();
    let first = Ipv6Fragment {
        id: 6,
        ..header(IpProto::DEST_OPTIONS, 0, true)
    };
    let second = Ipv6Fragment { id: 6, ..second };
    let alone = (IpProto::FRAGMENT, &[][..]);
    lab.give(&fragment_behind(alone, 0, first, &behind[..1000]));
    assert!(lab.frames().is_empty());
    lab.give(&fragment_behind(alone, 0, second, &behind[1000..]));
    assert_eq!(error(&lab).0, problem);
    assert!(socket.recv().is_err());
}

#[test]
fn f8_neighbour_discovery_in_fragments_is_dropped() {
    // Breaks if a message of neighbour discovery can hide in fragments (RFC 6980), atomic ones included.
    let lab = lab();
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    let message = icmp6(PEER6, US6, question.message, question.body());
    let in_fragment = |offset: usize, more, id, data: &[u8]| {
        let mut payload = vec![0; Ipv6Fragment::LEN];
        let header = Ipv6Fragment {
            next: IpProto::ICMPV6,
            offset: offset as u16,
            more,
            id,
        };
        header.emit(&mut payload);
        payload.extend_from_slice(data);
        let fields = Ipv6Fields {
            hop_limit: 255,
            ..from_peer6(IpProto::FRAGMENT)
        };
        frame6(&fields, &payload)
    };
    lab.give(&in_fragment(0, false, 5, &message));
    assert_eq!(lab.dropped(DropReason::BadNd), 1);
    lab.give(&in_fragment(0, true, 6, &message[..16]));
    lab.give(&in_fragment(16, false, 6, &message[16..]));
    assert_eq!(lab.dropped(DropReason::BadNd), 2);
    assert!(lab.frames().is_empty());
}

#[test]
fn f9_a_flood_of_first_fragments_is_bounded_and_the_oldest_goes() {
    // Breaks if a peer that never ends a datagram holds memory without bound, or keeps others' datagrams out.
    let (lab, socket) = served();
    let data = pattern_bytes(1500);
    let whole = pieces(&datagram(&data), 1000, 5000);
    lab.give(&whole[0]);
    let flood = |from: u128, ids: Range<u32>| {
        for id in ids {
            let header = Ipv6Fragment {
                next: IpProto::UDP,
                offset: 0,
                more: true,
                id,
            };
            let mut payload = vec![0; 1000];
            header.emit(&mut payload);
            let fields = Ipv6Fields {
                src: Ipv6Addr::from_bits(PEER6.to_bits() + from),
                ..from_peer6(IpProto::FRAGMENT)
            };
            lab.give(&frame6(&fields, &payload));
        }
        lab.dropped(DropReason::FragmentLimit)
    };
    // One sender has half of the places, and evicts only its own; those of one network have three quarters.
    assert_eq!(flood(1, 0..1000), 1000 - 128);
    lab.give(&whole[1]);
    assert_eq!(socket.recv().unwrap().payload.to_vec(), data);
    assert_eq!(flood(2, 0..128), 1000 - 128 + 64);
    assert_eq!(flood(3, 0..100), 1000 - 128 + 64 + 100);
    for frame in pieces(&datagram(&data), 1000, 5000) {
        lab.give(&frame);
    }
    assert_eq!(socket.recv().unwrap().payload.to_vec(), data);
    drop(socket);
    lab.advance(Duration::from_secs(61));
    drop(lab.frames());
}

#[test]
fn f9_a_host_that_takes_each_address_of_its_network_leaves_room_for_others() {
    // Breaks if one host, to which all addresses of a /64 belong, keeps the datagrams of all others out.
    let (lab, socket) = served();
    let data = pattern_bytes(1500);
    let whole = pieces(&datagram(&data), 1000, 5000);
    lab.give(&whole[0]);
    let network = Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, 0).to_bits();
    for n in 0..1000 {
        let header = Ipv6Fragment {
            next: IpProto::UDP,
            offset: 0,
            more: true,
            id: n,
        };
        let mut payload = vec![0; 1000];
        header.emit(&mut payload);
        let fields = Ipv6Fields {
            src: Ipv6Addr::from_bits(network | u128::from(n) << 32 | 1),
            ..from_peer6(IpProto::FRAGMENT)
        };
        lab.give(&frame6(&fields, &payload));
    }
    assert_eq!(lab.dropped(DropReason::FragmentLimit), 1000 - 192);
    lab.give(&whole[1]);
    assert_eq!(socket.recv().unwrap().payload.to_vec(), data);
    drop(socket);
    lab.advance(Duration::from_secs(61));
    drop(lab.frames());
}

#[test]
fn f10_congestion_that_one_fragment_met_was_met_by_all() {
    // Breaks if a mark is lost, or an impossible one counts (RFC 3168 5.3).
    const CE: u8 = 0b11;
    const ECT: u8 = 0b10;
    let lab = introduced();
    let whole = datagram(&pattern_bytes(1500));
    let alone = (IpProto::FRAGMENT, &[][..]);
    for (id, (first, second, result)) in (0..).zip([
        (ECT, CE, Some(CE)),
        (CE, ECT, Some(CE)),
        (ECT, ECT, Some(ECT)),
        (0, 0, Some(0)),
        (0, CE, None),
    ]) {
        for (class, offset) in [(first, 0), (second, 1000)] {
            let header = Ipv6Fragment {
                next: IpProto::UDP,
                offset,
                more: offset == 0,
                id,
            };
            let (front, back) = whole.split_at(1000);
            let data = if offset == 0 { front } else { back };
            lab.give(&fragment_behind(alone, class, header, data));
        }
        // No socket has the port, and the error quotes the header of the whole.
        let Some(mark) = result else {
            assert!(lab.frames().is_empty());
            continue;
        };
        let (_, quote) = error(&lab);
        assert_eq!(quote[1] >> 4, mark, "{first:02b} and {second:02b}");
    }
}

#[test]
fn f12_the_largest_datagram_is_taken() {
    // Breaks if 65,535 bytes, of fragments of 1280 or of 8 bytes each, are not put together.
    let (lab, socket) = served();
    let data = pattern_bytes(65_527);
    for each in [1232, 8] {
        for frame in pieces(&datagram(&data), each, each as u32) {
            lab.give(&frame);
        }
        assert_eq!(socket.recv().unwrap().payload.to_vec(), data);
    }
}

#[test]
fn p2_a_report_about_a_datagram_to_a_group_counts_too() {
    // Breaks if a group's path stays too narrow for its datagrams (RFC 8201 section 5.2).
    let lab = introduced();
    lab.stack.add_default_route(lab.iface, PEER6).unwrap();
    let socket = bound(&lab);
    let group = at6(std::net::Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 7), 9);
    let sent = || {
        socket.send_to(lab.chain(&[0; 1400]), group).unwrap();
        lab.frames()
    };
    let whole = sent();
    assert_eq!(whole.len(), 1);
    lab.give(&too_big(&whole[0], 1300));
    assert_eq!(sent().len(), 2);
    while socket.take_error().is_some() {}
}

#[test]
fn p3_a_report_about_an_answer_is_believed_if_we_gave_it() {
    // Breaks if any host can make a path narrow by a report about an answer to a ping that was never sent, if such a
    // report makes datagrams fit, or if a long answer never fits its path.
    let lab = introduced();
    let answer = |seq| {
        let ping = Icmp6Message::EchoRequest { id: 5, seq };
        let body = pattern_bytes(1452);
        lab.give(&crate::frames6::icmp6_frame(PEER6, US6, 64, ping, &body));
        lab.frames()
    };
    let sent = answer(1);
    assert_eq!(sent.len(), 1);
    let mut other = sent[0].clone();
    other[14 + 40 + 7] ^= 1;
    lab.give(&too_big(&other, 1400));
    let mut question = sent[0].clone();
    question[14 + 40] = 128;
    lab.give(&too_big(&question, 1400));
    assert_eq!(answer(3).len(), 1);
    lab.give(&too_big(&sent[0], 1400));
    assert_eq!(answer(4).len(), 2);
    // The ping may have had a forged source: the report says nothing about other packets to it.
    let socket = bound(&lab);
    socket
        .send_to(lab.chain(&[0; 1400]), at6(PEER6, 9))
        .unwrap();
    assert_eq!(lab.frames().len(), 1);
}

#[test]
fn p3_a_report_about_a_datagram_is_believed_if_we_sent_it() {
    // Breaks if any host can make the path to another narrow by naming a bound port (RFC 8201 section 4).
    let lab = introduced();
    let other = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x101);
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    lab.give(&nd_frame(other, US6, &question));
    drop(lab.frames());
    let socket = bound(&lab);
    let largest = |to, len| {
        let data = lab.chain(&pattern_bytes(len));
        socket.send_to(data, at6(to, 9)).unwrap();
        let frames = lab.frames();
        let len = frames.iter().map(|frame| frame.len() - 14).max();
        (len.unwrap(), frames)
    };
    let (_, frames) = largest(PEER6, 4000);
    largest(other, 100);
    let mut forged = frames[0].clone();
    forged[14 + 24..14 + 40].copy_from_slice(&other.octets());
    lab.give(&too_big(&forged, 1300));
    assert!(socket.take_error().is_none());
    assert_eq!(largest(other, 4000).0, 1496);
    // Now there was one.
    lab.give(&too_big(&forged, 1300));
    assert!(socket.take_error().is_some());
    assert_eq!(largest(other, 4000).0, 1296);
    assert_eq!(largest(PEER6, 4000).0, 1496);
}

/// A router's report about a frame of ours: `mtu` is what fits.
pub(crate) fn too_big(frame: &[u8], mtu: u32) -> Vec<u8> {
    let message = Icmp6Message::PacketTooBig { mtu };
    let quote = &frame[14..frame.len().min(14 + 1232)];
    crate::frames6::icmp6_frame(PEER6, US6, 64, message, quote)
}

#[test]
fn p1_and_p3_a_believed_report_makes_datagrams_fit_the_path() {
    // Breaks if a datagram is larger than the path that a router reported, or a report about a packet that is not ours,
    // that is not too big, or of less than 1280 bytes changes anything (RFC 8201 section 4).
    let (lab, socket) = served();
    let largest = || {
        socket
            .send_to(lab.chain(&pattern_bytes(4000)), at6(PEER6, 9))
            .unwrap();
        let frames = lab.frames();
        (
            frames.iter().map(|frame| frame.len() - 14).max().unwrap(),
            frames,
        )
    };
    let (before, frames) = largest();
    assert_eq!(before, 1496);
    lab.give(&too_big(&frames[0], 1279));
    lab.give(&too_big(&frames[0], 1500));
    // From another's port.
    let mut forged = frames[0].clone();
    forged[14 + 48 + 1] ^= 0x55;
    lab.give(&too_big(&forged, 1400));
    // A later fragment has no ports.
    let mut later = frames[0].clone();
    later[14 + 42] = 1;
    lab.give(&too_big(&later, 1400));
    assert_eq!(largest().0, 1496);
    lab.give(&too_big(&frames[0], 1400));
    assert_eq!(largest().0, 1400);
    lab.give(&too_big(&frames[0], 1450));
    assert_eq!(largest().0, 1400, "a later report does not raise it");
    lab.advance(Duration::from_secs(601));
    drop(lab.frames());
    introduce6(&lab);
    assert_eq!(
        largest().0,
        1496,
        "after ten minutes larger packets are tried"
    );
    while socket.take_error().is_some() {}
}
