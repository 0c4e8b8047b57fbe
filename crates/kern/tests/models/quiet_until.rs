//! Threads that set deadlines beside threads that find the next one and keep it ([`kern::quiet_until`]), in every order
//! and with every value that the orderings allow (loom), and in many random orders (shuttle). The checkers must find
//! the planted mistake.

use std::sync::Arc;

use kern::model::Model;
use kern::prim::{AtomicU64, Ordering};
use kern::{QuietUntil, Time};
#[cfg(loom)]
use loom::thread;
#[cfg(shuttle)]
use shuttle::thread;

/// Deadlines under different locks, and the kept time. 0: none.
struct Scene {
    deadlines: [AtomicU64; 2],
    quiet: QuietUntil,
}

impl Scene {
    fn find(&self) {
        self.quiet.find(|| {
            let set = |deadline: &AtomicU64| deadline.load(Ordering::Relaxed);
            let known = self.deadlines.iter().map(set).filter(|at| *at != 0);
            known.min().map(Time::from_nanos)
        });
    }

    fn set(&self, which: usize, at: u64) {
        self.deadlines[which].store(at, Ordering::Relaxed);
        self.quiet.end();
    }

    /// Planted mistake: the kept time ends before the deadline is stored.
    fn set_late(&self, which: usize, at: u64) {
        self.quiet.end();
        self.deadlines[which].store(at, Ordering::Relaxed);
    }
}

fn scene(set: fn(&Scene, usize, u64)) {
    let scene = Arc::new(Scene {
        deadlines: [AtomicU64::new(0), AtomicU64::new(0)],
        quiet: QuietUntil::new(),
    });
    let run = |f: fn(&Scene, fn(&Scene, usize, u64))| {
        let scene = Arc::clone(&scene);
        thread::spawn(move || f(&scene, set))
    };
    let threads = [
        run(|scene, set| set(scene, 0, 7)),
        run(|scene, _| scene.find()),
    ];
    set(&scene, 1, 5);
    scene.find();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let kept = scene.quiet.get(Time::from_nanos(0));
    assert!(kept.is_none_or(|at| at <= Time::from_nanos(5)), "{kept:?}");
}

#[test]
fn no_kept_time_is_after_a_deadline() {
    // Breaks if in some order a thread keeps a time that it found before another thread set an earlier deadline.
    Model::new("quiet until").check(|| scene(Scene::set));
}

#[test]
#[should_panic(expected = "Some(")]
fn finds_an_end_before_the_deadline() {
    // Breaks if the scenario does not cover a search between the two steps of a thread that sets a deadline.
    Model::new("quiet until, not found").check(|| scene(Scene::set_late));
}
