//! Breaks when the summary and the words of a [`Bitset`] disagree.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #[test]
    fn behaves_as_a_set(flips in proptest::collection::vec(0usize..10_000, 1..300)) {
        // Breaks when `first` is not the least member after any series of changes.
        let mut set = Bitset::default();
        set.grow(10_000).unwrap();
        let mut model = BTreeSet::new();
        for n in flips {
            if model.remove(&n) {
                set.remove(n);
            } else {
                model.insert(n);
                set.insert(n);
            }
            prop_assert!(set.is_valid());
            prop_assert_eq!(set.first(), model.first().copied());
            prop_assert_eq!(set.len(), model.len());
        }
    }
}
