//! Where the timers of a wheel are kept: a vector whose places are used again.
//!
//! Invariant: a place's generation changes each time the place is freed, so that an old id finds no timer.
//! Locks: none.

use core::ops::{Index, IndexMut};

use super::NONE;
use crate::time::Time;

/// One pending timer.
pub(super) struct Timer<T> {
    pub(super) at: Time,
    pub(super) seq: u64,
    pub(super) token: T,
    /// Neighbours on its list.
    pub(super) next: u32,
    pub(super) prev: u32,
    /// The list that it is on.
    pub(super) slot: u16,
}

impl<T> Timer<T> {
    /// A timer that is on no list.
    pub(super) fn new(at: Time, seq: u64, token: T) -> Self {
        Self {
            at,
            seq,
            token,
            next: NONE,
            prev: NONE,
            slot: u16::MAX,
        }
    }
}

/// The timers, by index.
pub(super) struct TimerSlab<T> {
    places: Vec<TimerSlot<T>>,
    /// The first free place, which names the second, and so on.
    free: u32,
    len: usize,
}

struct TimerSlot<T> {
    generation: u32,
    content: Content<T>,
}

enum Content<T> {
    Live(Timer<T>),
    Free { next: u32 },
}

impl<T> TimerSlab<T> {
    pub(super) fn new() -> Self {
        Self {
            places: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Keeps `timer`; returns its index and that place's generation.
    pub(super) fn insert(&mut self, timer: Timer<T>) -> (u32, u32) {
        self.len += 1;
        let content = Content::Live(timer);
        let Some(place) = self.places.get_mut(self.free as usize) else {
            return self.grow(content);
        };
        let index = self.free;
        if let Content::Free { next } = core::mem::replace(&mut place.content, content) {
            self.free = next;
        }
        (index, place.generation)
    }

    /// The timer at `index`, if it is still the one of `generation`.
    pub(super) fn lookup(&self, index: u32, generation: u32) -> Option<&Timer<T>> {
        let place = self.places.get(index as usize)?;
        match &place.content {
            Content::Live(timer) if place.generation == generation => Some(timer),
            _ => None,
        }
    }

    /// The timer at `index`, if there is one.
    pub(super) fn live(&self, index: u32) -> Option<&Timer<T>> {
        match &self.places.get(index as usize)?.content {
            Content::Live(timer) => Some(timer),
            Content::Free { .. } => None,
        }
    }

    /// Gives back the timer at `index` and its place.
    pub(super) fn remove(&mut self, index: u32) -> Timer<T> {
        let place = &mut self.places[index as usize];
        let free = Content::Free { next: self.free };
        let Content::Live(timer) = core::mem::replace(&mut place.content, free) else {
            unreachable!("timer {index} was removed before");
        };
        place.generation = place.generation.wrapping_add(1);
        self.free = index;
        self.len -= 1;
        timer
    }

    fn grow(&mut self, content: Content<T>) -> (u32, u32) {
        let index = u32::try_from(self.places.len()).unwrap_or(NONE);
        assert_ne!(index, NONE, "too many timers");
        let generation = 0;
        self.places.push(TimerSlot {
            generation,
            content,
        });
        (index, generation)
    }
}

impl<T> Index<u32> for TimerSlab<T> {
    type Output = Timer<T>;

    fn index(&self, index: u32) -> &Timer<T> {
        self.live(index).expect("lists hold live timers only")
    }
}

impl<T> IndexMut<u32> for TimerSlab<T> {
    fn index_mut(&mut self, index: u32) -> &mut Timer<T> {
        match &mut self.places[index as usize].content {
            Content::Live(timer) => timer,
            Content::Free { .. } => unreachable!("lists hold live timers only"),
        }
    }
}
