//! The queue of events by time, and the names of their targets.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use kern::Time;

use crate::frame::Frame;

/// Names a stack of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(pub(crate) usize);

/// Names a wire of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireId(pub(crate) usize);

/// Names a peer that is driven by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerId(pub(crate) usize);

/// Names an epair of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CableId(pub(crate) usize);

/// Names an app of a net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AppId(pub(crate) usize);

/// The event.
#[derive(Debug)]
pub(crate) enum What {
    /// A frame comes out at an end of a wire.
    Arrive {
        wire: usize,
        end: usize,
        frame: Frame,
    },
    /// A port tells its stack that frames are there.
    Interrupt { port: usize },
    /// An app requested a call at this time.
    Wake { app: usize },
}

#[derive(Debug)]
struct Event {
    at: Time,
    /// Events of one instant happen in the order in which they were planned.
    seq: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.seq) == (other.at, other.seq)
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}

/// The events to come, in order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Event>>,
    planned: u64,
}

impl Queue {
    pub(crate) fn plan(&mut self, at: Time, what: What) {
        self.heap.push(Reverse(Event {
            at,
            seq: self.planned,
            what,
        }));
        self.planned += 1;
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(e)| e.at)
    }

    /// The next event, if it is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<What> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(e)| e.what)
    }
}
