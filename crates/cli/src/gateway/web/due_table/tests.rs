use std::cell::Cell;

use super::*;

/// A connection that counts how often the table reads it.
struct Counted<'a> {
    due: EndKey,
    looks: &'a Cell<usize>,
}

impl HasDue for Counted<'_> {
    fn due(&self) -> EndKey {
        self.looks.set(self.looks.get() + 1);
        self.due
    }
}

const fn due(sends: bool, seconds: u64) -> EndKey {
    let at = Time::from_secs(seconds);
    EndKey { sends, at }
}

fn filled(looks: &Cell<usize>, count: u64) -> DueTable<Counted<'_>> {
    let mut table = DueTable::new(SourceKind::HttpConnection);
    for n in 0..count {
        let due = due(false, 100 + n);
        table.insert(Counted { due, looks });
    }
    table
}

#[test]
fn the_first_due_is_found_among_those_that_became_due_later_and_earlier() {
    // Breaks when a connection that has time left is ended before one that has none, or one that gets a response before
    // one that waits.
    let looks = Cell::new(0);
    let mut table = filled(&looks, 10);
    let tokens = table.tokens();
    let set = |n: usize, due: EndKey, table: &mut DueTable<Counted<'_>>| {
        table.find(tokens[n]).expect("it is there").due = due;
        table.note(tokens[n]);
    };
    assert_eq!(table.first_due(), Some(tokens[0]));
    set(0, due(false, 500), &mut table);
    set(1, due(true, 1), &mut table);
    assert_eq!(table.first_due(), Some(tokens[2]));
    set(9, due(false, 50), &mut table);
    assert_eq!(table.first_due(), Some(tokens[9]));
    assert!(table.remove(tokens[9]).is_some());
    // The response was sent.
    set(1, due(false, 20), &mut table);
    assert_eq!(table.first_due(), Some(tokens[1]));
    for n in [1, 2, 3, 4, 5, 6, 7, 8] {
        assert_eq!(table.first_due(), Some(tokens[n]));
        assert!(table.remove(tokens[n]).is_some());
    }
    assert_eq!(table.first_due(), Some(tokens[0]));
    assert_eq!((table.drain().count(), table.first_due()), (1, None));
}

#[test]
fn one_too_many_costs_a_bounded_look_however_many_there_are() {
    // Breaks when each client above the limit makes the worker read all connections.
    let looks = Cell::new(0);
    let mut table = filled(&looks, 20_000);
    // Each connection has had a request since it was entered.
    for token in table.tokens() {
        let connection = table.find(token).expect("it is there");
        connection.due.at += std::time::Duration::from_secs(100_000);
    }
    for n in 0..2000 {
        looks.set(0);
        let token = table.first_due().expect("there are some");
        assert!(table.remove(token).is_some());
        let due = due(false, 300_000 + n);
        let added = Counted { due, looks: &looks };
        table.insert(added);
        assert!(looks.get() <= 2 * LOOK_MAX + 2, "{} looks", looks.get());
    }
    assert_eq!(table.len(), 20_000);
}
