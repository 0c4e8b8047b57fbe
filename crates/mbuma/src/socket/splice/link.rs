//! The link between the two ends of a splice: its turns.
//!
//! Locks: SPLICE, over a turn; inside of it one connection's (CONN) at a time.

use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use kern::prim::{AtomicBool, AtomicU64, Mutex, Ordering};
use kern::{LockClass, Time, order};
use mbuf::Chain;

use super::{SpliceEnd, SpliceError, SpliceOptions, SpliceOutcome};
use crate::batch::{Batch, Deferred};
use crate::error::SocketError;
use crate::sockbuf::Flushed;
use crate::socket::{tcp_stream, tls_stream};
use crate::state::{SHARED_TIMERS_CPU, StackState};
use crate::tcp::pcb::{Inpcb, Tcb};
use crate::tcp::spliced::{AttachedLayers, IdleKey, SpliceTurn};
use crate::tcp::visit;
use crate::tls::TlsError;
use crate::waiters::{WaiterSet, Wakes, Want};

static SPLICE: LockClass = LockClass::new("splice", order::SPLICE);

/// Connections that a new splice is followed through, in search of a loop.
const HOPS_MAX: usize = 64;

/// One end of a splice.
#[derive(Clone)]
pub(in crate::socket) struct End {
    pub(in crate::socket) stack: Arc<StackState>,
    pub(in crate::socket) pcb: Arc<Inpcb>,
}

impl End {
    /// Runs `f` in the batch that there is, which is one of its stack, or in one of its own.
    fn enter(&self, batch: Option<&mut Batch<'_>>, f: impl FnOnce(&mut Batch<'_>, &Arc<Inpcb>)) {
        match batch {
            Some(batch) => f(batch, &self.pcb),
            None => self.stack.enter(|batch| f(batch, &self.pcb)),
        }
    }
}

/// Two connections and what is between them.
pub(super) struct Link {
    from: End,
    to: End,
    options: SpliceOptions,
    /// Of a relay: bytes that both directions have moved. Relaxed: a look that misses a move is followed by another one.
    relayed: Option<Arc<AtomicU64>>,
    /// Both ends are in one stack: turns are part of its batches.
    one_stack: bool,
    /// A turn is put off. It will find all that was changed before: it clears this first.
    queued: AtomicBool,
    state: Mutex<SpliceState>,
}

#[derive(Debug)]
struct SpliceState {
    moved: u64,
    /// When something was moved last; of a relay, or seen to have been moved by the other direction.
    moved_at: Time,
    /// Of a relay: bytes of both directions that are known here.
    relayed: u64,
    /// Where it is in the list of those with an idle time.
    watched: Option<IdleKey>,
    /// The idle time is over.
    expired: bool,
    /// It waits for buffers until then: its other place in that list.
    retry: Option<IdleKey>,
    end: Option<SpliceEnd>,
    waiters: WaiterSet,
}

impl SpliceState {
    fn outcome(&self) -> Option<SpliceOutcome> {
        let bytes = self.moved;
        self.end.map(|end| SpliceOutcome { bytes, end })
    }
}

/// One of a connection's two places for a splice.
type SplicePlace = fn(&mut AttachedLayers) -> &mut Option<Arc<dyn SpliceTurn>>;

/// Without buffers a turn comes again after this time.
const BUFS_WAIT: Duration = Duration::from_millis(10);

/// Content that a turn opens at most, of a source with TLS, before others have theirs.
const CONTENT_MAX: usize = 256 << 10;

/// The steps after a turn, without the splice's lock.
#[derive(Default)]
struct Touched {
    /// Received bytes that are not delivered any more: dropped without a lock.
    unread: Option<Flushed>,
    from: bool,
    to: bool,
    abort_to: bool,
    again: bool,
    /// It waits for buffers.
    retry: bool,
    wakes: Wakes,
}

/// The sink's room, in bytes of the program's.
struct SinkRoom {
    space: usize,
    /// All that the buffer holds.
    hiwat: usize,
    /// At once: a record's content, so that nothing that was taken is to be cut, for which there may be no buffer.
    piece: usize,
}

/// The data that a turn takes out of the source.
enum Taken {
    Data {
        data: Chain,
        more: bool,
    },
    Nothing,
    /// There are no buffers now. Nothing was lost.
    NoBufs,
    End(SpliceEnd),
}

impl Link {
    /// Makes the connections ends of a new splice, and moves what is there already.
    pub(super) fn start(
        from: End,
        to: End,
        options: SpliceOptions,
        relayed: Option<Arc<AtomicU64>>,
    ) -> Result<Arc<Self>, SpliceError> {
        let link = Arc::new(Self::new(from, to, options, relayed));
        link.attach()?;
        link.begin();
        Ok(link)
    }

    pub(super) fn moved(&self) -> u64 {
        self.state.lock().moved
    }

    pub(super) fn outcome(&self) -> Option<SpliceOutcome> {
        self.state.lock().outcome()
    }

    fn new(from: End, to: End, options: SpliceOptions, relayed: Option<Arc<AtomicU64>>) -> Self {
        let state = SpliceState {
            moved: 0,
            relayed: 0,
            moved_at: to.stack.clock.now(),
            watched: None,
            expired: false,
            retry: None,
            end: None,
            waiters: WaiterSet::new(),
        };
        Self {
            one_stack: Arc::ptr_eq(&from.stack, &to.stack),
            from,
            to,
            options,
            relayed,
            queued: AtomicBool::new(false),
            state: Mutex::new(&SPLICE, state),
        }
    }

    /// Makes the connections its ends.
    fn attach(self: &Arc<Self>) -> Result<(), SpliceError> {
        let ends = [&self.from, &self.to];
        if !self.one_stack && ends.iter().any(|end| end.stack.config.giant.is_over_all()) {
            return Err(SpliceError::Giant);
        }
        let _giant = self.to.stack.look();
        if !self.take_place(&self.from, |splices| &mut splices.as_source) {
            return Err(SpliceError::Busy);
        }
        if !self.take_place(&self.to, |splices| &mut splices.as_sink) {
            self.leave_place(&self.from, |splices| &mut splices.as_source);
            return Err(SpliceError::Busy);
        }
        // After both: of two threads that close a loop together, one at least sees it.
        if self.is_loop() {
            self.leave_places();
            return Err(SpliceError::Loop);
        }
        Ok(())
    }

    fn take_place(self: &Arc<Self>, end: &End, place: SplicePlace) -> bool {
        let mut t = visit::begin(&end.pcb);
        let place = place(t.conn.attached.get_or_insert_default());
        let is_free = place.is_none();
        if is_free {
            *place = Some(Arc::clone(self) as _);
        }
        is_free
    }

    /// The connection's program hears of it again, first of all that has changed.
    fn leave_place(&self, end: &End, place: SplicePlace) {
        let mut t = visit::begin(&end.pcb);
        if let Some(splices) = &mut t.conn.attached {
            *place(splices) = None;
        }
        if t.conn.attached.as_ref().is_some_and(|s| s.is_empty()) {
            t.conn.attached = None;
        }
        t.notify();
    }

    fn leave_places(&self) {
        self.leave_place(&self.from, |splices| &mut splices.as_source);
        self.leave_place(&self.to, |splices| &mut splices.as_sink);
    }

    /// Whether what leaves by the sink comes back to the source, through connections inside of the stack.
    fn is_loop(&self) -> bool {
        let mut at = self.to.clone();
        for _ in 0..HOPS_MAX {
            let Some(peer) = at.stack.tcp.table.lookup(&at.pcb.ends().reversed()) else {
                return false;
            };
            if Arc::ptr_eq(&peer, &self.from.pcb) {
                return true;
            }
            let t = visit::begin(&peer);
            let next = t.conn.attached.as_ref().and_then(|s| s.as_source.clone());
            drop(t);
            let Some(next) = next else {
                return false;
            };
            let (stack, pcb) = next.sink();
            at = End {
                stack: Arc::clone(stack),
                pcb: Arc::clone(pcb),
            };
        }
        true
    }

    /// The first turn, and the first look at the idle time.
    fn begin(self: &Arc<Self>) {
        self.to.stack.enter(|batch| {
            if let Some(idle) = self.options.idle {
                self.watch(&mut self.state.lock(), batch.now + idle);
                batch.kick(SHARED_TIMERS_CPU);
            }
            Arc::clone(self).queue(batch);
        });
    }

    /// Has its idle time looked at, unless it has ended.
    fn watch(self: &Arc<Self>, p: &mut SpliceState, at: Time) {
        if p.end.is_none() {
            let link: Arc<dyn SpliceTurn> = Arc::clone(self) as _;
            let idle_splices = &self.to.stack.tcp.idle_splices;
            p.watched = Some(idle_splices.watch(at, Arc::downgrade(&link)));
        }
    }

    pub(super) fn poll(&self, waiter: Option<&Waker>) -> Poll<SpliceOutcome> {
        let mut state = self.state.lock();
        if let Some(outcome) = state.outcome() {
            return Poll::Ready(outcome);
        }
        if let Some(waiter) = waiter {
            state.waiters.add(Want::Read, waiter);
        }
        Poll::Pending
    }

    pub(super) fn stop(&self) -> SpliceOutcome {
        let stop = |batch: Option<&mut Batch<'_>>| {
            let mut touched = Touched::default();
            let mut state = self.state.lock();
            self.end(&mut state, SpliceEnd::Stopped, &mut touched);
            let outcome = state.outcome();
            drop(state);
            self.follow_up(batch, touched);
            outcome
        };
        let outcome = match self.one_stack {
            true => self.to.stack.enter(|batch| stop(Some(batch))),
            false => stop(None),
        };
        outcome.expect("it has just ended")
    }

    /// One turn, in a batch of the stack of both ends, or in none.
    fn turn(self: &Arc<Self>, mut batch: Option<&mut Batch<'_>>) {
        self.queued.store(false, Ordering::SeqCst);
        let now = batch.as_ref().map(|batch| batch.now);
        let now = now.unwrap_or_else(|| self.to.stack.clock.now());
        let mut touched = Touched::default();
        let mut state = self.state.lock();
        if state.end.is_none()
            && let Some(end) = self.advance(&mut state, now, &mut touched)
        {
            self.end(&mut state, end, &mut touched);
        }
        drop(state);
        if touched.again {
            self.to.enter(batch.as_deref_mut(), |batch, _| {
                Arc::clone(self).queue(batch);
            });
        }
        if touched.retry {
            self.to.enter(batch.as_deref_mut(), |batch, _| {
                batch.kick(SHARED_TIMERS_CPU);
            });
        }
        self.follow_up(batch, touched);
    }

    /// Comes again soon: there may be buffers then.
    fn wait_for_bufs(self: &Arc<Self>, p: &mut SpliceState, now: Time, touched: &mut Touched) {
        if p.retry.is_none() {
            let link: Arc<dyn SpliceTurn> = Arc::clone(self) as _;
            let timers = &self.to.stack.tcp.idle_splices;
            p.retry = Some(timers.watch(now + BUFS_WAIT, Arc::downgrade(&link)));
            touched.retry = true;
        }
    }

    /// Moves once. Returns why the splice ends, if it does.
    fn advance(
        self: &Arc<Self>,
        p: &mut SpliceState,
        now: Time,
        touched: &mut Touched,
    ) -> Option<SpliceEnd> {
        if p.expired {
            return Some(SpliceEnd::Idle);
        }
        let left = self.options.max.map_or(u64::MAX, |max| max - p.moved);
        if left == 0 {
            return Some(SpliceEnd::Max);
        }
        let (data, more) = match self.take(left, touched) {
            Ok(Taken::Data { data, more }) => (data, more),
            Ok(Taken::Nothing) => return None,
            // Without a buffer for close_notify the sink's peer would see a stream that was cut off, and not a whole one.
            Ok(Taken::End(SpliceEnd::Eof)) if self.options.pass_end && !self.say_end() => {
                self.wait_for_bufs(p, now, touched);
                return None;
            }
            Ok(Taken::NoBufs) => {
                self.wait_for_bufs(p, now, touched);
                return None;
            }
            Ok(Taken::End(end)) => return Some(end),
            Err(e) => return Some(SpliceEnd::of_sink(e)),
        };
        let len = data.len() as u64;
        if let Err(e) = self.give(data) {
            return Some(SpliceEnd::of_sink(e));
        }
        (p.moved, p.moved_at) = (p.moved + len, now);
        if let Some(relayed) = &self.relayed {
            relayed.fetch_add(len, Ordering::Relaxed);
            p.relayed += len;
        }
        (touched.to, touched.again) = (true, more);
        (len == left).then_some(SpliceEnd::Max)
    }

    /// Takes what the sink has room for out of the source, and tells the source's peer of the new window.
    fn take(&self, left: u64, touched: &mut Touched) -> Result<Taken, TlsError> {
        let SinkRoom {
            space,
            hiwat,
            piece,
        } = self.room()?;
        let mut t = visit::begin(&self.from.pcb);
        let ready = t.recv.buf.ready() + t.conn.tls().map_or(0, |tls| tls.opened());
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let wanted = left.min(ready);
        if wanted > space && space < (hiwat / 2).max(1) {
            return Ok(Taken::Nothing);
        }
        if t.conn.tls().is_some() {
            // The records of a turn have less content than bytes.
            let max = left.min(space).min(piece).min(CONTENT_MAX);
            return Ok(self.take_content(&mut t, max, touched));
        }
        let taken = match tcp_stream::take_received(&mut t, wanted.min(space).min(piece)) {
            // To cut an mbuf takes another one; to take all of them does not, and the sink may go over by that.
            Err(SocketError::NoBufs) if wanted == ready && ready <= piece => {
                tcp_stream::take_received(&mut t, ready)
            }
            taken => taken,
        };
        let data = match taken {
            Ok(data) if data.is_empty() => return Ok(Taken::End(SpliceEnd::Eof)),
            Ok(data) => data,
            Err(SocketError::WouldBlock) => return Ok(Taken::Nothing),
            Err(SocketError::NoBufs) => return Ok(Taken::NoBufs),
            Err(e) => return Ok(Taken::End(SpliceEnd::Source(e))),
        };
        touched.from = tcp_stream::should_reopen(&t);
        let more = !t.recv.buf.is_empty() || !t.conn.state.receives_data();
        Ok(Taken::Data { data, more })
    }

    /// Opens the source's records, up to `max` bytes of content. Those without content are handled as for a program that reads.
    fn take_content(&self, t: &mut Tcb, max: usize, touched: &mut Touched) -> Taken {
        let pool = &self.from.stack.pool;
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
                Err(e) => end = Some(SpliceEnd::of_source(e)),
            }
        }
        let after = tls_stream::after_read(t);
        touched.from = after.tell;
        touched.unread = after.unread;
        let opened = t.conn.tls().map_or(0, |tls| tls.opened());
        let waits = opened > 0 || !t.recv.buf.is_empty() || !t.conn.state.receives_data();
        match end {
            // The end, or a record without a buffer, is there at the next turn again.
            _ if !data.is_empty() => Taken::Data {
                data,
                more: waits || no_bufs || end.is_some(),
            },
            Some(end) => Taken::End(end),
            None if no_bufs => Taken::NoBufs,
            None => Taken::Nothing,
        }
    }

    /// The room in the sink's send buffer.
    fn room(&self) -> Result<SinkRoom, TlsError> {
        let t = visit::begin(&self.to.pcb);
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

    /// Says the end of the sink's stream; false if there is no buffer for it.
    fn say_end(&self) -> bool {
        let mut t = visit::begin(&self.to.pcb);
        tls_stream::say_end(&self.to.stack.pool, &mut t).is_ok()
    }

    /// Puts data into the sink's send buffer. It leaves in the sink's next turn.
    fn give(&self, mut data: Chain) -> Result<(), TlsError> {
        let pool = &self.to.stack.pool;
        let mut t = visit::begin(&self.to.pcb);
        tcp_stream::may_send(&t)?;
        if t.conn.tls().is_some() {
            return tls_stream::frame_chain(pool, &mut t, &mut data);
        }
        t.send.buf.append(pool, data);
        Ok(())
    }

    /// The end: its connections have their programs back.
    fn end(&self, p: &mut SpliceState, end: SpliceEnd, touched: &mut Touched) {
        if p.end.is_some() {
            return;
        }
        p.end = Some(end);
        for key in [p.watched.take(), p.retry.take()].into_iter().flatten() {
            self.to.stack.tcp.idle_splices.forget(key);
        }
        touched.wakes = p.waiters.take(Want::Read);
        self.leave_places();
        if matches!(end, SpliceEnd::Source(_) | SpliceEnd::SourceTls(_)) {
            touched.abort_to = self.options.pass_end;
        }
        (touched.from, touched.to, touched.again) = (true, true, false);
    }

    /// Gives the connections that a turn has changed a turn of their own, and wakes those that wait for the end.
    fn follow_up(&self, mut batch: Option<&mut Batch<'_>>, touched: Touched) {
        drop(touched.unread);
        if touched.from {
            self.from.enter(batch.as_deref_mut(), visit::schedule);
        }
        if touched.abort_to {
            self.to.enter(batch.as_deref_mut(), tcp_stream::abort);
        }
        if touched.to {
            self.to.enter(batch.as_deref_mut(), visit::schedule);
        }
        if !touched.wakes.is_empty() {
            self.to.enter(batch, |batch, _| batch.wake(touched.wakes));
        }
    }
}

impl Deferred for Link {
    fn run(self: Arc<Self>, batch: &mut Batch<'_>) {
        self.turn(Some(batch));
    }
}

/// A turn between two stacks, at the end of a batch of one of them.
impl Wake for Link {
    fn wake(self: Arc<Self>) {
        self.turn(None);
    }
}

impl SpliceTurn for Link {
    fn queue(self: Arc<Self>, batch: &mut Batch<'_>) {
        if self.queued.swap(true, Ordering::SeqCst) {
            return;
        }
        match self.one_stack {
            true => batch.defer(self),
            false => batch.wake(Wakes::one(Waker::from(self))),
        }
    }

    fn sink(&self) -> (&Arc<StackState>, &Arc<Inpcb>) {
        (&self.to.stack, &self.to.pcb)
    }

    fn end_dropped(&self) {
        self.stop();
    }

    fn check_idle(self: Arc<Self>, batch: &mut Batch<'_>) {
        let mut state = self.state.lock();
        if state.retry.is_some_and(|(at, _)| at <= batch.now) {
            state.retry = None;
            drop(state);
            return self.queue(batch);
        }
        let Some(idle) = self.options.idle.filter(|_| state.end.is_none()) else {
            return;
        };
        if let Some(relayed) = &self.relayed {
            let relayed = relayed.load(Ordering::Relaxed);
            if state.relayed != relayed {
                (state.relayed, state.moved_at) = (relayed, batch.now);
            }
        }
        let at = state.moved_at + idle;
        if at > batch.now {
            return self.watch(&mut state, at);
        }
        (state.watched, state.expired) = (None, true);
        drop(state);
        self.queue(batch);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = (self.from.pcb.ends(), self.to.pcb.ends());
        f.debug_tuple("Link").field(&ends).finish()
    }
}

/// Stops the splices that a connection is an end of: its program drops it.
pub(in crate::socket) fn end_dropped(end: &End) {
    let giant = end.stack.look();
    let t = visit::begin(&end.pcb);
    let splices = t.conn.attached.as_deref();
    let both = splices.map(|s| [s.as_source.clone(), s.as_sink.clone()]);
    drop(t);
    drop(giant);
    for splice in both.into_iter().flatten().flatten() {
        splice.end_dropped();
    }
}
