//! A chain's end: joining chains, copying bytes to it, filling the room behind it.

use super::Chain;
use crate::error::NoBufs;
use crate::mbuf::Mbuf;
use crate::pool::MbufPool;
use crate::storage::Storage;

impl<S: Storage> Chain<S> {
    /// Joins `other` to the end, moving its mbufs.
    #[doc(alias = "m_cat")]
    pub fn append(&mut self, other: Self) {
        if other.head.is_none() {
            return;
        }
        match self.tail_mut() {
            Some(tail) => tail.set_next(other.head),
            None => self.head = other.head,
        }
        self.tail = other.tail;
        self.len += other.len;
        self.pinned += other.pinned;
        self.check();
    }

    /// Bytes that can be put behind the last without another mbuf. 0 where the last mbuf's storage is
    /// shared.
    #[doc(alias = "M_TRAILINGSPACE")]
    #[inline]
    pub fn trailing_space(&self) -> usize {
        self.room()
    }

    /// Bytes in the first mbuf's storage before its data, if no other mbuf shares the storage.
    #[doc(alias = "M_LEADINGSPACE")]
    #[inline]
    pub fn leading_space(&self) -> usize {
        self.head.as_ref().map_or(0, Mbuf::front_room)
    }

    /// Writable room behind the last byte, in the last mbuf.
    pub(crate) fn room(&self) -> usize {
        self.tail().map_or(0, Mbuf::room)
    }

    /// Copies `bytes` to the end: into the room that is there, then into fresh mbufs. On failure
    /// the chain is unchanged.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_append")]
    #[track_caller]
    pub fn extend_from_slice(&mut self, pool: &MbufPool, bytes: &[u8]) -> Result<(), NoBufs> {
        let (here, mut rest) = bytes.split_at(self.room().min(bytes.len()));
        let mut more = Self::default();
        while !rest.is_empty() {
            let mut m = Mbuf::with_room(pool, rest.len())?;
            let (fits, others) = rest.split_at(m.room().min(rest.len()));
            m.push(fits);
            more.append(Self::from_list(m));
            rest = others;
        }
        if let Some(tail) = self.tail_mut() {
            tail.push(here);
        }
        self.len += here.len();
        self.append(more);
        Ok(())
    }
}

impl Chain {
    /// The room behind the last byte, in the last mbuf, to be filled.
    pub(crate) fn room_mut(&mut self) -> &mut [u8] {
        self.tail_mut().map_or(&mut [], Mbuf::room_mut)
    }

    /// Adds the next `n` bytes of the room behind the last byte, which the caller has filled.
    ///
    /// # Panics
    /// If there is less.
    pub(crate) fn grow(&mut self, n: usize) {
        assert!(n <= self.room());
        if let Some(tail) = self.tail_mut() {
            tail.grow(n);
        }
        self.len += n;
    }
}
