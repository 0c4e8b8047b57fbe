use mbuf::Mbufq;
use proptest::prelude::*;
use wire::MacAddr;

use super::*;
use crate::neighbour::ENTRIES_MAX;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// An entry of the state that `kind` means, whose time is `seconds`.
fn entry(kind: u8, seconds: u64) -> NeighbourEntry {
    let (mac, time) = (MAC, Time::from_secs(seconds));
    match kind {
        0 => NeighbourEntry::Known { mac, until: time },
        1 => NeighbourEntry::Probing {
            mac,
            tries: 0,
            next: time,
        },
        _ => NeighbourEntry::incomplete(1, time, Mbufq::new()),
    }
}

/// The time at which an entry asks, computed from all its fields.
fn next(entry: &NeighbourEntry) -> Option<Time> {
    match EntryGroup::of(entry) {
        (EntryGroup::Known, _) => None,
        (_, next) => Some(next),
    }
}

proptest! {
    /// Breaks if an order keeps an entry under a former time or state: then another entry than the oldest would be
    /// evicted, or a question never asked.
    #[test]
    fn the_orders_are_those_of_the_entries(
        steps in prop::collection::vec((0_u8..4, 0_u32..12, 0_u8..3, 0_u64..20), 1..80),
        now in 0_u64..20,
    ) {
        let mut entries = NeighbourEntries::new(ENTRIES_MAX);
        for (what, addr, kind, seconds) in steps {
            match what {
                0 => entries.insert(addr, entry(kind, seconds)),
                1 => drop(entries.remove(addr)),
                _ => drop(entries.change(addr, |known| *known = entry(kind, seconds))),
            }
            let now = Time::from_secs(now);
            let all = || entries.by_addr.iter().map(|(addr, entry)| (*addr, next(entry)));
            let due = all().filter(|(_, next)| next.is_some_and(|next| next <= now));
            prop_assert_eq!(entries.due(now), due.map(|(addr, _)| addr).collect::<Vec<_>>());
            prop_assert_eq!(entries.deadline(), all().filter_map(|(_, next)| next).min());
            let placed: usize = entries.orders.iter().map(BTreeSet::len).sum();
            prop_assert_eq!(placed, entries.len());
        }
        assert_eq!(entries.len(), entries.take_all().count());
        prop_assert!(entries.len() == 0 && entries.orders.iter().all(BTreeSet::is_empty));
    }
}

#[test]
fn a_full_table_evicts_the_oldest_of_the_right_group() {
    // Breaks if a scan evicts neighbours, stations that announce themselves evict questions, or another entry than the
    // oldest goes.
    let mut entries = NeighbourEntries::new(ENTRIES_MAX);
    let half = ENTRIES_MAX as u32 / 2;
    for n in 0..half {
        entries.insert(n, entry(0, 1000 - u64::from(n)));
        entries.insert(half + n, entry(2, u64::from(n)));
    }
    assert!(entries.make_room().is_some());
    assert!(
        entries.get(half - 1).is_none(),
        "the first whose lifetime ends"
    );
    entries.insert(2 * half, entry(2, 2000));
    assert!(entries.make_room().is_some());
    assert!(
        entries.get(half).is_none(),
        "the first that asks: these are more than half"
    );
    assert!(entries.get(half - 2).is_some());
    // Among entries with an address, a reachable one is evicted before one that is being probed.
    entries.insert(0, entry(1, 0));
    entries.insert(half, entry(0, 5000));
    assert!(entries.make_room().is_some());
    assert_eq!(
        (entries.len(), entries.get(half - 2).is_none()),
        (ENTRIES_MAX - 1, true)
    );
    assert!(entries.get(0).is_some());
}
