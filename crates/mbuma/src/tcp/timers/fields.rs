//! The expiry times of a connection's timers.
//!
//! Timers are fields, not entries of a wheel: a connection has one entry on a [wheel](crate::tcp::wheels), never later
//! than the earliest timer. Moving a timer to a later time, as each acknowledgement does, is one store.

use kern::Time;

use crate::tcp::wheels::Armed;

/// The kinds of timers.
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
    /// The end of TIME-WAIT, or of an orphan's time in FIN-WAIT-2. It shares a field with [`Pace`](Self::Pace): in
    /// these states no data is sent, and in others this timer is not used. A step that enters one of these states sets
    /// the timer or stops it.
    #[doc(alias = "TCPT_2MSL")]
    Wait,
    /// The reordering window is over: data that was overtaken is lost (RFC 8985 6.2).
    Reorder,
    /// Nothing was acknowledged for two round trips: a tail loss probe is due (RFC 8985 7.2).
    Probe,
    /// The next packet may leave, by the rate of the path. Only in states in which data is sent.
    Pace,
    /// A listener's program gets the connection although its client was silent. It shares a field with
    /// [`Keepalive`](Self::Keepalive), which a program sets only when it has the connection.
    Accept,
    /// Half of an orphan's data must be acknowledged by then. It shares that field too: an orphan has no keepalives.
    Orphan,
}

impl TcpTimer {
    /// Fields.
    const COUNT: usize = 7;

    /// The index of its field.
    const fn field(self) -> usize {
        match self {
            Self::Pace => Self::Wait as usize,
            Self::Accept | Self::Orphan => Self::Keepalive as usize,
            other => other as usize,
        }
    }
}

/// All timers of one connection.
#[derive(Debug)]
pub(crate) struct Timers {
    /// By [`TcpTimer`]; [`Time::MAX`] if it is off.
    due: [Time; TcpTimer::COUNT],
    /// The entry on a wheel, which comes before the earliest of the above.
    pub(in crate::tcp) armed: Option<Armed>,
    /// The number of the last entry, which distinguishes a connection's entries; an entry of 2^32 entries ago is gone.
    pub(in crate::tcp) last_entry: u32,
    /// How often the time between probes of a closed window was doubled.
    #[doc(alias = "t_rxtshift")]
    pub(in crate::tcp) persist_shift: u8,
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
        // Each segment calls this, so the minimum has no branches.
        let first = self.due.iter().fold(Time::MAX, |a, b| a.min(*b));
        Some(first).filter(|at| *at != Time::MAX)
    }

    /// Whether the entry on a wheel is early enough, and missing if no timer runs.
    pub(in crate::tcp) fn are_armed(&self) -> bool {
        match (self.earliest(), &self.armed) {
            (Some(at), Some(armed)) => armed.is_before(at),
            (earliest, armed) => earliest.is_none() && armed.is_none(),
        }
    }

    /// Stops all timers. The wheel's entry stays, and will find no due timer.
    pub(crate) fn stop_all(&mut self) {
        self.due = [Time::MAX; TcpTimer::COUNT];
    }
}
