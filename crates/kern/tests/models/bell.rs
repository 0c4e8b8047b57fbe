//! The protocol of [`kern::bell`] in every order, and with every value that the orderings allow (loom),
//! and in many random orders (shuttle): no wakeup is lost. The planted mistakes must be found.
//! (The missing fence is for loom to find.)

use std::sync::Arc;

use kern::bell::Bell;
use kern::model::Model;
use kern::prim::{AtomicBool, Condvar, Mutex, Ordering};
use kern::{LockClass, order};
#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;

static BED: LockClass = LockClass::new("modelled bed", order::PARKER);

/// The bell, as the models see it.
trait Bells: Send + Sync + 'static {
    /// The worker looks first, and says that it sleeps after that.
    const LOOKS_FIRST: bool = false;
    fn new() -> Self;
    fn settle(&self);
    fn rise(&self);
    fn ring(&self) -> bool;
}

impl Bells for Bell {
    fn new() -> Self {
        Self::new()
    }

    fn settle(&self) {
        self.settle();
    }

    fn rise(&self) {
        self.rise();
    }

    fn ring(&self) -> bool {
        self.ring()
    }
}

/// The real one, in the hands of a worker that does not look again.
struct LooksFirst(Bell);

impl Bells for LooksFirst {
    const LOOKS_FIRST: bool = true;

    fn new() -> Self {
        Self(Bell::new())
    }

    fn settle(&self) {
        self.0.settle();
    }

    fn rise(&self) {
        self.0.rise();
    }

    fn ring(&self) -> bool {
        self.0.ring()
    }
}

/// A copy whose two sides order what they do by release and acquire alone.
#[cfg(loom)]
struct NoFence(AtomicBool);

#[cfg(loom)]
impl Bells for NoFence {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn settle(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn rise(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn ring(&self) -> bool {
        self.0.load(Ordering::Acquire) && self.0.swap(false, Ordering::AcqRel)
    }
}

/// Where the worker sleeps: a mark that stays until it wakes, as an eventfd's is.
struct Bed {
    called: Mutex<bool>,
    news: Condvar,
}

impl Bed {
    fn new() -> Self {
        Self {
            called: Mutex::new(&BED, false),
            news: Condvar::new(),
        }
    }

    fn call(&self) {
        *self.called.lock() = true;
        self.news.notify_one();
    }

    fn sleep(&self) {
        let mut called = self.called.lock();
        while !*called {
            called = self.news.wait(called, None);
        }
        *called = false;
    }
}

/// Those who bring work.
const BRINGERS: usize = 2;

struct Scene<B> {
    bell: B,
    bed: Bed,
    /// Nothing but the bell orders these.
    work: [AtomicBool; BRINGERS],
}

impl<B: Bells> Scene<B> {
    /// Takes what is there; how much it was.
    fn look(&self) -> usize {
        let taken = |work: &&AtomicBool| {
            work.load(Ordering::Relaxed) && work.swap(false, Ordering::Relaxed)
        };
        self.work.iter().filter(taken).count()
    }

    fn bring(&self, n: usize) {
        self.work[n].store(true, Ordering::Relaxed);
        if self.bell.ring() {
            self.bed.call();
        }
    }

    /// Works until everything that will come has come.
    fn work_it_all(&self) {
        let mut left = BRINGERS;
        while left > 0 {
            left -= self.look();
            if left == 0 {
                return;
            }
            self.bell.settle();
            let found = if B::LOOKS_FIRST { 0 } else { self.look() };
            if found == 0 {
                self.bed.sleep();
            }
            self.bell.rise();
            left -= found;
        }
    }
}

/// A worker, and two who bring it work. A wakeup that is lost leaves it asleep for ever, which the
/// checkers call a deadlock.
fn scene<B: Bells>() {
    let scene = Arc::new(Scene {
        bell: B::new(),
        bed: Bed::new(),
        work: [AtomicBool::new(false), AtomicBool::new(false)],
    });
    let bringer = |n| {
        let scene = Arc::clone(&scene);
        thread::spawn(move || scene.bring(n))
    };
    let others = [bringer(0), bringer(1)];
    scene.work_it_all();
    others
        .into_iter()
        .for_each(|other| other.join().expect("no panic"));
}

#[test]
fn worker_sleep_loses_no_wakeup() {
    // Breaks if an order exists in which work lies there, and the worker sleeps, and nobody wakes it.
    Model::new("worker sleep").check(scene::<Bell>);
}

#[test]
#[should_panic(expected = "deadlock")]
fn finds_a_worker_that_does_not_look_again() {
    // Breaks if the scenario is blind to work that comes between the look and the sleep.
    Model::new("no second look, not found").check(scene::<LooksFirst>);
}

#[cfg(loom)]
#[test]
#[should_panic(expected = "deadlock")]
fn finds_a_missing_fence() {
    // Breaks if the scenario is blind to a store that is seen later than it was made.
    Model::new("no fence, not found").check(scene::<NoFence>);
}
