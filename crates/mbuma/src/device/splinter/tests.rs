use super::*;
use mbuf::{Live, PoolConfig};

/// Breaks if a splintered packet has other bytes, another header, or larger pieces than asked for.
#[test]
fn same_bytes_in_small_pieces() {
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let bytes: Vec<u8> = (0..100).collect();
    let cases: [(Pattern, &[usize]); 4] = [
        (Pattern::Sizes(vec![30]), &[30, 30, 30, 10]),
        (Pattern::Sizes(vec![50, 20]), &[50, 20, 30]),
        (Pattern::Offsets(vec![0, 14, 34, 500]), &[14, 20, 66]),
        (Pattern::Offsets(vec![]), &[100]),
    ];
    for (pattern, sizes) in cases {
        let mut packet = Packet::from_slice(&pool, &bytes, 0).unwrap();
        packet.header_mut().tso_segsz = 7;
        let cut = pattern.cut(&pool, packet).unwrap();
        assert_eq!(cut.to_vec(), bytes);
        assert_eq!((cut.len(), cut.header().tso_segsz), (100, 7));
        assert_eq!(
            cut.segments().map(<[u8]>::len).collect::<Vec<_>>(),
            sizes,
            "{pattern:?}"
        );
    }
    for size in 1..=3 {
        let packet = Packet::from_slice(&pool, &bytes, 0).unwrap();
        let cut = Pattern::Sizes(vec![size]).cut(&pool, packet).unwrap();
        assert!(cut.segments().all(|s| s.len() <= size));
        assert_eq!(cut.to_vec(), bytes);
    }
    assert_eq!(pool.live(), Live::NONE);
}
