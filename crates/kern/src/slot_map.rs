//! Values in places that are used again, each found by its key in O(1).
//!
//! A key may be used after its value was removed and its place given to another value: it finds nothing then, because
//! it has the generation of its place.
//!
//! Invariants: a place's generation changes each time the place is freed; a place that was given back and comes again
//! begins with a generation that it never had, as long as generations do not wrap.
//! Locks: none.

use core::mem;
use core::ops::{Index, IndexMut};

/// A map without values keeps the memory of no more places than this.
const KEPT_PLACES: usize = 64;

/// Values with keys, whose generations have `BITS` bits.
#[derive(Debug)]
pub struct SlotMap<T, const BITS: u32 = 32> {
    places: Vec<KeyedPlace<T>>,
    free: Vec<u32>,
    /// The generation of places that are new: places before them may have been given back.
    fresh: u32,
}

#[derive(Debug)]
struct KeyedPlace<T> {
    generation: u32,
    value: Option<T>,
}

/// Names one value of a [`SlotMap`], until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotKey {
    index: u32,
    generation: u32,
}

impl SlotKey {
    /// The key that has this [`number`](Self::number).
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self {
            index: number as u32,
            generation: (number >> 32) as u32,
        }
    }

    /// The generation in the upper half, the place in the lower.
    #[must_use]
    pub const fn number(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The place.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }
}

impl<T, const BITS: u32> Default for SlotMap<T, BITS> {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            fresh: 0,
        }
    }
}

impl<T, const BITS: u32> SlotMap<T, BITS> {
    const GENERATION_MAX: u32 = u32::MAX >> (32 - BITS);

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many places there is memory for.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    /// The key of the next [`SlotMap::insert`], for a value that must have it before.
    ///
    /// # Panics
    /// If there are 2^32 values.
    #[must_use]
    pub fn next_key(&self) -> SlotKey {
        let new = || u32::try_from(self.places.len()).expect("a key has 32 bits for the place");
        let index = self.free.last().copied().unwrap_or_else(new);
        let place = self.places.get(index as usize);
        let generation = place.map_or(self.fresh, |place| place.generation);
        SlotKey { index, generation }
    }

    /// Adds `value`.
    ///
    /// # Panics
    /// If there are 2^32 already.
    pub fn insert(&mut self, value: T) -> SlotKey {
        let key = self.next_key();
        let value = Some(value);
        if self.free.pop().is_some() {
            self.places[key.index as usize].value = value;
        } else {
            let generation = key.generation;
            self.places.push(KeyedPlace { generation, value });
        }
        key
    }

    /// The value that `key` names, if it is still there.
    #[must_use]
    pub fn get(&self, key: SlotKey) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        let is_its = place.generation == key.generation;
        is_its.then_some(place.value.as_ref()?)
    }

    /// The value that `key` names, to change.
    pub fn get_mut(&mut self, key: SlotKey) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        let is_its = place.generation == key.generation;
        is_its.then_some(place.value.as_mut()?)
    }

    /// The value at a place, whatever its generation.
    #[must_use]
    pub fn at(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.value.as_ref()
    }

    /// Removes the value that `key` names; the key names nothing from now on.
    pub fn remove(&mut self, key: SlotKey) -> Option<T> {
        self.get(key)?;
        self.remove_at(key.index)
    }

    /// Removes the value at a place, whatever its generation.
    pub fn remove_at(&mut self, index: u32) -> Option<T> {
        let place = self.places.get_mut(index as usize)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1) & Self::GENERATION_MAX;
        self.free.push(index);
        if self.is_empty() && self.places.len() > KEPT_PLACES {
            self.give_back();
        }
        Some(value)
    }

    /// All values with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (SlotKey, &T)> {
        self.places.iter().zip(0..).filter_map(|(place, index)| {
            let generation = place.generation;
            Some((SlotKey { index, generation }, place.value.as_ref()?))
        })
    }

    /// Takes all values out. Their keys name nothing from now on.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + use<T, BITS> {
        let places = self.give_back().into_iter();
        places.filter_map(|place| place.value)
    }

    /// Gives all places back, of which a few keep their memory: otherwise that of a spike would stay for ever.
    #[cold]
    fn give_back(&mut self) -> Vec<KeyedPlace<T>> {
        let used = self.places.iter().map(|place| place.generation);
        let last = used.fold(self.fresh, u32::max);
        self.fresh = last.wrapping_add(1) & Self::GENERATION_MAX;
        self.free = Vec::new();
        let kept = self.places.capacity().min(KEPT_PLACES);
        mem::replace(&mut self.places, Vec::with_capacity(kept))
    }
}

/// The value at a place.
impl<T, const BITS: u32> Index<u32> for SlotMap<T, BITS> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        self.at(index).expect("there is a value")
    }
}

impl<T, const BITS: u32> IndexMut<u32> for SlotMap<T, BITS> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        let value = &mut self.places[index as usize].value;
        value.as_mut().expect("there is a value")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
