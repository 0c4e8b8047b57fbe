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
    assert_eq!(queue.pop(), Some(1));
    assert!(queue.push(4, PINNED_MAX).is_err(), "too much memory");
    assert!(queue.push(4, PINNED_MAX - 10).is_ok());
    assert_eq!(
        (queue.pop(), queue.pop(), queue.pop()),
        (Some(2), Some(4), None)
    );
    assert!(queue.push(5, PINNED_MAX).is_ok(), "all of it is free again");
}

/// Breaks if a waker is called for each item, or not for the first.
#[test]
fn wakes_when_it_was_empty() {
    let queue = Datagramq::new(8);
    assert!(queue.push(1, 0).unwrap().is_none(), "nobody to wake");
    let waker = Waker::from(Arc::new(Nobody));
    assert!(
        queue.set_waker(waker.clone()).is_some(),
        "something was there"
    );
    assert!(queue.push(2, 0).unwrap().is_none());
    while queue.pop().is_some() {}
    assert!(queue.set_waker(waker).is_none());
    assert!(queue.push(3, 0).unwrap().is_some());
    queue.close();
    assert!(queue.pop().is_none());
    assert!(
        queue.push(4, 0).unwrap().is_none(),
        "closed: nobody to wake"
    );
}
