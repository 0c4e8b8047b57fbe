//! A chain made shorter: its front dropped or taken, its end dropped.

use core::mem;

use super::{Chain, Hint};
use crate::error::NoBufs;
use crate::list;
use crate::mbuf::{Mbuf, MbufPtr};
use crate::storage::Storage;

impl<S: Storage> Chain<S> {
    /// Drops the first `n` bytes (all of them if there are fewer).
    #[doc(alias = "sbdrop")]
    pub fn trim_front(&mut self, n: usize) {
        if n >= self.len {
            // Dropping the old value frees the list.
            *self = Self::default();
            return;
        }
        self.len -= n;
        self.forget_before(n);
        let gone = list::cut_front(&mut self.head, n);
        let freed = gone.iter().flat_map(Mbuf::iter).map(Mbuf::pinned);
        self.pinned -= freed.sum::<usize>();
        self.check();
        // Last: the drop of lent storage may panic.
        drop(gone);
    }

    /// Drops the first `front` bytes and the last `back`; all if there are fewer.
    #[doc(alias = "m_adj")]
    pub fn adjust(&mut self, front: usize, back: usize) {
        self.truncate(self.len.saturating_sub(back));
        self.trim_front(front);
    }

    /// Removes the first mbuf and returns it as a chain; `None` if the chain has no mbuf. Operations on that chain, a
    /// drop included, concern this mbuf alone.
    #[doc(alias = "m_free")]
    pub fn pop_front(&mut self) -> Option<Self> {
        let mut first = self.head.take()?;
        self.head = first.take_next();
        let front = Self::from_list(first);
        self.len -= front.len;
        self.pinned -= front.pinned;
        if self.head.is_none() {
            self.tail = None;
        }
        self.forget_before(front.len);
        self.check();
        Some(front)
    }

    /// Corrects the hint when `n` bytes are removed from the front.
    fn forget_before(&mut self, n: usize) {
        self.hint = self.hint.and_then(|h| {
            Some(Hint {
                base: h.base.checked_sub(n)?,
                ..h
            })
        });
    }

    /// Drops all bytes after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        let (mut kept, mut gone) = (mem::take(self).into_list(), None);
        match &mut kept {
            Some(head) if len > 0 => {
                let (m, at) = list::seek_left(head, len);
                m.cut(at);
                gone = m.take_next();
            }
            _ => mem::swap(&mut kept, &mut gone),
        }
        *self = kept.map_or_else(Self::default, Self::from_list);
        self.check();
        // Last: the drop of lent storage may panic.
        drop(gone);
    }

    /// Takes the first `n` bytes (all if there are fewer) as a chain of their own, moving mbufs and
    /// sharing at most one cluster. On failure the chain is unchanged.
    ///
    /// # Errors
    /// [`NoBufs`]: the pool has no mbuf or cluster left.
    #[doc(alias = "m_split")]
    #[track_caller]
    #[inline]
    pub fn take_front(&mut self, n: usize) -> Result<Self, NoBufs> {
        if n >= self.len {
            return Ok(mem::take(self));
        }
        self.split_front(n)
    }

    /// As `take_front`, if bytes remain.
    #[track_caller]
    fn split_front(&mut self, n: usize) -> Result<Self, NoBufs> {
        let Some(head) = self.head.as_mut().filter(|_| n > 0) else {
            return Ok(Self::default());
        };
        let (m, at) = list::seek_left(head, n);
        let inside = at < m.len();
        let rest = list::split(m, at)?;
        // Only the front is walked: the rest is found by subtraction.
        let front = mem::replace(&mut self.head, rest);
        let front = front.map_or_else(Self::default, Self::from_list);
        self.pinned -= front.pinned;
        if let Some(second) = self.head.as_ref().filter(|_| inside) {
            self.pinned += second.pinned();
            if front.tail == self.tail {
                self.tail = Some(MbufPtr::of(second));
            }
        }
        self.len -= n;
        self.forget_before(n);
        self.check();
        Ok(front)
    }
}
