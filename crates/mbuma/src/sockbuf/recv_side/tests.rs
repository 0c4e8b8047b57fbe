use std::sync::Arc;
use std::task::Wake;

use mbuf::{Chain, MSIZE};

use super::*;

struct NoOp;

impl Wake for NoOp {
    fn wake(self: Arc<Self>) {}
}

impl Ancillary for u32 {}

impl Ancillary for IpAddr {
    fn source(&self) -> Option<IpAddr> {
        Some(*self)
    }
}

fn numbered(with: u32) -> QueuedRecord<u32> {
    QueuedRecord {
        with,
        ..QueuedRecord::default()
    }
}

fn pop(side: &RecvSide<u32>) -> Option<u32> {
    side.pop(&Giant::new(false), None).map(|record| record.with)
}

/// Breaks if the order is lost, or the limit no longer holds after messages were taken.
#[test]
fn order_and_limit() {
    let side = RecvSide::new(2);
    assert!(side.push(numbered(1)).is_ok() && side.push(numbered(2)).is_ok());
    assert_eq!(side.push(numbered(3)).unwrap_err().with, 3);
    assert_eq!(pop(&side), Some(1));
    assert!(!side.is_empty());
    assert!(side.push(numbered(4)).is_ok());
    assert_eq!(
        (pop(&side), pop(&side), pop(&side)),
        (Some(2), Some(4), None)
    );
}

/// Breaks if a source takes more than it leaves, is charged for messages that were taken, or is kept without any; or if
/// the memory of all sources has no bound.
#[test]
fn sources_share_the_buffer() {
    let giant = Giant::new(false);
    let side = RecvSide::new(1);
    side.set_hiwat(&giant, 12 * MSIZE);
    let from = |source: u8| QueuedRecord {
        data: Chain::new(),
        with: IpAddr::from([10, 0, 2, source]),
    };
    let fill = |source| {
        (0..99)
            .take_while(|_| side.push(from(source)).is_ok())
            .count()
    };
    let sources = || {
        side.inner
            .lock(&giant)
            .by_source
            .as_ref()
            .map_or(0, BTreeMap::len)
    };
    assert!(side.push(from(1)).is_ok());
    (0..2).for_each(|_| side.share_by_source(&giant));
    assert_eq!([fill(1), fill(2), fill(1), fill(3)], [5, 3, 0, 1]);
    let taken: Vec<_> = (0..6).filter_map(|_| side.pop(&giant, None)).collect();
    assert!(taken.iter().all(|record| record.with == from(1).with));
    assert_eq!(sources(), 3);
    assert_eq!([fill(2), fill(3), fill(1)], [2, 2, 2]);
    let many = (4..=255).map(fill).sum::<usize>();
    assert_eq!((fill(1), many), (0, 1), "the last message leaves one");
    while side.pop(&giant, None).is_some() {}
    for source in 0..=255 {
        assert!(side.push(from(source)).is_ok() && side.pop(&giant, None).is_some());
    }
    assert_eq!(
        sources(),
        SOURCES_KEPT,
        "those that come and go do not pile up"
    );
    side.close(&giant);
    assert_eq!((sources(), fill(2)), (0, 6));
}

/// Breaks if 35 sources with the largest datagrams leave no room for the small one of another.
#[test]
fn large_messages_of_many_sources_leave_room() {
    let pool = mbuf::MbufPool::new(mbuf::PoolConfig::default()).expect("address space");
    let side = RecvSide::new(1);
    side.share_by_source(&Giant::new(false));
    let from = |source: u8, len: usize| QueuedRecord {
        data: Chain::from_slice(&pool, &vec![0; len]).expect("buffers"),
        with: IpAddr::from([10, 0, 2, source]),
    };
    for source in 1..=66 {
        while side.push(from(source, 60_000)).is_ok() {}
    }
    assert!(side.push(from(200, 40)).is_ok());
    side.close(&Giant::new(false));
    assert_eq!(pool.live(), mbuf::Live::NONE);
}

/// Breaks if a reader is woken for each message, or not for the first.
#[test]
fn wakes_when_it_was_empty() {
    let side = RecvSide::new(8);
    assert!(side.push(numbered(1)).unwrap().is_empty(), "no reader");
    let waker = Waker::from(Arc::new(NoOp));
    assert!(
        side.set_waker(&Giant::new(false), Some(waker.clone()))
            .is_some(),
        "a message is there"
    );
    assert!(side.push(numbered(2)).unwrap().is_empty());
    while side.pop(&Giant::new(false), None).is_some() {}
    assert!(side.set_waker(&Giant::new(false), Some(waker)).is_none());
    assert!(!side.push(numbered(3)).unwrap().is_empty());
    while side.pop(&Giant::new(false), None).is_some() {}
    assert!(side.set_waker(&Giant::new(false), None).is_none());
    assert!(side.push(numbered(4)).unwrap().is_empty(), "taken away");
    side.close(&Giant::new(false));
    assert!(side.pop(&Giant::new(false), None).is_none());
    assert!(
        side.push(numbered(5)).unwrap().is_empty(),
        "closed: no reader"
    );
}

/// Breaks if a waiting reader is not woken, is woken twice, or takes the place of the waker that stays.
#[test]
fn a_waiter_is_woken_once() {
    let side = RecvSide::new(8);
    let kept = Waker::from(Arc::new(NoOp));
    assert!(side.set_waker(&Giant::new(false), Some(kept)).is_none());
    let waiter = Waker::from(Arc::new(NoOp));
    assert!(
        side.pop(&Giant::new(false), Some(WaitBy::Once(&waiter)))
            .is_none()
    );
    assert_eq!(side.push(numbered(1)).unwrap().len(), 2);
    assert!(
        side.pop(&Giant::new(false), Some(WaitBy::Once(&waiter)))
            .is_some()
    );
    assert_eq!(side.push(numbered(2)).unwrap().len(), 1);
}
