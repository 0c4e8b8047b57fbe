//! Models of the taskqueue's protocol. The planted bugs show that they find mistakes.

use std::sync::Arc;

use kern::model::Model;
use kern::prim::{AtomicBool, AtomicU8, AtomicUsize, Mutex, Ordering};
use kern::taskqueue::{Task, Taskqueue};
use kern::{LockClass, order};
#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;

/// A taskqueue with one task, as the model sees it.
trait Queue: Send + Sync + 'static {
    fn new(
        task: impl Fn() + Send + Sync + 'static,
        wakeup: impl Fn() + Send + Sync + 'static,
    ) -> Self;
    fn enqueue(&self);
    /// Runs tasks till none is left.
    fn run(&self);
}

/// The real one.
struct Real {
    queue: Taskqueue,
    task: Arc<Task>,
}

impl Queue for Real {
    fn new(
        task: impl Fn() + Send + Sync + 'static,
        wakeup: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            queue: Taskqueue::new(wakeup),
            task: Arc::new(Task::new(task)),
        }
    }

    fn enqueue(&self) {
        self.queue.enqueue(&self.task);
    }

    fn run(&self) {
        while self.queue.run(1).more {}
    }
}

/// The planted mistakes.
trait Bug: Send + Sync + 'static {
    /// An enqueue that finds the task queued only loads: no read-modify-write.
    const LOADS_WHEN_QUEUED: bool = false;
    /// The runner leaves without a check whether the task was enqueued meanwhile.
    const FORGETS_THE_MARK: bool = false;
}

#[cfg(loom)]
struct LoadsWhenQueued;
#[cfg(loom)]
impl Bug for LoadsWhenQueued {
    const LOADS_WHEN_QUEUED: bool = true;
}

struct ForgetsTheMark;
impl Bug for ForgetsTheMark {
    const FORGETS_THE_MARK: bool = true;
}

struct NoBug;
impl Bug for NoBug {}

/// The same protocol for a single task, with a bug planted.
struct Planted<B> {
    state: AtomicU8,
    queued: Mutex<bool>,
    task: Box<dyn Fn() + Send + Sync>,
    wakeup: Box<dyn Fn() + Send + Sync>,
    _bug: std::marker::PhantomData<B>,
}

static CLASS: LockClass = LockClass::new("planted", order::TASKQUEUE);
const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const RUNNING_AGAIN: u8 = 3;

impl<B: Bug> Planted<B> {
    fn step(&self, next: impl Fn(u8) -> u8) -> u8 {
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.state
            .fetch_update(set, fetch, |now| Some(next(now)))
            .unwrap_or(IDLE)
    }

    fn push(&self) {
        let was_queued = std::mem::replace(&mut *self.queued.lock(), true);
        assert!(!was_queued, "pushed twice");
    }
}

impl<B: Bug> Queue for Planted<B> {
    fn new(
        task: impl Fn() + Send + Sync + 'static,
        wakeup: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            state: AtomicU8::new(IDLE),
            queued: Mutex::new(&CLASS, false),
            task: Box::new(task),
            wakeup: Box::new(wakeup),
            _bug: std::marker::PhantomData,
        }
    }

    fn enqueue(&self) {
        if B::LOADS_WHEN_QUEUED && self.state.load(Ordering::Acquire) == QUEUED {
            return;
        }
        let before = self.step(|now| match now {
            IDLE => QUEUED,
            RUNNING => RUNNING_AGAIN,
            other => other,
        });
        if before == IDLE {
            self.push();
            (self.wakeup)();
        }
    }

    fn run(&self) {
        while std::mem::replace(&mut *self.queued.lock(), false) {
            self.step(|_| RUNNING);
            (self.task)();
            if B::FORGETS_THE_MARK {
                self.state.store(IDLE, Ordering::Release);
            } else if self.step(|now| if now == RUNNING { IDLE } else { QUEUED }) != RUNNING {
                self.push();
            }
        }
    }
}

/// Two threads produce work and enqueue the task; a third runs it whenever it is woken. When all
/// is quiet, the task must have seen all work. Nothing but the taskqueue orders the work.
fn no_work_is_lost<Q: Queue>() {
    let work = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let seen = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let inside = Arc::new(AtomicBool::new(false));
    let woken = Arc::new(AtomicBool::new(false));

    let (task_work, task_seen) = (Arc::clone(&work), Arc::clone(&seen));
    let task = move || {
        assert!(
            !inside.swap(true, Ordering::Relaxed),
            "two threads run one task"
        );
        for (work, seen) in task_work.iter().zip(&*task_seen) {
            seen.store(work.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        inside.store(false, Ordering::Relaxed);
    };
    // A wakeup adds to what is there, as a write to an eventfd does; a plain store could be ordered
    // among the swaps in ways that loom explores and no machine shows.
    let wakes = Arc::clone(&woken);
    let wakeup = move || {
        wakes.swap(true, Ordering::AcqRel);
    };
    let queue = Arc::new(Q::new(task, wakeup));

    let produce = |index: usize| {
        let (work, queue) = (Arc::clone(&work), Arc::clone(&queue));
        thread::spawn(move || {
            work[index].store(1, Ordering::Relaxed);
            queue.enqueue();
        })
    };
    let run_if_woken = |woken: &AtomicBool, queue: &Q| {
        if woken.swap(false, Ordering::AcqRel) {
            queue.run();
        }
    };

    // The second producer is the model's main thread: one thread less to interleave.
    let producer = produce(0);
    let (runner_woken, runner_queue) = (Arc::clone(&woken), Arc::clone(&queue));
    let runner = thread::spawn(move || run_if_woken(&runner_woken, &runner_queue));
    work[1].store(1, Ordering::Relaxed);
    queue.enqueue();

    // The runner is joined first: work of a producer that is not yet joined is ordered by the
    // taskqueue alone.
    runner.join().expect("no panic");
    run_if_woken(&woken, &queue);
    producer.join().expect("no panic");
    run_if_woken(&woken, &queue);
    for seen in &*seen {
        assert_eq!(seen.load(Ordering::Relaxed), 1, "work was lost");
    }
}

fn every(name: &str, scenario: fn()) {
    let model = Model::new(name);
    // The steps are few enough that no preemption need be left out.
    #[cfg(loom)]
    let model = model.any_switches();
    model.check(scenario);
}

#[test]
fn taskqueue_loses_no_work() {
    // Breaks if an interleaving or a weak ordering exists in which enqueued work is not run.
    every("taskqueue", no_work_is_lost::<Real>);
}

#[test]
fn the_protocol_alone_loses_no_work() {
    // Breaks if the copy below the planted bugs is wrong even without them.
    every("taskqueue, the copy", no_work_is_lost::<Planted<NoBug>>);
}

// The mistake is an unordered load, which shuttle does not model.
#[cfg(loom)]
#[test]
#[should_panic(expected = "work was lost")]
fn model_finds_an_enqueue_that_only_loads() {
    // Breaks if the model is blind to a missing read-modify-write.
    every(
        "only a look, not found",
        no_work_is_lost::<Planted<LoadsWhenQueued>>,
    );
}

#[test]
#[should_panic(expected = "work was lost")]
fn model_finds_a_forgotten_mark() {
    // Breaks if the model is blind to an enqueue lost while the task runs.
    every(
        "a forgotten mark, not found",
        no_work_is_lost::<Planted<ForgetsTheMark>>,
    );
}

/// Two runners share the queue while a task is enqueued again: one of them at a time runs it.
#[test]
fn two_runners_never_run_one_task_at_once() {
    // Breaks if a task that must run again is pushed before its run is over.
    every("taskqueue, two runners", || {
        let inside = Arc::new(AtomicBool::new(false));
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let task = move || {
            assert!(
                !inside.swap(true, Ordering::Relaxed),
                "two threads run one task"
            );
            counted.fetch_add(1, Ordering::Relaxed);
            inside.store(false, Ordering::Relaxed);
        };
        let queue = Arc::new(Real::new(task, || {}));
        queue.enqueue();
        let other = Arc::clone(&queue);
        let runner = thread::spawn(move || other.run());
        queue.enqueue();
        queue.run();
        runner.join().expect("no panic");
        let runs = runs.load(Ordering::Relaxed);
        assert!((1..=2).contains(&runs), "{runs} runs");
        assert!(queue.queue.is_empty());
    });
}
