//! Chains and packets of every shape of up to three small mbufs: empty ones, internal ones, clusters,
//! shared clusters, lent storage. Boundaries are where things go wrong.

use mbuf::{Chain, ClusterSize, MbufPool, Packet};

use super::{Built, Kind, balanced, check_chain, check_packet, pattern, sized};

const K2: ClusterSize = ClusterSize::K2;

pub(crate) const PIECES: [(Kind, usize); 8] = [
    (Kind::Internal, 0),
    (Kind::Internal, 1),
    (Kind::Internal, 3),
    (Kind::Cluster(K2, 0), 0),
    (Kind::Cluster(K2, 5), 3),
    (Kind::Shared(K2), 0),
    (Kind::Shared(K2), 2),
    (Kind::Lent, 2),
];

/// All sequences of up to three pieces, and the empty chain. Under Miri a sample of those of two.
pub(crate) fn shapes() -> Vec<Vec<(Kind, usize)>> {
    let mut all = vec![vec![]];
    let mut longest = all.clone();
    for _ in 0..sized(3, 2) {
        longest = longest
            .iter()
            .flat_map(|shape| PIECES.map(|piece| [shape.as_slice(), &[piece]].concat()))
            .collect();
        all.extend_from_slice(&longest);
    }
    all.into_iter().step_by(sized(1, 9)).collect()
}

pub(crate) fn build(pool: &MbufPool, shape: &[(Kind, usize)]) -> Built {
    let mut built = Built::new();
    for (i, &(kind, len)) in shape.iter().enumerate() {
        let bytes = pattern(10 * i as u8 + 1, len);
        built.push(pool, kind, &bytes).expect("the pool is large");
    }
    check_chain(&built.chain, &built.bytes);
    assert_eq!(built.chain.mbufs(), shape.len());
    built
}

/// Runs `op` on a chain of every shape, for every number up to two past its length.
pub(crate) fn chains(op: impl Fn(&MbufPool, &mut Chain, &mut Vec<u8>, usize)) {
    balanced(|pool| {
        for shape in shapes() {
            let len: usize = shape.iter().map(|(_, len)| len).sum();
            for n in 0..=len + 2 {
                let mut built = build(pool, &shape);
                op(pool, &mut built.chain, &mut built.bytes, n);
                check_chain(&built.chain, &built.bytes);
                built.check_keepers();
            }
        }
    });
}

/// The same on packets, with their header in the first mbuf where it has a cluster, and in one of
/// its own.
pub(crate) fn packets(op: impl Fn(&MbufPool, &mut Packet, &mut Vec<u8>, usize)) {
    balanced(|pool| {
        for shape in shapes() {
            let len: usize = shape.iter().map(|(_, len)| len).sum();
            for n in 0..=len + 2 {
                for make in [Packet::from_chain, Packet::before_chain] {
                    let mut built = build(pool, &shape);
                    let chain = std::mem::take(&mut built.chain);
                    let mut packet = make(pool, chain).expect("the pool is large");
                    packet.header_mut().flow = 0x00c0_ffee;
                    op(pool, &mut packet, &mut built.bytes, n);
                    check_packet(&packet, &built.bytes);
                    assert_eq!(packet.header().flow, 0x00c0_ffee, "lost the header");
                    built.check_keepers();
                }
            }
        }
    });
}
