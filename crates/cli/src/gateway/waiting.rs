//! What waits for an answer from outside, by guest and in its order: if there is too much, the guest with most of it
//! loses its oldest.
//!
//! So one guest of a network that asks silent hosts leaves the others their places, and a program that does so leaves
//! the other programs of its guest theirs: the answers of hosts that are there come soon.
//!
//! Invariants: an entry has one [`WaitingPlace`], which its owner gives back once.
//! Locks: none.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Entries of all guests.
#[derive(Clone, Debug)]
pub(super) struct WaitingList<T> {
    /// Each guest's, by number: the oldest has the lowest.
    guests: HashMap<Option<IpAddr>, BTreeMap<u64, T>>,
    /// Guests are told apart; if not, all entries are one guest's.
    by_guest: bool,
    next: u64,
    max: usize,
    len: usize,
}

/// The place of an entry.
#[derive(Debug)]
pub(super) struct WaitingPlace {
    guest: Option<IpAddr>,
    number: u64,
}

impl<T: Copy> WaitingList<T> {
    /// An empty list of at most `max` entries, and one at least; `by_guest`: there are several guests.
    pub(super) fn new(max: usize, by_guest: bool) -> WaitingList<T> {
        WaitingList {
            guests: HashMap::new(),
            by_guest,
            next: 0,
            max: max.max(1),
            len: 0,
        }
    }

    /// The entry that must be removed before another is added; none if there is room.
    pub(super) fn in_the_way(&self) -> Option<T> {
        if self.len < self.max {
            return None;
        }
        let most = self.guests.values().max_by_key(|entries| entries.len())?;
        most.values().next().copied()
    }

    /// Adds an entry of the guest with this address.
    pub(super) fn add(&mut self, guest: IpAddr, entry: T) -> WaitingPlace {
        let (guest, number) = (self.by_guest.then_some(guest), self.next);
        self.guests.entry(guest).or_default().insert(number, entry);
        self.next += 1;
        self.len += 1;
        WaitingPlace { guest, number }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, place: &WaitingPlace) {
        let Some(entries) = self.guests.get_mut(&place.guest) else {
            return;
        };
        if entries.remove(&place.number).is_some() {
            self.len -= 1;
        }
        if entries.is_empty() {
            self.guests.remove(&place.guest);
        }
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        self.guests.clear();
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_with_most_gives_way() {
        // Breaks when a guest with few entries loses one to a guest with many, the newest gives way, or a guest without
        // entries keeps memory.
        let [busy, quiet] = [1, 2].map(|host| IpAddr::from([10, 0, 2, host]));
        let mut list = WaitingList::new(4, true);
        let mut places = vec![(0, list.add(quiet, 0))];
        for n in 1..100 {
            if let Some(gone) = list.in_the_way() {
                assert_eq!(gone, n - 3, "the oldest of the busy one's");
                let at = places.iter().position(|(entry, _)| *entry == gone);
                let (_, place) = places.remove(at.expect("it is there"));
                list.remove(&place);
                list.remove(&place);
            }
            places.push((n, list.add(busy, n)));
        }
        assert_eq!(list.len, 4);
        places.iter().for_each(|(_, place)| list.remove(place));
        assert_eq!((list.len, list.guests.len()), (0, 0));
        // Guests that are not told apart.
        let mut list = WaitingList::new(1, false);
        list.add(quiet, 7);
        list.add(busy, 8);
        assert_eq!((list.guests.len(), list.in_the_way()), (1, Some(7)));
    }
}
