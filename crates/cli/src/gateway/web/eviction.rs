//! Connections in the order of eviction: if there are too many, the first one ends.
//!
//! The order is that of least recent use, with a second chance: a connection's rank rises with each request and with
//! the bytes that its client takes, and matters only when there are too many. So a place in the order is a lower bound
//! of the rank. A connection whose place turns out to be too early gets the right one, and the next one is checked.
//!
//! Clients that have asked for nothing yet have a share of their own: a flood of them ends no download that pauses, and
//! downloads that go on for ever leave a new client the time to ask.
//!
//! Invariants: the place of a connection is not behind its rank, once [`EvictionTable::note`] was called. For each one
//! that ends, at most [`LOOK_MAX`] are checked. Locks: none.

use std::collections::BTreeSet;

use kern::Time;

use crate::gateway::table::{SourceKind, Table, Token};

/// Connections that are checked, at most, for one that ends.
const LOOK_MAX: usize = 32;

/// The smallest rank ends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionRank {
    /// The client has asked for nothing yet.
    pub(super) is_new: bool,
    /// When it got further last; of a handshake, its deadline.
    pub(super) at: Time,
}

/// A connection that may end to make room for a new one.
pub(super) trait Evictable {
    /// Notes what the client did since the last look, without a call of this connection.
    fn refresh(&mut self, _now: Time) {}

    /// Its rank.
    fn rank(&self) -> EvictionRank;
}

/// The connections.
pub(super) struct EvictionTable<T> {
    table: Table<Placed<T>>,
    /// Places of those that have asked, and the numbers of tokens.
    order: BTreeSet<(Time, u64)>,
    /// Places of new ones.
    new: BTreeSet<(Time, u64)>,
    /// As many new ones end no other.
    new_max: usize,
}

/// A connection with its place.
struct Placed<T> {
    value: T,
    place: EvictionRank,
}

impl<T: Evictable> EvictionTable<T> {
    /// An empty table, in which `new_max` new ones end others of least recent use.
    pub(super) fn new(kind: SourceKind, new_max: usize) -> EvictionTable<T> {
        EvictionTable {
            table: Table::new(kind),
            order: BTreeSet::new(),
            new: BTreeSet::new(),
            new_max,
        }
    }

    /// The token of the next one that is added.
    pub(super) fn next_token(&self) -> Token {
        self.table.next_token()
    }

    /// Adds a connection.
    pub(super) fn insert(&mut self, value: T) {
        let place = value.rank();
        let token = self.table.insert(Placed { value, place });
        self.order_of(place).insert((place.at, token.into()));
    }

    /// The connection that `token` names, if it is still there.
    pub(super) fn find(&mut self, token: Token) -> Option<&mut T> {
        self.table.find(token).map(|placed| &mut placed.value)
    }

    /// Takes a connection out.
    pub(super) fn remove(&mut self, token: Token) -> Option<T> {
        let Placed { value, place } = self.table.remove(token)?;
        self.order_of(place).remove(&(place.at, token.into()));
        Some(value)
    }

    /// The rank of a connection may be lower than before.
    pub(super) fn note(&mut self, token: Token) {
        if let Some(placed) = self.table.find(token) {
            let (place, rank) = (placed.place, placed.value.rank());
            if rank < place {
                self.correct(token, place, rank);
            }
        }
    }

    /// The connection that must end first. If it would take more checks, the first of the checked ones, whose places
    /// are right from now on.
    pub(super) fn victim(&mut self, now: Time) -> Option<Token> {
        let mut best = None;
        for _ in 0..LOOK_MAX {
            let of_new = self.new.len() > self.new_max || self.order.is_empty();
            let order = if of_new { &self.new } else { &self.order };
            let (_, number) = order.first().copied()?;
            let token = Token::from_number(number);
            let placed = self.table.find(token)?;
            placed.value.refresh(now);
            let (place, rank) = (placed.place, placed.value.rank());
            if rank == place {
                return Some(token);
            }
            self.correct(token, place, rank);
            if best.is_none_or(|(first, _)| rank < first) {
                best = Some((rank, token));
            }
        }
        best.map(|(_, token)| token)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The tokens of all.
    pub(super) fn tokens(&self) -> Vec<Token> {
        self.table.iter().map(|(token, _)| token).collect()
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.table.iter().map(|(_, placed)| &placed.value)
    }

    /// Takes all of them out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.order.clear();
        self.new.clear();
        self.table.drain().map(|placed| placed.value)
    }

    fn order_of(&mut self, place: EvictionRank) -> &mut BTreeSet<(Time, u64)> {
        match place.is_new {
            true => &mut self.new,
            false => &mut self.order,
        }
    }

    /// Gives a connection the place of its rank.
    fn correct(&mut self, token: Token, place: EvictionRank, rank: EvictionRank) {
        self.order_of(place).remove(&(place.at, token.into()));
        self.order_of(rank).insert((rank.at, token.into()));
        if let Some(placed) = self.table.find(token) {
            placed.place = rank;
        }
    }
}

#[cfg(test)]
mod tests;
