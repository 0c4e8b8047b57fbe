use std::cell::Cell;

use super::*;

/// New ones that end no others.
const NEW_MAX: usize = 3;
/// These connections change their rank at once, whatever the time is.
const NOW: Time = Time::from_secs(0);

/// A connection that counts how often the table reads it.
struct Counted<'a> {
    rank: EvictionRank,
    looks: &'a Cell<usize>,
}

impl Evictable for Counted<'_> {
    fn rank(&self) -> EvictionRank {
        self.looks.set(self.looks.get() + 1);
        self.rank
    }
}

const fn rank(is_new: bool, seconds: u64) -> EvictionRank {
    let at = Time::from_secs(seconds);
    EvictionRank { is_new, at }
}

fn filled(looks: &Cell<usize>, count: u64) -> EvictionTable<Counted<'_>> {
    let mut table = EvictionTable::new(SourceKind::HttpConnection, NEW_MAX);
    for n in 0..count {
        let rank = rank(false, 100 + n);
        table.insert(Counted { rank, looks });
    }
    table
}

#[test]
fn the_victim_is_found_among_those_whose_rank_rose_and_fell() {
    // Breaks when a connection that made progress ends before one that made none.
    let looks = Cell::new(0);
    let mut table = filled(&looks, 10);
    let tokens = table.tokens();
    let set = |n: usize, rank: EvictionRank, table: &mut EvictionTable<Counted<'_>>| {
        table.find(tokens[n]).expect("it is there").rank = rank;
        table.note(tokens[n]);
    };
    assert_eq!(table.victim(NOW), Some(tokens[0]));
    set(0, rank(false, 500), &mut table);
    set(1, rank(true, 1), &mut table);
    assert_eq!(table.victim(NOW), Some(tokens[2]));
    set(9, rank(false, 50), &mut table);
    assert_eq!(table.victim(NOW), Some(tokens[9]));
    assert!(table.remove(tokens[9]).is_some());
    set(1, rank(false, 20), &mut table);
    assert_eq!(table.victim(NOW), Some(tokens[1]));
    for n in [1, 2, 3, 4, 5, 6, 7, 8] {
        assert_eq!(table.victim(NOW), Some(tokens[n]));
        assert!(table.remove(tokens[n]).is_some());
    }
    assert_eq!(table.victim(NOW), Some(tokens[0]));
    assert_eq!((table.drain().count(), table.victim(NOW)), (1, None));
}

#[test]
fn new_ones_and_others_end_none_of_each_other() {
    // Breaks when a flood of new clients ends downloads, or downloads of long ago end a few new clients.
    let looks = Cell::new(0);
    let mut table = filled(&looks, 2);
    let add = |seconds, table: &mut EvictionTable<_>| {
        let (rank, looks) = (rank(true, seconds), &looks);
        table.insert(Counted { rank, looks });
    };
    let others = table.tokens();
    for n in 0..NEW_MAX as u64 {
        add(n, &mut table);
        assert_eq!(table.victim(NOW), Some(others[0]));
    }
    add(10, &mut table);
    let first = table.victim(NOW).expect("there are some");
    assert!(!others.contains(&first));
    // It asks for something: it is one of the others, and the last of them.
    table.find(first).expect("it is there").rank = rank(false, 1000);
    table.note(first);
    for other in [others[0], others[1], first] {
        assert_eq!(table.victim(NOW), Some(other));
        assert!(table.remove(other).is_some());
    }
    assert!(table.victim(NOW).is_some());
}

#[test]
fn one_too_many_costs_a_bounded_look_however_many_there_are() {
    // Breaks when each client above the limit makes the worker read all connections.
    let looks = Cell::new(0);
    let mut table = filled(&looks, 20_000);
    // Each connection has had a request since it was entered.
    for token in table.tokens() {
        let connection = table.find(token).expect("it is there");
        connection.rank.at += std::time::Duration::from_secs(100_000);
    }
    for n in 0..2000 {
        looks.set(0);
        let token = table.victim(NOW).expect("there are some");
        assert!(table.remove(token).is_some());
        let rank = rank(false, 300_000 + n);
        let added = Counted {
            rank,
            looks: &looks,
        };
        table.insert(added);
        assert!(looks.get() <= 2 * LOOK_MAX + 2, "{} looks", looks.get());
    }
    assert_eq!(table.len(), 20_000);
}
