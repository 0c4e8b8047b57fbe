//! TLS handshakes under way, of one worker.
//!
//! | a client | until | else |
//! |---|---|---|
//! | is in the handshake | [`HANDSHAKE_MAX_TIME`] after it connected | a reset |
//! | was refused by an alert | it closes, or [`LINGER_MAX`] | a reset |
//!
//! A client that was refused may send more bytes: they are read and dropped, because a reset for them would overtake
//! the alert.
//!
//! Invariants: there are at most as many as the worker may have: beyond that, a new one ends the one whose deadline is
//! first. Each holds at most the records of a message of 64 KiB, and rustls' state. Locks: none.

use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use kern::{CalloutId, Time};
use mbuma::TcpStream;
use mbuma::runtime::TaskWaker;
use mbuma::socket::{HandshakeError, SocketError, TlsHandshake, TlsStream};
use rustls::ServerConfig;

use super::eviction::{Evictable, EvictionRank, EvictionTable};
use crate::gateway::retry::{NO_BUFS_WAIT, RetryTimer};
use crate::gateway::shared::Shared;
use crate::gateway::table::{SourceKind, Token};
use crate::lingering::{Lingering, drop_received};

/// The time that a handshake may take.
pub(super) const HANDSHAKE_MAX_TIME: Duration = Duration::from_secs(10);
/// The time to wait for the end of a client that was refused.
const LINGER_MAX: Duration = Duration::from_secs(5);

/// Those of a worker.
pub(super) struct Handshakes {
    config: Arc<ServerConfig>,
    table: EvictionTable<Handshake>,
    max: usize,
}

/// One.
struct Handshake {
    tls: TlsHandshake,
    wake: Arc<TaskWaker>,
    refused: bool,
    deadline: Time,
    timer: CalloutId,
    /// For clusters, when there are none.
    retry: RetryTimer,
}

/// The next step of a handshake.
enum HandshakeNext {
    Wait,
    Again,
    Done,
    Close,
    Reset,
}

impl Handshakes {
    /// For a worker that may have `max` of them.
    pub(super) fn new(config: &Arc<ServerConfig>, max: usize) -> Handshakes {
        Handshakes {
            config: Arc::clone(config),
            table: EvictionTable::new(SourceKind::TlsHandshake, max),
            max,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Begins one; its turn comes.
    pub(super) fn begin(&mut self, shared: &mut Shared, tcp: TcpStream) {
        if self.table.len() >= self.max {
            let first = self.table.victim(shared.now());
            first
                .into_iter()
                .for_each(|token| self.reset(shared, token));
        }
        let token = self.table.next_token();
        let wake = shared.wake_for(token);
        tcp.set_nodelay(true);
        tcp.keep_to_this_cpu();
        tcp.set_waker(Some(wake.waker()));
        let Ok(tls) = TlsHandshake::server(tcp, Arc::clone(&self.config)) else {
            shared.counters.tls_handshakes_failed += 1;
            return;
        };
        wake.wake();
        let deadline = shared.now() + HANDSHAKE_MAX_TIME;
        self.table.insert(Handshake {
            tls,
            wake,
            refused: false,
            deadline,
            timer: shared.context.schedule(deadline, token),
            retry: RetryTimer::default(),
        });
    }

    /// Continues one. Returns the stream once the handshake is done.
    pub(super) fn turn(&mut self, shared: &mut Shared, token: Token) -> Option<TlsStream> {
        let next = self.table.find(token)?.advance(shared, token);
        match next {
            HandshakeNext::Wait => None,
            HandshakeNext::Again => {
                self.table.note(token);
                self.table.find(token)?.wake.wake();
                None
            }
            HandshakeNext::Done => {
                let stream = self.remove(shared, token)?.tls.finish();
                match stream {
                    Ok(_) => shared.counters.tls_handshakes += 1,
                    Err(_) => shared.counters.tls_handshakes_failed += 1,
                }
                stream.ok()
            }
            HandshakeNext::Close => {
                drop(self.remove(shared, token));
                None
            }
            HandshakeNext::Reset => {
                self.reset(shared, token);
                None
            }
        }
    }

    /// The timer of one fired.
    pub(super) fn timer(&mut self, shared: &mut Shared, token: Token) {
        let now = shared.now();
        match self.table.find(token) {
            Some(one) if now >= one.deadline => self.reset(shared, token),
            // A wait for buffers is over.
            Some(one) => one.wake.wake(),
            None => {}
        }
    }

    /// Ends one with a reset.
    fn reset(&mut self, shared: &mut Shared, token: Token) {
        if let Some(one) = self.remove(shared, token) {
            shared.counters.tls_handshakes_failed += u64::from(!one.refused);
            one.tls.tcp().abort();
        }
    }

    fn remove(&mut self, shared: &mut Shared, token: Token) -> Option<Handshake> {
        let one = self.table.remove(token)?;
        shared.context.cancel(one.timer);
        Some(one)
    }

    /// Ends all.
    pub(super) fn close(&mut self) {
        self.table.drain().for_each(|one| one.tls.tcp().abort());
    }
}

impl Evictable for Handshake {
    fn rank(&self) -> EvictionRank {
        EvictionRank {
            is_new: true,
            at: self.deadline,
        }
    }
}

impl Handshake {
    fn advance(&mut self, shared: &mut Shared, token: Token) -> HandshakeNext {
        if self.refused {
            return self.forget();
        }
        match self.tls.advance() {
            Ok(true) => HandshakeNext::Done,
            Ok(false) => HandshakeNext::Wait,
            Err(HandshakeError::Socket(SocketError::NoBufs)) => {
                self.retry.set(shared, token, NO_BUFS_WAIT);
                HandshakeNext::Wait
            }
            Err(HandshakeError::Tls(_)) => {
                shared.counters.tls_handshakes_failed += 1;
                self.tls.tcp().shutdown(Shutdown::Write);
                self.refused = true;
                shared.context.cancel(self.timer);
                self.deadline = shared.now() + LINGER_MAX;
                self.timer = shared.context.schedule(self.deadline, token);
                HandshakeNext::Again
            }
            Err(_) => HandshakeNext::Reset,
        }
    }

    /// Reads and drops bytes until the client's end.
    fn forget(&mut self) -> HandshakeNext {
        match drop_received(|max| Ok(self.tls.tcp().recv_chain(max)?)) {
            Ok(Lingering::Ended) => HandshakeNext::Close,
            Ok(Lingering::Waits) => HandshakeNext::Wait,
            Ok(Lingering::GoesOn) => HandshakeNext::Again,
            Err(_) => HandshakeNext::Reset,
        }
    }
}
