//! Connections, and which of them ends for one too many: the one that is due first.
//!
//! A connection becomes due later with each request, and only where there is one too many does the order matter. So its place
//! in the order is a bound: it is due then or later. A place that turns out to be too early is corrected, and the next one is
//! looked at.
//!
//! Invariants: the place of a connection is not behind the moment when it is due, once [`DueTable::note`] was called. For one
//! that ends, at most [`LOOK_MAX`] are looked at, however many there are.
//! Locks: none.

use std::collections::BTreeSet;

use kern::Time;

use crate::gateway::table::{SourceKind, Table, Token};

/// Connections that are looked at, at most, for one that ends.
const LOOK_MAX: usize = 32;

/// When a connection is due. One that a response is sent to comes behind all that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndKey {
    pub(super) sends: bool,
    pub(super) at: Time,
}

/// A connection that has a time to end.
pub(super) trait HasDue {
    /// When it is due.
    fn due(&self) -> EndKey;
}

/// The connections.
pub(super) struct DueTable<T> {
    table: Table<Placed<T>>,
    /// Places, and the numbers of tokens.
    order: BTreeSet<(EndKey, u64)>,
}

/// A connection with its place.
struct Placed<T> {
    value: T,
    place: EndKey,
}

impl<T: HasDue> DueTable<T> {
    /// An empty table.
    pub(super) fn new(kind: SourceKind) -> DueTable<T> {
        DueTable {
            table: Table::new(kind),
            order: BTreeSet::new(),
        }
    }

    /// The token of the next one that is added.
    pub(super) fn next_token(&self) -> Token {
        self.table.next_token()
    }

    /// Adds a connection.
    pub(super) fn insert(&mut self, value: T) {
        let place = value.due();
        let token = self.table.insert(Placed { value, place });
        self.order.insert((place, token.into()));
    }

    /// The connection that `token` names, if it is still there.
    pub(super) fn find(&mut self, token: Token) -> Option<&mut T> {
        self.table.find(token).map(|placed| &mut placed.value)
    }

    /// Takes a connection out.
    pub(super) fn remove(&mut self, token: Token) -> Option<T> {
        let Placed { value, place } = self.table.remove(token)?;
        self.order.remove(&(place, token.into()));
        Some(value)
    }

    /// A connection may be due earlier than before.
    pub(super) fn note(&mut self, token: Token) {
        if let Some(placed) = self.table.find(token)
            && placed.value.due() < placed.place
        {
            placed.correct(token, &mut self.order);
        }
    }

    /// The connection that is due first. If that takes a longer look, it is the first of those that were looked at, whose places
    /// are right from now on.
    pub(super) fn first_due(&mut self) -> Option<Token> {
        let mut best = None;
        for _ in 0..LOOK_MAX {
            let (place, number) = self.order.first().copied()?;
            let token = Token::from_number(number);
            let placed = self.table.find(token)?;
            let due = placed.value.due();
            if due == place {
                return Some(token);
            }
            placed.correct(token, &mut self.order);
            if best.is_none_or(|(first, _)| due < first) {
                best = Some((due, token));
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

    /// Takes all of them out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.order.clear();
        self.table.drain().map(|placed| placed.value)
    }
}

impl<T: HasDue> Placed<T> {
    /// Gives it the place of the moment when it is due.
    fn correct(&mut self, token: Token, order: &mut BTreeSet<(EndKey, u64)>) {
        order.remove(&(self.place, token.into()));
        self.place = self.value.due();
        order.insert((self.place, token.into()));
    }
}

#[cfg(test)]
mod tests;
