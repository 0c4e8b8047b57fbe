//! Operations that move a packet's bytes without changing them: writable, in fewer mbufs.
//! At every offset of packets and chains of every shape.

use crate::common::shapes::{build, chains, packets, shapes};
use crate::common::{Built, Kind, balanced, check_chain, check_packet, pattern, sized};
use mbuf::{Chain, CollapseError, MHLEN, MSIZE, MbufPool, Packet};
use proptest::prelude::*;

/// Whether all of a packet may be written; `bytes` are the packet's bytes then.
fn overwrite(packet: &mut Packet, bytes: &mut [u8], with: u8) -> bool {
    let all = vec![with; bytes.len()];
    let may = packet.write_at(0, &all).is_ok();
    if may {
        bytes.fill(with);
    }
    may
}

#[test]
fn unshare_copies_only_shared_storage() {
    // Breaks if storage that may not be written is left, if a sharer sees the write, or if writable
    // storage is copied.
    packets(|pool, packet, bytes, _| {
        let own: Vec<_> = packet.segments().map(<[u8]>::as_ptr).collect();
        let mut copy = packet.copy_packet().expect("the pool is large");
        let mut twin = bytes.clone();
        copy.unshare(pool).expect("the pool is large");
        check_packet(&copy, &twin);
        assert!(overwrite(&mut copy, &mut twin, 0xaa));
        check_packet(&copy, &twin);
        check_packet(packet, bytes);
        drop(copy);
        packet.unshare(pool).expect("the pool is large");
        assert!(overwrite(packet, bytes, 0xbb));
        // And again, with nothing to do.
        let writable: Vec<_> = packet.segments().map(<[u8]>::as_ptr).collect();
        assert_eq!(writable.len(), own.len());
        packet.unshare(pool).expect("there is nothing to allocate");
        let again: Vec<_> = packet.segments().map(<[u8]>::as_ptr).collect();
        assert_eq!(again, writable);
    });
}

#[test]
fn make_writable_leaves_bytes_outside_of_the_range() {
    // Breaks if the range is off by one at a boundary: too little can't be written, too much is
    // copied without need.
    packets(|pool, packet, bytes, off| {
        for len in 0..=bytes.len() + 1 {
            let mut copy = packet.copy_packet().expect("the pool is large");
            let before: Vec<_> = copy.segments().map(|s| (s.as_ptr(), s.len())).collect();
            copy.make_writable(pool, off, len)
                .expect("the pool is large");
            check_packet(&copy, bytes);
            let end = (off + len).min(bytes.len());
            if off < end {
                let src = vec![0xcc; end - off];
                assert_eq!(copy.write_at(off, &src), Ok(()));
            }
            // No piece here is larger than an mbuf, so pieces stay one to one.
            let mut at = 0;
            for (now, (ptr, n)) in copy.segments().zip(before) {
                let outside = at + n <= off || at >= end || len == 0;
                assert!(!outside || now.as_ptr() == ptr, "copied for nothing");
                at += n;
            }
            check_packet(packet, bytes);
        }
    });
}

#[test]
fn chain_unshare_makes_all_of_it_writable() {
    // Breaks as for packets; and if the tail is not the last mbuf afterwards.
    chains(|pool, chain, bytes, n| {
        let mut copy = chain.share(0, bytes.len()).expect("the pool is large");
        copy.unshare(pool).expect("the pool is large");
        check_chain(&copy, bytes);
        assert_eq!(copy.write_at(0, &vec![0xaa; bytes.len()]), Ok(()));
        copy.extend_from_slice(pool, b"end")
            .expect("the pool is large");
        assert!(copy.is_valid() && copy.to_vec().ends_with(b"end"));
        check_chain(chain, bytes);
        drop(copy);
        drop(chain.share(n.min(bytes.len()), 0));
        chain.unshare(pool).expect("the pool is large");
    });
}

#[test]
fn unshare_copies_lent_storage_of_any_size() {
    // Breaks if only the first cluster's worth of an mbuf is copied: lent storage has no limit.
    balanced(|pool| {
        let mut bytes = pattern(3, 50_000);
        let lent = Chain::from_owner(pool, bytes.clone()).expect("the pool is large");
        let mut packet = lent.into_packet(pool).expect("the pool is large");
        packet.header_mut().flow = 7;
        packet.unshare(pool).expect("the pool is large");
        check_packet(&packet, &bytes);
        assert!(overwrite(&mut packet, &mut bytes, 1));
        check_packet(&packet, &bytes);
        assert_eq!(packet.header().flow, 7);
    });
}

#[test]
fn defrag_leaves_one_mbuf_of_a_small_packet() {
    // Breaks if bytes are lost, the header stays with the old first mbuf, or a packet that is already in one mbuf is
    // copied.
    packets(|pool, packet, bytes, _| {
        let single = packet.segments().count() == 1 && packet.front().len() == bytes.len();
        let moved = packet.defrag(pool).expect("the pool is large");
        check_packet(packet, bytes);
        assert_eq!(packet.front(), bytes);
        assert!(moved == bytes.len() || moved == 0);
        if single && packet.pinned() == MSIZE {
            assert_eq!(packet.defrag(pool), Ok(0));
        }
    });
}

#[test]
fn defrag_takes_the_fewest_clusters() {
    // Breaks if a cluster is left part full before the last.
    balanced(|pool| {
        for len in [0, 1, MHLEN, MHLEN + 1, 2048, 16_384, 16_385, 40_000] {
            let bytes = pattern(5, len);
            let mut packet = Packet::new(pool).expect("the pool is large");
            for piece in bytes.chunks(700) {
                packet.append_chain(Chain::from_slice(pool, piece).expect("the pool is large"));
            }
            let moved = packet.defrag(pool).expect("the pool is large");
            assert_eq!(moved, if len == 0 { 0 } else { len });
            check_packet(&packet, &bytes);
            let most = len.div_ceil(16_384).max(1);
            assert_eq!(packet.into_chain().mbufs(), most, "{len}");
        }
    });
}

#[test]
fn collapse_keeps_the_bound_and_the_bytes() {
    // Breaks if an empty mbuf is counted, or bytes go astray where groups begin and end.
    packets(|pool, packet, bytes, max| {
        let before = packet.segments().count();
        let pinned = packet.pinned();
        match packet.collapse(pool, max) {
            Ok(moved) => {
                assert!(packet.segments().count() <= max);
                assert!(moved <= bytes.len());
                assert_eq!(moved == 0, before <= max, "copied too much");
                if before <= max {
                    assert_eq!(packet.pinned(), pinned);
                }
            }
            Err(e) => {
                assert_eq!((e, max), (CollapseError::TooManyBytes, 0));
                assert!(!bytes.is_empty());
            }
        }
    });
}

/// A packet of lent pieces, which have no room and can't be written: joining two copies both.
fn lent(pool: &MbufPool, lens: &[usize]) -> (Packet, Vec<u8>) {
    let mut built = Built::new();
    for (i, &len) in lens.iter().enumerate() {
        let bytes = pattern(i as u8, len);
        built
            .push(pool, Kind::Lent, &bytes)
            .expect("the pool is large");
    }
    let packet = built.chain.into_packet(pool).expect("the pool is large");
    (packet, built.bytes)
}

#[test]
fn collapse_joins_the_neighbours_that_cost_least() {
    // Breaks if it copies more than the bound needs.
    balanced(|pool| {
        let cases: [(&[usize], usize, usize); 6] = [
            (&[900, 20, 30, 900], 3, 50),
            (&[20, 900, 900, 30], 3, 920),
            // Twice the cheapest: those of 10, then the third of them, whose copy is fresh already.
            (&[500, 10, 10, 10, 500], 3, 30),
            (&[500, 10, 10, 10, 500], 2, 530),
            (&[500, 10, 10, 10, 500], 1, 1030),
            (&[1, 1, 500, 1, 1], 3, 4),
        ];
        for (lens, max, least) in cases {
            let (mut packet, bytes) = lent(pool, lens);
            assert_eq!(packet.collapse(pool, max), Ok(least), "{lens:?} to {max}");
            check_packet(&packet, &bytes);
            assert_eq!(packet.segments().count(), max);
        }
    });
}

/// The bytes that joining pieces without room copies, by the plain rule: of all neighbours, join
/// the pair that costs least. A piece is its bytes, and how many of them are not copied yet.
fn cost_by_the_rule(lens: &[usize], max: usize) -> usize {
    let mut pieces: Vec<(usize, usize)> = lens.iter().map(|&len| (len, len)).collect();
    let mut moved = 0;
    while pieces.len() > max {
        let joints = pieces.windows(2).map(|two| two[0].1 + two[1].1);
        let (at, cost) = joints
            .enumerate()
            .min_by_key(|&(at, cost)| (cost, at))
            .expect("there are two");
        moved += cost;
        pieces[at] = (pieces[at].0 + pieces[at + 1].0, 0);
        pieces.remove(at + 1);
    }
    moved
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(sized(300, 3) as u32)
    })]

    #[test]
    fn collapse_copies_as_few_bytes_as_the_plain_rule(
        lens in prop::collection::vec(1usize..400, 2..sized(40, 8)),
        max in 1usize..20,
    ) {
        // Breaks if the cost of a join is not updated on both sides of the last one.
        balanced(|pool| {
            let (mut packet, bytes) = lent(pool, &lens);
            assert_eq!(packet.collapse(pool, max), Ok(cost_by_the_rule(&lens, max)));
            check_packet(&packet, &bytes);
            assert!(packet.segments().count() <= max);
        });
    }
}

#[test]
fn collapse_uses_the_room_behind_a_segment() {
    // Breaks if a header with room for the next bytes is copied to a cluster.
    balanced(|pool| {
        let mut packet = Packet::from_slice(pool, &[1; 54], 0).expect("the pool is large");
        packet.append_chain(Chain::from_owner(pool, vec![2; 20]).expect("the pool is large"));
        packet.append_chain(Chain::from_owner(pool, vec![3; 1448]).expect("the pool is large"));
        let first = packet.front().as_ptr();
        let live = pool.live();
        assert_eq!(packet.collapse(pool, 2), Ok(20));
        assert_eq!(packet.front().as_ptr(), first);
        assert_eq!(packet.front().len(), 74);
        assert_eq!(pool.live().clusters, live.clusters);
    });
}

#[test]
fn collapse_cuts_where_whole_segments_do_not_fit() {
    // Breaks if it joins only whole neighbours, or promises an impossible bound.
    balanced(|pool| {
        let (mut packet, bytes) = lent(pool, &[9000, 9000, 9000]);
        assert_eq!(packet.collapse(pool, 2), Ok(27_000));
        check_packet(&packet, &bytes);
        assert_eq!(packet.segments().count(), 2);
        let refused = packet.collapse(pool, 1);
        assert_eq!(refused, Err(CollapseError::TooManyBytes));
        check_packet(&packet, &bytes);
    });
}

#[test]
fn collapse_of_very_many_mbufs_ends() {
    // Breaks if joining looks at all others each time: this would take minutes.
    balanced(|pool| {
        let count = sized(50_000, 200);
        let (mut packet, bytes) = lent(pool, &vec![1; count]);
        let moved = packet.collapse(pool, 16).expect("they fit");
        assert!(
            (1..=bytes.len()).contains(&moved),
            "no byte is copied twice"
        );
        assert!(packet.segments().count() <= 16);
        check_packet(&packet, &bytes);
    });
}

#[test]
fn copy_packet_shows_the_same_and_shares_it() {
    // Breaks if the header or a piece is left out, if clusters are copied, or if the first mbuf's
    // room for headers is lost.
    packets(|pool, packet, bytes, n| {
        let clusters = pool.live().clusters;
        let mut copy = packet.copy_packet().expect("the pool is large");
        assert_eq!(pool.live().clusters, clusters);
        check_packet(&copy, bytes);
        assert_eq!(copy.header(), packet.header());
        assert_eq!(copy.front(), packet.front());
        copy.trim_front(n);
        copy.prepend(n).expect("the pool is large").fill(0xee);
        check_packet(packet, bytes);
    });
}

#[test]
fn adjust_drops_both_ends() {
    // Breaks if the two cuts overlap, or one is counted from the end that the other has moved.
    packets(|_, packet, bytes, front| {
        for back in 0..=bytes.len() + 1 {
            let mut copy = packet.copy_packet().expect("the pool is large");
            copy.adjust(front, back);
            let end = bytes.len().saturating_sub(back);
            check_packet(&copy, &bytes[front.min(end)..end]);
        }
    });
    chains(|_, chain, bytes, front| {
        for back in 0..=bytes.len() + 1 {
            let mut copy = chain.share(0, bytes.len()).expect("the pool is large");
            copy.adjust(front, back);
            let end = bytes.len().saturating_sub(back);
            check_chain(&copy, &bytes[front.min(end)..end]);
        }
    });
}

#[test]
fn pop_front_takes_one_mbuf_after_the_other() {
    // Breaks if a chain is taken for its first mbuf, or the bookkeeping of the rest (length,
    // pinned, tail, the place of the last share) still counts it.
    chains(|pool, chain, bytes, n| {
        drop(chain.share(n.min(bytes.len()), 0));
        if n < bytes.len() {
            drop(chain.share(n, 1).expect("the pool is large"));
        }
        let (mut at, count) = (0, chain.mbufs());
        for left in (0..count).rev() {
            let one = chain.pop_front().expect("there are more");
            assert_eq!((one.mbufs(), chain.mbufs()), (1, left));
            check_chain(&one, &bytes[at..at + one.len()]);
            at += one.len();
            check_chain(chain, &bytes[at..]);
            if at < bytes.len() {
                let rest = chain.share(0, bytes.len() - at).expect("the pool is large");
                check_chain(&rest, &bytes[at..]);
            }
        }
        assert!(chain.pop_front().is_none());
        chain
            .extend_from_slice(pool, b"again")
            .expect("the pool is large");
        *bytes = b"again".to_vec();
    });
}

#[test]
fn space_is_the_room_that_needs_no_mbuf() {
    // Breaks if shared room is counted, or room that is there is not.
    packets(|pool, packet, bytes, n| {
        let (lead, trail) = (packet.leading_space(), packet.trailing_space());
        let live = pool.live();
        if n <= lead {
            packet.prepend(n).expect("the room is there").fill(1);
            bytes.splice(..0, vec![1; n]);
            assert_eq!(packet.leading_space(), lead - n);
        }
        if n <= packet.trailing_space() {
            let end = vec![2; n];
            packet.append(pool, &end).expect("the room is there");
            bytes.extend(end);
        }
        assert_eq!(pool.live(), live);
        assert!(trail >= packet.trailing_space());
        packet.prepend(lead + 1).expect("the pool is large").fill(3);
        bytes.splice(..0, vec![3; lead + 1]);
        assert_eq!(pool.live().mbufs, live.mbufs + 1);
    });
    balanced(|pool| {
        for shape in shapes() {
            let mut chain = build(pool, &shape).chain;
            let (room, live) = (chain.trailing_space(), pool.live());
            chain
                .extend_from_slice(pool, &vec![1; room])
                .expect("the room is there");
            assert_eq!((chain.trailing_space(), pool.live()), (0, live));
            let lead = chain.leading_space();
            assert!(lead <= 16_384);
        }
    });
}

#[test]
fn copy_packet_has_tags_of_its_own() {
    // Breaks if a tag is left out, or is the same one: it would be freed twice.
    balanced(|pool| {
        let mut packet = Packet::from_slice(pool, &[1; 300], 0).expect("the pool is large");
        packet.set_tag(7u32).expect("the pool is large");
        let mut copy = packet.copy_packet().expect("the pool is large");
        *copy.tag_mut::<u32>().expect("it is copied") = 8;
        assert_eq!((packet.tag(), copy.tag()), (Some(&7u32), Some(&8u32)));
    });
}

#[test]
fn of_inside_copies_exactly_what_a_share_would_copy_too() {
    // Breaks if a byte is wrong, room for headers is missing, a cluster's bytes are copied, or a secret is forgotten.
    balanced(|pool| {
        let bytes: Vec<u8> = (0..200).collect();
        let mut inside = Chain::from_slice(pool, &bytes).expect("the pool is large");
        let mut outside = Chain::from_slice(pool, &[7; 3000]).expect("the pool is large");
        for (off, len) in [(0, 1), (5, 90), (110, 90), (199, 1)] {
            let copy =
                Packet::of_inside(pool, &mut inside, off, len, 54).expect("the pool is large");
            let mut copy = copy.expect("it lies in one mbuf");
            assert_eq!(copy.to_vec(), &bytes[off..off + len]);
            assert!(copy.is_valid());
            copy.prepend(54).expect("there is room").fill(0);
            assert_eq!(copy.segments().count(), 1, "of its own");
            let none = Packet::of_inside(pool, &mut outside, off, len, 54);
            assert!(none.expect("nothing is taken").is_none());
        }
        for (off, len) in [(0, 0), (0, MHLEN - 53), (0, usize::MAX)] {
            let none = Packet::of_inside(pool, &mut inside, off, len, 54);
            assert!(none.expect("nothing is taken").is_none());
        }
    });
}
