//! Datagrams larger than the link, in both directions.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::common::net::*;
use kern::Random;
use mbuma::DropReason;
use mbuma::device::Capabilities;
use wire::{IcmpMessage, IpProto, Ipv4Fields, TimeExceeded};

/// The fragments of a datagram from the peer, in order.
fn fragments(payload: &[u8], each: usize, id: u16) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(each);
    let piece = |(i, data): (usize, &[u8])| {
        let frag_offset = (i * each) as u16;
        let fields = from_peer(US, IpProto::UDP);
        ip_frame(
            &Ipv4Fields {
                id,
                frag_offset,
                mf: i + 1 < count,
                ..fields
            },
            data,
        )
    };
    payload.chunks(each).enumerate().map(piece).collect()
}

fn datagram(len: usize) -> (Vec<u8>, Vec<u8>) {
    let data = pattern_bytes(len);
    (udp(at(PEER, 9), at(US, 7), &data), data)
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i as u64 + 1) as usize);
    }
}

/// Breaks if a datagram of 60,000 bytes is not cut so that the other side can put it together: it is
/// cut, shuffled, duplicated, and fed to the stack itself.
#[test]
fn there_and_back() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let lab = Lab::plain();
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        let data = pattern_bytes(60_000);
        socket.send_to(lab.chain(&data), at(PEER, 9)).unwrap();
        let frames = lab.frames();
        assert!(frames.iter().all(|f| f.len() <= 1514));
        assert_eq!(frames.len(), 60_008usize.div_ceil(1480));

        // Answer as the peer would: the same payload with the ends exchanged.
        let sent: Vec<u8> = frames
            .iter()
            .flat_map(|f| parse(f).payload.to_vec())
            .collect();
        assert_eq!(sent[8..], data);
        let mut back = fragments(&udp(at(PEER, 9), at(US, 7), &sent[8..]), 1480, 77);
        let again: Vec<_> = (0..5).map(|i| back[i * 7].clone()).collect();
        back.extend(again);
        shuffle(&mut back, &mut random);
        back.iter().for_each(|f| lab.put(f));
        lab.poll();
        assert_eq!(socket.recv().unwrap().payload.to_vec(), data, "seed {seed}");
        assert!(socket.recv().is_err());
        let late = lab.dropped(DropReason::FragmentDuplicate);
        assert!(late <= 5, "seed {seed}");
    }
}

/// Breaks if the UDP checksum of a datagram that is cut is left to a device that sees only pieces.
#[test]
fn checksum_is_finished_before_cutting() {
    let lab = Lab::new(Setup {
        caps: Capabilities::whole(1500),
        ..Setup::default()
    });
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    socket
        .send_to(lab.chain(&pattern_bytes(5000)), at(PEER, 9))
        .unwrap();
    let packets = lab.packets();
    assert!(packets.iter().all(|p| p.header().csum.is_empty()));
    let whole: Vec<u8> = packets
        .iter()
        .flat_map(|p| p.to_vec()[34..].to_vec())
        .collect();
    let sum = wire::pseudo_header_v4(US, PEER, IpProto::UDP, 5008);
    let mut sum = sum;
    sum.add_bytes(&whole);
    assert!(sum.is_valid());
}

/// Breaks if large pings are not answered whole.
#[test]
fn large_pings_are_answered_whole() {
    let lab = Lab::plain();
    let data = pattern_bytes(20_000);
    let message = icmp(IcmpMessage::EchoRequest { id: 3, seq: 4 }, &data);
    let fields = from_peer(US, IpProto::ICMP);
    for (i, piece) in message.chunks(1480).enumerate() {
        let frag_offset = (i * 1480) as u16;
        let mf = (i + 1) * 1480 < message.len();
        lab.give(&ip_frame(
            &Ipv4Fields {
                id: 5,
                frag_offset,
                mf,
                ..fields
            },
            piece,
        ));
    }
    let answer: Vec<u8> = lab
        .frames()
        .iter()
        .flat_map(|f| parse(f).payload.to_vec())
        .collect();
    assert_eq!(
        answer,
        icmp(IcmpMessage::EchoReply { id: 3, seq: 4 }, &data)
    );
}

/// Breaks if overlapping fragments are reassembled in any way: the whole datagram must be dropped.
#[test]
fn overlap_spoils_the_datagram() {
    // Begins inside of the first, begins one unit before its end, covers it.
    for (start, len) in [(496, 512), (992, 16), (0, 1480 + 8)] {
        let lab = Lab::plain();
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        let (whole, _) = datagram(3000);
        let all = fragments(&whole, 1000, 9);
        lab.give(&all[0]);
        let fields = Ipv4Fields {
            id: 9,
            frag_offset: start,
            mf: true,
            ..from_peer(US, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, &vec![0xee; len]));
        assert_eq!(lab.dropped(DropReason::FragmentOverlap), 2, "{start}+{len}");
        lab.give(&all[1]);
        lab.give(&all[2]);
        lab.give(&all[3]);
        assert!(socket.recv().is_err());
        lab.advance(Duration::from_secs(31));
        assert_eq!(lab.dropped(DropReason::FragmentTimeout), 3);
    }
}

/// Breaks if fragments that no datagram can have are kept: empty, ragged, past 64 KiB, or beyond
/// what was the last.
#[test]
fn fragments_that_no_datagram_can_have_are_dropped() {
    let lab = Lab::plain();
    let fields = Ipv4Fields {
        id: 1,
        ..from_peer(US, IpProto::UDP)
    };
    let give = |mf, frag_offset, len| {
        lab.give(&ip_frame(
            &Ipv4Fields {
                mf,
                frag_offset,
                ..fields
            },
            &vec![0; len],
        ));
        lab.dropped(DropReason::FragmentBad)
    };
    assert_eq!(give(true, 0, 0), 1, "empty");
    assert_eq!(give(true, 0, 1001), 2, "ragged");
    assert_eq!(give(false, 65_528, 100), 3, "past the end");
    assert_eq!(give(false, 800, 100), 3, "a last one");
    assert_eq!(give(true, 1600, 8), 5, "beyond it: both go");
    assert_eq!(give(true, 1600, 8), 5, "now this one comes first");
    assert_eq!(give(false, 800, 100), 7, "and the last contradicts it");
    assert_eq!(lab.stack.next_deadline(), None, "nothing is kept");
}

/// Breaks if an incomplete datagram stays for ever, or its sender gets no error, or one that it must not get.
#[test]
fn an_incomplete_datagram_ends_and_is_reported_where_allowed() {
    let lab = Lab::plain();
    let (whole, _) = datagram(3000);
    let all = fragments(&whole, 1480, 9);
    lab.give(&all[0]);
    let expiry = lab.stack.now() + Duration::from_secs(30);
    assert_eq!(lab.stack.next_deadline(), Some(expiry));
    lab.advance(Duration::from_secs(29));
    lab.give(&all[1]);
    lab.advance(Duration::from_secs(1));
    let (message, quote) = parse_icmp(&lab.frame());
    assert_eq!(message, IcmpMessage::TimeExceeded(TimeExceeded::Reassembly));
    assert_eq!(quote, all[0][14..][..548]);
    assert_eq!(lab.dropped(DropReason::FragmentTimeout), 2);
    // Without the first fragment there is nothing to quote (RFC 792).
    lab.give(&all[1]);
    lab.advance(Duration::from_secs(30));
    assert!(lab.frames().is_empty());
}

/// Breaks if a flood of fragments takes memory without limit, or keeps others' datagrams out.
#[test]
fn a_flood_of_fragments_takes_bounded_memory() {
    let lab = Lab::new(Setup {
        tune: |c| (c.reass_datagrams_max, c.reass_runs_max) = (4, 3),
        ..Setup::default()
    });
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    for id in 0..10 {
        let fields = Ipv4Fields {
            id,
            mf: true,
            ..from_peer(US, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, &[0; 8]));
    }
    assert_eq!(
        lab.dropped(DropReason::FragmentLimit),
        8,
        "a sender has half of the table"
    );
    for sender in 0..10 {
        let fields = Ipv4Fields {
            src: Ipv4Addr::new(10, 0, 2, 150 + sender),
            mf: true,
            ..from_peer(US, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, &[0; 8]));
    }
    assert_eq!(
        lab.dropped(DropReason::FragmentLimit),
        8 + 8,
        "many senders have all of it together"
    );
    let (whole, data) = datagram(2000);
    fragments(&whole, 1000, 100)
        .iter()
        .for_each(|f| lab.give(f));
    assert_eq!(socket.recv().unwrap().payload.to_vec(), data);
    // One gap more than a datagram may have drops the whole datagram.
    let before = lab.dropped(DropReason::FragmentLimit);
    fragments(&whole, 200, 101)
        .iter()
        .step_by(2)
        .take(4)
        .for_each(|f| lab.give(f));
    assert_eq!(lab.dropped(DropReason::FragmentLimit) - before, 4);
}

/// Breaks if a datagram is given up because it has many fragments: 65,507 bytes are 119 at an MTU of 576, and 1,366 at
/// 68. In order, in reverse, and every other one first as far as gaps are allowed.
#[test]
fn as_many_fragments_as_a_small_link_makes() {
    for each in [552, 48, 8] {
        for order in ["forward", "backward", "pairs"] {
            let lab = Lab::plain();
            let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
            let (whole, data) = datagram(65_507);
            let mut all = fragments(&whole, each, 9);
            match order {
                "backward" => all.reverse(),
                "pairs" => all.chunks_mut(2).for_each(<[_]>::reverse),
                _ => {}
            }
            all.iter().for_each(|f| lab.give(f));
            let got = socket.recv().unwrap_or_else(|_| panic!("{each} {order}"));
            assert_eq!(got.payload.to_vec(), data, "{each} {order}");
        }
    }
}

/// Breaks if a fragment whose bytes are all there spoils its datagram, or replaces what came first.
#[test]
fn what_came_first_stays() {
    for (start, len) in [(0, 800), (8, 8), (1000, 1000), (1504, 8), (0, 2000)] {
        let lab = Lab::plain();
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        let (whole, data) = datagram(3000);
        let all = fragments(&whole, 1000, 9);
        all[..2].iter().for_each(|f| lab.give(f));
        let fields = Ipv4Fields {
            id: 9,
            frag_offset: start,
            mf: true,
            ..from_peer(US, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, &vec![0xee; len]));
        assert_eq!(
            lab.dropped(DropReason::FragmentDuplicate),
            1,
            "{start}+{len}"
        );
        all[2..].iter().for_each(|f| lab.give(f));
        assert_eq!(socket.recv().expect("whole").payload.to_vec(), data);
    }
}

/// Breaks if a datagram grows past 64 KiB by the options of its first fragment: the others have none, so that each of
/// them is good by itself ("ping of death").
#[test]
fn options_of_the_first_fragment_count() {
    let lab = Lab::plain();
    let options = [1; 40];
    let payload = vec![0x5a; 65_535 - 20];
    let pieces: Vec<_> = payload.chunks(1456).collect();
    assert_eq!(pieces.len(), 45);
    for (i, piece) in pieces.iter().enumerate() {
        let fields = Ipv4Fields {
            id: 9,
            frag_offset: (i * 1456) as u16,
            mf: i + 1 < pieces.len(),
            options: if i == 0 { &options } else { &[] },
            ..from_peer(US, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, piece));
    }
    assert_eq!(lab.dropped(DropReason::FragmentBad), pieces.len() as u64);
}

/// Breaks if fragments whose datagrams never become whole take memory without limit: each pins a cluster, and 32 MiB is
/// the bound, whatever the number of datagrams is.
#[test]
fn memory_of_all_fragments_is_bounded() {
    let lab = Lab::new(Setup {
        tune: |c| c.reass_datagrams_max = 100_000,
        ..Setup::default()
    });
    let before = lab.dropped(DropReason::FragmentLimit);
    for i in 0..40_000_u32 {
        let fields = Ipv4Fields {
            id: i as u16,
            mf: true,
            dst: US,
            ..from_peer(US, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, &[0; 1480]));
    }
    let held = 40_000 - (lab.dropped(DropReason::FragmentLimit) - before);
    assert!(held * 2048 <= 32 << 20, "{held} fragments are held");
    assert!(held * 2048 > 24 << 20, "{held}: memory is there for more");
    lab.advance(Duration::from_secs(31));
    lab.frames();
}

/// Breaks if congestion that one fragment met is forgotten, or a forged mark is believed.
#[test]
fn congestion_marks_of_fragments_are_combined() {
    let (whole, _) = datagram(2000);
    let cases = [
        ([0b10, 0b11, 0b10], Some(0b11)),
        ([0b00, 0b11, 0b00], None),
        ([0b01, 0b01, 0b01], Some(0b01)),
    ];
    for (marks, combined) in cases {
        let lab = Lab::plain();
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        for (i, (piece, tos)) in whole.chunks(1000).zip(marks).enumerate() {
            let fields = Ipv4Fields {
                tos,
                id: 3,
                ..from_peer(US, IpProto::UDP)
            };
            let (frag_offset, mf) = ((i * 1000) as u16, i < 2);
            lab.give(&ip_frame(
                &Ipv4Fields {
                    frag_offset,
                    mf,
                    ..fields
                },
                piece,
            ));
        }
        let mark = socket.recv().ok().map(|whole| whole.traffic_class & 0b11);
        assert_eq!(mark, combined, "{marks:?}");
    }
}

/// Breaks if fragments of two senders, to two addresses or of two protocols make one datagram because their ids are
/// the same: a stranger could put its bytes into another station's datagram (RFC 791 3.2).
#[test]
fn fragments_of_different_datagrams_never_meet() {
    let (whole, _) = datagram(2000);
    let others: [fn(&mut Ipv4Fields<'_>); 3] = [
        |fields| fields.src = Ipv4Addr::new(10, 0, 2, 101),
        |fields| fields.dst = FOREIGN,
        |fields| fields.protocol = IpProto::ICMP,
    ];
    for (case, change) in others.iter().enumerate() {
        let lab = Lab::gateway();
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        for (i, piece) in whole.chunks(1000).enumerate() {
            let mut fields = Ipv4Fields {
                id: 3,
                frag_offset: (i * 1000) as u16,
                mf: i < 2,
                ..from_peer(US, IpProto::UDP)
            };
            if i > 0 {
                change(&mut fields);
            }
            lab.give(&ip_frame(&fields, piece));
        }
        assert!(socket.recv().is_err(), "case {case}");
    }
}

/// A datagram's payload cut anywhere at multiples of 8, as offsets and lengths.
fn random_cuts(len: usize, random: &mut Random) -> Vec<(usize, usize)> {
    let mut cuts = Vec::new();
    let mut at = 0;
    while at < len {
        let piece = (8 * (1 + random.below(180) as usize)).min(len - at);
        cuts.push((at, piece));
        at += piece;
    }
    cuts
}

/// Breaks if the stack reassembles fragments wrongly for some way to cut, order and repeat them.
#[test]
fn any_cut_in_any_order() {
    for seed in 0..200 {
        let mut random = Random::from_seed(seed);
        let lab = Lab::new(Setup {
            tune: |c| (c.reass_datagrams_max, c.reass_runs_max) = (16, 10_000),
            ..Setup::default()
        });
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        let (whole, data) = datagram(1 + random.below(9000) as usize);
        let mut cuts = random_cuts(whole.len(), &mut random);
        let again = cuts[random.below(cuts.len() as u64) as usize];
        if cuts.len() > 1 {
            cuts.push(again);
        }
        shuffle(&mut cuts, &mut random);
        for (at, len) in cuts {
            let (frag_offset, mf) = (at as u16, at + len < whole.len());
            let fields = Ipv4Fields {
                id: 1,
                frag_offset,
                mf,
                ..from_peer(US, IpProto::UDP)
            };
            lab.give(&ip_frame(&fields, &whole[at..at + len]));
        }
        assert_eq!(
            socket.recv().expect("whole").payload.to_vec(),
            data,
            "seed {seed}"
        );
    }
}
