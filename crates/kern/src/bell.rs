//! A bell beside the bed of a thread that looks after the work of many, and sleeps in a system call.
//!
//! Called by: workers of a runtime, and whoever gives them work. Calls nothing: how to sleep and how to
//! wake is the owner's business (an eventfd in an epoll set, a futex), and so is where work lies.
//!
//! Waking costs a system call, often more than the work. So whoever brings work rings only when the
//! worker sleeps, and of many who bring work at once one rings.
//!
//! # The protocol
//!
//! ```text
//!   worker                                    whoever brings work
//!   ------                                    -------------------
//!   works until it finds nothing              puts the work where it belongs
//!   settle: asleep = true, fence              ring: fence; if asleep: asleep = false, and was it true?
//!   looks once more everywhere                  yes: makes the system call that wakes
//!   if there is nothing: sleeps
//!   rise: asleep = false
//! ```
//!
//! The claim: a worker that sleeps, and whom nobody is about to wake, has seen all work. The argument:
//!
//! - Each side writes, then a fence, then reads what the other writes. Of the two fences one is first in
//!   the one order of all such fences. If it is the bringer's, the worker's last look finds the work. If
//!   it is the worker's, the bringer finds it asleep.
//! - A bringer that finds it asleep clears the mark by an exchange. Whoever finds the mark cleared after
//!   the worker settled has another before it who wakes, or has risen it; a worker that wakes looks
//!   everywhere, and settles and looks again before it sleeps again, so the first point holds anew.
//! - A system call that comes when the worker is awake already (it found the work by its last look) makes
//!   its next sleep a short one. That costs time, and loses nothing.
//!
//! Without the fences each could read what was there before the other's write, though both wrote: x86
//! delays a store past a later load. Locks do not help where work and mark are under different ones.
//!
//! Locks: none. `tests/models/bell.rs` runs the protocol, and mistakes in it, in every order.
//! Source: the sleep flags of seed 003, and of every event loop since.

use crate::prim::{AtomicBool, Ordering, fence};

/// Whether a worker sleeps.
///
/// ```
/// use kern::Bell;
///
/// let bell = Bell::new();
/// assert!(!bell.ring(), "it is awake and will look before it sleeps");
/// bell.settle();
/// // Here the worker looks everywhere once more, and then sleeps.
/// assert!(bell.ring(), "the first to come wakes it");
/// assert!(!bell.ring(), "somebody did");
/// bell.rise();
/// ```
#[derive(Debug)]
pub struct Bell {
    asleep: AtomicBool,
}

impl Bell {
    /// Of a worker that is awake.
    #[must_use]
    pub fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
        }
    }

    /// The worker is about to sleep. From here on it is rung for, so what came before this it must look
    /// for once more.
    pub fn settle(&self) {
        // Relaxed: the fence orders it before the looks that follow.
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The worker is awake: it slept, or it found something when it looked.
    pub fn rise(&self) {
        // A look, and mostly no write: whoever rang has cleared it. Acquire: sees what they did before.
        if self.asleep.load(Ordering::Acquire) {
            self.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// There is work for the worker, where it will look. True if the caller has to wake it.
    #[must_use = "a worker that is not woken sleeps for ever"]
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        // The load spares the exchange, and the line, while the worker is awake.
        self.asleep.load(Ordering::Relaxed) && self.wakes_it()
    }

    /// Of those who found it asleep, one wakes it.
    fn wakes_it(&self) -> bool {
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.asleep
            .compare_exchange(true, false, set, fetch)
            .is_ok()
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}
