//! Where the timers of a wheel are kept: a vector whose places are used again.
//!
//! Invariant: a place's generation changes each time the place is freed, so that an old id finds no timer; a place that
//! was given back and comes again begins with a generation that it never had.
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
    /// The generation of places that are new: places before them may have been given back.
    fresh: u32,
}

/// A slab begins with so many places, and one without timers keeps no more.
const KEPT_PLACES: usize = 64;

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
            fresh: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many places there is memory for.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn capacity(&self) -> usize {
        self.places.capacity()
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
        if self.len == 0 && self.places.len() > KEPT_PLACES {
            self.give_back();
        }
        timer
    }

    /// Gives back the memory of all places, which are free: otherwise the memory of a spike would stay for ever.
    #[cold]
    fn give_back(&mut self) {
        let used = self.places.iter().map(|place| place.generation);
        self.fresh = used.fold(self.fresh, u32::max);
        (self.places, self.free) = (Vec::with_capacity(KEPT_PLACES), NONE);
    }

    fn grow(&mut self, content: Content<T>) -> (u32, u32) {
        let index = u32::try_from(self.places.len()).unwrap_or(NONE);
        assert_ne!(index, NONE, "too many timers");
        if self.places.capacity() == 0 {
            self.places.reserve_exact(KEPT_PLACES);
        }
        let generation = self.fresh;
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
