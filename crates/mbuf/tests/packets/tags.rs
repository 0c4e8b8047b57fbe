//! Tags: found by type, moved with the header, copied with the packet, dropped once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::common::{balanced, pool_of};
use mbuf::{Chain, ClusterSize, Live, Packet};

#[derive(Debug, Clone, Copy, PartialEq)]
struct Vlan(u16);

#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(16))]
struct Aligned([u64; 6]);

#[derive(Debug, Clone)]
struct Counted(Arc<()>);

#[test]
fn a_tag_is_found_by_its_type() {
    // Breaks if a value is read as another type's, or a second of a type is added.
    balanced(|pool| {
        let mut packet = Packet::new(pool).expect("the pool is large");
        assert_eq!(packet.tag::<Vlan>(), None);
        assert_eq!(packet.set_tag(Vlan(1)), Ok(None));
        assert_eq!(packet.set_tag(Aligned([u64::MAX; 6])), Ok(None));
        assert_eq!(packet.set_tag(7u16), Ok(None));
        assert_eq!(packet.set_tag(Vlan(2)), Ok(Some(Vlan(1))));
        assert_eq!(pool.live().tags, 3);
        assert_eq!(packet.tag(), Some(&7u16));
        assert_eq!(packet.tag(), Some(&Aligned([u64::MAX; 6])));
        if let Some(vlan) = packet.tag_mut::<Vlan>() {
            vlan.0 += 1;
        }
        // From the middle, the front and the end.
        assert_eq!(packet.take_tag(), Some(Aligned([u64::MAX; 6])));
        assert_eq!(packet.take_tag::<Aligned>(), None);
        assert_eq!(packet.take_tag(), Some(7u16));
        assert_eq!(packet.take_tag(), Some(Vlan(3)));
        assert_eq!(pool.live().tags, 0);
    });
}

#[test]
fn tags_go_with_the_header() {
    // Breaks if a new first mbuf has none of them, if two have, or if a chain keeps them.
    balanced(|pool| {
        let owner = Arc::new(());
        let data = Chain::from_slice(pool, &[1; 3000]).expect("the pool is large");
        let mut packet = Packet::before_chain(pool, data).expect("the pool is large");
        assert!(packet.set_tag(Counted(owner.clone())).is_ok());
        packet.prepend(170).expect("the pool is large");
        packet.prepend(100).expect("a new first mbuf");
        packet.pullup(1000).expect("and another");
        assert!(
            packet
                .tag::<Counted>()
                .is_some_and(|tag| Arc::ptr_eq(&tag.0, &owner))
        );
        let rest = packet.split_off(500).expect("the pool is large");
        assert_eq!(Arc::strong_count(&owner), 2);
        let chain = packet.into_chain();
        assert_eq!(Arc::strong_count(&owner), 1, "the header is off");
        let packet = chain.into_packet(pool).expect("its first mbuf serves");
        assert!(packet.tag::<Counted>().is_none());
        drop(rest);
    });
}

#[test]
fn tags_are_copied_with_the_packet_and_dropped_with_it() {
    // Breaks if a copy shares a value, loses one, or if one is dropped twice or never.
    balanced(|pool| {
        let owner = Arc::new(());
        let mut packet = Packet::with_cluster(pool, ClusterSize::K2, 0).expect("it is large");
        for _ in 0..2 {
            assert!(packet.set_tag(Counted(owner.clone())).is_ok());
        }
        packet.set_tag(Vlan(9)).expect("the pool is large");
        packet.header_mut().flow = 4;
        let copy = packet.copy_packet().expect("the pool is large");
        assert_eq!(Arc::strong_count(&owner), 3);
        assert_eq!((copy.tag(), copy.header().flow), (Some(&Vlan(9)), 4));
        drop(packet);
        assert_eq!((Arc::strong_count(&owner), pool.live().tags), (2, 2));
        let mut other = Packet::new(pool).expect("the pool is large");
        other.set_tag(5u8).expect("the pool is large");
        other.copy_header(&copy).expect("the pool is large");
        assert_eq!((other.tag::<u8>(), other.tag()), (None, Some(&Vlan(9))));
        drop((copy, other));
        assert_eq!(Arc::strong_count(&owner), 1);
    });
}

#[test]
fn an_operation_without_memory_changes_nothing() {
    // Breaks if a failure in the middle of a copy leaks, or loses the tags that were there.
    let pool = pool_of(3, 4096);
    let mut packet = Packet::new(&pool).expect("there is one");
    for _ in 0..2 {
        packet.set_tag(Vlan(1)).expect("there are three");
        packet.set_tag(1u8).expect("there are three");
    }
    assert!(packet.copy_packet().is_err(), "one is left, two are needed");
    assert_eq!(pool.live().tags, 2);
    packet.set_tag(1u16).expect("there are three");
    assert!(packet.set_tag(1u32).is_err());
    assert_eq!((packet.tag::<u32>(), packet.tag()), (None, Some(&1u16)));
    drop(packet);
    assert_eq!(pool.live(), Live::NONE);
}

#[derive(Debug)]
struct Fussy(Arc<()>, bool);

impl Clone for Fussy {
    fn clone(&self) -> Self {
        assert!(!self.1, "the test wants a panic");
        Self(self.0.clone(), self.1)
    }
}

#[test]
fn a_clone_that_panics_leaves_the_original_alone() {
    // Breaks if the list is left with a tag whose value was never written.
    let pool = pool_of(100, 1 << 20);
    let owner = Arc::new(());
    let mut packet = Packet::new(&pool).expect("the pool is large");
    assert!(packet.set_tag(Fussy(owner.clone(), true)).is_ok());
    assert!(packet.set_tag(Counted(owner.clone())).is_ok());
    assert!(catch_unwind(AssertUnwindSafe(|| packet.copy_packet())).is_err());
    assert_eq!(
        Arc::strong_count(&owner),
        3,
        "the copy that was made is gone"
    );
    drop(packet);
    assert_eq!(Arc::strong_count(&owner), 1);
    assert_eq!(pool.live().mbufs, 0);
    assert_eq!(pool.live().tags, 0);
}
