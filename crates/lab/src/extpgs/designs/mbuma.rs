//! Ours, through the interface that users have: [`ExtPgs`] and [`Chain<Mixed>`].

use super::super::design::{Design, Spec, of_bytes, of_pages};
use mbuf::{Chain, ExtPgs, MbufPool, Mixed, PageSource, Pages, Piece, PoolConfig};
use std::io;

/// Pages that are never read.
struct Unread;

impl PageSource for Unread {
    fn read(&self, _page: u64, _off: usize, _dst: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Page lists in mbufs of ours.
pub(crate) struct Mbuma {
    pool: MbufPool,
    pages: Pages,
}

impl Design for Mbuma {
    type Record = ExtPgs;
    type Sndbuf = Chain<Mixed>;

    fn new(records: usize) -> Self {
        let config = PoolConfig {
            mbufs_max: records + 1,
            ..PoolConfig::default()
        };
        Self {
            pool: MbufPool::new(config).expect("there is address space"),
            pages: Pages::new(Unread),
        }
    }

    #[inline]
    fn build(&mut self, spec: &Spec) -> ExtPgs {
        let pages = self.pages.share().expect("far from 2^30");
        let record = ExtPgs::of_list(
            &self.pool,
            pages,
            &spec.pages,
            spec.first_off,
            super::super::design::RECORD,
        );
        let mut record = record.expect("the pool has room for all");
        record.set_header(&spec.header).expect("13 bytes fit");
        record.set_trailer(&spec.trailer).expect("16 bytes fit");
        record.set_record_type(23);
        record.set_seqno(spec.number);
        record
    }

    fn append(&self, to: &mut Chain<Mixed>, record: ExtPgs) {
        to.append(record.into_chain());
    }

    #[inline]
    fn walk(&self, sndbuf: &Chain<Mixed>) -> u64 {
        let piece = |sum: u64, piece| match piece {
            Piece::Bytes(bytes) => sum.wrapping_add(of_bytes(bytes)),
            Piece::Pages(run) => sum.wrapping_add(of_pages(run.page, run.off, run.len)),
        };
        sndbuf.pieces().fold(0, piece)
    }

    #[inline]
    fn free(&self, sndbuf: Chain<Mixed>) {
        drop(sndbuf);
    }

    fn mbufs(&self, sndbuf: &Chain<Mixed>) -> usize {
        sndbuf.mbufs()
    }

    fn overhead(&self) -> usize {
        mbuf::MSIZE
    }

    fn live(&self) -> usize {
        self.pool.live().mbufs
    }
}
