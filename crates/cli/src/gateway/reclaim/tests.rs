//! The one timer of the reclaim.

use super::*;

#[test]
fn pressure_leaves_one_timer() {
    // Breaks when a memory pressure event sets a timer beside the one of the window's end: each would then set
    // another, and there would be two ticks an interval for ever.
    let mut reclaim = PoolReclaim {
        zones: LoopReclaimer::new(Pace::default()),
        timer: None,
        pages_at_trim: 0,
        trim_again: None,
        longest_trim: Duration::ZERO,
        shortages: ShortageWatch::default(),
    };
    let mut timers = Callout::new(Time::ZERO);
    reclaim.zones.resume(Time::ZERO);
    reclaim.set_timer(&mut timers);
    let window = Time::ZERO + Pace::default().window;
    assert_eq!(timers.next_deadline(), Some(window));
    let now = Time::from_millis(10);
    reclaim.zones.press(now);
    reclaim.set_timer(&mut timers);
    assert_eq!((timers.len(), timers.next_deadline()), (1, Some(now)));
    // A deadline that comes later than the timer leaves it.
    reclaim.set_timer(&mut timers);
    assert_eq!(timers.len(), 1);
}
