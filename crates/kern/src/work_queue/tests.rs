// Not under a checker, where these would run outside of a model; the models are in tests/models/work_queue.rs.
#![cfg(not(any(loom, shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::order;

static CLASS: LockClass = LockClass::new("queue under test", order::IFQUEUE);

impl Items for Vec<u32> {
    fn len(&self) -> usize {
        self.len()
    }

    fn take_from(&mut self, other: &mut Self, n: usize) {
        let n = n.min(other.len());
        self.extend(other.drain(..n));
    }
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A queue of at most 4 with a receiver, and how often that was woken.
fn queue() -> (WorkQueue<Vec<u32>>, Receiver, Arc<Count>) {
    let queue: WorkQueue<Vec<u32>> = WorkQueue::new(&CLASS, 4);
    let (receiver, left) = queue.open();
    assert!(left.is_empty());
    let count = Arc::new(Count::default());
    queue.set_waker(receiver, Arc::clone(&count).into());
    (queue, receiver, count)
}

/// Puts, and wakes the receiver if it must be woken.
fn put(queue: &WorkQueue<Vec<u32>>, items: &mut Vec<u32>) -> &'static str {
    let put = queue.put(items, Handler::Receiver);
    assert!(queue.is_valid());
    match put {
        PutOutcome::Queued => "queued",
        PutOutcome::Wake(Some(waker)) => {
            waker.wake();
            "wake"
        }
        PutOutcome::Wake(None) => "no waker",
        PutOutcome::Owned => "owned",
        PutOutcome::Full => "full",
        PutOutcome::Away => "away",
        PutOutcome::Closed => "closed",
    }
}

#[test]
fn a_put_wakes_only_an_idle_receiver() {
    // Breaks if a put wakes a receiver that is awake, or leaves one asleep.
    let (queue, receiver, count) = queue();
    assert_eq!(put(&queue, &mut vec![1]), "wake");
    assert_eq!(put(&queue, &mut vec![2]), "queued");
    assert_eq!(queue.take(receiver), TakeOutcome::Items(vec![1, 2]));
    assert_eq!(put(&queue, &mut vec![3]), "queued", "it will look again");
    assert_eq!(queue.take(receiver), TakeOutcome::Items(vec![3]));
    assert_eq!(queue.take(receiver), TakeOutcome::Nothing);
    assert_eq!(
        put(&queue, &mut vec![]),
        "queued",
        "an empty put wakes no receiver"
    );
    assert_eq!(put(&queue, &mut vec![4]), "wake");
    assert_eq!(count.get(), 2);
    let stats = queue.stats();
    assert_eq!((stats.queued, stats.wakeups, stats.taken), (4, 2, 2));
}

#[test]
fn a_full_queue_leaves_the_rest() {
    // Breaks if a queue grows past its maximum, loses items that do not fit, or takes them in disorder.
    let (queue, receiver, _) = queue();
    let mut items = vec![1, 2, 3, 4, 5, 6];
    assert_eq!(put(&queue, &mut items), "wake");
    assert_eq!(items, [5, 6]);
    assert_eq!(put(&queue, &mut items), "full");
    assert_eq!(items, [5, 6]);
    assert_eq!(queue.take(receiver), TakeOutcome::Items(vec![1, 2, 3, 4]));
    assert_eq!(put(&queue, &mut items), "queued");
    assert_eq!(queue.waiting(), 2);
    let stats = queue.stats();
    assert_eq!((stats.full, stats.high_water), (4, 4));
}

#[test]
fn a_former_receiver_takes_no_items() {
    // Breaks if a former receiver can take items, or end the present receiver.
    let (queue, old, count) = queue();
    assert_eq!(put(&queue, &mut vec![1]), "wake");
    let (new, left) = queue.open();
    assert_eq!(left, [1], "it was for the one before");
    assert_eq!(queue.take(old), TakeOutcome::Void);
    assert!(queue.leave(old).is_empty());
    queue.set_waker(old, Arc::clone(&count).into());
    let mut items = vec![2];
    assert_eq!(put(&queue, &mut items), "no waker");
    let woken = Arc::new(Count::default());
    queue.set_waker(new, Arc::clone(&woken).into());
    assert_eq!((woken.get(), count.get()), (1, 1), "woken at once");
    assert_eq!(queue.take(new), TakeOutcome::Items(vec![2]));
    assert!(queue.leave(new).is_empty());
    assert_eq!(Arc::strong_count(&woken), 1, "its waker is dropped");
    let mut items = vec![3];
    assert_eq!((put(&queue, &mut items), items), ("away", vec![3]));
    assert_eq!(queue.stats().away, 2);
}

#[test]
fn items_put_before_close_arrive() {
    // Breaks if closing loses queued items, does not wake the receiver, or leaves room for more.
    let (queue, receiver, count) = queue();
    assert_eq!(put(&queue, &mut vec![1]), "wake");
    queue.close();
    assert_eq!(count.get(), 2);
    let mut items = vec![2];
    assert_eq!((put(&queue, &mut items), items), ("closed", vec![2]));
    assert_eq!(queue.take(receiver), TakeOutcome::Items(vec![1]));
    assert_eq!(queue.take(receiver), TakeOutcome::Closed);
    let (again, _) = queue.open();
    assert_eq!(put(&queue, &mut vec![3]), "closed", "for ever");
    let told = Arc::new(Count::default());
    queue.set_waker(again, Arc::clone(&told).into());
    assert_eq!(told.get(), 1);
}

/// A queue of at most 4 for a fixed receiver, and how many are busy.
fn fixed() -> (WorkQueue<Vec<u32>>, Arc<AtomicUsize>) {
    let busy = Arc::new(AtomicUsize::new(0));
    (WorkQueue::fixed(&CLASS, 4, Arc::clone(&busy)), busy)
}

#[test]
fn there_is_room_for_items_that_are_put_back() {
    // Breaks if items that an owner puts back make a queue longer than it may be (seen with threads), or get behind
    // those that came meanwhile.
    let (queue, busy) = fixed();
    assert_eq!(put(&queue, &mut vec![0, 1, 2]), "no waker");
    let mut taken = queue.begin().expect("it is scheduled");
    let mut items = vec![3, 4, 5];
    assert_eq!(put(&queue, &mut items), "queued");
    assert_eq!(items, [4, 5], "three are in hand");
    assert_eq!(taken.remove(0), 0);
    assert_eq!(queue.end(1, taken), Left::Some);
    let mut items = vec![9, 10];
    assert_eq!(put(&queue, &mut items), "queued");
    assert_eq!(items, [10]);
    assert_eq!(queue.begin(), Some(vec![1, 2, 3, 9]));
    assert_eq!(queue.next(4), None);
    let stats = queue.stats();
    assert_eq!((stats.handled, stats.full, stats.high_water), (5, 3, 4));
    assert!(queue.waiting() == 0 && queue.is_idle() && queue.is_valid());
    assert_eq!(busy.load(Ordering::Relaxed), 0);
}

#[test]
fn an_owner_is_alone_and_leaves_nothing_untold() {
    // Breaks if two threads own a queue, or an owner that took no item leaves without a handler the items that were put
    // since.
    let (queue, busy) = fixed();
    assert!(queue.acquire() && !queue.acquire());
    assert!(!queue.is_idle() && !queue.has_more() && queue.begin().is_none());
    assert_eq!(busy.load(Ordering::Relaxed), 1);
    assert_eq!(put(&queue, &mut vec![0]), "queued");
    assert!(queue.has_more());
    assert_eq!(queue.end(0, Vec::new()), Left::Some);
    assert!(queue.is_scheduled() && !queue.acquire());
    let taken = queue.begin().expect("it is scheduled");
    assert_eq!(queue.end(taken.len() as u64, Vec::new()), Left::Nothing);
    let by_caller = queue.put(&mut vec![7], Handler::Caller);
    assert!(matches!(by_caller, PutOutcome::Owned) && queue.has_more());
    assert_eq!(queue.next(0), Some(vec![7]));
    assert_eq!(queue.next(1), None);
    assert_eq!(queue.stats().wakeups, 0, "no put had to wake the receiver");
    assert_eq!(busy.load(Ordering::Relaxed), 0);
}
