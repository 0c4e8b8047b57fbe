//! The protocol of [`kern::sleep_flag`] in every order and with every value that the orderings allow (loom), and in
//! many random orders (shuttle): no wakeup is lost. The checkers must find the planted mistakes. (Only loom finds the
//! missing fence.)

use std::sync::Arc;

use kern::model::Model;
use kern::prim::{AtomicBool, Condvar, Mutex, Ordering};
use kern::{LockClass, SleepFlag, order};
#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;

static EVENT: LockClass = LockClass::new("modelled event", order::PARKER);

/// The flag, as the models see it.
trait Flag: Send + Sync + 'static {
    /// Planted mistake: the worker checks its queues before it sets the flag, and not after.
    const CHECKS_FIRST: bool = false;
    fn new() -> Self;
    fn prepare_sleep(&self);
    fn awake(&self);
    fn wake_needed(&self) -> bool;
}

impl Flag for SleepFlag {
    fn new() -> Self {
        Self::new()
    }

    fn prepare_sleep(&self) {
        self.prepare_sleep();
    }

    fn awake(&self) {
        self.awake();
    }

    fn wake_needed(&self) -> bool {
        self.wake_needed()
    }
}

/// The real flag, used by a worker that does not check again.
struct ChecksFirst(SleepFlag);

impl Flag for ChecksFirst {
    const CHECKS_FIRST: bool = true;

    fn new() -> Self {
        Self(SleepFlag::new())
    }

    fn prepare_sleep(&self) {
        self.0.prepare_sleep();
    }

    fn awake(&self) {
        self.0.awake();
    }

    fn wake_needed(&self) -> bool {
        self.0.wake_needed()
    }
}

/// A copy with release and acquire in the place of the two fences.
#[cfg(loom)]
struct NoFence(AtomicBool);

#[cfg(loom)]
impl Flag for NoFence {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn prepare_sleep(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn awake(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn wake_needed(&self) -> bool {
        self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel)
    }
}

/// The event on which the worker sleeps. A signal stays until a wait takes it, as an eventfd's does.
struct Event {
    signalled: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    fn new() -> Self {
        Self {
            signalled: Mutex::new(&EVENT, false),
            changed: Condvar::new(),
        }
    }

    fn signal(&self) {
        *self.signalled.lock() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut signalled = self.signalled.lock();
        while !*signalled {
            signalled = self.changed.wait(signalled, None);
        }
        *signalled = false;
    }
}

const PRODUCERS: usize = 2;

struct Scene<F> {
    flag: F,
    event: Event,
    /// A queue of one item for each producer. Only the flag orders these.
    work: [AtomicBool; PRODUCERS],
}

impl<F: Flag> Scene<F> {
    /// Takes all work; returns how much there was.
    fn take_work(&self) -> usize {
        let taken = |work: &&AtomicBool| {
            work.load(Ordering::Relaxed) && work.swap(false, Ordering::Relaxed)
        };
        self.work.iter().filter(taken).count()
    }

    fn produce(&self, n: usize) {
        self.work[n].store(true, Ordering::Relaxed);
        if self.flag.wake_needed() {
            self.event.signal();
        }
    }

    /// Runs until every producer's work is done.
    fn run_worker(&self) {
        let mut left = PRODUCERS;
        while left > 0 {
            left -= self.take_work();
            if left == 0 {
                return;
            }
            self.flag.prepare_sleep();
            let found = if F::CHECKS_FIRST { 0 } else { self.take_work() };
            if found == 0 {
                self.event.wait();
            }
            self.flag.awake();
            left -= found;
        }
    }
}

/// A worker and two producers. A lost wakeup leaves the worker asleep for ever, which the checkers report as a
/// deadlock.
fn scene<F: Flag>() {
    let scene = Arc::new(Scene {
        flag: F::new(),
        event: Event::new(),
        work: [AtomicBool::new(false), AtomicBool::new(false)],
    });
    let producer = |n| {
        let scene = Arc::clone(&scene);
        thread::spawn(move || scene.produce(n))
    };
    let producers = [producer(0), producer(1)];
    scene.run_worker();
    producers
        .into_iter()
        .for_each(|producer| producer.join().expect("no panic"));
}

#[test]
fn worker_sleep_loses_no_wakeup() {
    // Breaks if in some order a queue has work, the worker sleeps, and no producer wakes it.
    Model::new("worker sleep").check(scene::<SleepFlag>);
}

#[test]
#[should_panic(expected = "deadlock")]
fn finds_a_worker_that_does_not_check_again() {
    // Breaks if the scenario does not cover work that comes between the check and the sleep.
    Model::new("no second check, not found").check(scene::<ChecksFirst>);
}

#[cfg(loom)]
#[test]
#[should_panic(expected = "deadlock")]
fn finds_a_missing_fence() {
    // Breaks if the scenario does not cover a store that becomes visible late.
    Model::new("no fence, not found").check(scene::<NoFence>);
}
