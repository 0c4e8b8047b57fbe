//! How long an HTTP connection waits for its client, and what happens then: the table of the parent.
//!
//! Locks: none.

use kern::Time;
use mbuma::socket::SocketError;
use mbuma::tls::TlsError;

use super::super::deadline::DeadlineTimer;
use super::super::eviction::{Evictable, EvictionRank};
use super::super::respond;
use super::super::sending::Sending;
use super::{STALL_MAX, WebConnection, WebNext, WebPhase};
use crate::gateway::shared::Shared;
use crate::http::status::HttpStatus;

/// If there are too many, those end first whose last progress is longest ago. The progress of a client that takes bytes
/// is seen when another one is looked for: no turn comes for it.
impl Evictable for WebConnection {
    fn refresh(&mut self, now: Time) {
        if self.has_taken() {
            self.taken = self.taken_now();
            self.deadline.extend(now, STALL_MAX);
        }
    }

    fn rank(&self) -> EvictionRank {
        EvictionRank {
            is_new: !self.has_asked,
            at: self.deadline.since(),
        }
    }
}

impl WebConnection {
    /// The timer came.
    pub(in super::super) fn timer(&mut self, shared: &mut Shared) -> Result<WebNext, TlsError> {
        match self.deadline.timer(shared) {
            // A wait for clusters is over.
            DeadlineTimer::Other => Ok(WebNext::Again),
            DeadlineTimer::Early => Ok(WebNext::Wait),
            DeadlineTimer::Due => self.expire(shared),
        }
    }

    /// Patience has ended.
    fn expire(&mut self, shared: &mut Shared) -> Result<WebNext, TlsError> {
        match self.phase {
            WebPhase::Idle if self.unsent() == 0 => Ok(WebNext::Close),
            WebPhase::Head => {
                self.log.begin_without_head();
                self.conversation.close();
                self.begin(respond::error_now(HttpStatus::RequestTimeout));
                self.deadline.rearm(shared, STALL_MAX);
                Ok(WebNext::Again)
            }
            // The client waits for the disk as well.
            WebPhase::Sends if self.waits_for_disk() => {
                self.deadline.rearm(shared, STALL_MAX);
                Ok(WebNext::Wait)
            }
            WebPhase::Idle | WebPhase::Sends | WebPhase::Ends if self.has_taken() => {
                self.note_progress(shared);
                self.deadline.rearm(shared, STALL_MAX);
                Ok(WebNext::Wait)
            }
            WebPhase::Ends if self.unsent() == 0 => Ok(WebNext::Close),
            // Without an owner the connection would keep the bytes for as long as the client's TCP answers.
            WebPhase::Idle | WebPhase::Sends | WebPhase::Ends => {
                self.end_log();
                Err(SocketError::TimedOut.into())
            }
        }
    }

    /// Whether the client has taken bytes since the deadline was set.
    fn has_taken(&self) -> bool {
        self.taken != self.taken_now()
    }

    pub(super) fn taken_now(&self) -> (u64, usize) {
        let sent = self.sending.as_ref().map_or(0, Sending::sent);
        (sent, self.unsent())
    }

    /// Sets the deadline again if the client has taken bytes.
    pub(super) fn note_progress(&mut self, shared: &mut Shared) {
        let taken = self.taken_now();
        if self.taken != taken {
            self.taken = taken;
            self.deadline.set(shared, STALL_MAX);
        }
    }

    /// Whether a thread waits for a disk for it.
    fn waits_for_disk(&self) -> bool {
        self.search.is_some() || self.sending.as_ref().is_some_and(Sending::is_reading)
    }
}
