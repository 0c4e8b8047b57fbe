use super::*;

#[test]
fn monotonic_clock_starts_at_zero_and_moves() {
    // Breaks if the epoch is not the creation, or if the clock stands still.
    let clock = MonotonicClock::new();
    let first = clock.now();
    std::thread::sleep(Duration::from_millis(2));
    let second = clock.now();
    assert!(second - first >= Duration::from_millis(2));
    assert!(first < Time::from_secs(60));
}

#[test]
fn virtual_clock_moves_only_by_hand() {
    // Breaks if virtual time leaks in from the machine, or if advance wraps at the end of time.
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(Time::from_secs(5)));
    assert_eq!(clock.now(), Time::from_secs(5));
    let clock = Arc::new(VirtualClock::new(Time::from_secs(5)));
    clock.advance(Duration::from_millis(1));
    assert_eq!(Clock::now(&clock), Time::from_millis(5_001));
    clock.set(Time::from_secs(6));
    clock.set(Time::from_secs(6));
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), Time::MAX);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "set back")]
fn virtual_clock_refuses_to_go_back() {
    // Breaks if a simulator that orders its events wrongly goes unnoticed.
    let clock = VirtualClock::new(Time::from_secs(5));
    clock.set(Time::from_secs(4));
}
