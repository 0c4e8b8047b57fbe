//! The packets of one protocol that wait for one CPU, and which thread handles them.
//!
//! Called by: [`queues`](super::queues). Calls nothing.
//!
//! # The protocol
//!
//! A queue of packets is under a mutex, together with the state of the thread that must handle it:
//!
//! ```text
//!            put: kick the CPU            begin: all of it
//!    Idle ---------------------> Scheduled ---------------> Running --+ put: nothing to do
//!     | ^                            ^                        |  ^----+ next, something waits: all of it
//!     | |                            | end, something waits   |
//!     | +----------------------------+------------------------+
//!     |                    end, next: nothing waits           ^
//!     +-------------------------------------------------------+
//!       own: the caller handles it; put by a caller that handles the packets itself
//! ```
//!
//! Three claims:
//!
//! - **No packet is forgotten.** The queue and its state change under one mutex. The state becomes `Idle` only if
//!   the queue is empty. While it is not, its CPU was kicked and has not begun since, or an owner will
//!   check the queue again.
//! - **One thread at a time.** The thread that has made the state `Running` owns the queue. No other thread takes
//!   packets from it, or handles packets of its flows directly, until the owner releases it.
//! - **No packet overtakes another.** The state becomes `Idle` after the last packet taken was handled. So a thread
//!   that reads `Idle` (acquire; written with release) may handle a packet at once: all packets put before it are
//!   handled. "Before" means that the put had returned before the read began: the source of a flow's packets
//!   (a device's queue, a connection) brings them in one after the other.
//!
//! A thread that owns the queue without having taken packets (`own`) need not read the state, only check whether the
//! queue is empty: packets that were put since are handled first.
//!
//! Locks: `packets` (class IFQUEUE, so that a connection may be held). `schedules.rs` runs the protocol, and
//! mistakes in it, in many random orders. Sources: netisr(9)'s workstreams, seed 003's state machine.

use core::mem;

use kern::handoff::Items;
use kern::prim::{AtomicU8, AtomicUsize, Mutex, Ordering};
use kern::{LockClass, order};

static QUEUE: LockClass = LockClass::new("netisr queue", order::IFQUEUE);

/// The queue is empty and no thread handles packets. Operations: put, own. Caveats: none.
const IDLE: u8 = 0;
/// Something waits, and the CPU was kicked. Operations: put, begin. Caveats: no second kick.
const SCHEDULED: u8 = 1;
/// A thread handles packets, and will check again. Operations: put; next and end by the owner. Caveats:
/// how far it has come is not known.
const RUNNING: u8 = 2;

/// A queue of packets with the state of the thread that handles them. On cache lines of its own, so that CPUs that do
/// not share packets share no line.
#[repr(align(128))]
pub(crate) struct Workstream<Q> {
    /// Written under `packets`'s lock.
    state: AtomicU8,
    /// How many wait. Written under `packets`'s lock, for an owner to look at without it.
    waiting: AtomicUsize,
    packets: Mutex<Queue<Q>>,
}

#[derive(Default)]
struct Queue<Q> {
    packets: Q,
    /// How many packets the owner took and may put back: there must be room for them.
    in_hand: usize,
    counts: Counts,
}

/// Counts of packets that were put.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) queued: u64,
    pub(crate) moved: u64,
    pub(crate) handled: u64,
    pub(crate) full: u64,
    pub(crate) kicks: u64,
    pub(crate) high_water: usize,
}

/// Which thread must handle the packets that are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handler {
    /// Its CPU.
    Cpu,
    /// The caller, if no other thread does now.
    Caller,
}

/// The result of a put. Packets without room are still in the caller's queue.
#[must_use = "a CPU that is not kicked sleeps for ever"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// A thread will check the queue.
    Queued,
    /// The CPU does not know of it: kick it.
    Kick,
    /// The caller owns it now.
    Owned,
}

/// The packets that an owner leaves behind.
#[must_use = "what is left must be handled by somebody"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Packets wait, for the next thread that begins.
    Some,
}

impl<Q: Items> Workstream<Q> {
    pub(crate) fn new() -> Self {
        let queue = Queue {
            packets: Q::default(),
            in_hand: 0,
            counts: Counts::default(),
        };
        Self {
            state: AtomicU8::new(IDLE),
            waiting: AtomicUsize::new(0),
            packets: Mutex::new(&QUEUE, queue),
        }
    }

    /// Whether all packets that were put before are handled.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.load(Ordering::Acquire) == IDLE
    }

    /// Whether a thread must begin. Relaxed: the thread that must not miss it was kicked, or has put the packets
    /// itself.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.state.load(Ordering::Relaxed) == SCHEDULED
    }

    /// Whether nothing waits: for the owner, and meaning packets put before the call.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Queues the packets that fit. `moved`: they come from another CPU than this workstream's, and change it
    /// unless the caller handles them. `active` counts those of the queues that are not idle.
    pub(crate) fn put(
        &self,
        packets: &mut Q,
        max: usize,
        moved: bool,
        by: Handler,
        active: &AtomicUsize,
    ) -> Put {
        let mut queue = self.packets.lock();
        let idle = self.state.load(Ordering::Relaxed) == IDLE;
        let moved = moved && !(idle && by == Handler::Caller);
        let queued = queue.add(packets, max, moved);
        self.waiting.store(queue.packets.len(), Ordering::Release);
        if queued == 0 || !idle {
            return Put::Queued;
        }
        active.fetch_add(1, Ordering::AcqRel);
        match by {
            Handler::Cpu => {
                queue.counts.kicks += 1;
                self.state.store(SCHEDULED, Ordering::Release);
                Put::Kick
            }
            Handler::Caller => {
                self.state.store(RUNNING, Ordering::Release);
                Put::Owned
            }
        }
    }

    /// The caller becomes the owner of an idle workstream, to handle packets that are not queued. Says whether it is.
    pub(crate) fn own(&self, active: &AtomicUsize) -> bool {
        let _queue = self.packets.lock();
        if self.state.load(Ordering::Relaxed) != IDLE {
            return false;
        }
        active.fetch_add(1, Ordering::AcqRel);
        self.state.store(RUNNING, Ordering::Release);
        true
    }

    /// The caller becomes the owner of a scheduled workstream, and takes all waiting packets, in O(1).
    pub(crate) fn begin(&self) -> Option<Q> {
        let mut queue = self.packets.lock();
        if self.state.load(Ordering::Relaxed) != SCHEDULED {
            return None;
        }
        self.state.store(RUNNING, Ordering::Release);
        self.waiting.store(0, Ordering::Release);
        Some(queue.take())
    }

    /// The owner handled `handled` packets, and takes those that wait now; `None`: there are none, and it
    /// owns it no more.
    pub(crate) fn next(&self, handled: u64, active: &AtomicUsize) -> Option<Q> {
        let mut queue = self.packets.lock();
        queue.counts.handled += handled;
        if queue.packets.is_empty() {
            queue.in_hand = 0;
            self.rest(active);
            return None;
        }
        self.waiting.store(0, Ordering::Release);
        Some(queue.take())
    }

    /// The owner handled `handled` of the packets that it took and puts the others back, before those that
    /// came meanwhile. It owns it no more.
    pub(crate) fn end(&self, handled: u64, mut others: Q, active: &AtomicUsize) -> Left {
        let mut queue = self.packets.lock();
        queue.counts.handled += handled;
        queue.in_hand = 0;
        if !others.is_empty() {
            others.take_from(&mut queue.packets, usize::MAX);
            queue.packets = others;
            queue.note_high_water();
        }
        if queue.packets.is_empty() {
            self.rest(active);
            return Left::Nothing;
        }
        self.waiting.store(queue.packets.len(), Ordering::Release);
        self.state.store(SCHEDULED, Ordering::Release);
        Left::Some
    }

    /// With the lock held, and nothing waiting.
    fn rest(&self, active: &AtomicUsize) {
        self.state.store(IDLE, Ordering::Release);
        active.fetch_sub(1, Ordering::AcqRel);
    }

    /// A mistake: goes idle on the word of an earlier look.
    #[cfg(all(test, shuttle))]
    pub(crate) fn planted_rest(&self, active: &AtomicUsize) {
        let _queue = self.packets.lock();
        self.rest(active);
    }

    /// The counts so far, and how many packets wait.
    pub(crate) fn counts(&self) -> (Counts, usize) {
        let queue = self.packets.lock();
        (queue.counts, queue.packets.len())
    }

    /// Whether queue and state agree: no packet waits without a thread that must handle it.
    pub(crate) fn is_valid(&self) -> bool {
        let queue = self.packets.lock();
        let idle = self.state.load(Ordering::Relaxed) == IDLE;
        let told = self.waiting.load(Ordering::Relaxed) == queue.packets.len();
        told && (!idle || queue.packets.is_empty())
    }
}

impl<Q: Items> Queue<Q> {
    /// Queues as much of `packets` as there is room for; says how much.
    fn add(&mut self, packets: &mut Q, max: usize, moved: bool) -> usize {
        let room = max.saturating_sub(self.packets.len() + self.in_hand);
        let queued = room.min(packets.len());
        self.packets.take_from(packets, queued);
        self.counts.queued += queued as u64;
        self.counts.moved += if moved { queued as u64 } else { 0 };
        self.counts.full += packets.len() as u64;
        self.note_high_water();
        queued
    }

    fn note_high_water(&mut self) {
        self.counts.high_water = self.counts.high_water.max(self.packets.len());
    }

    /// Takes all, in O(1).
    fn take(&mut self) -> Q {
        self.in_hand = self.packets.len();
        mem::take(&mut self.packets)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
