//! Many threads on one zone: breaks when an item has two owners, or is lost, on its way through
//! caches, depot and slabs.

use crate::common::{Dice, Item, assert_balance, builder, free, pin, read, write, zone};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use uma::{AllocError, RawZone};

const ROUNDS: usize = if cfg!(miri) { 50 } else { 20_000 };

/// Each thread allocates, signs, and sends to the next one, which checks the signature, signs
/// anew, and frees: every item crosses threads.
fn ring(zone: &RawZone, threads: usize, drains: bool) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads)
        .map(|_| mpsc::sync_channel::<(Item, u64)>(300))
        .unzip();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(me, inbox)| {
                let next = senders[(me + 1) % threads].clone();
                scope.spawn(move || worker(zone, me as u64, next, inbox))
            })
            .collect();
        drop(senders);
        if drains {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    zone.drain();
                    thread::yield_now();
                }
            });
        }
        for worker in workers {
            worker.join().expect("a worker found a fault");
        }
        over.store(true, Ordering::Relaxed);
    });
}

fn worker(
    zone: &RawZone,
    me: u64,
    next: mpsc::SyncSender<(Item, u64)>,
    inbox: mpsc::Receiver<(Item, u64)>,
) {
    pin(me);
    let mut dice = Dice::new(me + 1);
    let take_in = |(item, signature): (Item, u64)| {
        assert_eq!(
            read(item.0),
            signature,
            "another thread wrote into a live item"
        );
        write(item.0, u64::MAX);
        free(zone, item.0);
    };
    for round in 0..ROUNDS as u64 {
        let item = zone.alloc().expect("there is no limit");
        let signature = me << 32 | round;
        write(item, signature);
        let mut letter = Some((Item(item), signature));
        while let Some(unsent) = letter.take() {
            match next.try_send(unsent) {
                Ok(()) => {}
                // The neighbour may be waiting for us: read before trying again.
                Err(mpsc::TrySendError::Full(unsent)) => {
                    letter = Some(unsent);
                    match inbox.try_recv() {
                        Ok(received) => take_in(received),
                        Err(_) => thread::yield_now(),
                    }
                }
                Err(mpsc::TrySendError::Disconnected(_)) => unreachable!("it reads to the end"),
            }
        }
        if dice.below(3) > 0 {
            inbox.try_iter().take(dice.below(8)).for_each(take_in);
        }
    }
    // The one after us reads until we hang up, and we until the one before us does.
    drop(next);
    inbox.into_iter().for_each(take_in);
}

#[test]
fn items_are_freed_by_other_threads() {
    // Breaks when a bucket is seen by two CPUs, or one is dropped with items in it.
    for threads in [2, 5, 8] {
        let zone = builder(256, 256).bucket_items(16).build().unwrap();
        ring(&zone, threads, false);
        assert_balance(&zone);
    }
}

#[test]
fn items_are_freed_by_other_threads_during_reclaim() {
    // Breaks when a drain gives back a slab that has a live item, or races an allocation.
    let zone = builder(2048, 2048).bucket_items(8).build().unwrap();
    ring(&zone, 4, true);
    assert_balance(&zone);
}

/// Counts the items that threads hold, so that a thread allocates only if one item must be free.
struct Tokens {
    held: AtomicUsize,
    max: usize,
}

impl Tokens {
    fn take(&self) -> bool {
        let step = |held| (held < self.max).then_some(held + 1);
        self.held
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, step)
            .is_ok()
    }

    fn give(&self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Threads that together never hold more than `max` items must never be refused one.
fn never_refused(zone: &RawZone, max: usize, threads: u64) {
    let tokens = Tokens {
        held: AtomicUsize::new(0),
        max,
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let hoarders: Vec<_> = (0..threads)
            .map(|me| {
                let tokens = &tokens;
                scope.spawn(move || hoard(zone, tokens, me))
            })
            .collect();
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                zone.drain();
                thread::sleep(std::time::Duration::from_micros(200));
            }
        });
        let results: Vec<_> = hoarders.into_iter().map(|hoarder| hoarder.join()).collect();
        over.store(true, Ordering::Relaxed);
        results
            .into_iter()
            .for_each(|result| result.expect("a hoarder found a fault"));
    });
    assert_balance(zone);
}

fn hoard(zone: &RawZone, tokens: &Tokens, me: u64) {
    pin(me);
    let mut dice = Dice::new(me + 99);
    let mut mine = Vec::new();
    for round in 0..ROUNDS as u64 {
        // Without it each thread would be through before the next one begins.
        if dice.below(8) == 0 {
            thread::yield_now();
        }
        // Mostly taking keeps nearly all items live: the free ones are few and must be found.
        if dice.below(4) > 0 && tokens.take() {
            let item = match zone.alloc() {
                Ok(item) => item,
                Err(error) => panic!("refused ({error:?}) while an item was free somewhere"),
            };
            write(item, me << 32 | round);
            mine.push((item, me << 32 | round));
        } else if !mine.is_empty() {
            let (item, signature) = mine.swap_remove(dice.below(mine.len()));
            assert_eq!(read(item), signature);
            free(zone, item);
            tokens.give();
        }
    }
    for (item, _) in mine {
        free(zone, item);
        tokens.give();
    }
}

#[test]
fn no_item_is_stranded_when_the_reservation_is_full() {
    // Breaks when an allocation fails with NoMemory while another CPU caches an item, the depot
    // holds one, or a drain has one in its hands.
    let zone = builder(2048, 2048)
        .bucket_items(4)
        .reserve_bytes(64 << 10)
        .build()
        .unwrap();
    never_refused(&zone, 32, 6);
    if thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        let shortages = zone.stats().shortages;
        assert!(shortages > 0, "the test never ran the reservation dry");
    }
    assert_eq!(zone.stats().failures, 0);
}

#[test]
fn no_allocation_fails_below_the_limit() {
    // Breaks when the count of live items lags behind the frees.
    let zone = builder(256, 256).limit(20).build().unwrap();
    never_refused(&zone, 20, 6);
    assert_eq!(zone.stats().failures, 0);
}

#[test]
fn live_items_never_exceed_the_limit() {
    // Breaks when two threads take the last item that the limit allows; and when a change of the
    // limit miscounts the items that are live at that moment.
    let zone = zone(64, 64);
    let held = AtomicUsize::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let greedy: Vec<_> = (0..6u64)
            .map(|me| {
                let (zone, held) = (&zone, &held);
                scope.spawn(move || {
                    pin(me);
                    let mut dice = Dice::new(me + 7);
                    let mut mine = Vec::new();
                    for _ in 0..ROUNDS {
                        if dice.below(3) > 0 {
                            match zone.alloc() {
                                Ok(item) => mine.push(item),
                                Err(error) => assert_eq!(error, AllocError::Limit),
                            }
                        } else if let Some(item) = mine.pop() {
                            free(zone, item);
                        }
                        if mine.len() > 40 {
                            mine.drain(..).for_each(|item| free(zone, item));
                        }
                    }
                    held.fetch_add(mine.len(), Ordering::Relaxed);
                    mine.into_iter().for_each(|item| free(zone, item));
                })
            })
            .collect();
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                zone.set_limit(Some(30));
                // From here on no allocation goes above 30, and the count above it falls.
                thread::yield_now();
                zone.set_limit(None);
                thread::yield_now();
            }
        });
        greedy
            .into_iter()
            .for_each(|thread| thread.join().expect("a thread found a fault"));
        over.store(true, Ordering::Relaxed);
    });
    assert_balance(&zone);
}

#[test]
fn at_most_the_limit_are_live_at_once() {
    // Breaks when the check and the count of an allocation are not one step.
    let zone = builder(64, 64).limit(10).build().unwrap();
    let held = AtomicUsize::new(0);
    thread::scope(|scope| {
        for me in 0..6 {
            let (zone, held) = (&zone, &held);
            scope.spawn(move || {
                pin(me);
                for _ in 0..ROUNDS {
                    let Ok(item) = zone.alloc() else { continue };
                    assert!(
                        held.fetch_add(1, Ordering::SeqCst) < 10,
                        "an eleventh item is live"
                    );
                    held.fetch_sub(1, Ordering::SeqCst);
                    free(zone, item);
                }
            });
        }
    });
    assert_balance(&zone);
}

#[test]
fn the_last_free_may_race_the_last_handle() {
    // Breaks (as a crash, at best) when the zone goes while a free is still inside.
    for _ in 0..if cfg!(miri) { 5 } else { 500 } {
        let zone = builder(64, 64)
            .bucket_items(1)
            .reserve_bytes(64 << 10)
            .build()
            .unwrap();
        let back = zone.as_ref_ptr();
        let items: Vec<_> = (0..9).map(|_| Item(zone.alloc().unwrap())).collect();
        thread::scope(|scope| {
            scope.spawn(move || {
                for item in items {
                    // SAFETY: it is live and of this zone, and keeps it until it is freed.
                    unsafe { back.free(item.0) };
                }
            });
            scope.spawn(move || drop(zone));
        });
    }
}
