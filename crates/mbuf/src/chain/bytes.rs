//! Conversions between chains and the containers of other programs: `Bytes` and `Vec<u8>`.
//!
//! Inward, a vector or `Bytes` is lent to an mbuf, and outward an mbuf is lent to `Bytes`, without a copy. Only a few
//! bytes that would pin much memory ([`PINNED_PER_BYTE_MAX`]) are copied, which costs less than the pinned memory.

use bytes::Bytes;

use super::Chain;
use crate::error::NoBufs;
use crate::mbuf::Mbuf;
use crate::mbuf::PINNED_PER_BYTE_MAX;
use crate::pool::MbufPool;
use crate::raw::{MLEN, MSIZE};

/// Whether these bytes are too few for the memory that they pin.
fn is_wasteful(shown: usize, pinned: usize) -> bool {
    pinned > PINNED_PER_BYTE_MAX * shown + MSIZE
}

impl Chain {
    /// The pieces as `Bytes`, each with the mbuf that it is in, without a copy; little data in large
    /// storage is copied.
    pub fn into_pieces(mut self) -> impl Iterator<Item = Bytes> + Send {
        let mut next = self.head.take();
        core::iter::from_fn(move || {
            let mut m = next.take()?;
            next = m.take_next();
            Some(piece(m))
        })
        .filter(|bytes| !bytes.is_empty())
    }
}

/// Owns one mbuf whose bytes a `Bytes` shows, and frees it when they are not used any more.
struct Owner(Mbuf);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

fn piece(m: Mbuf) -> Bytes {
    match m.bytes() {
        few if is_wasteful(few.len(), m.pinned()) => Bytes::copy_from_slice(few),
        _ => Bytes::from_owner(Owner(m)),
    }
}

/// Without a copy if the chain is one piece, and does not keep much memory for few bytes.
impl From<Chain> for Bytes {
    fn from(chain: Chain) -> Self {
        match chain.segments().take(2).count() {
            0 => Self::new(),
            1 => chain.into_pieces().next().unwrap_or_default(),
            _ => Self::from(chain.to_vec()),
        }
    }
}

/// A copy: vectors own their memory.
impl From<Chain> for Vec<u8> {
    fn from(chain: Chain) -> Self {
        chain.to_vec()
    }
}

/// Shows the bytes without a copy, or copies them if an mbuf holds them all.
impl TryFrom<(&MbufPool, Bytes)> for Chain {
    type Error = NoBufs;

    #[track_caller]
    fn try_from((pool, bytes): (&MbufPool, Bytes)) -> Result<Self, NoBufs> {
        if bytes.len() <= MLEN {
            return Self::from_slice(pool, &bytes);
        }
        Self::from_owner(pool, bytes)
    }
}

/// Shows the vector's bytes without a copy, or copies them if an mbuf holds them all or the vector
/// is mostly empty.
impl TryFrom<(&MbufPool, Vec<u8>)> for Chain {
    type Error = NoBufs;

    #[track_caller]
    fn try_from((pool, bytes): (&MbufPool, Vec<u8>)) -> Result<Self, NoBufs> {
        if bytes.len() <= MLEN || is_wasteful(bytes.len(), MSIZE + bytes.capacity()) {
            return Self::from_slice(pool, &bytes);
        }
        Self::from_owner(pool, bytes)
    }
}
