use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Wake;

use super::*;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Task {
    count: Arc<Count>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        Self { count, waker }
    }

    fn calls(&self) -> usize {
        self.count.0.load(Relaxed)
    }
}

#[test]
fn a_side_wakes_its_own_waiters_only() {
    // Breaks if a reader and a writer wake each other.
    let (reader, writer) = (Task::new(), Task::new());
    let mut set = WaiterSet::new();
    set.add(Want::Read, &reader.waker);
    set.add(Want::Write, &writer.waker);
    set.take(Want::Read).wake();
    assert_eq!((reader.calls(), writer.calls()), (1, 0));
    assert!(!set.has(Want::Read) && set.has(Want::Write));
    set.take(Want::Write).wake();
    assert_eq!((reader.calls(), writer.calls()), (1, 1));
}

#[test]
fn a_waker_for_both_sides_is_called_once_for_both() {
    // Breaks if an event loop is woken twice for one change.
    let task = Task::new();
    let mut set = WaiterSet::new();
    for want in [Want::Read, Want::Write] {
        assert!(set.keep(want, Some(task.waker.clone())).is_none());
    }
    set.take_all().wake();
    assert_eq!(task.calls(), 1);
    // It stays.
    set.take(Want::Write).wake();
    assert_eq!(task.calls(), 2);
}

#[test]
fn the_task_that_polled_last_is_woken() {
    // Breaks if an earlier poll's waker stays: the set would grow with each task that polls.
    let (early, late) = (Task::new(), Task::new());
    let mut set = WaiterSet::new();
    assert!(set.poll(Want::Read, &early.waker).is_none());
    assert!(set.poll(Want::Read, &early.waker).is_none(), "it is there");
    let replaced = set.poll(Want::Read, &late.waker).expect("the early one");
    assert!(replaced.will_wake(&early.waker));
    set.take(Want::Read).wake();
    assert_eq!((early.calls(), late.calls()), (0, 1));
    assert!(set.take(Want::Read).is_empty());
}

#[test]
fn all_kinds_wait_beside_each_other() {
    // Breaks if one kind takes the place of another, or if the kept one does not stay.
    let tasks = [0; 5].map(|_| Task::new());
    let [kept, polled, one, another, writer] = &tasks;
    let mut set = WaiterSet::new();
    for once in [one, another, one] {
        set.add(Want::Read, &once.waker);
    }
    set.add(Want::Write, &writer.waker);
    assert!(set.poll(Want::Read, &polled.waker).is_none());
    assert!(set.keep(Want::Read, Some(kept.waker.clone())).is_none());
    let wakes = set.take(Want::Read);
    assert_eq!(wakes.len(), 4);
    wakes.wake();
    assert_eq!(tasks.each_ref().map(Task::calls), [1, 1, 1, 1, 0]);
    set.take(Want::Read).wake();
    assert_eq!(tasks.each_ref().map(Task::calls), [2, 1, 1, 1, 0]);
    let old = set.keep(Want::Read, None).expect("it was kept");
    assert!(old.will_wake(&kept.waker));
    assert!(!set.has(Want::Read) && set.has(Want::Write));
}

#[test]
fn a_set_keeps_no_waker_that_it_handed_out() {
    // Breaks if the set keeps a reference to a waker: a task's memory would live as long as the socket.
    let task = Task::new();
    let before = Arc::strong_count(&task.count);
    let mut set = WaiterSet::new();
    set.add(Want::Read, &task.waker);
    assert!(set.poll(Want::Read, &task.waker).is_none());
    assert!(set.keep(Want::Write, Some(task.waker.clone())).is_none());
    drop(set.take_all());
    drop(set.clear());
    assert_eq!(Arc::strong_count(&task.count), before);
}

#[test]
fn a_future_that_is_dropped_takes_its_waker_alone() {
    // Breaks if futures of one task are confused with each other, or a dropped future leaves its waker.
    let task = Task::new();
    let cx = Context::from_waker(&task.waker);
    let polling = PollingTask::new(&cx);
    let mut set = WaiterSet::new();
    for id in [1000, 2000, 2000] {
        set.register(Want::Read, WaitBy::Future(FutureId(id), &polling));
    }
    assert!(set.forget(Want::Read, FutureId(1000)).is_some());
    assert!(set.forget(Want::Read, FutureId(1000)).is_none());
    set.take(Want::Read).wake();
    assert_eq!(task.calls(), 1);
    assert!(!set.has(Want::Read), "a future waits once");
}
