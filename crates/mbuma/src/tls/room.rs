//! Storage for a record's result: one slice to write, then a chain. All of it is taken before the record is sealed or
//! opened, so that a record that was sealed is never lost for want of a buffer.

use mbuf::{Blank, Chain, ClusterSize, MbufPool, NoBufs};

/// One slice, of the kind that suits its length.
pub(super) enum RecordRoom {
    Buffer(Blank),
    /// A record of 2^14 bytes of content has its type behind them when it is decrypted: one byte more than the largest
    /// cluster. A connection has one such record open at a time.
    Heap(Vec<u8>),
}

impl RecordRoom {
    pub(super) fn new(pool: &MbufPool, len: usize) -> Result<Self, NoBufs> {
        match len <= ClusterSize::K16.bytes() {
            true => Blank::for_len(pool, len).map(Self::Buffer),
            false => Ok(Self::Heap(vec![0; len])),
        }
    }

    /// The slice; at least as long as requested.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Buffer(blank) => blank.bytes_mut(),
            Self::Heap(bytes) => bytes,
        }
    }

    /// Its first `len` bytes as a chain. This can fail only if they lie on the heap.
    pub(super) fn show(self, pool: &MbufPool, len: usize) -> Result<Chain, NoBufs> {
        match self {
            Self::Buffer(blank) => Ok(blank.show(len)),
            Self::Heap(mut bytes) => {
                bytes.truncate(len);
                Chain::from_owner(pool, bytes)
            }
        }
    }
}
