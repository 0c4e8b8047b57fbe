//! The receive buffer as a splice uses it: as the source's, to read, or as that of the sink's peer, to write.
//!
//! Locks: as of [`Rcvbuf`], inside of the splice's (SPLICE).

use std::sync::Arc;

use mbuf::{Chain, MbufPool, NoBufs};

use super::{Attached, QueuedRecord, Rcvbuf, RcvbufState, SendRefusal, Told, Want};
use crate::error::SocketError;
use crate::socket::SpliceEnd;
use crate::socket::splice::side::{SinkRoom, SpliceNews, Taken};
use crate::tcp::spliced::SpliceTurn;

impl Rcvbuf {
    /// Lets `splice` read, or write, instead of the program. False if another splice does.
    pub(in crate::unix) fn attach(&self, want: Want, splice: Arc<dyn SpliceTurn>) -> bool {
        let place = &mut self.inner.lock().splices[want as usize];
        let is_free = place.is_none();
        if is_free {
            *place = Some(splice);
        }
        is_free
    }

    /// Lets the program read, or write, again, and wakes waiting threads.
    pub(in crate::unix) fn detach(&self, want: Want, news: &mut SpliceNews) {
        let mut inner = self.inner.lock();
        inner.splices[want as usize] = None;
        news.add(inner.tell(want));
    }

    /// The splice that reads, or writes.
    pub(in crate::unix) fn splice(&self, want: Want) -> Option<Arc<dyn SpliceTurn>> {
        self.inner.lock().splice(want).cloned()
    }

    /// Takes bytes: see [`SpliceSide::take`](crate::socket::splice::side::SpliceSide::take). Bytes with rights stay.
    pub(in crate::unix) fn take_spliced(
        &self,
        max: u64,
        room: &SinkRoom,
        news: &mut SpliceNews,
    ) -> Taken {
        let mut inner = self.inner.lock();
        let Some(front) = inner.records.front() else {
            return inner.spliced_end();
        };
        if !front.with.cargo.is_empty() {
            return Taken::End(SpliceEnd::Rights);
        }
        let ready = front.data.len();
        let Some(wanted) = room.wanted(max, ready) else {
            return Taken::Nothing;
        };
        let was_above = inner.records.is_above_half();
        let taken = room.take_fitting(
            wanted,
            ready,
            |NoBufs| true,
            |n| inner.records.take_bytes(n),
        );
        let Ok(taken) = taken else {
            return Taken::NoBufs;
        };
        if was_above && !inner.records.is_above_half() {
            news.add(inner.tell(Want::Write));
        }
        Taken::Data {
            data: taken.data,
            more: !inner.records.is_empty() || inner.has_ended(),
        }
    }

    /// The room for bytes of the splice that writes.
    pub(in crate::unix) fn spliced_room(&self) -> Result<SinkRoom, SpliceEnd> {
        let inner = self.inner.lock();
        inner.is_open_to(None).map_err(end_of_sink)?;
        let (space, hiwat) = inner.records.space();
        Ok(SinkRoom {
            space,
            hiwat,
            piece: usize::MAX,
        })
    }

    /// Adds bytes that there was room for.
    pub(in crate::unix) fn give_spliced(
        &self,
        pool: &MbufPool,
        data: Chain,
        news: &mut SpliceNews,
    ) -> Result<(), SpliceEnd> {
        let mut inner = self.inner.lock();
        inner.is_open_to(None).map_err(end_of_sink)?;
        let was_empty = inner.records.is_empty();
        let with = Attached::default();
        news.copied = inner.records.join(pool, QueuedRecord { data, with });
        if was_empty {
            news.add(inner.tell(Want::Read));
        }
        Ok(())
    }

    /// The writing splice ends the direction; `reset`: the stream is incomplete.
    pub(in crate::unix) fn end_spliced(&self, reset: bool, news: &mut SpliceNews) {
        for told in self.end_writer(reset) {
            news.add(told);
        }
    }
}

impl RcvbufState {
    /// The result of an empty buffer for the reading splice. The program will read a reset itself.
    fn spliced_end(&self) -> Taken {
        match self.reset {
            true => Taken::End(SpliceEnd::Source(SocketError::Reset.into())),
            false if self.has_ended() => Taken::End(SpliceEnd::Eof),
            false => Taken::Nothing,
        }
    }
}

impl SpliceNews {
    fn add(&mut self, told: Told) {
        self.wakes.push(told.wakes);
        self.splices.extend(told.splice);
    }
}

fn end_of_sink(refusal: SendRefusal) -> SpliceEnd {
    let error = match refusal {
        SendRefusal::Gone => SocketError::Reset,
        SendRefusal::Full | SendRefusal::Shut | SendRefusal::Stranger => SocketError::Closed,
    };
    SpliceEnd::Sink(error.into())
}
