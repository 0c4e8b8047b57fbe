use super::*;
use std::sync::atomic::AtomicBool;
use std::thread;

#[test]
fn no_event_is_lost_between_threads() {
    // Breaks if counting becomes a load and a store, between which another CPU or an interruption may count. There are
    // many more threads than CPUs, so they migrate.
    static EVENTS: Counter = Counter::new();
    let threads = if cfg!(miri) { 2 } else { 16 };
    let each = if cfg!(miri) { 50 } else { 200_000 };
    thread::scope(|scope| {
        for i in 0..threads {
            scope.spawn(move || {
                for n in 0..each {
                    if i % 2 == 0 && n % 1000 == 0 {
                        thread::yield_now();
                    }
                    EVENTS.inc();
                }
            });
        }
    });
    EVENTS.add(2);
    let total = threads * each + 2;
    assert_eq!(EVENTS.get(), total);
    assert_eq!(format!("{EVENTS} {EVENTS:?}"), format!("{total} {total}"));
}

#[test]
fn a_counter_begins_at_zero_in_reused_memory() {
    // Breaks if a column is reused with old counts in it, or given to two counters.
    for round in 1..50 {
        let counters: Vec<Counter> = (0..20).map(|_| Counter::new()).collect();
        for (i, counter) in counters.iter().enumerate() {
            assert_eq!(counter.get(), 0);
            counter.add(round);
            counter.add(i as u64);
        }
        for (i, counter) in counters.iter().enumerate() {
            assert_eq!(counter.get(), round + i as u64);
        }
    }
}

#[test]
fn the_first_events_of_two_threads_both_count() {
    // Breaks if the thread that comes second to make the column loses its count.
    for _ in 0..if cfg!(miri) { 5 } else { 300 } {
        let (counter, go) = (Counter::new(), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !go.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    (0..10).for_each(|_| counter.inc());
                });
            }
            go.store(true, Ordering::Relaxed);
        });
        assert_eq!(counter.get(), 20);
    }
}
