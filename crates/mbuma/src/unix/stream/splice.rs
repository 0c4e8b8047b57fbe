//! A stream of a UNIX-domain socket as a side of a splice.
//!
//! A splice keeps the two receive buffers of the connection, and no handle: the program's last handle still closes the
//! socket, and that stops the splice. Bytes with rights are not moved, because no other protocol can carry them: the
//! splice ends in front of them by [`SpliceEnd::Rights`](crate::socket::SpliceEnd), and the program reads them.
//!
//! Locks: none but those of the buffers.

use std::sync::Arc;

use mbuf::{Chain, MbufPool};

use super::UnixStream;
use crate::batch::Batch;
use crate::socket::splice::side::{
    SinkRoom, SpliceNews, SpliceRole, SpliceSide, Spliceable, Taken,
};
use crate::socket::{SpliceEnd, SpliceEndpoint, SpliceError};
use crate::state::StackState;
use crate::tcp::spliced::{SplicePeer, SpliceTurn};
use crate::unix::rcvbuf::Rcvbuf;
use crate::waiters::Want;

/// The part of a stream that a splice holds.
struct UnixSide {
    stack: Arc<StackState>,
    pool: MbufPool,
    /// Its own receive buffer, and its peer's.
    rx: Arc<Rcvbuf>,
    tx: Arc<Rcvbuf>,
}

impl<'a> From<&'a UnixStream> for SpliceEndpoint<'a> {
    fn from(stream: &'a UnixStream) -> Self {
        Self(stream)
    }
}

impl Spliceable for UnixStream {
    fn side(&self) -> Result<Box<dyn SpliceSide>, SpliceError> {
        let unix = self.unix();
        let (rx, tx) = self.connection().buffers();
        Ok(Box::new(UnixSide {
            stack: unix.stack().ok_or(SpliceError::StackGone)?,
            pool: unix.pool.clone(),
            rx: Arc::clone(rx),
            tx: Arc::clone(tx),
        }))
    }
}

impl UnixSide {
    /// The buffer of a splice with this role, and whether the splice reads or writes it.
    fn buffer(&self, role: SpliceRole) -> (&Rcvbuf, Want) {
        match role {
            SpliceRole::Source => (&self.rx, Want::Read),
            SpliceRole::Sink => (&self.tx, Want::Write),
        }
    }
}

impl SpliceSide for UnixSide {
    fn stack(&self) -> &Arc<StackState> {
        &self.stack
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.rx).addr()
    }

    fn peer(&self) -> Option<SplicePeer> {
        Some(SplicePeer {
            id: Arc::as_ptr(&self.tx).addr(),
            splice: self.tx.splice(Want::Read),
        })
    }

    fn attach(&self, role: SpliceRole, splice: Arc<dyn SpliceTurn>) -> bool {
        let (buffer, want) = self.buffer(role);
        buffer.attach(want, splice)
    }

    fn detach(&self, role: SpliceRole, news: &mut SpliceNews) {
        let (buffer, want) = self.buffer(role);
        buffer.detach(want, news);
    }

    fn take(&self, max: u64, room: &SinkRoom, news: &mut SpliceNews) -> Taken {
        self.rx.take_spliced(max, room, news)
    }

    fn room(&self) -> Result<SinkRoom, SpliceEnd> {
        self.tx.spliced_room()
    }

    fn give(&self, data: Chain, news: &mut SpliceNews) -> Result<(), SpliceEnd> {
        self.tx.give_spliced(&self.pool, data, news)
    }

    fn say_end(&self, news: &mut SpliceNews) {
        self.tx.end_spliced(false, news);
    }

    fn schedule(&self, _: &mut Batch<'_>) {}

    fn abort(&self, batch: &mut Batch<'_>) {
        let mut news = SpliceNews::default();
        self.tx.end_spliced(true, &mut news);
        news.act(self, batch);
    }
}

kern::impl_debug!(UnixSide |this| rx: this.rx.owner, tx: this.tx.owner);
