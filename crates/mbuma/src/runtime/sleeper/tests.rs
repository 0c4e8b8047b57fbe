use std::sync::Arc;
use std::time::Duration;

use kern::{AdaptiveSpin, Workers};

use super::{Sleeper, WOKEN};
use crate::runtime::poller::PollEvents;

fn sleeper() -> (Arc<Workers>, Arc<Sleeper>) {
    let cpus = Arc::new(Workers::new(2));
    let sleeper = Sleeper::new(&cpus, 1, true).expect("descriptors");
    (cpus, sleeper)
}

/// Wakes a worker whose flag says that it sleeps.
fn wake(sleeper: &Sleeper) {
    sleeper.prepare_sleep();
    sleeper.wake_worker();
    sleeper.awake();
}

#[test]
fn polling_finds_an_event_and_ends_without_one() {
    // Breaks if a polling worker misses an event that a sleeping worker would see, or never stops polling.
    let (_cpus, sleeper) = sleeper();
    let spin = AdaptiveSpin::for_syscall(2);
    let mut events = PollEvents::new();
    wake(&sleeper);
    assert!(sleeper.spin(&mut events, &spin, None));
    assert_eq!(
        events.iter().map(|(key, _)| key).collect::<Vec<_>>(),
        [WOKEN]
    );

    assert!(
        !sleeper.spin(&mut events, &spin, None),
        "the edge has been reported"
    );
    assert!(events.is_empty());
    wake(&sleeper);
    assert!(
        !sleeper.spin(&mut events, &spin, None),
        "the last poll failed, so the worker backs off"
    );
    let now = Some(Duration::ZERO);
    sleeper
        .poller()
        .wait(&mut events, now)
        .expect("it is valid");
    assert_eq!(events.len(), 1);
}

#[test]
fn only_a_sleeping_worker_is_woken_and_only_by_others() {
    // Breaks when a worker makes a system call for each wakeup of itself, or misses the wakeup of another thread.
    let (cpus, sleeper) = sleeper();
    let signalled = || {
        let mut events = PollEvents::new();
        let now = Some(Duration::ZERO);
        sleeper
            .poller()
            .wait(&mut events, now)
            .expect("it is valid");
        !events.is_empty()
    };
    {
        let _me = cpus.bind(1);
        wake(&sleeper);
        assert!(!signalled(), "the worker woke itself");
    }
    sleeper.wake_worker();
    assert!(!signalled(), "it was awake");
    let _another = cpus.bind(0);
    wake(&sleeper);
    assert!(signalled(), "it slept");
}
