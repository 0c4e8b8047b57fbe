//! A TCP connection as a side of a splice, with TLS or without.
//!
//! Locks: the connection's (CONN).

use std::fmt;
use std::sync::Arc;

use mbuf::Chain;

use super::side::{SinkRoom, SpliceNews, SpliceRole, SpliceSide, Spliceable, Taken};
use super::{SpliceEnd, SpliceError};
use crate::batch::Batch;
use crate::error::SocketError;
use crate::socket::{TcpStream, tcp_stream, tls_stream};
use crate::state::StackState;
use crate::tcp::pcb::{Inpcb, Tcb};
use crate::tcp::spliced::{AttachedLayers, SplicePeer, SpliceTurn};
use crate::tcp::visit;
use crate::tls::TlsError;

/// Content at most that one turn opens of a source with TLS, so that other turns are not delayed.
const CONTENT_MAX: usize = 256 << 10;

/// The part of a connection that a splice keeps.
#[derive(Clone)]
pub(in crate::socket) struct TcpSide {
    pub(in crate::socket) stack: Arc<StackState>,
    pub(in crate::socket) pcb: Arc<Inpcb>,
}

impl Spliceable for TcpStream {
    fn side(&self) -> Result<Box<dyn SpliceSide>, SpliceError> {
        Ok(Box::new(TcpStream::side(self)))
    }
}

impl AttachedLayers {
    fn place(&mut self, role: SpliceRole) -> &mut Option<Arc<dyn SpliceTurn>> {
        match role {
            SpliceRole::Source => &mut self.as_source,
            SpliceRole::Sink => &mut self.as_sink,
        }
    }
}

impl TcpSide {
    /// Opens the source's records, up to `max` bytes of content. Records without content are handled as in a program's
    /// read.
    fn take_content(&self, t: &mut Tcb, max: usize, news: &mut SpliceNews) -> Taken {
        let pool = &self.stack.pool;
        let mut data = Chain::new();
        let (mut end, mut no_bufs) = (None, false);
        while data.len() < max && end.is_none() {
            match tls_stream::content(pool, t, max - data.len()) {
                Ok(next) if next.is_empty() => end = Some(SpliceEnd::Eof),
                Ok(next) => data.append(next),
                Err(e) if e.is_would_block() => break,
                Err(TlsError::Socket(SocketError::NoBufs)) => {
                    no_bufs = true;
                    break;
                }
                Err(e) => end = Some(SpliceEnd::Source(e)),
            }
        }
        let after = tls_stream::after_read(t);
        news.schedule = after.tell;
        news.unread = after.unread;
        let opened = t.conn.tls().map_or(0, |tls| tls.opened());
        let waits = opened > 0 || !t.recv.buf.is_empty() || !t.conn.state.receives_data();
        match end {
            // The next turn finds the end, or a record without a buffer, again.
            _ if !data.is_empty() => Taken::Data {
                data,
                more: waits || no_bufs || end.is_some(),
            },
            Some(end) => Taken::End(end),
            None if no_bufs => Taken::NoBufs,
            None => self.nothing(),
        }
    }

    /// No data is there; none will come if no thread drives the stack any more.
    fn nothing(&self) -> Taken {
        match self.stack.is_abandoned() {
            true => Taken::End(SpliceEnd::Source(SocketError::NotDriven.into())),
            false => Taken::Nothing,
        }
    }

    fn find_room(&self) -> Result<SinkRoom, TlsError> {
        if self.stack.is_abandoned() {
            return Err(SocketError::NotDriven.into());
        }
        let t = visit::begin(&self.pcb);
        tcp_stream::may_send(&t)?;
        let (space, hiwat) = (t.send.buf.space(), t.send.buf.hiwat());
        let Some(tls) = t.conn.tls() else {
            return Ok(SinkRoom {
                space,
                hiwat,
                piece: usize::MAX,
            });
        };
        tls.may_frame()?;
        Ok(SinkRoom {
            space: tls.content_for(space),
            hiwat: tls.content_for(hiwat),
            piece: tls.content_max(),
        })
    }

    fn append(&self, mut data: Chain) -> Result<(), TlsError> {
        let pool = &self.stack.pool;
        let mut t = visit::begin(&self.pcb);
        tcp_stream::may_send(&t)?;
        t.set_more_follows(false);
        if t.conn.tls().is_some() {
            return tls_stream::frame_chain(&mut t, &mut data);
        }
        t.send.buf.append(pool, data);
        Ok(())
    }
}

impl SpliceSide for TcpSide {
    fn stack(&self) -> &Arc<StackState> {
        &self.stack
    }

    fn id(&self) -> usize {
        Arc::as_ptr(&self.pcb).addr()
    }

    fn peer(&self) -> Option<SplicePeer> {
        let pcb = self.stack.tcp.table.lookup(&self.pcb.ends().reversed())?;
        let t = visit::begin(&pcb);
        Some(SplicePeer {
            id: Arc::as_ptr(&pcb).addr(),
            splice: t.conn.attached.as_ref().and_then(|s| s.as_source.clone()),
        })
    }

    fn attach(&self, role: SpliceRole, splice: Arc<dyn SpliceTurn>) -> bool {
        let mut t = visit::begin(&self.pcb);
        let place = t.conn.attached.get_or_insert_default().place(role);
        let is_free = place.is_none();
        if is_free {
            *place = Some(splice);
        }
        is_free
    }

    fn detach(&self, role: SpliceRole, news: &mut SpliceNews) {
        let mut t = visit::begin(&self.pcb);
        if let Some(layers) = &mut t.conn.attached {
            *layers.place(role) = None;
        }
        t.conn.attached.take_if(|layers| layers.is_empty());
        t.notify();
        news.schedule = true;
    }

    fn take(&self, max: u64, room: &SinkRoom, news: &mut SpliceNews) -> Taken {
        let mut t = visit::begin(&self.pcb);
        let ready = t.recv.buf.ready() + t.conn.tls().map_or(0, |tls| tls.opened());
        let Some(wanted) = room.wanted(max, ready) else {
            return Taken::Nothing;
        };
        if t.conn.tls().is_some() {
            // The records of a turn have less content than bytes.
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            let max = max.min(room.space).min(room.piece).min(CONTENT_MAX);
            return self.take_content(&mut t, max, news);
        }
        let is_no_bufs = |e: &SocketError| *e == SocketError::NoBufs;
        let taken = room.take_fitting(wanted, ready, is_no_bufs, |n| {
            tcp_stream::take_received(&mut t, n)
        });
        let data = match taken {
            Ok(data) if data.is_empty() => return Taken::End(SpliceEnd::Eof),
            Ok(data) => data,
            Err(SocketError::WouldBlock) => return self.nothing(),
            Err(SocketError::NoBufs) => return Taken::NoBufs,
            Err(e) => return Taken::End(SpliceEnd::Source(e.into())),
        };
        news.schedule = t.should_reopen();
        let more = !t.recv.buf.is_empty() || !t.conn.state.receives_data();
        Taken::Data { data, more }
    }

    fn room(&self) -> Result<SinkRoom, SpliceEnd> {
        self.find_room().map_err(SpliceEnd::Sink)
    }

    fn give(&self, data: Chain, news: &mut SpliceNews) -> Result<(), SpliceEnd> {
        self.append(data).map_err(SpliceEnd::Sink)?;
        news.schedule = true;
        Ok(())
    }

    fn say_end(&self, news: &mut SpliceNews) {
        tls_stream::say_end(&mut visit::begin(&self.pcb));
        news.schedule = true;
    }

    fn schedule(&self, batch: &mut Batch<'_>) {
        visit::schedule(batch, &self.pcb);
    }

    fn abort(&self, batch: &mut Batch<'_>) {
        tcp_stream::abort(batch, &self.pcb);
    }
}

impl fmt::Debug for TcpSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pcb.ends().fmt(f)
    }
}

/// Stops the splices of a connection that its program drops.
pub(in crate::socket) fn side_dropped(side: &TcpSide) {
    let giant = side.stack.enter_giant();
    let t = visit::begin(&side.pcb);
    let layers = t.conn.attached.as_deref();
    let both = layers.map(|s| [s.as_source.clone(), s.as_sink.clone()]);
    drop(t);
    drop(giant);
    for splice in both.into_iter().flatten().flatten() {
        splice.side_dropped();
    }
}
