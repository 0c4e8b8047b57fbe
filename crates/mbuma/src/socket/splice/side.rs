//! One of the two connections of a splice, whatever its protocol.
//!
//! | | TCP | a stream of a UNIX-domain socket |
//! |---|---|---|
//! | a source has | its receive buffer | its receive buffer |
//! | a sink fills | its send buffer | the receive buffer of its peer |
//! | a change is acted on | by the connection's turn, which the splice schedules | at once: the peer is woken, or its splice gets a turn |
//!
//! The [link](super::link) makes a few of these calls a turn, however much the turn moves.
//!
//! Locks: the link calls [`take`](SpliceSide::take), [`room`](SpliceSide::room), [`give`](SpliceSide::give),
//! [`say_end`](SpliceSide::say_end) and [`detach`](SpliceSide::detach) with its own (SPLICE) held. Each of them takes the lock
//! of one connection and releases it.

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
    /// The part that a splice keeps of it. It does not keep the program's socket open.
    fn side(&self) -> Result<Box<dyn SpliceSide>, SpliceError>;
}

/// The direction of a connection that a splice uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpliceRole {
    /// The splice takes the data that it receives.
    Source,
    /// The splice sends on it.
    Sink,
}

/// A side of a splice.
pub(crate) trait SpliceSide: Send + Sync + fmt::Debug {
    /// The stack that it belongs to, whose batches and timers the splice uses.
    fn stack(&self) -> &Arc<StackState>;

    /// Tells it apart from other connections: an address that is its own as long as this value lives.
    fn id(&self) -> usize;

    /// The other end of the connection, if this process has it.
    fn peer(&self) -> Option<SplicePeer>;

    /// Makes `splice` learn of its changes in the place of the program. False if another splice does already.
    fn attach(&self, role: SpliceRole, splice: Arc<dyn SpliceTurn>) -> bool;

    /// Makes the program learn of its changes again, first of all that has changed.
    fn detach(&self, role: SpliceRole, news: &mut SpliceNews);

    /// Takes received data: `max` bytes at most, as far as the sink has room.
    fn take(&self, max: u64, room: &SinkRoom, news: &mut SpliceNews) -> Taken;

    /// The room for data to send.
    ///
    /// # Errors
    /// Why nothing can be sent any more.
    fn room(&self) -> Result<SinkRoom, SpliceEnd>;

    /// Sends data that there was room for.
    ///
    /// # Errors
    /// Why nothing can be sent any more.
    fn give(&self, data: Chain, news: &mut SpliceNews) -> Result<(), SpliceEnd>;

    /// Says that it sends no more. False if there is no buffer to say it with.
    fn say_end(&self, news: &mut SpliceNews) -> bool;

    /// Gives it a turn of its own, if it has turns. No lock is held.
    fn schedule(&self, batch: &mut Batch<'_>);

    /// Tells its peer that more was to come and never will. No lock is held.
    fn abort(&self, batch: &mut Batch<'_>);
}

/// The changes of one side, to be acted on when the splice's lock is released.
#[derive(Default)]
pub(crate) struct SpliceNews {
    /// The side needs a turn.
    pub(crate) schedule: bool,
    /// Programs that wait for what has come.
    pub(crate) wakes: Vec<Wakes>,
    /// Other splices that wait for it.
    pub(crate) splices: Vec<Arc<dyn SpliceTurn>>,
    /// Bytes that are not delivered, or that were copied: dropped without a lock.
    pub(crate) unread: Option<Flushed>,
    pub(crate) copied: Option<Chain>,
}

impl SpliceNews {
    /// Acts on them, in a batch of the side's stack.
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

    /// Drops bytes that no program gets. No lock is held: the storage may be a program's.
    pub(super) fn drop_bytes(&mut self) {
        drop((self.unread.take(), self.copied.take()));
    }

    /// Whether there are none, but for bytes to be dropped.
    pub(super) fn is_empty(&self) -> bool {
        !self.schedule && self.wakes.is_empty() && self.splices.is_empty()
    }
}

/// The sink's room, in bytes of the program's.
pub(crate) struct SinkRoom {
    pub(crate) space: usize,
    /// All that the buffer holds.
    pub(crate) hiwat: usize,
    /// At once: a record's content, so that nothing that was taken is to be cut, for which there may be no buffer.
    pub(crate) piece: usize,
}

impl SinkRoom {
    /// How many of `ready` bytes a turn should move, of `max` at most. `None` if it is to wait until half of the buffer is free.
    pub(crate) fn wanted(&self, max: u64, ready: usize) -> Option<usize> {
        let wanted = usize::try_from(max).unwrap_or(usize::MAX).min(ready);
        let waits = wanted > self.space && self.space < (self.hiwat / 2).max(1);
        (!waits).then_some(wanted)
    }

    /// Takes `wanted` bytes of `ready` by calls of `take`, as many as there is room for at once.
    ///
    /// To cut an mbuf takes another one; to take all of them does not. So without buffers the sink may go over its room.
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
        /// There is more, or the end behind it: another turn is due.
        more: bool,
    },
    Nothing,
    /// There are no buffers now. Nothing was lost.
    NoBufs,
    End(SpliceEnd),
}
