use super::*;
use std::sync::Arc;
use std::task::Wake;

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Breaks if the order is lost, or a limit holds no more after items were taken.
#[test]
fn order_and_limits() {
    let queue = Datagramq::new(2);
    assert!(queue.push(1, 10).is_ok() && queue.push(2, 10).is_ok());
    assert_eq!(queue.push(3, 10).unwrap_err(), 3);
    assert_eq!(queue.pop(None), Some(1));
    assert!(queue.push(4, PINNED_MAX).is_err(), "too much memory");
    assert!(queue.push(4, PINNED_MAX - 10).is_ok());
    assert_eq!(
        (queue.pop(None), queue.pop(None), queue.pop(None)),
        (Some(2), Some(4), None)
    );
    assert!(queue.push(5, PINNED_MAX).is_ok(), "all of it is free again");
}

/// Breaks if a waker is called for each item, or not for the first.
#[test]
fn wakes_when_it_was_empty() {
    let queue = Datagramq::new(8);
    assert!(queue.push(1, 0).unwrap().is_empty(), "nobody to wake");
    let waker = Waker::from(Arc::new(Nobody));
    assert!(
        queue.set_waker(waker.clone()).is_some(),
        "something was there"
    );
    assert!(queue.push(2, 0).unwrap().is_empty());
    while queue.pop(None).is_some() {}
    assert!(queue.set_waker(waker).is_none());
    assert!(!queue.push(3, 0).unwrap().is_empty());
    queue.close();
    assert!(queue.pop(None).is_none());
    assert!(
        queue.push(4, 0).unwrap().is_empty(),
        "closed: nobody to wake"
    );
}

/// Breaks if one who waits for an item is not called for it, is called twice, or takes the place of the
/// waker that stays.
#[test]
fn who_waits_is_called_once() {
    let queue = Datagramq::new(8);
    let kept = Waker::from(Arc::new(Nobody));
    assert!(queue.set_waker(kept).is_none());
    let waiter = Waker::from(Arc::new(Nobody));
    assert!(queue.pop(Some(&waiter)).is_none());
    assert_eq!(queue.push(1, 0).unwrap().len(), 2);
    assert_eq!(queue.pop(Some(&waiter)), Some(1));
    assert_eq!(queue.push(2, 0).unwrap().len(), 1);
}
