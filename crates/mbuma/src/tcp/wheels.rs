//! The timing wheels: one for each of the stack's CPUs. A connection has at most one entry, on the wheel of the CPU
//! that set it, so CPUs that work on different connections do not contend here.
//!
//! ```text
//!   Timers.armed -- cpu, id --> wheel of that CPU: | entry: connection, number | ...
//! ```
//!
//! **An entry that fires is out of its wheel before the connection is locked.** In between, another thread may have set
//! a new one, or closed the connection and removed it from the table, and a successor with the same key may be there.
//! So an entry refers to the connection itself, never to its key, and has a number: a late thread finds a closed
//! connection without due timers, and does not touch an entry with another number.
//!
//! Invariants: `armed` names an entry that is on its wheel, or that fired and has not reached the connection. A closed
//! connection has none after its turn. Locks: each wheel's (CALLOUT), under the connection's; never two.
//! `models/tcp.rs` tries the orders.

use std::num::NonZeroU32;
use std::sync::Arc;

use kern::prim::Mutex;
use kern::{AtomicDeadline, Callout, CalloutId, LockClass, Time, order};

use super::pcb::Inpcb;
use super::timers::fields::Timers;
use crate::faults::{StackFault, planted};

static WHEEL: LockClass = LockClass::new("tcp timers", order::CALLOUT);

/// All wheels.
pub(crate) struct Wheels(Box<[Wheel]>);

/// A CPU's; on lines of its own.
#[repr(align(128))]
struct Wheel {
    entries: Mutex<Callout<WheelEntry>>,
    /// When it should be turned next. Written under the lock.
    due: AtomicDeadline,
}

/// The token of an entry that fired.
pub(crate) struct WheelEntry {
    pub(crate) pcb: Arc<Inpcb>,
    number: u32,
}

/// A connection's entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Armed {
    /// Its time, never after the connection's earliest timer.
    at: Time,
    id: CalloutId,
    /// The CPU's index plus one, so that `Option` needs no additional room.
    cpu: NonZeroU32,
}

impl Armed {
    /// Whether its time is not after `at`.
    pub(super) fn is_before(&self, at: Time) -> bool {
        self.at <= at
    }
}

impl Wheels {
    pub(crate) fn new(cpus: usize, now: Time) -> Self {
        let wheel = |_| Wheel {
            entries: Mutex::new(&WHEEL, Callout::new(now)),
            due: AtomicDeadline::new(),
        };
        Self((0..cpus).map(wheel).collect())
    }

    pub(crate) fn cpus(&self) -> usize {
        self.0.len()
    }

    /// Sets the connection's entry in time for its earliest timer; removes it if no timer runs. If the next time of the
    /// wheel of `cpu` became earlier, returns it: then the CPU's thread must be woken.
    #[must_use = "the CPU may sleep past it"]
    #[doc(alias = "callout_reset_on")]
    pub(crate) fn arm(&self, cpu: usize, pcb: &Arc<Inpcb>, timers: &mut Timers) -> bool {
        if timers.are_armed() {
            return false;
        }
        self.disarm(timers);
        let Some(at) = timers.earliest() else {
            return false;
        };
        timers.last_entry = timers.last_entry.wrapping_add(1);
        let number = timers.last_entry;
        let entry = WheelEntry {
            pcb: Arc::clone(pcb),
            number,
        };
        let (before, id) = self.0[cpu].change(|wheel| {
            let before = wheel.next_deadline();
            (before, wheel.schedule(at, entry))
        });
        timers.armed = Some(Armed {
            at,
            id,
            cpu: NonZeroU32::MIN.saturating_add(cpu as u32),
        });
        before.is_none_or(|before| at < before)
    }

    /// Removes the connection's entry, if it has not fired.
    #[doc(alias = "callout_stop")]
    fn disarm(&self, timers: &mut Timers) {
        if let Some(armed) = timers.armed.take() {
            let wheel = &self.0[armed.cpu.get() as usize - 1];
            let entry = wheel.change(|wheel| wheel.cancel(armed.id));
            drop(entry);
        }
    }

    /// Turns the wheel of `cpu`. The caller must take each returned entry to its connection: see
    /// [`WheelEntry::arrives`].
    pub(crate) fn turn(&self, cpu: usize, now: Time) -> Vec<WheelEntry> {
        let mut due = Vec::new();
        self.0[cpu].change(|wheel| wheel.advance(now, &mut due));
        due
    }

    /// When the wheel of `cpu` should be turned next.
    pub(crate) fn deadline(&self, cpu: usize) -> Option<Time> {
        self.0[cpu].due.get()
    }
}

impl Wheel {
    fn change<R>(&self, f: impl FnOnce(&mut Callout<WheelEntry>) -> R) -> R {
        let mut entries = self.entries.lock();
        let result = f(&mut entries);
        self.due.set(entries.next_deadline());
        result
    }
}

impl WheelEntry {
    /// The entry has reached its connection, which now needs a new one unless it has another one already.
    pub(crate) fn arrives(&self, timers: &mut Timers) {
        let any = planted(StackFault::ForgottenEntry);
        let number = timers.last_entry;
        (timers.armed).take_if(|_| any || number == self.number);
    }
}
