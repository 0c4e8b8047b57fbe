use super::*;

#[test]
fn no_event_is_lost_between_threads() {
    // Breaks if counting becomes a load and a store.
    static EVENTS: Counter = Counter::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| EVENTS.inc()));
        }
    });
    EVENTS.add(2);
    assert_eq!(EVENTS.get(), 40_002);
    assert_eq!(format!("{EVENTS} {EVENTS:?}"), "40002 40002");
}
