use std::collections::HashMap;

use super::*;

#[test]
fn a_seed_is_the_same_stream_for_ever() {
    // Breaks if a release changes the meaning of a seed: every recorded simulation would lose its run.
    // The values are ChaCha8's first block under the all-zero key and nonce (eSTREAM vectors:
    // 3e00ef2f895f40d6...).
    let mut random = Random::from_seed(0);
    assert_eq!(
        random.next_u32(),
        u32::from_le_bytes([0x3e, 0x00, 0xef, 0x2f])
    );
    assert_eq!(
        random.next_u32(),
        u32::from_le_bytes([0x89, 0x5f, 0x40, 0xd6])
    );
}

#[test]
fn seeds_and_forks_are_independent() {
    // Breaks if a fork replays its parent, or if two seeds meet.
    let mut parent = Random::from_seed(1);
    let mut child = parent.fork();
    let mut other = Random::from_seed(2);
    let streams: [Vec<u64>; 3] =
        [&mut parent, &mut child, &mut other].map(|r| (0..8).map(|_| r.next_u64()).collect());
    assert_ne!(streams[0], streams[1]);
    assert_ne!(streams[0], streams[2]);
    assert_ne!(streams[1], streams[2]);

    let mut again = Random::from_seed(1).fork();
    assert_eq!(again.next_u64(), streams[1][0]);
}

#[test]
fn the_system_gives_different_streams() {
    // Breaks if getrandom is not called, and every process has the same sequence numbers.
    let (mut a, mut b) = (Random::from_os(), Random::from_os());
    assert_ne!(a.next_u64(), b.next_u64());
}

#[test]
fn below_gives_every_value_under_the_bound_only() {
    // Breaks if the range is off by one or the distribution is skewed.
    let mut random = Random::from_seed(3);
    let mut seen = [0_u32; 6];
    for _ in 0..60_000 {
        seen[usize::try_from(random.below(6)).unwrap()] += 1;
    }
    assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
    assert_eq!(random.below(1), 0);
    assert_eq!(random.below(0), 0);

    // Three quarters of 2^64: without rejection, half of all results would be multiples of 3.
    let n = 3 << 62;
    let multiples = (0..30_000)
        .filter(|_| random.below(n).is_multiple_of(3))
        .count();
    assert!((9_500..10_500).contains(&multiples), "{multiples}");
}

#[test]
fn chance_of_zero_never_and_of_one_always_happens() {
    // Breaks if "never" sometimes happens, or if the number of draws depends on the answer.
    let mut random = Random::from_seed(4);
    let hits = (0..20_000).filter(|_| random.chance(0.25)).count();
    assert!((4_700..5_300).contains(&hits), "{hits}");
    assert!((0..1000).all(|_| random.chance(1.0)));
    assert!(!(0..1000).any(|_| random.chance(0.0)));
    assert!(!random.chance(f64::NAN));

    let (mut a, mut b) = (Random::from_seed(5), Random::from_seed(5));
    let _ = (a.chance(0.0), b.chance(1.0));
    assert_eq!(a.next_u64(), b.next_u64());
}

#[test]
fn keyed_hash_is_siphash_2_4() {
    // Breaks if the hash changes under recorded runs. The vector is the one of the SipHash paper,
    // appendix A.
    let key: [u8; 16] = core::array::from_fn(|i| i as u8);
    let message: [u8; 15] = core::array::from_fn(|i| i as u8);
    assert_eq!(
        KeyedHash::from_key(key).hash(&message),
        0xa129_ca61_49be_45e5
    );

    let mut random = Random::from_seed(6);
    let (a, b) = (KeyedHash::new(&mut random), KeyedHash::new(&mut random));
    assert_ne!(a.hash(b"x"), b.hash(b"x"));
}

#[test]
fn map_order_replays_with_the_seed() {
    // Breaks if a map takes randomness from the system, so that a run no longer replays.
    let order = |seed| {
        let mut map = HashMap::with_hasher(SeededState::new(&mut Random::from_seed(seed)));
        map.extend((0..100_u32).map(|i| (i, ())));
        map.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

/// Breaks if the hash of a whole differs from a hasher's: shards and their maps would differ.
#[test]
fn one_shot_and_incremental_hashes_are_equal() {
    let state = SeededState::new(&mut Random::from_seed(7));
    let bytes: Vec<u8> = (0..40).collect();
    for len in 0..=bytes.len() {
        let mut hasher = state.build_hasher();
        hasher.write(&bytes[..len]);
        assert_eq!(state.hash_bytes(&bytes[..len]), hasher.finish(), "{len}");
    }
}

#[test]
fn no_key_is_printed() {
    // RFC 6528 3: breaks when a dump of a stack shows the keys from which sequence numbers, clocks and ports follow.
    let mut random = Random::from_seed(7);
    let (hash, seeded) = (KeyedHash::new(&mut random), SeededState::new(&mut random));
    let hasher = seeded.build_hasher();
    let shown = format!("{random:#?} {hash:#?} {seeded:#?} {hasher:#?}");
    let names = ["Random", "KeyedHash", "SeededState", "SeededHasher"];
    assert_eq!(
        shown,
        names.map(|name| format!("{name} {{ .. }}")).join(" ")
    );
}
