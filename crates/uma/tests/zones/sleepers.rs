//! Allocations that wait: breaks when an event that must wake a sleeper does not.
//!
//! After a lost wakeup a sleeper's timeout ends, or the test does not end.

use crate::common::{Dice, Item, assert_balance, builder, free, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use uma::{AllocError, Backend, RawZone};

/// So long that it ends only after a lost wakeup, also on a slow machine.
const LONG: Option<Duration> = Some(Duration::from_secs(60));
const SHORT: Option<Duration> = Some(Duration::from_millis(20));

/// The test on each backend; where sections do not work, twice under locks.
fn on_each(test: impl Fn(Backend)) {
    test(Backend::Rseq);
    test(Backend::Locked);
}

/// A zone all of whose items are live, with the items.
fn exhausted(backend: Backend, items: usize) -> (RawZone, Vec<Item>) {
    let zone = builder(256, 8)
        .backend(backend)
        .limit(items)
        .build()
        .unwrap();
    let held = take(&zone, items);
    assert_eq!(zone.alloc(), Err(AllocError::Limit));
    (zone, held)
}

fn take(zone: &RawZone, items: usize) -> Vec<Item> {
    (0..items).map(|_| Item(zone.alloc().unwrap())).collect()
}

/// Waits until this many threads sleep; those that do not yet are on their way to it.
fn until_asleep(zone: &RawZone, sleeps: u64) {
    while zone.stats().sleeps < sleeps {
        thread::yield_now();
    }
}

#[test]
fn every_sleeper_of_every_zone_wakes() {
    // Breaks when an item that comes back wakes no thread, or a thread of the wrong keg: zones with
    // a common keg share their items, others nothing.
    on_each(|backend| {
        const EACH: usize = if cfg!(miri) { 2 } else { 8 };
        let kegs: Vec<_> = (0..2)
            .map(|_| {
                let (master, held) = exhausted(backend, 3 * EACH);
                let zones: Vec<_> = ["second", "third"]
                    .map(|name| master.secondary(name).backend(backend).build().unwrap())
                    .into_iter()
                    .chain([master.clone()])
                    .collect();
                (master, zones, held)
            })
            .collect();
        thread::scope(|scope| {
            for (_, zones, _) in &kegs {
                for me in 0..3 * EACH as u64 {
                    let zone = &zones[me as usize % 3];
                    scope.spawn(move || {
                        pin(me);
                        let item = zone.alloc_wait(LONG).expect("an item came back");
                        thread::yield_now();
                        free(zone, item);
                    });
                }
            }
            for (master, _, held) in &kegs {
                until_asleep(master, 3 * EACH as u64);
                // One item each: a thread that wakes frees it only after it has it.
                held.iter().for_each(|item| free(master, item.0));
            }
        });
        for (master, zones, _) in kegs {
            zones.iter().for_each(|zone| assert_eq!(zone.live(), 0));
            drop(zones);
            assert_balance(&master);
        }
    });
}

#[test]
fn one_item_wakes_all_one_after_the_other() {
    // Breaks when the free of a woken thread does not wake the next sleeper: no other item comes back.
    on_each(|backend| {
        let (zone, held) = exhausted(backend, 1);
        thread::scope(|scope| {
            for me in 0..10 {
                let zone = &zone;
                scope.spawn(move || {
                    pin(me);
                    let item = zone.alloc_wait(LONG).expect("the item came back");
                    free(zone, item);
                });
            }
            until_asleep(&zone, 10);
            free(&zone, held[0].0);
        });
        assert_balance(&zone);
    });
}

#[test]
fn a_free_in_the_master_wakes_a_sleeper_in_a_secondary_zone() {
    // Breaks when sleepers wait for their own zone's items instead of the keg's; both ways.
    on_each(|backend| {
        let (master, held) = exhausted(backend, 1);
        let second = master.secondary("second").backend(backend).build().unwrap();
        let of = |waits: &RawZone, frees: &RawZone, item: Item, sleeps: u64| {
            thread::scope(|scope| {
                let sleeper = scope.spawn(|| Item(waits.alloc_wait(LONG).unwrap()));
                until_asleep(&master, sleeps);
                free(frees, item.0);
                sleeper.join().unwrap()
            })
        };
        let mut item = held.into_iter().next().unwrap();
        item = of(&second, &master, item, 1);
        assert_eq!((master.live(), second.live()), (0, 1));
        item = of(&master, &second, item, 2);
        assert_eq!((master.live(), second.live()), (1, 0));
        free(&master, item.0);
        drop(second);
        assert_balance(&master);
    });
}

#[test]
fn a_wait_ends_at_its_timeout() {
    // Breaks when a timeout is early, much too late, or leaves a sleeper in the keg's count: the keg would stay closed.
    on_each(|backend| {
        let (zone, held) = exhausted(backend, 100);
        let begin = Instant::now();
        assert_eq!(zone.alloc_wait(SHORT), Err(AllocError::Limit));
        assert!(begin.elapsed() >= SHORT.unwrap());
        assert_eq!(
            zone.alloc_wait(Some(Duration::ZERO)),
            Err(AllocError::Limit)
        );
        assert_eq!(zone.stats().failures, 3);
        held.iter().for_each(|item| free(&zone, item.0));
        let misses = zone.stats().misses;
        for _ in 0..100 {
            let item = zone.alloc().unwrap();
            free(&zone, item);
        }
        assert!(zone.stats().misses - misses < 10, "the caches are not back");
        assert_balance(&zone);
    });
}

#[test]
fn no_memory_is_slept_on_like_a_limit() {
    // Breaks when only the limit knows sleepers: here the reservation is used up.
    on_each(|backend| {
        let zone = builder(2048, 2048)
            .backend(backend)
            .reserve_bytes(64 << 10)
            .build()
            .unwrap();
        let held = take(&zone, 32);
        assert_eq!(zone.alloc_wait(SHORT), Err(AllocError::NoMemory));
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| Item(zone.alloc_wait(LONG).unwrap()));
            until_asleep(&zone, 2);
            free(&zone, held[5].0);
            assert_eq!(sleeper.join().unwrap().0, held[5].0);
        });
        held.iter().for_each(|item| free(&zone, item.0));
        assert_balance(&zone);
    });
}

#[test]
fn a_raised_limit_wakes() {
    // Breaks when only frees wake: this test frees no item.
    on_each(|backend| {
        let (zone, mut held) = exhausted(backend, 4);
        thread::scope(|scope| {
            let sleepers: Vec<_> = (0..6)
                .map(|_| scope.spawn(|| Item(zone.alloc_wait(LONG).unwrap())))
                .collect();
            until_asleep(&zone, 6);
            zone.set_limit(Some(2));
            zone.set_limit(Some(7));
            while zone.live() < 7 {
                thread::yield_now();
            }
            zone.set_limit(None);
            held.extend(sleepers.into_iter().map(|sleeper| sleeper.join().unwrap()));
        });
        assert_eq!(zone.live(), 10);
        held.iter().for_each(|item| free(&zone, item.0));
        assert_balance(&zone);
    });
}

#[test]
fn the_reserve_wakes_only_urgent_sleepers() {
    // Breaks when a sleeper gets an item of the reserve, or an urgent allocation must wait for one.
    on_each(|backend| {
        let zone = builder(256, 8)
            .backend(backend)
            .limit(6)
            .reserve(2)
            .build()
            .unwrap();
        let mut held = take(&zone, 4);
        assert_eq!(zone.alloc(), Err(AllocError::Limit));
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| Item(zone.alloc_wait(LONG).unwrap()));
            until_asleep(&zone, 1);
            let urgent = [(); 2].map(|()| zone.alloc_urgent().unwrap());
            assert_eq!(zone.alloc_urgent(), Err(AllocError::Limit));
            urgent.iter().for_each(|&item| free(&zone, item));
            thread::sleep(Duration::from_millis(5));
            assert!(!sleeper.is_finished(), "a sleeper got the reserve");
            free(&zone, held.pop().unwrap().0);
            held.push(sleeper.join().unwrap());
        });
        held.iter().for_each(|item| free(&zone, item.0));
        zone.drain();
        assert_eq!(zone.live(), 0);
    });
}

#[test]
fn a_callback_comes_once_and_only_after_an_item() {
    // Breaks when a callback is lost, called twice, or accepted although it will never be called.
    on_each(|backend| {
        let (zone, held) = exhausted(backend, 2);
        let (to, calls) = mpsc::channel();
        let ask = |zone: &RawZone, n: usize| {
            let to = to.clone();
            zone.call_when_available(move || to.send(n).expect("the test waits"))
        };
        let second = zone.secondary("second").backend(backend).build().unwrap();
        assert!(ask(&zone, 1));
        assert!(ask(&second, 2));
        assert!(calls.try_recv().is_err());
        free(&zone, held[0].0);
        let mut called: Vec<_> = calls.try_iter().collect();
        called.sort_unstable();
        assert_eq!(called, [1, 2]);
        assert!(!ask(&zone, 3), "there is an item");
        let again = zone.alloc().unwrap();
        assert!(ask(&zone, 4));
        zone.set_limit(Some(3));
        assert_eq!(calls.try_iter().collect::<Vec<_>>(), [4]);
        free(&zone, again);
        free(&zone, held[1].0);
        assert!(calls.try_recv().is_err());
        drop(second);
        assert_balance(&zone);
    });
}

#[test]
fn callbacks_among_sleepers_are_not_forgotten() {
    // Breaks when an item that a sleeper takes keeps a callback from ever being called.
    on_each(|backend| {
        let (zone, held) = exhausted(backend, 1);
        let called = Arc::new(AtomicUsize::new(0));
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let item = zone.alloc_wait(LONG).unwrap();
                free(&zone, item);
            });
            until_asleep(&zone, 1);
            let count = called.clone();
            assert!(zone.call_when_available(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }));
            free(&zone, held[0].0);
            sleeper.join().unwrap();
        });
        assert_eq!(called.load(Ordering::Relaxed), 1);
        assert_balance(&zone);
    });
}

#[test]
fn no_wakeup_is_lost() {
    // Breaks when a free falls between a sleeper's last look and its sleep. In each round one
    // thread waits for the item that the other frees at that moment, and then the other way round,
    // from either zone of a keg.
    const ROUNDS: usize = if cfg!(miri) { 30 } else { 10_000 };
    on_each(|backend| {
        let (zone, held) = exhausted(backend, 1);
        let second = zone.secondary("second").backend(backend).build().unwrap();
        let zones = [&zone, &second];
        let wait = |dice: &mut Dice| {
            let of = dice.below(2);
            let item = zones[of].alloc_wait(LONG).unwrap_or_else(|e| {
                eprintln!("{e:?} {of} {}\n{}", zone.stats(), second.stats());
                std::process::exit(9)
            });
            (Item(item), of)
        };
        let free_soon = |dice: &mut Dice, (item, of): (Item, usize)| {
            (0..dice.below(400)).for_each(|_| core::hint::spin_loop());
            free(zones[of], item.0);
        };
        let (to_other, from_one) = mpsc::sync_channel(1);
        let (to_one, from_other) = mpsc::sync_channel(1);
        let (has_it, it_has) = mpsc::sync_channel(1);
        thread::scope(|scope| {
            scope.spawn(move || {
                pin(1);
                let mut dice = Dice::new(3);
                for taken in from_one {
                    free_soon(&mut dice, taken);
                    it_has.recv().expect("the one goes on");
                    to_one.send(wait(&mut dice)).expect("the one waits");
                }
            });
            pin(0);
            let mut dice = Dice::new(4);
            let mut taken = (held.into_iter().next().expect("one was taken"), 0);
            for _ in 0..ROUNDS {
                to_other.send(taken).expect("the other waits");
                let mine = wait(&mut dice);
                has_it.send(()).expect("the other goes on");
                free_soon(&mut dice, mine);
                taken = from_other.recv().expect("the other gets it again");
            }
            drop(to_other);
            free_soon(&mut dice, taken);
        });
        drop(second);
        assert_balance(&zone);
    });
}

#[test]
fn many_sleepers_and_few_items() {
    // Breaks when a wakeup goes to a thread that no longer waits (its time was up), and so is lost.
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    on_each(|backend| {
        let zone = builder(256, 8).backend(backend).limit(3).build().unwrap();
        let over = AtomicBool::new(false);
        let timeouts = AtomicUsize::new(0);
        thread::scope(|scope| {
            let patient: Vec<_> = (0..4)
                .map(|me| {
                    let zone = &zone;
                    scope.spawn(move || {
                        pin(me);
                        for _ in 0..rounds {
                            let item = zone.alloc_wait(LONG).expect("others free theirs");
                            if me % 2 == 0 {
                                thread::yield_now();
                            }
                            free(zone, item);
                        }
                    })
                })
                .collect();
            for me in 0..3 {
                let (zone, over, timeouts) = (&zone, &over, &timeouts);
                scope.spawn(move || {
                    pin(me);
                    let mut dice = Dice::new(me);
                    while !over.load(Ordering::Relaxed) {
                        let time = Duration::from_micros(dice.below(60) as u64);
                        match zone.alloc_wait(Some(time)) {
                            Ok(item) => {
                                thread::yield_now();
                                free(zone, item);
                            }
                            Err(error) => {
                                assert_eq!(error, AllocError::Limit);
                                timeouts.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
            let results: Vec<_> = patient.into_iter().map(|thread| thread.join()).collect();
            over.store(true, Ordering::Relaxed);
            results
                .into_iter()
                .for_each(|result| result.expect("a sleeper was forgotten"));
        });
        assert!(timeouts.into_inner() > 0, "no wait ever timed out");
        assert_balance(&zone);
    });
}
