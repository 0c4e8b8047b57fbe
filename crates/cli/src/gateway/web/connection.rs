//! One HTTP connection: bytes in, requests; responses, bytes out.
//!
//! | the connection | until | else |
//! |---|---|---|
//! | waits for a request | [`IDLE_MAX`]; the first one [`HEAD_MAX_TIME`] | it ends |
//! | the same, and has not delivered its last response | [`IDLE_MAX`] or more, with [`STALL_MAX`] in which the client takes nothing | a reset |
//! | has part of a head | [`HEAD_MAX_TIME`] since its first byte | 408, and it ends |
//! | waits for a thread that looks for the file | it is found, or not | |
//! | sends | [`STALL_MAX`] in which the client takes nothing, and no disk is waited for | a reset |
//! | has sent its last response | the client closes, or [`LINGER_MAX`] | it ends |
//!
//! After its last response a connection reads and drops the bytes that the client still sends: a reset for them would
//! overtake the response.
//!
//! Invariants: one timer is set; nothing is read while a response is sent, so the client's window closes.
//! Locks: none.
//! Sources: RFC 9112 sections 9.3 to 9.6.

use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use kern::Time;
use mbuf::Chain;
use mbuma::runtime::TaskWaker;
use mbuma::socket::{MaybeTlsStream, SocketError};
use mbuma::tls::TlsError;

use super::deadline::ConnectionDeadline;
use super::log_file::LogLines;
use super::reading::DiskWait;
use super::request_log::RequestLog;
use super::respond::{self, FileSearch, RequestAnswer};
use super::sending::{Failed, SendProgress, Sending};
use super::{FileStorage, WebSite};
use crate::files::FileRound;
use crate::gateway::allowance::Allowance;
use crate::gateway::figures::Gauges;
use crate::gateway::host::SEGMENT_MAX;
use crate::gateway::retry::{NO_BUFS_WAIT, RetryTimer};
use crate::gateway::shared::Shared;
use crate::gateway::table::Token;
use crate::http::conversation::{Conversation, Front};
use crate::http::status::HttpStatus;
use crate::lingering::{Lingering, drop_received};

mod patience;

/// The time for which a connection may wait for another request.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The time that a head may take.
pub(super) const HEAD_MAX_TIME: Duration = Duration::from_secs(10);
/// The time for which a client may take nothing of a response.
const STALL_MAX: Duration = Duration::from_secs(30);
/// The time to wait for the client's end.
const LINGER_MAX: Duration = Duration::from_secs(5);
/// Requests that a turn answers at most.
const REQUESTS_MAX: usize = 8;
/// Bytes that a turn sends at most, before others have theirs: four of the largest segments, some 60 us of encryption.
/// With more in one turn, fewer turns and wakeups share their cost.
const SEND_MAX: usize = 4 * SEGMENT_MAX;
/// Bytes of requests that wait to be read at most: two of the largest segments.
const RECV_BUFFER: usize = 128 << 10;

/// A connection.
pub(super) struct WebConnection {
    stream: MaybeTlsStream,
    token: Token,
    wake: Arc<TaskWaker>,
    conversation: Conversation,
    sending: Option<Sending>,
    /// A thread looks for the answer to the request at the front, which has this many bytes.
    search: Option<(DiskWait<respond::Response>, usize)>,
    phase: WebPhase,
    /// A request has arrived.
    has_asked: bool,
    deadline: ConnectionDeadline,
    /// For clusters, when there are none.
    retry: RetryTimer,
    /// Progress when the deadline was set: bytes in the send buffer or beyond, bytes that the client had not
    /// acknowledged.
    taken: (u64, usize),
    allowance: Allowance,
    log: RequestLog,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WebPhase {
    /// No part of a request has arrived.
    Idle,
    /// A part of a head has arrived.
    Head,
    /// A response is sent.
    Sends,
    /// The last response has been given to the stack.
    Ends,
}

/// The next step of a connection.
pub(super) enum WebNext {
    Wait,
    /// Another turn, after the others.
    Again,
    Close,
}

impl WebConnection {
    /// Begins to serve; its turn comes.
    pub(super) fn new(
        shared: &mut Shared,
        stream: MaybeTlsStream,
        token: Token,
        logs: bool,
    ) -> WebConnection {
        let wake = shared.wake_for(token);
        stream.set_waker(Some(wake.waker()));
        wake.wake();
        WebConnection {
            stream,
            token,
            wake,
            conversation: Conversation::default(),
            sending: None,
            search: None,
            phase: WebPhase::Idle,
            has_asked: false,
            deadline: ConnectionDeadline::begin(shared, token, HEAD_MAX_TIME),
            retry: RetryTimer::default(),
            taken: (0, 0),
            allowance: Allowance::FULL,
            log: RequestLog::new(logs),
        }
    }

    /// Gives it a turn.
    pub(super) fn wake(&self) {
        self.wake.wake();
    }

    /// Lets it end after the response under way. Returns true if there is none, and the client has taken the last one:
    /// then it ends now.
    pub(super) fn drain(&mut self) -> bool {
        self.conversation.close();
        let is_busy = self.sending.is_some() || self.search.is_some();
        if is_busy || self.phase == WebPhase::Ends {
            return false;
        }
        if self.unsent() == 0 {
            return true;
        }
        self.stream.shutdown(Shutdown::Write);
        self.phase = WebPhase::Ends;
        self.taken = self.taken_now();
        false
    }

    /// Bytes that the client has not acknowledged.
    pub(super) fn unsent(&self) -> usize {
        self.stream.send_room().buffered
    }

    /// Takes its lines of the log.
    pub(super) fn drain_log(&mut self, log: &mut LogLines) {
        self.log.drain(log);
    }

    /// Ends it: its timer is cancelled.
    pub(super) fn cancel_timer(&self, shared: &mut Shared) {
        self.deadline.cancel(shared);
    }

    /// Ends it with a reset.
    pub(super) fn abort(self) {
        self.stream.abort();
    }

    /// Answers requests, and sends. If there are no buffers it continues a little later.
    pub(super) fn turn(
        &mut self,
        shared: &mut Shared,
        site: &WebSite,
        round: FileRound,
        gauges: Gauges,
    ) -> Result<WebNext, TlsError> {
        match self.advance(shared, site, round, gauges) {
            Err(TlsError::Socket(SocketError::NoBufs)) => {
                self.retry.set(shared, self.token, NO_BUFS_WAIT);
                Ok(WebNext::Wait)
            }
            other => other,
        }
    }

    fn advance(
        &mut self,
        shared: &mut Shared,
        site: &WebSite,
        round: FileRound,
        gauges: Gauges,
    ) -> Result<WebNext, TlsError> {
        self.fit(shared, round.now);
        let mut budget = SEND_MAX;
        for _ in 0..=REQUESTS_MAX {
            if self.phase == WebPhase::Ends {
                return self.forget();
            }
            if !self.has_answer() {
                return Ok(WebNext::Wait);
            }
            if self.sending.is_some()
                && let Some(next) = self.send(shared, &site.storage, &mut budget)?
            {
                return Ok(next);
            }
            if self.phase == WebPhase::Ends {
                continue;
            }
            if let Some(next) = self.ask(shared, site, round, gauges)? {
                return Ok(next);
            }
        }
        Ok(WebNext::Again)
    }

    /// Sends; `None` when all of the response is in the send buffer.
    fn send(
        &mut self,
        shared: &mut Shared,
        storage: &FileStorage,
        budget: &mut usize,
    ) -> Result<Option<WebNext>, TlsError> {
        let Some(sending) = &mut self.sending else {
            return Ok(None);
        };
        match sending.push(&self.stream, shared, storage, &self.wake, budget) {
            Ok(SendProgress::All) => {
                self.finish(shared);
                Ok(None)
            }
            Ok(SendProgress::Part) => Ok(Some(WebNext::Again)),
            Ok(SendProgress::Reads) => Ok(Some(WebNext::Wait)),
            Ok(SendProgress::Full) => {
                self.note_progress(shared);
                Ok(Some(WebNext::Wait))
            }
            Ok(SendProgress::NoBufs) => {
                self.retry.set(shared, self.token, NO_BUFS_WAIT);
                Ok(Some(WebNext::Wait))
            }
            // Nothing was sent yet, so an error can be sent.
            Err(Failed::File) if sending.sent() == 0 => {
                shared.counters.files_failed += 1;
                self.begin(respond::error_now(HttpStatus::InternalServerError));
                Ok(Some(WebNext::Again))
            }
            Err(failed) => {
                shared.counters.files_failed += u64::from(matches!(failed, Failed::File));
                self.end_log();
                Err(SocketError::Closed.into())
            }
        }
    }

    /// The response is in the send buffer.
    fn finish(&mut self, shared: &mut Shared) {
        self.end_log();
        let last = self.sending.take().is_none_or(|sending| sending.last);
        self.taken = self.taken_now();
        if last {
            self.stream.shutdown(Shutdown::Write);
            self.phase = WebPhase::Ends;
            let delivered = self.taken.1 == 0;
            let after = if delivered { LINGER_MAX } else { STALL_MAX };
            self.deadline.set(shared, after);
        } else {
            self.phase = WebPhase::Idle;
            self.conversation.give_memory_back();
            self.deadline.set(shared, IDLE_MAX);
        }
    }

    /// Takes the next request, and begins to answer it. Returns the next step if there is none.
    fn ask(
        &mut self,
        shared: &mut Shared,
        site: &WebSite,
        round: FileRound,
        gauges: Gauges,
    ) -> Result<Option<WebNext>, TlsError> {
        loop {
            let response = match self.conversation.front() {
                Front::Request(request) => {
                    let answer = site.responder.respond(shared, &request, round, gauges);
                    self.log.begin(&request);
                    let len = request.len;
                    match answer {
                        RequestAnswer::Response(response) => {
                            self.conversation.done(len, response.0.last);
                            response
                        }
                        RequestAnswer::Search(search) => {
                            shared.counters.file_lookups += 1;
                            self.search_for(search, len, &site.storage);
                            return Ok(None);
                        }
                    }
                }
                Front::Refused(status) => {
                    self.log.begin_without_head();
                    self.conversation.close();
                    respond::error_now(status)
                }
                Front::Over => {
                    self.finish(shared);
                    return Ok(None);
                }
                Front::Incomplete => match self.receive(shared)? {
                    true => continue,
                    false => return Ok(Some(WebNext::Wait)),
                },
            };
            self.begin(response);
            return Ok(None);
        }
    }

    /// Lets a thread look for the answer to the request at the front.
    fn search_for(&mut self, search: FileSearch, len: usize, storage: &FileStorage) {
        self.note_request();
        self.phase = WebPhase::Sends;
        let (head, device) = (self.conversation.head(len), search.device);
        let work = move || search.respond(&head);
        let wait = DiskWait::begin(work, device, &storage.readers, &self.wake);
        self.search = Some((wait, len));
    }

    /// Whether no thread looks for an answer. Begins to send one that was found.
    fn has_answer(&mut self) -> bool {
        let Some((wait, len)) = &self.search else {
            return true;
        };
        let Some(response) = wait.take() else {
            return false;
        };
        self.conversation.done(*len, response.0.last);
        self.search = None;
        self.begin(response);
        true
    }

    /// A request is progress, too.
    fn note_request(&mut self) {
        self.has_asked = true;
        self.deadline.note_progress();
    }

    fn begin(&mut self, response: respond::Response) {
        self.note_request();
        self.phase = WebPhase::Sends;
        self.sending = Some(Sending::new(response));
    }

    /// Receives more of a request. Returns false if nothing has arrived.
    fn receive(&mut self, shared: &mut Shared) -> Result<bool, TlsError> {
        match received(&self.stream, self.conversation.room()) {
            Ok(bytes) if bytes.is_empty() => {
                self.conversation.close();
                Ok(true)
            }
            Ok(bytes) => {
                let pieces = bytes.segments();
                pieces.for_each(|piece| self.conversation.add(piece));
                Ok(true)
            }
            Err(e) if e.is_would_block() => {
                if self.phase == WebPhase::Idle && !self.conversation.is_idle() {
                    self.phase = WebPhase::Head;
                    self.deadline.set(shared, HEAD_MAX_TIME);
                }
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Reads and drops bytes until the client's end.
    fn forget(&mut self) -> Result<WebNext, TlsError> {
        Ok(match drop_received(|max| received(&self.stream, max))? {
            Lingering::Ended if self.unsent() == 0 => WebNext::Close,
            // The stack wakes it when the client has taken all.
            Lingering::Ended | Lingering::Waits => WebNext::Wait,
            Lingering::GoesOn => WebNext::Again,
        })
    }

    /// Sets the sizes of its buffers to the present allowance.
    fn fit(&mut self, shared: &mut Shared, now: Time) {
        self.deadline.note_now(now);
        let allowance = shared.allowance(now);
        if self.allowance != allowance {
            self.allowance = allowance;
            let receive = allowance.recv_buffer().min(RECV_BUFFER);
            self.stream.set_buffers(allowance.send_buffer(), receive);
        }
    }

    /// Makes the line of the response that ends.
    fn end_log(&mut self) {
        if let Some(sending) = &self.sending {
            let (status, bytes) = (sending.status.code(), sending.body_sent());
            self.log.end(self.stream.peer_addr().ip(), status, bytes);
        }
    }
}

/// Takes up to `max` received bytes; none at the end. An end without close_notify is an ordinary one, because a request
/// has its length.
fn received(stream: &MaybeTlsStream, max: usize) -> Result<Chain, TlsError> {
    match stream.recv_chain(max) {
        Err(TlsError::Truncated) => Ok(Chain::new()),
        other => other,
    }
}
