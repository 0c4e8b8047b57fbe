//! The memory that a chain pins stays in proportion to its bytes.

use crate::common::shapes::{build, chains, shapes};
use crate::common::{Built, Kind, balanced, check_chain, pattern, pool_of, sized};
use mbuf::{Chain, ClusterSize, Live, MSIZE, MbufPool, PINNED_PER_BYTE_MAX, Packet};
use proptest::prelude::*;

const K2: ClusterSize = ClusterSize::K2;

/// The most memory that a chain may pin after `condense`.
fn bound(chain: &Chain) -> usize {
    PINNED_PER_BYTE_MAX * chain.len() + MSIZE * chain.mbufs()
}

#[test]
fn condense_keeps_the_bytes_and_the_bound() {
    // Breaks if a piece is left that pins too much, an empty mbuf stays, or bytes go astray.
    chains(|pool, chain, bytes, n| {
        chain.trim_front(n);
        bytes.drain(..n.min(bytes.len()));
        let before = chain.pinned();
        let freed = chain.condense(pool);
        assert_eq!(chain.pinned() + freed, before);
        assert!(chain.pinned() <= bound(chain), "{chain:?}");
        assert_eq!(chain.mbufs(), chain.segments().count(), "none is empty");
        assert_eq!(chain.condense(pool), 0, "twice is once");
        check_chain(chain, bytes);
        // The tail is still the last mbuf, and the place of the last share is in this list.
        chain
            .extend_from_slice(pool, b"end")
            .expect("the pool is large");
        bytes.extend(b"end");
        drop(chain.share(0, bytes.len()).expect("the pool is large"));
    });
}

#[test]
fn condense_does_not_touch_the_sharers() {
    // Breaks if bytes copied out of shared storage go back into it.
    balanced(|pool| {
        for shape in shapes() {
            let mut built = build(pool, &shape);
            built.chain.condense(pool);
            built.check_keepers();
        }
    });
}

#[test]
fn well_filled_storage_is_not_copied() {
    // Breaks if bulk data is copied on its way through a socket buffer.
    balanced(|pool| {
        let mut chain = Chain::new();
        for size in ClusterSize::ALL {
            let len = size.bytes() / PINNED_PER_BYTE_MAX;
            let mut packet = Packet::with_cluster(pool, size, 100).expect("the pool is large");
            packet
                .append(pool, &pattern(1, len))
                .expect("there is room");
            chain.append(packet.into_chain());
        }
        let copied = pool.stats().bytes_copied;
        let before: Vec<_> = chain.segments().map(<[u8]>::as_ptr).collect();
        assert_eq!(chain.condense(pool), 0);
        let mut other = Chain::new();
        other.append_compact(pool, chain);
        let after: Vec<_> = other.segments().map(<[u8]>::as_ptr).collect();
        assert_eq!(after, before);
        assert_eq!(pool.stats().bytes_copied, copied);
    });
}

#[test]
fn a_flood_of_single_bytes_shares_mbufs() {
    // Breaks if each byte keeps storage of its own.
    balanced(|pool| {
        let mut chain = Chain::new();
        let count = sized(5000, 500);
        for n in 0..count {
            let mut packet = Packet::with_cluster(pool, K2, 54).expect("the pool is large");
            packet.append(pool, &[n as u8]).expect("there is room");
            chain.append_compact(pool, packet.into_chain());
        }
        assert!(chain.pinned() <= bound(&chain));
        assert!(chain.pinned() < 2 * chain.len() + MSIZE, "{chain:?}");
        let want: Vec<u8> = (0..count).map(|n| n as u8).collect();
        check_chain(&chain, &want);
    });
}

#[test]
fn condense_without_buffers_changes_nothing_else() {
    // Breaks if bytes are lost when there is no storage for a copy, or bytes that fit into existing
    // room are not copied.
    let pool = pool_of(2, 2 * K2.bytes());
    let mut chain = Chain::new();
    for n in 0..2 {
        let mut packet = Packet::with_cluster(&pool, K2, 0).expect("the pool has two");
        packet.append(&pool, &[n; 10]).expect("there is room");
        chain.append(packet.into_chain());
    }
    chain.condense(&pool);
    check_chain(&chain, &[[0; 10], [1; 10]].concat());
    assert_eq!(chain.mbufs(), 1);
    drop(chain);
    assert_eq!(pool.live(), Live::NONE);
}

/// A chain of pieces, the first bytes of which may have gone.
fn pieces(pool: &MbufPool, pieces: &[(u8, usize, usize)], trim: usize) -> Built {
    let mut built = Built::new();
    for (i, &(kind, len, lead)) in pieces.iter().enumerate() {
        let kind = match kind {
            0 => Kind::Internal,
            1..=4 => Kind::Cluster(ClusterSize::ALL[usize::from(kind) - 1], lead),
            5..=8 => Kind::Shared(ClusterSize::ALL[usize::from(kind) - 5]),
            _ => Kind::Lent,
        };
        let bytes = pattern(i as u8, len);
        built.push(pool, kind, &bytes).expect("the pool is large");
        if kind == Kind::Lent {
            // A part of larger storage.
            let cut = built.chain.len().saturating_sub(lead % (len + 1));
            built.chain.truncate(cut);
            built.bytes.truncate(cut);
        }
    }
    built.chain.trim_front(trim);
    built.bytes.drain(..trim.min(built.bytes.len()));
    built
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(sized(500, 5) as u32)
    })]

    #[test]
    fn any_chain_keeps_the_bound(
        parts in prop::collection::vec(
            (0u8..10, prop_oneof![0usize..40, 200usize..600, 0usize..20_000], 0usize..2000),
            0..12,
        ),
        trim in 0usize..5000,
    ) {
        // Breaks if some size of data finds no storage that it fills to a quarter; or if a copy
        // pins more memory than its source.
        balanced(|pool| {
            let mut built = pieces(pool, &parts, trim);
            let before = built.chain.pinned();
            let mut appended = Chain::new();
            let all = built.chain.share(0, built.bytes.len()).expect("the pool is large");
            appended.append_compact(pool, all);
            check_chain(&appended, &built.bytes);
            assert!(appended.pinned() <= bound(&appended), "{appended:?}");
            let freed = built.chain.condense(pool);
            check_chain(&built.chain, &built.bytes);
            assert_eq!(built.chain.pinned() + freed, before);
            assert!(built.chain.pinned() <= bound(&built.chain), "{:?}", built.chain);
            built.check_keepers();
        });
    }
}

#[test]
fn neighbouring_parts_of_one_storage_become_one_mbuf() {
    // Breaks if the pieces of a segment that crossed a link in memory stay apart, are copied, or if pieces are joined
    // that do not follow each other.
    balanced(|pool| {
        let bytes = pattern(3, 12_000);
        let mut packet =
            Packet::with_cluster(pool, ClusterSize::K16, 0).expect("the pool is large");
        packet.append(pool, &bytes).expect("there is room");
        let mut whole = packet.into_chain();
        let copied = pool.stats().bytes_copied;
        let mut cut = |off, len| whole.share(off, len).expect("the pool is large");

        let mut pieces = Chain::new();
        for off in (0..12_000).step_by(1_000) {
            // An empty mbuf before it, as the headers leave.
            let mut packet =
                Packet::before_chain(pool, cut(off, 1_000)).expect("the pool is large");
            packet.prepend(40).expect("there is room").fill(0);
            packet.trim_front(40);
            pieces.append(packet.into_chain());
        }
        let mut joined = Chain::new();
        let last = pieces.take_front(9_000).expect("the pool is large");
        let last = std::mem::replace(&mut pieces, last);
        joined.append_compact(pool, pieces);
        joined.append_compact(pool, last);
        assert_eq!(joined.mbufs(), 1);
        check_chain(&joined, &bytes);
        assert_eq!(pool.stats().bytes_copied, copied);

        // 8,000 bytes each, so that neither is copied.
        let mut apart = cut(4_000, 8_000);
        apart.append_compact(pool, cut(0, 8_000));
        assert_eq!(apart.mbufs(), 2);
        let mut overlapping = cut(0, 8_000);
        overlapping.append_compact(pool, cut(4_000, 8_000));
        assert_eq!(overlapping.mbufs(), 2);
        check_chain(&overlapping, &[&bytes[..8_000], &bytes[4_000..]].concat());

        drop((whole, apart, overlapping));
        // The last reference may write what it shows.
        let mut packet = Packet::from_chain(pool, joined).expect("the pool is large");
        packet.write_at(11_999, &[1]).expect("no other mbuf has it");
        assert_eq!(packet.len(), 12_000);
    });
}
