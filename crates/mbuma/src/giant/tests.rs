use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kern::{MonotonicClock, Random, Workers, witness};

use super::*;
use crate::Config;
use crate::stack::Stack;

/// Lets another thread through Giant, which must be free.
struct Worker(Stack, AtomicBool);

impl Wake for Worker {
    fn wake(self: Arc<Self>) {
        witness::assert_none("a CPU's waker");
        thread::scope(|scope| {
            scope.spawn(|| drop(self.0.stats()));
        });
        self.1.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_cpu_is_woken_without_giant() {
    // Breaks if a woken worker finds the stack closed by the thread that woke it, or if a callback that
    // gives a CPU something to do does so under the Giant that it has.
    for over_all in [false, true] {
        let mut config = Config::new(Arc::new(MonotonicClock::new()), Random::from_seed(1));
        config.giant = Arc::new(Giant::new(over_all));
        config.cpus = Arc::new(Workers::new(1));
        let stack = Stack::new(config).expect("address space");
        let worker = Arc::new(Worker(stack.clone(), AtomicBool::new(false)));
        stack.set_cpu_waker(0, Some(Waker::from(Arc::clone(&worker))));
        let _outer = stack.0.config.giant.enter_for(false);
        stack.0.enter(|batch| batch.kick(0));
        assert!(worker.1.load(Ordering::SeqCst), "nobody was woken");
        stack.set_cpu_waker(0, None);
    }
}
