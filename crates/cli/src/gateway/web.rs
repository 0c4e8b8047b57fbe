//! HTTP from inside of the stack: the status page, and files.
//!
//! | path | is |
//! |---|---|
//! | `/` | the status page, a page for people |
//! | `/metrics` | the same for Prometheus |
//! | `/files/` | with `--serve`: the directory |
//!
//! `mbuma serve` has the directory at `/`, and the pages, if requested, at `/.mbuma/`.
//!
//! All workers take connections from the same listeners, as they take the guest's: the worker by whose queue the SYN
//! came, or one with less to do. All share the [`WebSite`]; connections belong to the worker that took them.
//!
//! Invariants: a worker has at most its share of the site's connections; beyond that, a new connection ends the one
//! without progress for longest: otherwise slow clients could shut the site for all. Locks: `fixed` (STATS), with
//! nothing called under it.

mod connection;
mod deadline;
mod eviction;
mod handshakes;
mod log_file;
mod reading;
mod request_log;
mod respond;
mod sending;

use std::sync::Arc;

use kern::{LockClass, Mutex, order};
use mbuma::TcpListener;
use mbuma::runtime::TaskWaker;
use mbuma::socket::MaybeTlsStream;
use mbuma::tls::TlsError;
use rustls::ServerConfig;

use super::figures::{Fixed, Gauges};
use super::notice::Subject;
use super::shared::Shared;
use super::table::{SourceKind, Token};
use crate::files::{self, FileCache, FileReaders, FileRound, ServedTree};
use connection::{WebConnection, WebNext};
use eviction::EvictionTable;
use handshakes::Handshakes;
pub(super) use log_file::LogFile;
use log_file::LogLines;
pub(super) use respond::{Responder, SiteFiles};

static FIXED: LockClass = LockClass::new("gateway fixed", order::STATS);

/// Connections that are accepted in a turn at most, before existing ones have their turns.
const ACCEPT_MAX: usize = 64;

/// Facts that seldom change: worker 0 changes them, and each worker's status page shows them.
#[derive(Clone)]
pub(super) struct SharedFixed(Arc<Mutex<Arc<Fixed>>>);

impl SharedFixed {
    /// The facts at the start.
    pub(super) fn new(fixed: Fixed) -> SharedFixed {
        SharedFixed(Arc::new(Mutex::new(&FIXED, Arc::new(fixed))))
    }

    /// The facts now.
    pub(super) fn get(&self) -> Arc<Fixed> {
        Arc::clone(&self.0.lock())
    }

    /// Changes the facts.
    pub(super) fn change(&self, change: impl FnOnce(&mut Fixed)) {
        change(Arc::make_mut(&mut self.0.lock()));
    }
}

/// The settings of the cache of files.
pub(super) struct FileStorage {
    pub(super) readers: FileReaders,
    pub(super) cache: FileCache,
}

impl FileStorage {
    /// Keeps at most `files` open, and at most this many bytes.
    pub(super) fn new(files: usize, bytes: u64) -> FileStorage {
        let readers = FileReaders::default();
        FileStorage {
            cache: FileCache::new(files, bytes, readers.clone()),
            readers,
        }
    }
}

/// The part of the server that all workers share.
pub(super) struct WebSite {
    /// One for each version of IP.
    pub(super) listeners: Vec<TcpListener>,
    pub(super) responder: Responder,
    /// Clients speak TLS.
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) storage: FileStorage,
    pub(super) log: Option<LogFile>,
    /// Connections of one worker at most.
    pub(super) connections_max: usize,
    /// TLS handshakes of one worker at most.
    pub(super) handshakes_max: usize,
    /// Responses under way are sent to their end when the server ends.
    pub(super) drains: bool,
}

/// A worker's part of the site.
pub(super) struct Web {
    site: Arc<WebSite>,
    wake: Arc<TaskWaker>,
    connections: EvictionTable<WebConnection>,
    handshakes: Option<Handshakes>,
    log: LogLines,
    /// This round, once there was a request in it.
    round: Option<FileRound>,
    /// The timer is set that removes files that no request uses.
    sweeps: bool,
    /// The server ends: no connection and no request is taken any more.
    drains: bool,
}

/// One part in this many of the connections may be of clients that have asked for nothing yet, before these end first.
const NEW_SHARE: usize = 4;

impl Web {
    /// Accepts connections when [`Web::accept_wake`] is called.
    pub(super) fn new(shared: &Shared, site: &Arc<WebSite>) -> Web {
        let handshakes = |config| Handshakes::new(config, site.handshakes_max);
        Web {
            handshakes: site.tls.as_ref().map(handshakes),
            site: Arc::clone(site),
            wake: shared.wake_for(Token::only(SourceKind::HttpListener)),
            connections: EvictionTable::new(
                SourceKind::HttpConnection,
                site.connections_max / NEW_SHARE,
            ),
            log: LogLines::default(),
            round: None,
            sweeps: false,
            drains: false,
        }
    }

    /// The waker for connections to accept.
    pub(super) fn accept_wake(&self) -> Arc<TaskWaker> {
        Arc::clone(&self.wake)
    }

    /// Takes connections.
    pub(super) fn accept(&mut self, shared: &mut Shared) {
        for _ in 0..ACCEPT_MAX {
            let mut accepted = self.site.listeners.iter().map(TcpListener::accept);
            let Some(stream) = accepted.find_map(Result::ok) else {
                return;
            };
            if self.drains {
                stream.abort();
                continue;
            }
            match &mut self.handshakes {
                Some(handshakes) => handshakes.begin(shared, stream),
                None => {
                    stream.set_nodelay(true);
                    stream.keep_to_this_cpu();
                    self.begin(shared, MaybeTlsStream::Tcp(stream));
                }
            }
        }
        self.wake.wake();
    }

    /// Begins to serve.
    fn begin(&mut self, shared: &mut Shared, stream: MaybeTlsStream) {
        if self.connections.len() >= self.site.connections_max {
            self.evict(shared);
        }
        let token = self.connections.next_token();
        let logs = self.site.log.is_some();
        let connection = WebConnection::new(shared, stream, token, logs);
        self.connections.insert(connection);
    }

    /// The turn of a handshake.
    fn shake(&mut self, shared: &mut Shared, token: Token) {
        let handshakes = self.handshakes.as_mut();
        let done = handshakes.and_then(|handshakes| handshakes.turn(shared, token));
        match done {
            Some(stream) if self.drains => stream.abort(),
            Some(stream) => self.begin(shared, MaybeTlsStream::Tls(stream)),
            None => {}
        }
    }

    /// A connection's turn. `gauges` are this worker's.
    pub(super) fn turn(&mut self, shared: &mut Shared, token: Token, gauges: Gauges) {
        if token.kind() == Some(SourceKind::TlsHandshake) {
            return self.shake(shared, token);
        }
        let Some(connection) = self.connections.find(token) else {
            return;
        };
        let begin = || self.site.storage.cache.round(shared.now());
        let round = *self.round.get_or_insert_with(begin);
        let next = connection.turn(shared, &self.site, round, gauges);
        self.after(shared, token, next);
        self.collect_log(token);
    }

    /// A connection's timer came.
    pub(super) fn timer(&mut self, shared: &mut Shared, token: Token) {
        match token.kind() {
            Some(SourceKind::TlsHandshake) => {
                let handshakes = self.handshakes.iter_mut();
                return handshakes.for_each(|handshakes| handshakes.timer(shared, token));
            }
            Some(SourceKind::FileSweep) => return self.sweep(shared),
            _ => {}
        }
        let Some(connection) = self.connections.find(token) else {
            return;
        };
        let next = connection.timer(shared);
        self.after(shared, token, next);
    }

    /// A connection's turn or timer has returned `next`. If the client broke TLS, the alert is sent.
    fn after(&mut self, shared: &mut Shared, token: Token, next: Result<WebNext, TlsError>) {
        match next {
            Ok(WebNext::Wait) => {}
            Ok(WebNext::Again) => self
                .connections
                .find(token)
                .into_iter()
                .for_each(|it| it.wake()),
            Err(TlsError::Socket(_)) => self.abort(shared, token),
            Ok(WebNext::Close) | Err(_) => drop(self.remove(shared, token)),
        }
        self.connections.note(token);
    }

    /// A round of the loop ends: writes the lines of the log. The next one asks files for their state again.
    pub(super) fn end_round(&mut self, shared: &mut Shared) {
        if self.round.take().is_some() && !self.sweeps {
            self.sweeps = true;
            shared.after(files::IDLE, Token::only(SourceKind::FileSweep));
        }
        self.flush_log(shared);
    }

    /// Removes files that no request uses, and sets a timer to do so again, until there are none.
    fn sweep(&mut self, shared: &mut Shared) {
        self.sweeps = self.site.storage.cache.sweep_later(shared.now());
        if self.sweeps {
            shared.after(files::IDLE, Token::only(SourceKind::FileSweep));
        }
    }

    fn flush_log(&mut self, shared: &mut Shared) {
        let Some(file) = &self.site.log else {
            return;
        };
        let lost = self.log.write_to(file);
        if lost > 0 {
            shared.counters.log_lines_lost += lost;
            let now = shared.now();
            shared.notices.say(now, Subject::AccessLog, || {
                "lines of the access log are lost: its file system is full, or the reader of its FIFO is too slow"
                    .to_owned()
            });
        }
    }

    fn collect_log(&mut self, token: Token) {
        if let Some(connection) = self.connections.find(token) {
            connection.drain_log(&mut self.log);
        }
    }

    /// Removes a connection, its timer and its lines of the log.
    fn remove(&mut self, shared: &mut Shared, token: Token) -> Option<WebConnection> {
        self.collect_log(token);
        let connection = self.connections.remove(token)?;
        connection.cancel_timer(shared);
        Some(connection)
    }

    fn abort(&mut self, shared: &mut Shared, token: Token) {
        if let Some(connection) = self.remove(shared, token) {
            connection.abort();
        }
    }

    /// Ends a connection to make room for a new one.
    fn evict(&mut self, shared: &mut Shared) {
        if let Some(token) = self.connections.victim(shared.now()) {
            self.abort(shared, token);
        }
    }

    /// The server ends: connections that wait for a request end, others after their response. False if it does not wait
    /// for these.
    pub(super) fn drain(&mut self, shared: &mut Shared) -> bool {
        if self.site.drains && !self.drains {
            self.drains = true;
            self.handshakes.iter_mut().for_each(Handshakes::close);
            for token in self.connections.tokens() {
                if self
                    .connections
                    .find(token)
                    .is_some_and(WebConnection::drain)
                {
                    drop(self.remove(shared, token));
                }
            }
        }
        self.site.drains
    }

    /// Responses that are waited for.
    pub(super) fn draining(&self) -> usize {
        if self.drains {
            self.connections.len()
        } else {
            0
        }
    }

    /// Bytes of responses that their clients have not acknowledged.
    pub(super) fn unsent(&self) -> usize {
        self.connections.iter().map(WebConnection::unsent).sum()
    }

    /// The directory that is served, if there is one.
    pub(super) fn served(&self) -> Option<&ServedTree> {
        self.site.responder.served()
    }

    /// The number of connections, with those in their handshake.
    pub(super) fn len(&self) -> usize {
        let handshakes = self.handshakes.as_ref();
        self.connections.len() + handshakes.map_or(0, Handshakes::len)
    }

    /// Ends all connections.
    pub(super) fn close(&mut self, shared: &mut Shared) {
        self.connections.drain().for_each(WebConnection::abort);
        self.handshakes.iter_mut().for_each(Handshakes::close);
        self.flush_log(shared);
    }
}

#[cfg(test)]
mod tests;
