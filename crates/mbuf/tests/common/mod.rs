//! Helpers of the tests: chains of every shape with the bytes they must show, and zone balance.
#![allow(dead_code)] // each test file uses a part

pub(crate) mod shapes;

use mbuf::{Chain, ClusterSize, Live, MbufPool, NoBufs, Packet, PoolConfig};

/// Smaller under Miri, which takes a thousand times as long.
pub(crate) const fn sized(usual: usize, miri: usize) -> usize {
    if cfg!(miri) { miri } else { usual }
}

pub(crate) fn pool_of(mbufs_max: usize, cluster_bytes_max: usize) -> MbufPool {
    MbufPool::new(PoolConfig {
        mbufs_max,
        cluster_bytes_max,
    })
    .expect("there is address space")
}

/// Runs a test with a pool, to which all buffers must come back.
pub(crate) fn balanced(test: impl FnOnce(&MbufPool)) {
    let pool = MbufPool::new(PoolConfig::default()).expect("there is address space");
    test(&pool);
    assert_eq!(pool.live(), Live::NONE, "leaked");
}

/// Bytes that differ by position.
pub(crate) fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| {
            seed.wrapping_add((i as u8).wrapping_mul(31))
                .wrapping_add((i >> 8) as u8)
        })
        .collect()
}

/// The storage of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In the mbuf.
    Internal,
    /// In a cluster, so many bytes from its start.
    Cluster(ClusterSize, usize),
    /// In the middle of a cluster that another mbuf shows as well.
    Shared(ClusterSize),
    /// In a vector that was lent.
    Lent,
}

/// A chain with the bytes that it must show, and the sharers that must not change with it.
pub(crate) struct Built {
    pub(crate) chain: Chain,
    pub(crate) bytes: Vec<u8>,
    keepers: Vec<(Chain, Vec<u8>)>,
}

impl Built {
    pub(crate) fn new() -> Self {
        Self {
            chain: Chain::new(),
            bytes: Vec::new(),
            keepers: Vec::new(),
        }
    }

    /// Adds a piece: one mbuf where `bytes` fit one, even if there are none.
    pub(crate) fn push(&mut self, pool: &MbufPool, kind: Kind, bytes: &[u8]) -> Result<(), NoBufs> {
        let piece = match kind {
            Kind::Internal if bytes.is_empty() => Packet::new(pool)?.into_chain(),
            Kind::Internal => Chain::from_slice(pool, bytes)?,
            Kind::Cluster(size, lead) => {
                let mut packet = Packet::with_cluster(pool, size, lead)?;
                packet.append(pool, bytes)?;
                packet.into_chain()
            }
            Kind::Shared(size) => self.shared(pool, size, bytes)?,
            Kind::Lent => Chain::from_owner(pool, bytes.to_vec())?,
        };
        self.chain.append(piece);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn shared(
        &mut self,
        pool: &MbufPool,
        size: ClusterSize,
        bytes: &[u8],
    ) -> Result<Chain, NoBufs> {
        let mut whole = vec![0xee];
        whole.extend_from_slice(bytes);
        whole.push(0xee);
        let mut keeper = Packet::with_cluster(pool, size, 7)?;
        keeper.append(pool, &whole)?;
        let mut keeper = keeper.into_chain();
        // A range of no bytes has no mbuf; a packet that is cut to none keeps its first.
        let mut piece = Packet::from_chain(pool, keeper.share(1, bytes.len().max(1))?)?;
        piece.truncate(bytes.len());
        self.keepers.push((keeper, whole));
        Ok(piece.into_chain())
    }

    /// The sharers' bytes have not changed.
    pub(crate) fn check_keepers(&self) {
        for (chain, bytes) in &self.keepers {
            assert_eq!(&chain.to_vec(), bytes, "a write went into shared storage");
        }
    }
}

pub(crate) fn check_chain(chain: &Chain, bytes: &[u8]) {
    assert!(chain.is_valid(), "{chain:?}");
    assert_eq!(chain.len(), bytes.len());
    assert_eq!(chain.is_empty(), bytes.is_empty());
    assert!(
        chain.to_vec() == bytes,
        "{:?} is not {bytes:?}",
        chain.to_vec()
    );
}

pub(crate) fn check_packet(packet: &Packet, bytes: &[u8]) {
    assert!(packet.is_valid(), "{packet:?}");
    assert_eq!(packet.len(), bytes.len());
    assert_eq!(packet.is_empty(), bytes.is_empty());
    assert!(
        packet.to_vec() == bytes,
        "{:?} is not {bytes:?}",
        packet.to_vec()
    );
    assert!(bytes.starts_with(packet.front()));
}
