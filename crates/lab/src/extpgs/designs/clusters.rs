//! The same bytes in clusters of 2 KiB, as before there were lists of pages.
//!
//! Filling them is not measured (a device or a `read` does that), nor is the copy that made sendfile a bad bargain
//! before it had page lists: only the mbufs are.

use super::super::design::{Design, HEADER, RECORD, Spec, TRAILER, of_bytes};
use mbuf::{Chain, ClusterSize, MSIZE, MbufPool, PoolConfig, Scatter};

/// Bytes of a whole record.
const WHOLE: usize = HEADER + RECORD + TRAILER;
/// Clusters of a record.
const COUNT: usize = WHOLE.div_ceil(ClusterSize::K2.bytes());

/// Records in clusters.
pub(crate) struct Clusters {
    pool: MbufPool,
    /// Where the clusters of the next one lie ready.
    row: Scatter,
}

impl Design for Clusters {
    type Record = Chain;
    type Sndbuf = Chain;

    fn new(records: usize) -> Self {
        let clusters = (records + 1) * COUNT;
        let pool = MbufPool::new(PoolConfig {
            mbufs_max: clusters,
            cluster_bytes_max: clusters * ClusterSize::K2.bytes(),
        });
        let pool = pool.expect("there is address space");
        let row = Scatter::new(&pool, &[ClusterSize::K2; COUNT]);
        Self { pool, row }
    }

    #[inline]
    fn build(&mut self, spec: &Spec) -> Chain {
        self.row.refill().expect("the pool has room for all");
        let mut record = self.row.take(WHOLE);
        let header = record.write_at(0, &spec.header);
        let trailer = record.write_at(HEADER + RECORD, &spec.trailer);
        header.and(trailer).expect("nobody shares it");
        record
    }

    fn append(&self, to: &mut Chain, record: Chain) {
        to.append(record);
    }

    /// Address and length of each piece; the bytes of header and trailer are those of the first and the last.
    #[inline]
    fn walk(&self, sndbuf: &Chain) -> u64 {
        let mut sum = 0u64;
        for (at, bytes) in sndbuf.segments().enumerate() {
            let place = (bytes.as_ptr().addr() as u64).wrapping_mul(3);
            sum = sum.wrapping_add(place).wrapping_add(bytes.len() as u64);
            match at % COUNT {
                0 => sum = sum.wrapping_add(of_bytes(&bytes[..HEADER])),
                last if last == COUNT - 1 => {
                    sum = sum.wrapping_add(of_bytes(&bytes[bytes.len() - TRAILER..]));
                }
                _ => {}
            }
        }
        sum
    }

    #[inline]
    fn free(&self, sndbuf: Chain) {
        drop(sndbuf);
    }

    fn mbufs(&self, sndbuf: &Chain) -> usize {
        sndbuf.mbufs()
    }

    fn overhead(&self) -> usize {
        COUNT * (MSIZE + ClusterSize::K2.bytes()) - RECORD
    }

    fn live(&self) -> usize {
        self.pool.live().mbufs
    }
}
