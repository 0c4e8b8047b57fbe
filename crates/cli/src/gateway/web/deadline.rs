//! The deadline of a connection, and its timer.
//!
//! A deadline moves with each response, and a timer is not set anew for that: when it comes early, it is set again.
//!
//! Invariants: one timer is set, for a time that is not after the deadline. Locks: none.

use std::time::Duration;

use kern::{CalloutId, Time};

use crate::gateway::shared::Shared;
use crate::gateway::table::Token;

/// The time by which a connection must have got further.
pub(super) struct ConnectionDeadline {
    token: Token,
    /// The time when the connection's turn or its timer came: deadlines are seconds away.
    now: Time,
    /// The time of the last progress: the deadline was set then.
    since: Time,
    at: Time,
    timer: (CalloutId, Time),
}

/// What a timer of the connection is.
pub(super) enum DeadlineTimer {
    /// The deadline has passed; the next one must be set by [`ConnectionDeadline::rearm`].
    Due,
    /// The deadline was moved meanwhile; the timer is set again.
    Early,
    /// A timer of something else.
    Other,
}

impl ConnectionDeadline {
    /// The first one, `after` from now. Its timer wakes `token`.
    pub(super) fn begin(shared: &mut Shared, token: Token, after: Duration) -> Self {
        let now = shared.now();
        let at = now + after;
        Self {
            token,
            now,
            since: now,
            at,
            timer: (shared.context.schedule(at, token), at),
        }
    }

    /// The time of the last progress.
    pub(super) fn since(&self) -> Time {
        self.since
    }

    /// The client got further in this turn, with the same deadline.
    pub(super) fn note_progress(&mut self) {
        self.since = self.now;
    }

    /// Moves the deadline, if it is earlier, to `after` from the progress that was seen at `now`.
    pub(super) fn extend(&mut self, now: Time, after: Duration) {
        self.since = now;
        self.at = self.at.max(now + after);
    }

    /// The connection's turn has come: deadlines are counted from `now` on.
    pub(super) fn note_now(&mut self, now: Time) {
        self.now = now;
    }

    /// Sets the deadline to `after` from the connection's turn.
    pub(super) fn set(&mut self, shared: &mut Shared, after: Duration) {
        self.begin_at_turn(after);
        // A timer that comes before it is set again then.
        if self.at < self.timer.1 {
            self.cancel(shared);
            self.schedule(shared);
        }
    }

    /// The same, when the timer has fired.
    pub(super) fn rearm(&mut self, shared: &mut Shared, after: Duration) {
        self.begin_at_turn(after);
        self.schedule(shared);
    }

    /// A timer of the connection came.
    pub(super) fn timer(&mut self, shared: &mut Shared) -> DeadlineTimer {
        self.now = shared.now();
        if self.now < self.timer.1 {
            return DeadlineTimer::Other;
        }
        if self.now < self.at {
            self.schedule(shared);
            return DeadlineTimer::Early;
        }
        DeadlineTimer::Due
    }

    /// Cancels the timer.
    pub(super) fn cancel(&self, shared: &mut Shared) {
        shared.context.cancel(self.timer.0);
    }

    fn begin_at_turn(&mut self, after: Duration) {
        self.since = self.now;
        self.at = self.now + after;
    }

    fn schedule(&mut self, shared: &mut Shared) {
        self.timer = (shared.context.schedule(self.at, self.token), self.at);
    }
}
