//! The watch: a thread that reports if the gateway hangs.
//!
//! It prints which thread holds which lock, which threads wait for it, and the cost of the locks, on standard error:
//! when it gets SIGRTMIN+1, and by itself, once, when the loop is in one round, or a thread waits for one
//! lock, for longer than `--watchdog` says.
//!
//! ```text
//!   the loop's pulse   1 awake | 2 asleep | 3 awake | 4 asleep ...   one store a step, by the loop
//!   the watch          looks a few times: still 3?   a round that takes that long hangs
//! ```
//!
//! It counts its looks and reads no clock, so an mbuma that was stopped with Ctrl-Z, this thread included, does not
//! seem to have hung. A loop with nothing to do is asleep, for any time.
//!
//! Invariants: it takes no lock of the stack's and waits only for the reader of standard error; no handler runs, since
//! the signal is blocked in all threads and read here.
//! Locks: none.

use std::fmt::Write as _;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kern::witness;
use mbuma::runtime::Heartbeat;

use crate::signals::SignalFd;
use crate::sys::fd;

/// Looks within the bound.
const LOOKS: u32 = 4;

/// The thread, as long as this is kept.
#[derive(Debug)]
pub(super) struct Watch {
    /// The thread ends when this end is closed. It is not joined: the reader of standard error may be slow.
    _stop: PipeWriter,
}

impl Watch {
    /// Opens the descriptors of the thread; the thread starts with [`Unstarted::start`].
    pub(super) fn open() -> io::Result<Unstarted> {
        let signals = SignalFd::of_show_locks()?;
        let (stop, kept) = io::pipe()?;
        Ok(Unstarted {
            signals,
            stop,
            kept,
        })
    }
}

/// The descriptors of a watch: they are opened before the process gives up the right to.
pub(super) struct Unstarted {
    signals: SignalFd,
    stop: PipeReader,
    kept: PipeWriter,
}

impl Unstarted {
    /// Starts it, over the loops that have these pulses.
    pub(super) fn start(
        self,
        heartbeats: Vec<Arc<Heartbeat>>,
        bound: Option<Duration>,
    ) -> io::Result<Watch> {
        let Unstarted {
            signals,
            stop,
            kept,
        } = self;
        let thread = thread::Builder::new().name("watch".to_owned());
        thread.spawn(move || run(&signals, &stop, &heartbeats, bound))?;
        Ok(Watch { _stop: kept })
    }
}

/// The thread, to its end.
fn run(
    signals: &SignalFd,
    stop: &PipeReader,
    heartbeats: &[Arc<Heartbeat>],
    bound: Option<Duration>,
) {
    let detectors = || -> Vec<_> {
        heartbeats
            .iter()
            .map(|_| StallDetector::default())
            .collect()
    };
    let mut detection = bound.map(|bound| (detectors(), kern::Watchdog::new(bound)));
    let tick = bound.map(|bound| bound / LOOKS);
    // This thread can't handle an error of the system here.
    while let Ok([signal, false]) = fd::poll(&[signals.as_fd(), stop.as_fd()], tick).as_deref() {
        if *signal {
            while matches!(signals.read(), Ok(Some(_))) {}
            print_locks("a signal asks for the locks");
            continue;
        }
        if let (Some((detectors, locks)), Some(bound)) = (&mut detection, bound) {
            look(detectors, locks, heartbeats, bound);
        }
    }
}

/// One look at the loops and at all threads.
fn look(
    detectors: &mut [StallDetector],
    locks: &mut kern::Watchdog,
    heartbeats: &[Arc<Heartbeat>],
    bound: Duration,
) {
    let looks = detectors.iter_mut().zip(heartbeats);
    // Checks all of them, because each check updates a state.
    let hangs = looks.map(|(detectors, heartbeat)| detectors.look(heartbeat.get()));
    let hangs = hangs.fold(false, |any, hangs| any | hangs);
    let waits = !locks.check(Instant::now()).is_empty();
    if hangs {
        print_locks(&format!("the loop has been in one round for {bound:?}"));
    } else if waits {
        print_locks(&format!("a thread has waited for a lock for {bound:?}"));
    }
}

/// The state of the same round, look by look.
#[derive(Debug, Default)]
struct StallDetector {
    /// The pulse at the last look.
    seen: u64,
    /// The number of looks after the first at which it was the same.
    again: u32,
}

impl StallDetector {
    /// Looks at the pulse. Returns true if a report is due, once for each round.
    fn look(&mut self, now: u64) -> bool {
        let same = now == self.seen;
        let awake = now % 2 == 1;
        self.again = if same && awake {
            self.again.saturating_add(1)
        } else {
            0
        };
        self.seen = now;
        self.again == LOOKS
    }
}

/// Prints everything about locks, in one piece.
fn print_locks(why: &str) {
    let text = format!("mbuma: {why}\n{}", locks_text());
    // A closed standard error is no reason to fail.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Which thread holds which lock, which threads wait for it, and the cost: `show locks`, then a table.
pub(super) fn locks_text() -> String {
    let mut text = kern::show_locks().to_string();
    if !witness::ENABLED {
        text += "(this build knows a lock's holder only while a thread waits for it; one with `--features \
                 witness` knows all)\n";
    }
    // Writing to a string cannot fail.
    let _ = write!(text, "\n{}", kern::lock_stats());
    if !witness::ENABLED {
        text += "(acquisitions are an estimate, one in 64 is counted; the rest is exact)\n";
    }
    text
}

#[cfg(test)]
mod tests;
