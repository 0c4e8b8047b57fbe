use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kern::{Clock, Time, VirtualClock};

use super::{BUSY_BYTES, LOAD_RATIO, TaskLoad};
use crate::runtime::accept_steering::AcceptSteering;
use crate::runtime::test_worker_set::{take, worker_set};
use crate::runtime::worker_pool::{WorkerPool, WorkerPoolConfig};

#[test]
fn a_connection_is_accepted_by_the_worker_that_took_it_in() {
    // Breaks when a connection is served by another worker than the one that its packets come to.
    let worker_set = worker_set(3);
    let tasks = (0..3)
        .map(|n| worker_set.ready(n).waker_for(1_u64))
        .collect();
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(Time::ZERO));
    let waker: Waker = AcceptSteering::waker(&worker_set, &clock, tasks);
    let bound = worker_set.bind(2);
    waker.wake_by_ref();
    assert_eq!([0, 1, 2].map(|n| take(&worker_set, n)), [0, 0, 1]);
    drop(bound);
    waker.wake_by_ref();
    assert_eq!([0, 1, 2].map(|n| take(&worker_set, n)), [1, 0, 0]);
}

#[test]
fn a_connection_goes_to_the_worker_that_has_much_less_to_do() {
    // Breaks when a small request waits behind a bulk stream while another worker sleeps, or when short
    // connections wake other workers for nothing.
    let worker_set = worker_set(3);
    let now = Time::ZERO;
    let host = |now| [0, 1, 2].map(|own| worker_set.worker_for(own, now));
    assert_eq!(host(now), [0, 1, 2]);
    worker_set.record_load(1, now, BUSY_BYTES - 1);
    assert_eq!(host(now), [0, 1, 2], "not so much");
    assert!(!worker_set.is_busy(now));
    worker_set.record_load(1, now, 1);
    assert_eq!(host(now), [0, 0, 2]);
    assert!(worker_set.is_busy(now), "one is enough");
    worker_set.record_load(0, now, 1000);
    assert_eq!(host(now), [0, 2, 2]);
    worker_set.record_load(2, now, BUSY_BYTES / LOAD_RATIO);
    worker_set.record_load(0, now, BUSY_BYTES / LOAD_RATIO);
    assert_eq!(host(now), [0, 1, 2], "the others have not much less");
    worker_set.record_load(1, now, BUSY_BYTES);
    assert_eq!(host(now), [0, 2, 2]);
    assert_eq!(host(now + Duration::from_secs(1)), [0, 1, 2], "long ago");
}

#[test]
fn a_task_moves_if_both_workers_then_have_less_than_one_had() {
    // Breaks when two workers pass a stream back and forth, or all streams of a busy worker go to the other in one
    // round.
    let worker_set = worker_set(2);
    let now = Time::ZERO;
    worker_set.record_load(0, now, 8 * BUSY_BYTES);
    let target = |own, bytes| worker_set.rebalance_target(own, now, bytes);
    assert_eq!(target(0, 0), Some(1));
    assert_eq!(target(1, 0), None, "it has little itself");
    assert_eq!(target(0, 8 * BUSY_BYTES), None, "it is the load");
    assert_eq!(target(0, 4 * BUSY_BYTES), None, "each has as much");
    assert_eq!(target(0, BUSY_BYTES), Some(1));
    worker_set.record_load(1, now, BUSY_BYTES);
    assert_eq!(target(0, BUSY_BYTES), None, "the other has enough");
    worker_set.record_load(1, now, BUSY_BYTES);
    assert_eq!([target(0, 0), target(1, 0)], [None, None]);
}

#[test]
fn a_task_that_moves_takes_its_load_along() {
    // Breaks when a busy worker sends all its tasks to the same other worker, because the load of a task counts there
    // only after its arrival.
    let pool = WorkerPool::new(WorkerPoolConfig::new(2)).expect("descriptors");
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(Time::ZERO));
    let mut first = pool.context(0, &clock);
    let now = Time::ZERO;
    let mut tasks = [0; 2].map(|_| TaskLoad::default());
    for task in &mut tasks {
        first.record_task(task, now, BUSY_BYTES);
    }
    first.worker_set.record_load(0, now, 8 * BUSY_BYTES);
    let [one, other] = &mut tasks;
    assert_eq!(first.rebalance_target(one, now), Some(1));
    first.hand_over(one, 1, now);
    assert_eq!(
        first.rebalance_target(other, now),
        None,
        "the other has enough"
    );
}
