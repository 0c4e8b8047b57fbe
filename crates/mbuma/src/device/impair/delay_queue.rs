//! Values under way, which come out at their times.
//!
//! A pure value. Invariants: values come out in order of their times, and those of one time in the order in which they
//! were put in. The owner bounds how many there are.

use std::collections::BTreeMap;

use kern::Time;

/// Values that wait for their times.
#[derive(Debug)]
pub struct DelayQueue<T> {
    /// By time, and the number of the value.
    values: BTreeMap<(Time, u64), T>,
    /// How many have been put in.
    seq: u64,
}

impl<T> DelayQueue<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            values: BTreeMap::new(),
            seq: 0,
        }
    }

    /// Puts `value` in; it comes out at `at`.
    pub fn push(&mut self, at: Time, value: T) {
        self.values.insert((at, self.seq), value);
        self.seq += 1;
    }

    /// When the next value comes out.
    pub fn next_at(&self) -> Option<Time> {
        self.values.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Takes the next value out if its time has come.
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        let next = self.values.first_entry()?;
        let (at, _) = *next.key();
        (at <= now).then(|| next.remove())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Drops all, and says how many they were.
    pub fn clear(&mut self) -> usize {
        let count = self.len();
        self.values.clear();
        count
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}
