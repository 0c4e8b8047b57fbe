//! A page list as a record, for code that encrypts or frames it.

use super::pieces::{PageRun, Piece, record_piece};
use crate::mbuf::Mbuf;
use crate::raw::PGS;

/// The whole record of one page list, even if its mbuf shows a part of it.
#[derive(Clone, Copy)]
pub struct Record<'a>(&'a Mbuf);

impl<'a> Record<'a> {
    /// The record of an mbuf that is a page list.
    pub(crate) fn of(m: &'a Mbuf) -> Option<Self> {
        m.is(PGS).then_some(Self(m))
    }

    /// Its type, in the numbers of its protocol: in TLS, 23 is application data.
    pub fn record_type(&self) -> u8 {
        self.0.pg().record_type
    }

    /// Its number, for the code that encrypts it.
    pub fn seqno(&self) -> u64 {
        self.0.pg().seqno
    }

    /// The bytes before the pages.
    pub fn header(&self) -> &'a [u8] {
        &self.0.pg_body().hdr[..usize::from(self.0.pg().hdr_len)]
    }

    /// The bytes behind the pages.
    pub fn trailer(&self) -> &'a [u8] {
        &self.0.pg_body().trail[..usize::from(self.0.pg().trail_len)]
    }

    /// Pages in the list.
    pub fn page_count(&self) -> usize {
        usize::from(self.0.pg().npages)
    }

    /// Bytes in the pages.
    pub fn pages_len(&self) -> usize {
        self.0.pg().pages_len()
    }

    /// Bytes in the whole record: header, pages, trailer.
    pub fn len(&self) -> usize {
        self.0.pg().record_len()
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether its mbuf shows the whole record: no byte was cut off.
    pub fn is_whole(&self) -> bool {
        self.0.len() == self.len()
    }

    /// The bytes in the pages, as runs of pages that follow each other by number.
    pub fn runs(&self) -> impl Iterator<Item = PageRun<'a>> + use<'a> {
        let m = self.0;
        let begin = usize::from(m.pg().hdr_len);
        let end = begin + m.pg().pages_len();
        let mut at = begin;
        core::iter::from_fn(move || {
            let Piece::Pages(run) = (at < end).then(|| record_piece(m, at, end - at))? else {
                unreachable!("between header and trailer are pages")
            };
            at += run.len;
            Some(run)
        })
    }
}

kern::impl_debug!(Record<'_> |this|
    record_type: this.record_type(),
    seqno: this.seqno(),
    header: this.header().len(),
    pages: this.page_count(),
    pages_len: this.pages_len(),
    trailer: this.trailer().len(),
);
