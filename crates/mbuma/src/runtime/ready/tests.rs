use std::collections::VecDeque;
use std::sync::Arc;

use kern::Workers;

use super::{KEPT_ENTRIES, ReadyList};
use crate::runtime::sleeper::Sleeper;

fn ready_list() -> ReadyList {
    let cpus = Arc::new(Workers::new(1));
    ReadyList::new(&Sleeper::new(&cpus, 0, false).expect("a descriptor"))
}

fn keys(ready: &ReadyList) -> Vec<u64> {
    let mut taken = VecDeque::new();
    ready.take_all(&mut taken);
    taken.iter().map(|task| task.begin()).collect()
}

#[test]
fn each_is_queued_once_and_in_order() {
    // Breaks when a busy connection fills the list, or overtakes one that has waited longer.
    let ready = ready_list();
    let (first, second) = (ready.waker_for(1_u64), ready.waker_for(2_u64));
    let waker = first.waker();
    waker.wake_by_ref();
    second.wake();
    waker.wake();
    assert_eq!(keys(&ready), [1, 2]);
    assert!(ready.is_empty());
}

#[test]
fn a_wake_during_the_turn_brings_another() {
    // Breaks when data that arrives while a connection has its turn waits for ever.
    let ready = ready_list();
    let task = ready.waker_for(5_u64);
    task.wake();
    let mut taken = VecDeque::new();
    ready.take_all(&mut taken);
    // Taken but not begun: the coming turn sees the data.
    task.wake();
    assert!(ready.is_empty());
    taken.drain(..).for_each(|task| {
        task.begin();
        task.wake();
    });
    assert_eq!(keys(&ready), [5]);
}

#[test]
fn a_list_ends_with_its_worker_though_it_has_entries() {
    // Breaks when an entry, which refers to its list, keeps the list and the descriptors of an ended worker for ever.
    let ready = ready_list();
    let list = Arc::downgrade(&ready.0);
    ready.waker_for(1_u64).waker().wake();
    ready.close();
    let late = ready.waker_for(2_u64);
    late.waker().wake();
    assert!(ready.is_empty());
    drop((ready, late));
    assert!(list.upgrade().is_none());
}

#[test]
fn a_long_list_gives_its_memory_back_before_a_sleep() {
    // Breaks when both halves of the list keep the room that a spike of connections took.
    let ready = ready_list();
    let tasks: Vec<_> = (0..512_u64).map(|key| ready.waker_for(key)).collect();
    let mut taken = VecDeque::new();
    for _ in 0..2 {
        tasks.iter().for_each(|task| task.wake());
        assert!(
            !ready.shrink_if_empty(&mut VecDeque::new()),
            "there is something to do"
        );
        ready.take_all(&mut taken);
        taken
            .drain(..)
            .zip(0..)
            .for_each(|(task, key)| assert_eq!(task.begin(), key));
    }
    assert!(taken.capacity() >= 512);
    assert!(ready.shrink_if_empty(&mut taken));
    assert!(taken.capacity().max(ready.0.queue.lock().capacity()) <= KEPT_ENTRIES);
}
