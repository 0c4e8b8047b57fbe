//! Connections by the time at which they are due: if there are too many, the one that is due first ends.
//!
//! A connection becomes due later with each request, and the order matters only when there are too many. So a place in
//! the order is a lower bound of the time. When a place turns out to be too early it is corrected, and the next
//! connection is checked.
//!
//! Invariants: the place of a connection is not behind the moment when it is due, once [`DueTable::note`] was called.
//! For each one that ends, at most [`LOOK_MAX`] are checked. Locks: none.

use std::collections::BTreeSet;

use kern::Time;

use crate::gateway::table::{SourceKind, Table, Token};

/// Connections that are checked, at most, for one that ends.
const LOOK_MAX: usize = 32;

/// The time at which a connection is due. Those to which a response is sent come after all that wait.
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

    /// The connection that is due first. If it would take more checks, the first of the checked ones, whose places are
    /// right from now on.
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
