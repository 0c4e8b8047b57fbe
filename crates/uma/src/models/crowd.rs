//! Several threads on two CPUs do everything at once: allocate, free, sleep, drain, trim, change
//! the limit, visit by a weak reference, hand items and handles to each other, on a zone and its secondary.
//! No item is given out twice, none is lost, no thread sleeps for ever, both zones end once.
//!
//! Locks: none.

use super::*;
use shuttle::rand::{Rng, thread_rng};

const THREADS: usize = 4;
const STEPS: usize = 8;
/// Fewer items than the threads may want, so that they reach the limit often.
const LIMIT: usize = 5;

/// The items that a thread has: of the master, and of the secondary zone.
struct Hands<'a> {
    worlds: [&'a World; 2],
    items: Vec<(usize, Item)>,
}

impl Hands<'_> {
    fn step(&mut self) {
        let which = thread_rng().gen_range(0..2);
        let world = self.worlds[which];
        match thread_rng().gen_range(0..10) {
            0..=3 => self.take(which),
            4..=6 => self.put_some(),
            7 if self.items.is_empty() => {
                // A thread without items may sleep: the others return theirs sooner or later.
                self.items.push((which, world.wait()));
            }
            8 => world.drain(),
            9 => {
                let weak = Arc::clone(&world.zone.inner().weak);
                weak.with_zone(|zone| zone.trim_caches(usize::MAX));
            }
            _ => world
                .zone
                .set_limit(Some(thread_rng().gen_range(LIMIT - 1..=LIMIT))),
        }
    }

    fn take(&mut self, which: usize) {
        match self.worlds[which].try_alloc() {
            Ok(item) => self.items.push((which, item)),
            Err(error) => assert_eq!(error, AllocError::Limit),
        }
    }

    fn put_some(&mut self) {
        let keep = thread_rng().gen_range(0..=self.items.len());
        for (which, item) in self.items.split_off(keep) {
            self.worlds[which].free(item);
        }
    }
}

fn crowd(backend: Backend) {
    let world = World::new(backend, 2, LIMIT);
    let second = world.secondary(backend);
    let threads: Vec<_> = (0..THREADS)
        .map(|n| {
            let (world, second) = (world.clone(), second.clone());
            thread::spawn(move || {
                run_on(n % 2);
                let mut hands = Hands {
                    worlds: [&world, &second],
                    items: Vec::new(),
                };
                (0..STEPS).for_each(|_| hands.step());
                for (which, item) in core::mem::take(&mut hands.items) {
                    hands.worlds[which].free(item);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let out = |world: &World| world.zone.inner().out();
    assert!(
        out(&world) + out(&second) <= LIMIT,
        "more are out than may be"
    );
    drop(second);
    assert_ended(1);
    world.finish();
}

#[test]
fn a_crowd_loses_no_item_under_locks() {
    // Breaks if any two of the protocols disturb each other.
    holds("crowd, locked", 3, || crowd(Backend::Locked));
}

#[test]
fn a_crowd_loses_no_item_by_sections() {
    // As above, with sections.
    holds("crowd, sections", 3, || crowd(Backend::Rseq));
}

#[test]
#[should_panic]
fn finds_sleepers_that_are_forgotten() {
    // Breaks if the crowd is blind to a lost wakeup.
    finds(ZoneFault::Sleepers, 3, || crowd(Backend::Locked));
}

#[test]
#[should_panic]
fn finds_a_drain_that_takes_too_early() {
    // Breaks if the crowd is blind to a bucket that two threads work on.
    finds(ZoneFault::SecondFence, 3, || crowd(Backend::Rseq));
}
