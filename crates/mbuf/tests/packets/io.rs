//! Readers, writers, and the way to `Bytes` and back.

use std::io::{BufRead, Read, Write};

use crate::common::{Built, Kind, balanced, pattern, pool_of};
use bytes::{Buf, BufMut, Bytes};
use mbuf::{Chain, ClusterSize, Live, MbufPool, Packet, WriteError};
use proptest::prelude::*;

/// A chain in which every field crosses a boundary somewhere, with empty mbufs between.
fn built(pool: &MbufPool, each: &[usize]) -> Built {
    let kinds = [
        Kind::Internal,
        Kind::Cluster(ClusterSize::K2, 3),
        Kind::Shared(ClusterSize::K4),
        Kind::Lent,
    ];
    let mut built = Built::new();
    for (i, &len) in each.iter().enumerate() {
        built
            .push(pool, kinds[i % kinds.len()], &pattern(i as u8, len))
            .expect("the pool is large");
    }
    built
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn a_chain_read_to_its_end_is_empty(each in prop::collection::vec(0usize..3000, 1..8), step in 1usize..4000) {
        // Breaks if a read does not remove its bytes from the front, or returns others.
        balanced(|pool| {
            let mut built = built(pool, &each);
            let mut seen = Vec::new();
            while built.chain.has_remaining() {
                let n = step.min(built.chain.len());
                match seen.len() % 3 {
                    0 => seen.extend(built.chain.copy_to_bytes(n)),
                    1 => {
                        let mut part = vec![0; n];
                        built.chain.read_exact(&mut part).expect("they are there");
                        seen.extend(part);
                    }
                    _ => {
                        let part = built.chain.fill_buf().expect("memory").to_vec();
                        built.chain.consume(part.len());
                        seen.extend(part);
                    }
                }
                assert!(built.chain.is_valid());
            }
            assert_eq!(seen, built.bytes);
            built.check_keepers();
        });
    }

    #[test]
    fn bytes_of_a_writer_are_in_the_chain(parts in prop::collection::vec((0usize..5000, any::<bool>()), 0..8)) {
        // Breaks if a write overwrites, is cut short, or goes into storage that others show.
        balanced(|pool| {
            let mut built = built(pool, &[100, 10, 10]);
            let mut writer = built.chain.writer(pool);
            for (i, &(len, reserve)) in parts.iter().enumerate() {
                let bytes = pattern(i as u8, len);
                if reserve {
                    writer.reserve(len).expect("the pool is large");
                    assert!(writer.remaining_mut() >= len);
                    writer.put_slice(&bytes);
                } else {
                    writer.write_all(&bytes).expect("the pool is large");
                }
                built.bytes.extend(bytes);
            }
            drop(writer);
            crate::common::check_chain(&built.chain, &built.bytes);
            built.check_keepers();
        });
    }
}

#[test]
fn fields_are_written_across_boundaries() {
    // Breaks if a write goes into shared storage, half a field, or behind the end.
    balanced(|pool| {
        let mut chain = Chain::from_slice(pool, &[1; 7]).expect("the pool is large");
        let mut more = Chain::from_slice(pool, &[2; 1000]).expect("the pool is large");
        let keeper = more.share(0, 1000).expect("the pool is large");
        chain.append(
            Packet::from_slice(pool, &[3; 5], 0)
                .expect("large")
                .into_chain(),
        );
        chain.append(more);
        assert_eq!(chain.write_at(5, &[9; 4]), Ok(()));
        assert_eq!(chain.write_at(9, &[8; 4]), Err(WriteError::Shared));
        assert_eq!(chain.write_at(9, &[8; 3]), Ok(()));
        assert_eq!(chain.write_at(9, &[8; 2000]), Err(WriteError::OutOfRange));
        assert_eq!(chain.write_at(1012, &[]), Ok(()));
        assert_eq!(
            chain.to_vec()[..13],
            [1, 1, 1, 1, 1, 9, 9, 9, 9, 8, 8, 8, 2]
        );
        assert_eq!(keeper.to_vec(), [2; 1000]);
    });
}

#[test]
fn bytes_are_copied_only_if_they_pin_too_much() {
    // Breaks if a large piece is copied, or a small one keeps a cluster.
    balanced(|pool| {
        let large = Chain::from_slice(pool, &[5; 2000]).expect("the pool is large");
        let at = large.segments().next().map(<[u8]>::as_ptr);
        let bytes = Bytes::from(large);
        assert_eq!((Some(bytes.as_ptr()), &bytes[..]), (at, &[5; 2000][..]));
        assert_eq!(pool.live().clusters, 1, "it is lent");
        let tail = bytes.slice(1500..);
        drop(bytes);
        assert_eq!(tail, vec![5; 500]);
        drop(tail);
        assert_eq!(pool.live(), Live::NONE);

        let mut large = Chain::from_slice(pool, &[5; 2000]).expect("the pool is large");
        let few = Bytes::from(large.take_front(100).expect("the pool is large"));
        drop(large);
        assert_eq!(pool.live(), Live::NONE, "100 bytes keep no cluster");
        assert_eq!(few, vec![5; 100]);

        let three = built(pool, &[50, 1500, 0, 3]);
        let pieces: Vec<Bytes> = three.chain.into_pieces().collect();
        assert_eq!(
            pieces.iter().map(Bytes::len).collect::<Vec<_>>(),
            [50, 1500, 3]
        );
        assert_eq!(pieces.concat(), three.bytes);
        assert_eq!(Bytes::from(Chain::new()), Bytes::new());
    });
}

#[test]
fn vectors_and_bytes_are_shown_where_they_are() {
    // Breaks if they are copied for no reason, or a small or mostly empty one is kept.
    balanced(|pool| {
        let mut vec = vec![6; 3000];
        let at = vec.as_ptr();
        let chain = Chain::try_from((pool, vec)).expect("the pool is large");
        assert_eq!(chain.segments().next().map(<[u8]>::as_ptr), Some(at));
        let again = Bytes::from(chain);
        assert_eq!(again.as_ptr(), at);
        let chain = Chain::try_from((pool, again)).expect("the pool is large");
        assert_eq!(chain.segments().next().map(<[u8]>::as_ptr), Some(at));
        assert_eq!(Vec::from(chain), [6; 3000]);

        vec = Vec::with_capacity(100_000);
        vec.resize(1000, 7);
        let chain = Chain::try_from((pool, vec)).expect("the pool is large");
        assert_eq!(pool.live().clusters, 1, "copied");
        assert_eq!(chain.to_vec(), [7; 1000]);
        let small = Chain::try_from((pool, Bytes::from_static(b"small"))).expect("large");
        assert_eq!((small.to_vec(), small.pinned()), (b"small".to_vec(), 256));
    });
}

#[test]
fn a_writer_without_memory_says_so() {
    // Breaks if a write is taken in part, or panics.
    let pool = pool_of(2, 2048);
    let mut chain = Chain::new();
    let mut writer = chain.writer(&pool);
    writer.write_all(&[1; 2000]).expect("there is one cluster");
    let error = writer.write(&[1; 500]).expect_err("and no other");
    assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
    assert!(writer.reserve(49).is_err());
    assert!(writer.reserve(48).is_ok());
    drop(writer);
    assert_eq!(chain.to_vec(), [1; 2000]);
    drop(chain);
    assert_eq!(pool.live(), Live::NONE);
}
