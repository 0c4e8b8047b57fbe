//! A pair of devices in memory: frames into one end come out of the other. Use an [`epair`](super::epair) if ends must
//! be attached, moved and removed while stacks run.
//!
//! ```text
//!   Pipe a --transmit--> queue a->b --receive--> Pipe b
//!   Pipe a <--receive--- queue b->a <--transmit- Pipe b
//! ```
//!
//! Packets pass unchanged: with the capabilities [`Capabilities::whole`] a 64 KiB segment and its unfinished checksum
//! pass in one piece, and no byte is copied or read.
//!
//! Invariants: a queue holds at most 4096 packets; when one end is gone, the other takes no more, and returns an error
//! once it has read all sent frames. Locks: each direction's queue (IFQUEUE); never both.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use kern::{LockClass, Mutex, order};
use mbuf::Mbufq;

use super::{Budget, Capabilities, Device};

static QUEUE: LockClass = LockClass::new("pipe queue", order::IFQUEUE);

/// Packets that wait in one direction at most.
const QUEUE_MAX: usize = 4096;

/// One end of a pair.
#[derive(Debug)]
pub struct Pipe {
    caps: Capabilities,
    inward: Arc<PipeDirection>,
    outward: Arc<PipeDirection>,
}

#[derive(Debug)]
struct PipeDirection(Mutex<PipeQueue>);

#[derive(Debug, Default)]
struct PipeQueue {
    queue: Mbufq,
    /// The waker for packets that arrive.
    waker: Option<Waker>,
    closed: bool,
}

impl PipeDirection {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(&QUEUE, PipeQueue::default())))
    }

    fn close(&self) {
        let mut inner = self.0.lock();
        inner.closed = true;
        let waker = inner.waker.clone();
        drop(inner);
        waker.iter().for_each(Waker::wake_by_ref);
    }
}

impl Pipe {
    /// Two ends with the same capabilities.
    pub fn pair(caps: Capabilities) -> (Self, Self) {
        let (there, back) = (PipeDirection::new(), PipeDirection::new());
        let a = Self {
            caps,
            inward: Arc::clone(&back),
            outward: Arc::clone(&there),
        };
        (
            a,
            Self {
                caps,
                inward: there,
                outward: back,
            },
        )
    }

    /// Sets the waker for packets that arrive at an empty queue, and for the end of the other side; it is called at
    /// once if packets are waiting now. It stays until another takes its place.
    pub fn set_waker(&self, waker: Waker) {
        let mut inner = self.inward.0.lock();
        let now = !inner.queue.is_empty() || inner.closed;
        let old = inner.waker.replace(waker.clone());
        drop(inner);
        drop(old);
        if now {
            waker.wake();
        }
    }

    /// Packets that wait to be received here.
    pub fn pending(&self) -> usize {
        self.inward.0.lock().queue.len()
    }
}

impl Device for Pipe {
    fn capabilities(&self) -> Capabilities {
        self.caps
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut inner = self.inward.0.lock();
        if inner.closed && inner.queue.is_empty() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        budget.move_frames(&mut inner.queue, rx);
        Ok(!inner.queue.is_empty())
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let mut inner = self.outward.0.lock();
        if inner.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let was_empty = inner.queue.is_empty();
        while inner.queue.len() < QUEUE_MAX {
            let Some(mut packet) = tx.dequeue() else {
                break;
            };
            packet.header_mut().turn_round();
            inner.queue.enqueue(packet);
        }
        let arrived = was_empty && !inner.queue.is_empty();
        let waker = arrived.then(|| inner.waker.clone()).flatten();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(0)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.inward.close();
        self.outward.close();
        // These will not be read any more.
        let unread = self.inward.0.lock().queue.take_all();
        drop(unread);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
