//! The interface of a design that describes records in pages.

/// Bytes of a record's payload: TLS's most.
pub(crate) const RECORD: usize = 16 << 10;
/// Bytes of a record's header: TLS 1.2's with an explicit nonce.
pub(crate) const HEADER: usize = 13;
/// Bytes of a record's trailer: the tag.
pub(crate) const TRAILER: usize = 16;
/// Where in its first page a record begins; the page is then one of five.
const FIRST_OFF: usize = 1000;
/// Pages of a record.
pub(crate) const PAGES: usize = 5;
/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

const _: () = assert!((FIRST_OFF + RECORD).div_ceil(PAGE) == PAGES);

/// The n-th record to describe. Its pages do not follow each other, as those of a page cache do not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    /// The number of the record.
    pub(crate) number: u64,
    /// Its pages.
    pub(crate) pages: [u64; PAGES],
    /// Where in the first it begins.
    pub(crate) first_off: usize,
    /// The header before the pages.
    pub(crate) header: [u8; HEADER],
    /// The trailer behind them.
    pub(crate) trailer: [u8; TRAILER],
}

impl Spec {
    /// The n-th.
    #[inline]
    pub(crate) fn new(number: u64) -> Self {
        let byte = number as u8;
        Self {
            number,
            pages: [0, 2, 4, 6, 8].map(|page| number * 16 + page),
            first_off: FIRST_OFF,
            header: [byte; HEADER],
            trailer: [byte.wrapping_add(1); TRAILER],
        }
    }
}

/// A way of describing records.
pub(crate) trait Design: Sized {
    /// A record that was not queued yet.
    type Record;
    /// A send buffer: records in a row.
    type Sndbuf: Default;

    /// With room for this many records; a record without room ends the experiment with a panic.
    fn new(records: usize) -> Self;

    /// Describes a record: list, header, trailer, one more reference to the owner of the pages.
    fn build(&mut self, spec: &Spec) -> Self::Record;

    /// Queues a record.
    fn append(&self, to: &mut Self::Sndbuf, record: Self::Record);

    /// Walks the pieces as a driver that gathers: adds up the address and length of each piece in pages, and the bytes
    /// of each piece in memory.
    fn walk(&self, sndbuf: &Self::Sndbuf) -> u64;

    /// Frees the acknowledged data: all.
    fn free(&self, sndbuf: Self::Sndbuf);

    /// Mbufs in a send buffer.
    fn mbufs(&self, sndbuf: &Self::Sndbuf) -> usize;

    /// Bytes that describe one record: all allocations for it except its payload's storage.
    fn overhead(&self) -> usize;

    /// Items that are out of the zones.
    fn live(&self) -> usize;
}

/// The sum of a piece in pages.
#[inline]
pub(crate) fn of_pages(page: u64, off: usize, len: usize) -> u64 {
    (page * PAGE as u64 + off as u64).wrapping_mul(3) + len as u64
}

/// The sum of a piece in memory.
#[inline]
pub(crate) fn of_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}
