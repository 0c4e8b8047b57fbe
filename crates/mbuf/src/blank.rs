//! Storage to be written as one slice, and then shown: for code that produces bytes, such as a cipher.
//!
//! Invariant: nothing else shows the storage. Locks: none.

use crate::chain::Chain;
use crate::error::NoBufs;
use crate::mbuf::Mbuf;
use crate::pool::{ClusterSize, MbufPool};

/// An empty mbuf, with its own area or over a cluster of its own.
///
/// # Example
/// ```
/// use mbuf::{Blank, ClusterSize, MbufPool, PoolConfig};
///
/// let pool = MbufPool::new(PoolConfig::default())?;
/// let mut blank = Blank::new(&pool, ClusterSize::K4)?;
/// blank.bytes_mut()[..5].copy_from_slice(b"hello");
/// assert_eq!(blank.show(5).to_vec(), b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Blank(Chain);

impl Blank {
    /// Takes a cluster. Its bytes are those of its last use.
    ///
    /// # Errors
    /// No buffers.
    #[inline]
    #[track_caller]
    pub fn new(pool: &MbufPool, size: ClusterSize) -> Result<Self, NoBufs> {
        let m = Mbuf::with_cluster(pool, 0, size, 0)?;
        Ok(Self(Chain::from_list(m)))
    }

    /// Takes storage for `len` bytes: an mbuf alone if they fit into its own area ([`MLEN`](crate::MLEN)), else one
    /// with a cluster. Its bytes are those of its last use.
    ///
    /// # Errors
    /// No buffers, or no cluster is that large.
    #[inline]
    #[track_caller]
    pub fn for_len(pool: &MbufPool, len: usize) -> Result<Self, NoBufs> {
        let mut blank = Self(Chain::from_list(Mbuf::with_room(pool, len)?));
        match blank.bytes_mut().len() < len {
            true => Err(NoBufs),
            false => Ok(blank),
        }
    }

    /// All of the storage, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.room_mut()
    }

    /// Its first `len` bytes as a chain; all of them if there are fewer.
    #[inline]
    pub fn show(mut self, len: usize) -> Chain {
        let len = len.min(self.bytes_mut().len());
        self.0.grow(len);
        self.0
    }
}

kern::impl_debug!(Blank);
