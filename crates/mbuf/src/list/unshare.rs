//! Copies of the mbufs of a list that must not be written, and their replacement.
//!
//! Whether an mbuf may be written is checked once, because another thread that drops its share meanwhile makes the mbuf
//! writable. So each copy names its original.

use std::collections::VecDeque;

use super::{gather, in_range};
use crate::chain::Chain;
use crate::error::NoBufs;
use crate::mbuf::{Mbuf, MbufPtr};
use crate::pool::MbufPool;

/// Copies, in the order of their originals.
#[derive(Default)]
pub(crate) struct MbufCopies(VecDeque<(MbufPtr, Chain)>);

impl MbufCopies {
    /// Copies every mbuf that holds a byte of `off..off + len` and may not be written, whole.
    #[track_caller]
    pub(crate) fn of(pool: &MbufPool, list: &Mbuf, off: usize, len: usize) -> Result<Self, NoBufs> {
        let mut copies = Self::default();
        for m in in_range(list, off, len).filter(|m| !m.is_writable()) {
            let mut copy = Chain::new();
            while copy.len() < m.len() {
                let left = m.len() - copy.len();
                let mut fresh = Mbuf::with_room(pool, left)?;
                let n = left.min(fresh.room());
                gather(&mut fresh, m, copy.len(), n);
                copy.append(Chain::from_list(fresh));
            }
            copies.0.push_back((MbufPtr::of(m), copy));
        }
        Ok(copies)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The list with the copies in place of the originals, which are freed.
    pub(crate) fn put_into(mut self, mut list: Option<Mbuf>) -> Chain {
        let mut out = Chain::new();
        while let Some(mut m) = list {
            list = m.take_next();
            match self.0.pop_front_if(|(of, _)| *of == MbufPtr::of(&m)) {
                Some((_, copy)) => out.append(copy),
                None => out.append(Chain::from_list(m)),
            }
        }
        debug_assert!(self.is_empty());
        out
    }
}
