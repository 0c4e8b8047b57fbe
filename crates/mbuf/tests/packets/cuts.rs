//! Every operation at every offset of every chain of up to three small mbufs: empty ones, internal
//! ones, clusters, shared clusters, lent storage. Boundaries are where cutting goes wrong.

use crate::common::shapes::{chains, packets};
use crate::common::{balanced, check_chain, check_packet, pattern};
use mbuf::{Chain, ClusterSize, MHLEN, Packet, PullupError, WriteError};

const K2: ClusterSize = ClusterSize::K2;

#[test]
fn chain_trim_front_drops_exactly_the_front() {
    // Breaks if an empty mbuf at the boundary is mistaken for the end.
    chains(|_, chain, bytes, n| {
        chain.trim_front(n);
        bytes.drain(..n.min(bytes.len()));
    });
}

#[test]
fn chain_trim_front_keeps_no_empty_mbuf() {
    // Breaks when a trim that ends where an mbuf ends leaves that mbuf in the chain, empty.
    balanced(|pool| {
        let mut chain = Chain::new();
        for part in [b"one", b"two", b"end"] {
            let next = Chain::from_slice(pool, part).expect("the pool is large");
            chain.append(next);
        }
        assert_eq!(chain.mbufs(), 3);
        for (left, rest) in [(2, &b"twoend"[..]), (1, b"end"), (0, b"")] {
            chain.trim_front(3);
            assert_eq!(chain.mbufs(), left);
            check_chain(&chain, rest);
        }
    });
}

#[test]
fn chain_truncate_drops_exactly_the_end() {
    // Breaks if the tail is not the last mbuf afterwards: appended bytes would be lost.
    chains(|pool, chain, bytes, n| {
        chain.truncate(n);
        bytes.truncate(n);
        check_chain(chain, bytes);
        chain
            .extend_from_slice(pool, b"end")
            .expect("the pool is large");
        bytes.extend_from_slice(b"end");
    });
}

#[test]
fn chain_truncate_keeps_no_empty_mbuf() {
    // Breaks if a cut at a boundary leaves an empty mbuf, and pins its cluster.
    balanced(|pool| {
        let mut chain = Chain::from_slice(pool, &[1; 5]).expect("the pool is large");
        let before = chain.pinned();
        chain.append(Chain::from_slice(pool, &[2; 500]).expect("the pool is large"));
        chain.truncate(5);
        assert_eq!((chain.mbufs(), chain.pinned()), (1, before));
        let mut packet = Packet::from_slice(pool, &[1; 5], 0).expect("the pool is large");
        let before = packet.pinned();
        packet.append_chain(Chain::from_slice(pool, &[2; 500]).expect("the pool is large"));
        packet.truncate(5);
        assert_eq!(packet.pinned(), before);
        chain.truncate(0);
        assert_eq!((chain.mbufs(), chain.pinned()), (0, 0));
    });
}

#[test]
fn chain_take_front_parts_the_bytes() {
    // Breaks if the bookkeeping of either part (length, pinned, tail) is not of its own list.
    chains(|pool, chain, bytes, n| {
        let mut front = chain.take_front(n).expect("the pool is large");
        let n = n.min(bytes.len());
        check_chain(&front, &bytes[..n]);
        bytes.drain(..n);
        check_chain(chain, bytes);
        // Both tails are where they say.
        front
            .extend_from_slice(pool, b"f")
            .expect("the pool is large");
        chain
            .extend_from_slice(pool, b"rest")
            .expect("the pool is large");
        bytes.extend_from_slice(b"rest");
        assert_eq!(front.to_vec().last(), Some(&b'f'));
        assert!(front.is_valid());
    });
}

#[test]
fn chain_share_shows_any_range_after_any_other() {
    // Breaks if the place that the last share recorded is wrong.
    chains(|_, chain, bytes, first| {
        for len in 0..=bytes.len().saturating_sub(first) {
            if first > bytes.len() {
                break;
            }
            let shared = chain.share(first, len).expect("the pool is large");
            check_chain(&shared, &bytes[first..first + len]);
            for off in 0..=bytes.len() {
                let rest = chain
                    .share(off, bytes.len() - off)
                    .expect("the pool is large");
                check_chain(&rest, &bytes[off..]);
            }
        }
    });
}

#[test]
fn chain_share_drops_the_place_of_removed_bytes() {
    // Breaks if the place that the last share remembers is in an mbuf that was cut off since.
    let cuts: [fn(&mut Chain, usize); 3] = [Chain::trim_front, Chain::truncate, |chain, n| {
        drop(chain.take_front(n).expect("the pool is large"));
    }];
    chains(|pool, chain, bytes, n| {
        for at in 0..bytes.len() {
            for (i, cut) in cuts.iter().enumerate() {
                // The same mbufs again: a chain that is shared whole has as many.
                let mut copy = chain.share(0, bytes.len()).expect("the pool is large");
                drop(copy.share(at, 1).expect("the pool is large"));
                cut(&mut copy, n);
                let n = n.min(bytes.len());
                let rest = if i == 1 { &bytes[..n] } else { &bytes[n..] };
                check_chain(&copy, rest);
                for off in 0..rest.len() {
                    let part = copy
                        .share(off, rest.len() - off)
                        .expect("the pool is large");
                    check_chain(&part, &rest[off..]);
                }
                copy.append(Chain::from_slice(pool, b"end").expect("the pool is large"));
                check_chain(&copy, &[rest, b"end"].concat());
            }
        }
    });
}

#[test]
fn chain_write_changes_all_of_the_range_or_nothing() {
    // Breaks if a range that is shared in part is written in part, or if empty mbufs or empty
    // writes count as shared.
    chains(|_, chain, bytes, off| {
        for len in 0..4 {
            let src = vec![0xaa; len];
            match chain.write_at(off, &src) {
                Ok(()) => bytes[off..off + len].fill(0xaa),
                Err(WriteError::OutOfRange) => assert!(off + len > bytes.len()),
                Err(WriteError::Shared) => assert!(len > 0 && off + len <= bytes.len()),
            }
            check_chain(chain, bytes);
        }
    });
}

#[test]
fn chain_copy_to_copies_what_is_there() {
    // Breaks if the last byte can't be copied, or a byte behind it can.
    chains(|_, chain, bytes, off| {
        for len in 0..=bytes.len() + 1 {
            let mut dst = vec![0xdd; len];
            let fits = chain.copy_to(off, &mut dst);
            assert_eq!(fits, off + len <= bytes.len());
            let want = bytes
                .get(off..off + len)
                .map_or(vec![0xdd; len], <[u8]>::to_vec);
            assert_eq!(dst, want);
        }
        assert!(!chain.copy_to(usize::MAX, &mut [0; 2]));
    });
}

#[test]
fn chain_append_compact_shows_the_same_as_append() {
    // Breaks if compaction loses the bytes that it moves, or the mbufs that it empties.
    chains(|pool, chain, bytes, n| {
        let mut sparse = Packet::with_cluster(pool, K2, 100).expect("the pool is large");
        sparse
            .append(pool, &pattern(99, n))
            .expect("the pool is large");
        chain.append_compact(pool, sparse.into_chain());
        bytes.extend_from_slice(&pattern(99, n));
    });
}

#[test]
fn packet_trim_front_drops_exactly_the_front() {
    // Breaks if the header's length differs from the list's.
    packets(|_, packet, bytes, n| {
        packet.trim_front(n);
        bytes.drain(..n.min(bytes.len()));
    });
}

#[test]
fn packet_trim_front_keeps_no_empty_mbuf() {
    // Breaks when a trim that ends where an mbuf ends leaves that mbuf behind the first, empty, with its cluster: the
    // first of those behind it, or a later one.
    balanced(|pool| {
        let slice = |bytes: &[u8]| Chain::from_slice(pool, bytes).expect("the pool is large");
        let mut packet = Packet::from_slice(pool, b"one", 0).expect("the pool is large");
        let first = packet.pinned();
        packet.append_chain(slice(&[2; 500]));
        packet.append_chain(slice(&[3; 400]));
        packet.append_chain(slice(&[4; 300]));
        let end = slice(b"end");
        let both = first + end.pinned();
        packet.append_chain(end);
        let all = packet.pinned();
        packet.trim_front(503);
        check_packet(&packet, &[[3; 400].as_slice(), &[4; 300], b"end"].concat());
        assert!(packet.pinned() < all);
        packet.trim_front(700);
        check_packet(&packet, b"end");
        assert_eq!(packet.pinned(), both);
        packet.trim_front(3);
        check_packet(&packet, b"");
        assert_eq!(packet.pinned(), first);
    });
}

#[test]
fn packet_truncate_drops_exactly_the_end() {
    // Breaks if the first mbuf goes, which holds the header.
    packets(|pool, packet, bytes, n| {
        packet.truncate(n);
        bytes.truncate(n);
        check_packet(packet, bytes);
        packet.append(pool, b"end").expect("the pool is large");
        bytes.extend_from_slice(b"end");
    });
}

#[test]
fn packet_split_off_parts_the_bytes() {
    // Breaks if a cut at the very front takes the packet header away.
    packets(|pool, packet, bytes, n| {
        let mut rest = packet.split_off(n).expect("the pool is large");
        let tail = bytes.split_off(n.min(bytes.len()));
        check_chain(&rest, &tail);
        check_packet(packet, bytes);
        rest.extend_from_slice(pool, b"rest")
            .expect("the pool is large");
        assert_eq!(rest.to_vec(), [tail.as_slice(), b"rest"].concat());
        packet.append(pool, b"front").expect("the pool is large");
        bytes.extend_from_slice(b"front");
    });
}

#[test]
fn packet_pullup_gathers_exactly_the_front() {
    // Breaks if bytes are lost where the first mbuf has no room, or is shared.
    packets(|_, packet, bytes, n| {
        match packet.pullup(n) {
            Ok(front) => assert_eq!(front, &bytes[..n]),
            Err(e) => {
                assert_eq!(e, PullupError::TooShort);
                assert!(n > bytes.len());
            }
        }
        assert!(packet.front().len() >= n || n > bytes.len());
    });
}

#[test]
fn packet_prepend_makes_room_and_keeps_the_rest() {
    // Breaks if room in shared storage is taken, or if a first mbuf without room is not left alone.
    packets(|_, packet, bytes, n| {
        for n in [n, 0, 40, MHLEN, MHLEN + 1, 2000] {
            let front = pattern(77, n);
            packet
                .prepend(n)
                .expect("the pool is large")
                .copy_from_slice(&front);
            bytes.splice(..0, front);
            check_packet(packet, bytes);
        }
    });
}

#[test]
fn packet_share_shows_any_range() {
    // Breaks if a range past the end is not cut there.
    packets(|_, packet, bytes, off| {
        for len in 0..=bytes.len() + 1 {
            let shared = packet.share(off, len).expect("the pool is large");
            let (from, to) = (off.min(bytes.len()), (off + len).min(bytes.len()));
            check_chain(&shared, &bytes[from..to]);
            let pieces = packet
                .segments_from(off)
                .flatten()
                .copied()
                .collect::<Vec<u8>>();
            assert_eq!(pieces, &bytes[from..]);
        }
        let all = packet.share(0, usize::MAX).expect("the pool is large");
        check_chain(&all, bytes);
        assert!(
            packet
                .share(usize::MAX, usize::MAX)
                .expect("nothing is taken")
                .is_empty()
        );
    });
}

#[test]
fn packet_write_changes_all_of_the_range_or_nothing() {
    // Breaks as for chains, and if the packet header is taken for data.
    packets(|_, packet, bytes, off| {
        for len in 0..4 {
            let src = vec![0xaa; len];
            match packet.write_at(off, &src) {
                Ok(()) => bytes[off..off + len].fill(0xaa),
                Err(WriteError::OutOfRange) => assert!(off + len > bytes.len()),
                Err(WriteError::Shared) => assert!(len > 0 && off + len <= bytes.len()),
            }
            check_packet(packet, bytes);
        }
    });
}

#[test]
fn a_header_comes_and_goes_in_place() {
    // Breaks if taking the header off moves the data, or putting one on forgets the cluster.
    packets(|pool, packet, bytes, n| {
        let mut turning = packet.copy_packet().expect("the pool is large");
        std::mem::swap(packet, &mut turning);
        for _ in 0..n {
            let chain = turning.into_chain();
            check_chain(&chain, bytes);
            turning = chain.into_packet(pool).expect("the pool is large");
            check_packet(&turning, bytes);
            assert_eq!(turning.header().flow, 0, "a fresh header");
        }
        turning.header_mut().flow = packet.header().flow;
        *packet = turning;
    });
}
