//! Values under way, which come out at their times.
//!
//! A pure value. Invariants: values come out in order of their times, and those of one time in the order in which they
//! were put in. The owner bounds how many there are.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use kern::Time;

/// Values that wait for their times.
#[derive(Debug)]
pub struct DelayQueue<T> {
    heap: BinaryHeap<Reverse<Delayed<T>>>,
    /// How many have been put in.
    seq: u64,
}

#[derive(Debug)]
struct Delayed<T> {
    at: Time,
    seq: u64,
    value: T,
}

impl<T> DelayQueue<T> {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `value` in; it comes out at `at`.
    pub fn push(&mut self, at: Time, value: T) {
        let seq = self.seq;
        self.heap.push(Reverse(Delayed { at, seq, value }));
        self.seq += 1;
    }

    /// When the next value comes out.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(w)| w.at)
    }

    /// Takes the next value out if its time has come.
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        self.next_at().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse(w)| w.value)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Drops all, and says how many they were.
    pub fn clear(&mut self) -> usize {
        let count = self.len();
        self.heap.clear();
        count
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            seq: 0,
        }
    }
}

impl<T> PartialEq for Delayed<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.seq) == (other.at, other.seq)
    }
}

impl<T> Eq for Delayed<T> {}

impl<T> PartialOrd for Delayed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Delayed<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}
