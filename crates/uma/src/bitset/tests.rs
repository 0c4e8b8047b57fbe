//! Breaks when the levels of a [`Bitset`] disagree, or a search passes a member over.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
    #[test]
    fn a_bitset_behaves_as_a_set(flips in proptest::collection::vec((0usize..10_000, 0usize..10_100), 1..300)) {
        // Breaks when a search is not that of an ordered set after any series of changes.
        let mut set = Bitset::default();
        set.grow(10_000).unwrap();
        let mut model = BTreeSet::new();
        for (n, at) in flips {
            if model.remove(&n) {
                set.remove(n);
            } else {
                model.insert(n);
                set.insert(n);
            }
            prop_assert!(set.is_valid());
            prop_assert_eq!(set.first(), model.first().copied());
            prop_assert_eq!(set.next_from(at), model.range(at..).next().copied());
            prop_assert_eq!(set.last_before(at), model.range(..at).next_back().copied());
            prop_assert_eq!(set.len(), model.len());
        }
    }
}

#[test]
fn a_bitset_finds_bits_beyond_its_first_top_word() {
    // Breaks when only the first 262,144 numbers are ever found.
    let mut set = Bitset::default();
    set.grow(1_000_000).unwrap();
    set.insert(999_999);
    assert_eq!(set.first(), Some(999_999));
    assert_eq!(set.next_from(3), Some(999_999));
    assert_eq!(set.next_from(999_999), Some(999_999));
    assert_eq!(set.last_before(999_999), None);
    set.insert(1);
    assert_eq!(set.last_before(999_999), Some(1));
    assert_eq!(set.last_before(usize::MAX), Some(999_999));
    assert_eq!(set.next_from(usize::MAX), None);
    assert!(set.is_valid());
}
