use super::*;

type Small = SlotMap<u32, 2>;

#[test]
fn an_old_key_finds_nothing() {
    // Breaks when the key of a removed value finds the value that took its place, or a key is not the announced one.
    let mut map = Small::default();
    let expected = map.next_key();
    let old = map.insert(1);
    assert_eq!(old, expected);
    assert_eq!(map.remove(old), Some(1));
    let new = map.insert(2);
    assert_eq!(new.index(), old.index(), "the place is used again");
    assert!(map.get(old).is_none() && map.get_mut(old).is_none());
    assert_eq!(map.remove(old), None);
    assert_eq!(map.get_mut(new), Some(&mut 2));
    assert_eq!(map.iter().collect::<Vec<_>>(), [(new, &2)]);
    assert_eq!(SlotKey::from_number(new.number()), new);
}

#[test]
fn a_generation_keeps_to_its_bits() {
    // Breaks when a generation overflows into the bits that the user of the key has for itself.
    let mut map = Small::default();
    for _ in 0..9 {
        let key = map.insert(1);
        assert!(key.number() >> 32 <= 3);
        assert_eq!(map.remove(key), Some(1));
    }
}

#[test]
fn a_place_is_freed_once() {
    // Breaks when a second removal puts a place twice into the free list.
    let mut map = SlotMap::<u32>::default();
    let keys: Vec<_> = (0..3).map(|n| map.insert(n)).collect();
    assert_eq!(map.remove_at(1), Some(1));
    assert_eq!((map.remove_at(1), map.remove_at(9)), (None, None));
    assert_eq!((map.at(1), map.len()), (None, 2));
    assert_eq!((map.insert(7).index(), map.insert(8).index()), (1, 3));
    assert_eq!((map.get(keys[1]), map[1]), (None, 7));
}

#[test]
fn an_empty_slab_gives_its_memory_back() {
    // Breaks when the places of a spike stay for ever, or a key from before finds a value that was added after it.
    let spike = |map: &mut SlotMap<u32>| -> Vec<_> { (0..1000).map(|n| map.insert(n)).collect() };
    let mut map = SlotMap::default();
    let mut old = spike(&mut map);
    assert!(old.iter().all(|&key| map.remove(key).is_some()));
    assert!(map.is_empty() && map.capacity() <= KEPT_PLACES);
    old.extend(spike(&mut map));
    map.remove(old[1003]);
    assert_eq!(map.drain().count(), 999);
    assert!(map.is_empty() && map.capacity() <= KEPT_PLACES);
    spike(&mut map);
    assert!(old.iter().all(|&key| map.get(key).is_none()));
}
