//! A chain as a sink of bytes: a write copies once, into the room behind the last byte.
//!
//! ```text
//!   chain  | shown ....| room behind |  | empty | | empty |   reserved: clusters that lie ready
//! ```
//!
//! [`std::io::Write`] takes clusters as needed, and returns an error if there are none. A [`bytes::BufMut`] must not
//! fail, so it writes into [reserved](ChainWriter::reserve) room, and panics beyond as it does for a slice.
//!
//! Invariant: the chains in `reserved` are one empty mbuf each, with room.

use std::collections::VecDeque;
use std::io::{self, Write};

use bytes::BufMut;
use bytes::buf::UninitSlice;

use crate::chain::Chain;
use crate::error::NoBufs;
use crate::mbuf::Mbuf;
use crate::pool::{ClusterSize, MbufPool};

/// Writes to the end of a chain.
///
/// ```
/// use std::io::Write;
/// # use mbuf::{Chain, MbufPool, PoolConfig};
/// # let pool = MbufPool::new(PoolConfig::default())?;
/// let mut chain = Chain::new();
/// write!(chain.writer(&pool), "HTTP/1.1 {} {}\r\n", 200, "OK")?;
/// assert_eq!(chain.to_vec(), b"HTTP/1.1 200 OK\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChainWriter<'a> {
    chain: &'a mut Chain,
    pool: &'a MbufPool,
    reserved: VecDeque<Chain>,
}

impl Chain {
    /// Writes to the end, with mbufs from `pool`.
    pub fn writer<'a>(&'a mut self, pool: &'a MbufPool) -> ChainWriter<'a> {
        ChainWriter {
            chain: self,
            pool,
            reserved: VecDeque::new(),
        }
    }
}

impl ChainWriter<'_> {
    /// Room that is there.
    fn room(&self) -> usize {
        let reserved = self.reserved.iter().map(Chain::room);
        self.chain.room() + reserved.sum::<usize>()
    }

    /// Makes room for `n` bytes. On failure the room so far stays.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[track_caller]
    pub fn reserve(&mut self, n: usize) -> Result<(), NoBufs> {
        let mut room = self.room();
        while room < n {
            let size = ClusterSize::fitting(n - room);
            let m = Mbuf::with_cluster(self.pool, 0, size, 0)?;
            self.reserved.push_back(Chain::from_list(m));
            room += size.bytes();
        }
        Ok(())
    }

    /// Continues in the reserved room if there is none behind the last byte.
    fn next_room(&mut self) {
        while self.chain.room() == 0
            && let Some(empty) = self.reserved.pop_front()
        {
            self.chain.append(empty);
        }
    }
}

impl Write for ChainWriter<'_> {
    /// Writes all bytes or none.
    fn write(&mut self, src: &[u8]) -> io::Result<usize> {
        let mut rest = src;
        if self.room() > 0 {
            self.reserve(src.len()).map_err(out_of_memory)?;
            while !rest.is_empty() {
                let room = self.room_mut();
                let n = room.len().min(rest.len());
                room[..n].copy_from_slice(&rest[..n]);
                self.chain.grow(n);
                rest = &rest[n..];
            }
        } else {
            let copied = self.chain.extend_from_slice(self.pool, src);
            copied.map_err(out_of_memory)?;
        }
        Ok(src.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ChainWriter<'_> {
    fn room_mut(&mut self) -> &mut [u8] {
        self.next_room();
        self.chain.room_mut()
    }
}

fn out_of_memory(error: NoBufs) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, error)
}

// SAFETY: `chunk_mut` returns initialised room of the chain's own, the same room until
// `advance_mut`, which panics if `n` exceeds it.
unsafe impl BufMut for ChainWriter<'_> {
    fn remaining_mut(&self) -> usize {
        self.room()
    }

    unsafe fn advance_mut(&mut self, n: usize) {
        self.next_room();
        self.chain.grow(n);
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        UninitSlice::new(self.room_mut())
    }
}

kern::impl_debug!(ChainWriter<'_> |this| chain: this.chain, room: this.room());
