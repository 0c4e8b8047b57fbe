//! One of the two connections of a splice, of any protocol.
//!
//! | | TCP | a stream of a UNIX-domain socket |
//! |---|---|---|
//! | a source has | its receive buffer | its receive buffer |
//! | a sink fills | its send buffer | the receive buffer of its peer |
//! | a change is acted on | by the connection's turn, which the splice schedules | at once: the peer is woken, or its splice gets a turn |
//!
//! The [link](super::link) makes a few of these calls in each turn, independent of the number of bytes.
//!
//! Locks: the link calls [`take`](SpliceSide::take), [`room`](SpliceSide::room), [`give`](SpliceSide::give),
//! [`say_end`](SpliceSide::say_end) and [`detach`](SpliceSide::detach) with its own (SPLICE) held. Each of them takes
//! the lock of one connection and releases it.

use std::fmt;
use std::sync::Arc;

use mbuf::Chain;

use super::{SpliceEnd, SpliceError};
use crate::batch::Batch;
use crate::sockbuf::Flushed;
use crate::state::StackState;
use crate::tcp::spliced::{SplicePeer, SpliceTurn};
use crate::waiters::Wakes;

/// A socket that can become a side of a splice.
pub(crate) trait Spliceable: fmt::Debug {
    /// The part of it that a splice keeps. It does not keep the program's socket open.
    fn side(&self) -> Result<Box<dyn SpliceSide>, SpliceError>;
}

/// The direction of a connection that a splice uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpliceRole {
    /// The splice reads from it.
    Source,
    /// The splice writes to it.
    Sink,
}

/// A side of a splice.
pub(crate) trait SpliceSide: Send + Sync + fmt::Debug {
    /// The stack that it belongs to, whose batches and timers the splice uses.
    fn stack(&self) -> &Arc<StackState>;

    /// Its identity among connections: an address that is unique as long as this value lives.
    fn id(&self) -> usize;

    /// The other end of the connection, if that is in this process.
    fn peer(&self) -> Option<SplicePeer>;

    /// From now on it reports changes to `splice` instead of the program. False if it reports to another splice
    /// already.
    fn attach(&self, role: SpliceRole, splice: Arc<dyn SpliceTurn>) -> bool;

    /// From now on it reports changes to the program again, and at once those that happened meanwhile.
    fn detach(&self, role: SpliceRole, news: &mut SpliceNews);

    /// Takes received data: at most `max` bytes, and no more than the sink has room for.
    fn take(&self, max: u64, room: &SinkRoom, news: &mut SpliceNews) -> Taken;

    /// The room for data to send.
    ///
    /// # Errors
    /// The reason why no more data can be sent.
    fn room(&self) -> Result<SinkRoom, SpliceEnd>;

    /// Sends data for which there was room.
    ///
    /// # Errors
    /// The reason why no more data can be sent.
    fn give(&self, data: Chain, news: &mut SpliceNews) -> Result<(), SpliceEnd>;

    /// Ends its sending direction.
    fn say_end(&self, news: &mut SpliceNews);

    /// Gives it a turn of its own, if it has turns. No lock is held.
    fn schedule(&self, batch: &mut Batch<'_>);

    /// Reports to its peer that the stream is incomplete. No lock is held.
    fn abort(&self, batch: &mut Batch<'_>);
}

/// The effects of a turn on one side, to be carried out when the splice's lock is released.
#[derive(Default)]
pub(crate) struct SpliceNews {
    /// The side needs a turn.
    pub(crate) schedule: bool,
    /// The wakers of programs.
    pub(crate) wakes: Vec<Wakes>,
    /// Other splices that wait for the change.
    pub(crate) splices: Vec<Arc<dyn SpliceTurn>>,
    /// Bytes to drop without a lock: undelivered or copied ones.
    pub(crate) unread: Option<Flushed>,
    pub(crate) copied: Option<Chain>,
}

impl SpliceNews {
    /// Carries them out, in a batch of the side's stack.
    pub(crate) fn act(self, side: &dyn SpliceSide, batch: &mut Batch<'_>) {
        if self.schedule {
            side.schedule(batch);
        }
        for splice in self.splices {
            splice.queue(batch);
        }
        for wakes in self.wakes {
            batch.wake(wakes);
        }
    }

    /// Drops bytes that no program gets. No lock is held, because a program may own the storage.
    pub(super) fn drop_bytes(&mut self) {
        drop((self.unread.take(), self.copied.take()));
    }

    /// Whether there is nothing to do except to drop bytes.
    pub(super) fn is_empty(&self) -> bool {
        !self.schedule && self.wakes.is_empty() && self.splices.is_empty()
    }
}

/// The sink's room, in bytes of content.
pub(crate) struct SinkRoom {
    pub(crate) space: usize,
    /// The size of the buffer.
    pub(crate) hiwat: usize,
    /// Bytes to give in one call: the content of one record. So taken data never needs to be cut, for which there may
    /// be no buffer.
    pub(crate) piece: usize,
}

impl SinkRoom {
    /// How many of the `ready` bytes, at most `max`, a turn should move. `None` if it should wait until half of the
    /// buffer is free.
    pub(crate) fn wanted(&self, max: u64, ready: usize) -> Option<usize> {
        let wanted = usize::try_from(max).unwrap_or(usize::MAX).min(ready);
        let waits = wanted > self.space && self.space < (self.hiwat / 2).max(1);
        (!waits).then_some(wanted)
    }

    /// Takes `wanted` of the `ready` bytes by calls of `take`, in portions for which there is room.
    ///
    /// Cutting an mbuf needs another mbuf; taking whole mbufs does not. So without buffers the sink may exceed its
    /// room.
    pub(crate) fn take_fitting<T, E>(
        &self,
        wanted: usize,
        ready: usize,
        is_no_bufs: impl Fn(&E) -> bool,
        mut take: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<T, E> {
        match take(wanted.min(self.space).min(self.piece)) {
            Err(e) if is_no_bufs(&e) && wanted == ready && ready <= self.piece => take(ready),
            taken => taken,
        }
    }
}

/// The data that a turn takes out of the source.
pub(crate) enum Taken {
    Data {
        data: Chain,
        /// More data or the end follows: another turn is due.
        more: bool,
    },
    Nothing,
    /// There are no buffers now. Nothing was lost.
    NoBufs,
    End(SpliceEnd),
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn without_buffers_all_that_waits_moves_though_there_is_less_room() {
        // Breaks if receive buffers whose content can't be cut wait for each other, with all mbufs in them; or if more
        // moves than the splice may move, or a record holds.
        let moved = |wanted, piece| {
            let room = SinkRoom {
                space: 10,
                hiwat: 20,
                piece,
            };
            let take = |n| if n == 30 { Ok(n) } else { Err(()) };
            room.take_fitting(wanted, 30, |()| true, take)
        };
        assert_eq!(moved(30, usize::MAX), Ok(30));
        assert_eq!(moved(29, usize::MAX), Err(()));
        assert_eq!(moved(30, 29), Err(()));
    }
}
