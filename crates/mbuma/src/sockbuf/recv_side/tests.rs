use std::sync::Arc;
use std::task::Wake;

use super::*;

struct NoOp;

impl Wake for NoOp {
    fn wake(self: Arc<Self>) {}
}

impl Ancillary for u32 {}

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
