//! A connection's timers: when each expires.
//!
//! They are fields, not entries of a wheel: a connection has one entry on a [wheel](super::wheels), never later than
//! the earliest timer. To move a timer further away, as each acknowledgement does, is one store.

use kern::Time;

use super::wheels::Armed;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TcpTimer {
    /// Sent data is not acknowledged (RFC 6298 5).
    #[doc(alias = "TCPT_REXMT")]
    Rexmit,
    /// The peer's window is closed, and data waits (RFC 9293 3.8.6.1).
    #[doc(alias = "TCPT_PERSIST")]
    Persist,
    /// An acknowledgement waits for data that could carry it, or for a second segment (RFC 1122 4.2.3.2).
    DelayedAck,
    /// The peer may be gone (RFC 1122 4.2.3.6).
    #[doc(alias = "TCPT_KEEP")]
    Keepalive,
    /// TIME-WAIT's end, or the end of an orphan's time in FIN-WAIT-2. It has a field in common with [`Pace`](Self::Pace): in these
    /// states no data is sent, and in others nothing is waited for. A step that enters one of them sets the timer or stops it.
    #[doc(alias = "TCPT_2MSL")]
    Wait,
    /// The reordering window is over: data that was overtaken is lost (RFC 8985 6.2).
    Reorder,
    /// Nothing was acknowledged for two round trips: a tail loss probe is due (RFC 8985 7.2).
    Probe,
    /// The next packet may leave, by the rate of the path. Only in states in which data is sent.
    Pace,
    /// A listener's program gets the connection though its client was silent. It has a field in common with
    /// [`Keepalive`](Self::Keepalive), which a program asks for when it has the connection.
    Accept,
}

impl TcpTimer {
    /// Fields.
    const COUNT: usize = 7;

    /// The index of its field.
    const fn field(self) -> usize {
        match self {
            Self::Pace => Self::Wait as usize,
            Self::Accept => Self::Keepalive as usize,
            other => other as usize,
        }
    }
}

/// All timers of one connection.
#[derive(Debug)]
pub(crate) struct Timers {
    /// By [`TcpTimer`]; [`Time::MAX`] where it is off.
    due: [Time; TcpTimer::COUNT],
    /// The entry on a wheel, which comes before the earliest of the above.
    pub(super) armed: Option<Armed>,
    /// The number of the entry that was made last: it tells a connection's entries apart; those of 2^32 entries ago are
    /// gone.
    pub(super) last_entry: u32,
    /// By how much the time between probes of a closed window has grown: doublings.
    #[doc(alias = "t_rxtshift")]
    pub(super) persist_shift: u8,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            due: [Time::MAX; TcpTimer::COUNT],
            armed: None,
            last_entry: 0,
            persist_shift: 0,
        }
    }
}

impl Timers {
    /// When it expires, if it runs.
    pub(crate) fn get(&self, timer: TcpTimer) -> Option<Time> {
        Some(self.due[timer.field()]).filter(|at| *at != Time::MAX)
    }

    pub(crate) fn is_set(&self, timer: TcpTimer) -> bool {
        self.due[timer.field()] != Time::MAX
    }

    /// Starts it, or moves it; `None` stops it.
    pub(crate) fn set(&mut self, timer: TcpTimer, at: impl Into<Option<Time>>) {
        self.due[timer.field()] = at.into().unwrap_or(Time::MAX);
    }

    pub(crate) fn stop(&mut self, timer: TcpTimer) {
        self.set(timer, None);
    }

    /// Stops it if it has expired, and says so.
    pub(crate) fn take_due(&mut self, timer: TcpTimer, now: Time) -> bool {
        let expired = self.due[timer.field()] <= now;
        if expired {
            self.stop(timer);
        }
        expired
    }

    /// When the first of them expires.
    pub(crate) fn earliest(&self) -> Option<Time> {
        // Each segment asks: a minimum without branches.
        let first = self.due.iter().fold(Time::MAX, |a, b| a.min(*b));
        Some(first).filter(|at| *at != Time::MAX)
    }

    /// Whether the entry on a wheel is early enough, and there is none where nothing is to come.
    pub(super) fn are_armed(&self) -> bool {
        match (self.earliest(), &self.armed) {
            (Some(at), Some(armed)) => armed.is_before(at),
            (earliest, armed) => earliest.is_none() && armed.is_none(),
        }
    }

    /// Stops all but the wheel's entry, which finds nothing to do.
    pub(crate) fn stop_all(&mut self) {
        self.due = [Time::MAX; TcpTimer::COUNT];
    }
}
