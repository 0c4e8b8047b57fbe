// Not under loom, where these would run outside of a model; the models are in tests/models/taskqueue.rs.
#![cfg(not(loom))]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;

/// A queue that counts its wakeups.
fn counting_queue() -> (Taskqueue, Arc<AtomicUsize>) {
    let wakeups = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&wakeups);
    let queue = Taskqueue::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    (queue, wakeups)
}

/// A task that counts its runs.
fn counting_task() -> (Arc<Task>, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let task = Task::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    (Arc::new(task), runs)
}

#[test]
fn enqueue_wakes_only_at_an_empty_queue() {
    // Breaks if each packet costs a wakeup, or if the first one costs none.
    let (queue, wakeups) = counting_queue();
    let ((a, a_runs), (b, b_runs)) = (counting_task(), counting_task());
    assert_eq!(queue.enqueue(&a), EnqueueOutcome::Woke);
    assert_eq!(queue.enqueue(&b), EnqueueOutcome::Queued);
    assert_eq!(queue.enqueue(&a), EnqueueOutcome::AlreadyQueued);
    assert_eq!(wakeups.load(Ordering::Relaxed), 1);
    assert_eq!(
        queue.run(10),
        Ran {
            tasks: 2,
            more: false
        }
    );
    assert_eq!(
        (
            a_runs.load(Ordering::Relaxed),
            b_runs.load(Ordering::Relaxed)
        ),
        (1, 1)
    );
    assert!(queue.is_empty());
    assert_eq!(queue.enqueue(&b), EnqueueOutcome::Woke);
    assert_eq!(wakeups.load(Ordering::Relaxed), 2);
}

#[test]
fn a_budget_leaves_the_rest_and_says_so() {
    // Breaks if a run exceeds its budget, or leaves tasks without a wakeup.
    let (queue, _) = counting_queue();
    let tasks: Vec<_> = (0..5).map(|_| counting_task()).collect();
    for (task, _) in &tasks {
        let _ = queue.enqueue(task);
    }
    assert_eq!(
        queue.run(0),
        Ran {
            tasks: 0,
            more: true
        }
    );
    assert_eq!(
        queue.run(2),
        Ran {
            tasks: 2,
            more: true
        }
    );
    let runs: Vec<_> = tasks
        .iter()
        .map(|(_, runs)| runs.load(Ordering::Relaxed))
        .collect();
    assert_eq!(
        runs,
        [1, 1, 0, 0, 0],
        "in the order in which they were queued"
    );
    assert_eq!(
        queue.run(3),
        Ran {
            tasks: 3,
            more: false
        }
    );
    assert_eq!(
        queue.run(0),
        Ran {
            tasks: 0,
            more: false
        }
    );
}

#[test]
fn a_task_enqueued_while_it_runs_runs_again() {
    // Breaks if the enqueue is swallowed because the task is not idle.
    let (queue, wakeups) = counting_queue();
    let queue = Arc::new(queue);
    let itself: Arc<OnceLock<Arc<Task>>> = Arc::default();
    let (sender, outcomes) = mpsc::channel();
    let (queue2, itself2) = (Arc::clone(&queue), Arc::clone(&itself));
    let runs = AtomicUsize::new(0);
    let task = Task::new(move || {
        if runs.fetch_add(1, Ordering::Relaxed) == 0 {
            let task = itself2.get().expect("set below");
            sender
                .send([queue2.enqueue(task), queue2.enqueue(task)])
                .expect("the test waits");
        }
    });
    let task = itself.get_or_init(|| Arc::new(task));
    assert_eq!(queue.enqueue(task), EnqueueOutcome::Woke);
    assert_eq!(
        queue.run(1),
        Ran {
            tasks: 1,
            more: true
        }
    );
    assert_eq!(outcomes.recv(), Ok([EnqueueOutcome::RunsAgain; 2]));
    assert_eq!(
        queue.run(10),
        Ran {
            tasks: 1,
            more: false
        }
    );
    assert_eq!(wakeups.load(Ordering::Relaxed), 1, "its runner was awake");
}

#[test]
fn a_task_that_panics_can_run_again() {
    // Breaks if it stays marked as running: every later enqueue would be lost.
    let (queue, _) = counting_queue();
    let first = AtomicUsize::new(0);
    let task = Arc::new(Task::new(move || {
        assert!(first.fetch_add(1, Ordering::Relaxed) > 0, "on purpose");
    }));
    let _ = queue.enqueue(&task);
    let run = std::panic::AssertUnwindSafe(|| queue.run(1));
    assert!(std::panic::catch_unwind(run).is_err());
    assert_eq!(format!("{task:?}"), "Task { state: Idle, .. }");
    assert_eq!(queue.enqueue(&task), EnqueueOutcome::Woke);
    assert_eq!(
        queue.run(1),
        Ran {
            tasks: 1,
            more: false
        }
    );
}

#[test]
fn tasks_and_wakeups_run_without_the_queue_lock() {
    // Breaks if a callback that takes the queue's lock hangs.
    let queue: Arc<OnceLock<Taskqueue>> = Arc::default();
    let (for_wakeup, for_task) = (Arc::clone(&queue), Arc::clone(&queue));
    let is_empty = |queue: &OnceLock<Taskqueue>| queue.get().expect("set below").is_empty();
    let taskqueue = queue.get_or_init(|| Taskqueue::new(move || assert!(!is_empty(&for_wakeup))));
    let task = Arc::new(Task::new(move || assert!(is_empty(&for_task))));
    assert_eq!(taskqueue.enqueue(&task), EnqueueOutcome::Woke);
    assert_eq!(taskqueue.run(1).tasks, 1);
}

#[test]
fn no_work_is_lost_between_threads() {
    // Breaks if a wakeup or a run is lost: the last work would wait for ever.
    const WORK: usize = 20_000;
    let (sender, wakeups) = mpsc::channel();
    let queue = Taskqueue::new(move || {
        // A worker ends after the last task; the others' last wakeups then have no reader.
        let _ = sender.send(());
    });
    let (todo, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (todo2, done2) = (Arc::clone(&todo), Arc::clone(&done));
    let task = Arc::new(Task::new(move || {
        let taken = todo2.swap(0, Ordering::Relaxed);
        done2.fetch_add(taken, Ordering::Relaxed);
    }));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..WORK {
                    todo.fetch_add(1, Ordering::Relaxed);
                    let _ = queue.enqueue(&task);
                }
            });
        }
        while done.load(Ordering::Relaxed) < 2 * WORK {
            let waited = wakeups.recv_timeout(core::time::Duration::from_secs(10));
            assert!(
                waited.is_ok(),
                "lost work: {} of {}",
                done.load(Ordering::Relaxed),
                2 * WORK
            );
            while queue.run(4).more {}
        }
    });
}
