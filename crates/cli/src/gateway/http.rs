//! The status page: HTTP answered from inside the stack, at the gateway's own address.
//!
//! | path | is |
//! |---|---|
//! | `/` | a page for people |
//! | `/metrics` | the same for Prometheus |
//!
//! GET and HEAD, one request after the other on a connection. What is not that is told so, and the
//! connection ends.
//!
//! Called by: the loop. Calls: request (what is asked), figures, page and metrics (what is said), [`TcpListener`].
//! Invariants: a request has 8 KiB and 10 s at most; at most [`READERS_MAX`] connections.
//! Locks: none. Sources: RFC 9110, RFC 9112.

use std::sync::Arc;
use std::time::Duration;

use kern::{CalloutId, Time};
use mbuma::{SocketError, TcpListener, TcpStream};

use super::figures::Figures;
use super::ready::Wake;
use super::request::{self, REQUEST_MAX, Request, Status};
use super::shared::Shared;
use super::table::{Kind, Table, Token};

/// Connections at most.
const READERS_MAX: usize = 64;
/// How long a connection may wait for a whole request, or for its answer to be taken.
const REQUEST_WAIT: Duration = Duration::from_secs(10);
/// Reads of [`REQUEST_MAX`] bytes that are discarded behind a bad request: a receive buffer's worth.
const DISCARDS_MAX: usize = 32;
/// The page, with names in double braces where figures go.
const PAGE: &str = include_str!("templates/status.html");

/// The status page's listener and connections.
pub(super) struct StatusPage {
    listener: TcpListener,
    readers: Table<Reader>,
}

/// One connection.
struct Reader {
    stream: TcpStream,
    wake: Arc<Wake>,
    timer: CalloutId,
    /// Received, and not a whole request yet.
    received: Vec<u8>,
    /// Said, and not taken by the send buffer yet.
    unsent: Vec<u8>,
    /// Nothing more is read: the connection ends when everything is sent.
    last: bool,
    /// When patience ends.
    deadline: Time,
}

/// What a connection does next.
enum Next {
    Wait,
    /// Another turn, after the others: more requests may be there.
    Again,
    Close,
}

impl StatusPage {
    /// Serves connections to `listener`.
    pub(super) fn new(shared: &Shared, listener: TcpListener) -> StatusPage {
        let wake = shared.wake_for(Token::only(Kind::StatusPage));
        listener.set_waker(Some(wake.waker()));
        StatusPage {
            listener,
            readers: Table::new(Kind::Reader),
        }
    }

    /// Takes connections. For one too many, the one whose request is due first ends: else clients that ask slowly
    /// would shut the page for all.
    pub(super) fn accept(&mut self, shared: &mut Shared) {
        while let Some(stream) = self.listener.accept() {
            if self.readers.len() >= READERS_MAX {
                self.abort_oldest(shared);
            }
            let token = self.readers.next_token();
            let wake = shared.wake_for(token);
            stream.set_waker(Some(wake.waker()));
            stream.set_nodelay(true);
            wake.wake();
            let timer = shared.after(REQUEST_WAIT, token);
            self.readers.insert(Reader {
                stream,
                wake,
                timer,
                received: Vec::new(),
                unsent: Vec::new(),
                last: false,
                deadline: shared.now() + REQUEST_WAIT,
            });
        }
    }

    /// A connection's turn. `figures` are asked for when there is a request for them.
    pub(super) fn turn(
        &mut self,
        shared: &mut Shared,
        token: Token,
        figures: impl Fn(&Shared) -> Figures,
    ) {
        let Some(reader) = self.readers.find(token) else {
            return;
        };
        match reader.turn(shared, figures) {
            Ok(Next::Wait) => {}
            Ok(Next::Again) => reader.wake.wake(),
            Ok(Next::Close) => drop(self.remove(shared, token)),
            Err(_) => self.abort(shared, token),
        }
    }

    /// Takes a connection out, and its timer.
    fn remove(&mut self, shared: &mut Shared, token: Token) -> Option<Reader> {
        let reader = self.readers.remove(token)?;
        shared.timers.cancel(reader.timer);
        Some(reader)
    }

    /// A connection's timer came.
    pub(super) fn timer(&mut self, shared: &mut Shared, token: Token) {
        let now = shared.now();
        match self.readers.find(token) {
            Some(reader) if reader.deadline <= now => self.abort(shared, token),
            Some(reader) => reader.timer = shared.timers.schedule(reader.deadline, token),
            None => {}
        }
    }

    fn abort_oldest(&mut self, shared: &mut Shared) {
        let oldest = self
            .readers
            .iter()
            .min_by_key(|(_, reader)| reader.deadline);
        if let Some((token, _)) = oldest {
            self.abort(shared, token);
        }
    }

    fn abort(&mut self, shared: &mut Shared, token: Token) {
        if let Some(reader) = self.remove(shared, token) {
            reader.stream.abort();
        }
    }

    /// Ends all connections.
    pub(super) fn close(&mut self) {
        self.readers
            .drain()
            .for_each(|reader| reader.stream.abort());
    }
}

impl Reader {
    /// Answers one request at most: a client that goes on sending, and whose packets another worker takes in, would keep
    /// this worker from its other work.
    fn turn(
        &mut self,
        shared: &mut Shared,
        figures: impl Fn(&Shared) -> Figures,
    ) -> Result<Next, SocketError> {
        loop {
            if !self.flush()? {
                return Ok(Next::Wait);
            }
            if self.last {
                return Ok(Next::Close);
            }
            match request::parse(&self.received) {
                Ok(Some(request)) => {
                    self.deadline = shared.now() + REQUEST_WAIT;
                    self.received.drain(..request.len.min(self.received.len()));
                    self.answer(shared, &request, &figures);
                    return Ok(Next::Again);
                }
                Ok(None) if !self.receive()? => return Ok(Next::Wait),
                Ok(None) => {}
                Err(status) => self.complain(status),
            }
        }
    }

    /// Sends what is unsent; false if some of it has to wait.
    fn flush(&mut self) -> Result<bool, SocketError> {
        while !self.unsent.is_empty() {
            match self.stream.send(&self.unsent) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(SocketError::WouldBlock) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Receives more of a request; false if nothing is there yet.
    fn receive(&mut self) -> Result<bool, SocketError> {
        let mut bytes = [0; 2048];
        match self.stream.recv(&mut bytes) {
            Ok(0) => {
                self.last = true;
                Ok(true)
            }
            Ok(n) => {
                let (bytes, _) = bytes.split_at(n);
                self.received.extend_from_slice(bytes);
                Ok(true)
            }
            Err(SocketError::WouldBlock) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn answer(
        &mut self,
        shared: &mut Shared,
        request: &Request,
        figures: &impl Fn(&Shared) -> Figures,
    ) {
        shared.counters.status_requests += 1;
        let (kind, body) = match request.path.as_str() {
            "/" => ("text/html; charset=utf-8", figures(shared).fill(PAGE)),
            "/metrics" => (
                "text/plain; version=0.0.4; charset=utf-8",
                figures(shared).to_prometheus(),
            ),
            _ => {
                return self.say(
                    Status::NotFound,
                    "text/plain",
                    Status::NotFound.text(),
                    request,
                );
            }
        };
        self.say(Status::Ok, kind, &body, request);
    }

    fn say(&mut self, status: Status, kind: &str, body: &str, request: &Request) {
        self.last = !request.keep_alive;
        let head = request::head(status, kind, body.len(), request.keep_alive);
        self.unsent.extend_from_slice(head.as_bytes());
        if !request.head_only {
            self.unsent.extend_from_slice(body.as_bytes());
        }
    }

    /// Answers what is no request that we understand. What follows it may be anything.
    fn complain(&mut self, status: Status) {
        self.last = true;
        // Read and forgotten, so that closing is no reset that would overtake the answer.
        self.received.clear();
        let mut ignored = [0; REQUEST_MAX];
        for _ in 0..DISCARDS_MAX {
            if !matches!(self.stream.recv(&mut ignored), Ok(n) if n > 0) {
                break;
            }
        }
        let body = status.text();
        let head = request::head(status, "text/plain", body.len(), false);
        self.unsent.extend_from_slice(head.as_bytes());
        self.unsent.extend_from_slice(body.as_bytes());
    }
}
