//! Lines on standard error about errors while a guest is served.
//!
//! A guest or a client can cause each of them as often as it likes, so each kind of line has a pause. A worker must not
//! wait for the reader of standard error: a line that does not fit now is left out. The counters miss nothing.
//!
//! Locks: none; one worker has it.

use std::io;
use std::time::Duration;

use kern::Time;

use crate::say;
use crate::sys::fd;

/// The shortest time between two lines of one kind from one worker.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// No descriptor is left.
    Descriptors,
    /// Connections were reset because a side took nothing while buffers were short.
    Stalled,
    /// Published ports have the most clients that are allowed.
    Clients,
    /// No server of the guest's answers behind a published port.
    NoServer,
    /// This process may send no pings.
    NoPings,
    /// The access log takes no more lines.
    AccessLog,
    /// A zone of the pool is short of items.
    Zone(&'static str, Lack),
}

/// The kind of shortage of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// Nearly all items of its limit are out.
    NearLimit,
    /// Allocations failed because of the limit.
    AtLimit,
    /// Allocations failed because the system had no memory.
    NoMemory,
}

/// The time at which a worker wrote its last line of each kind, and of each zone.
#[derive(Debug, Default)]
pub(super) struct Notices(Vec<(Subject, Time)>);

impl Notices {
    /// Writes a line, unless the last one of its kind is too recent.
    pub(super) fn say(&mut self, now: Time, kind: Subject, line: impl FnOnce() -> String) {
        let last = self.0.iter_mut().find(|(said, _)| *said == kind);
        let is_recent = last.as_ref().is_some_and(|(_, at)| now - *at < PAUSE);
        if is_recent || !fd::may_write(&io::stderr()) {
            return;
        }
        match last {
            Some((_, at)) => *at = now,
            None => self.0.push((kind, now)),
        }
        say(&line());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_a_pause() {
        // Breaks when a guest fills standard error, or one kind of line silences another.
        let mut notices = Notices::default();
        let mut said = 0;
        let mut say = |after: u64, kind| {
            let now = Time::ZERO + Duration::from_secs(after);
            notices.say(now, kind, || {
                said += 1;
                "a line of a test".to_owned()
            });
        };
        say(0, Subject::NoServer);
        say(9, Subject::NoServer);
        say(9, Subject::Descriptors);
        say(10, Subject::NoServer);
        let zone = |lack| Subject::Zone("mbuf", lack);
        say(10, zone(Lack::NearLimit));
        say(11, zone(Lack::AtLimit));
        say(12, zone(Lack::NearLimit));
        assert_eq!(said, 5);
    }
}
