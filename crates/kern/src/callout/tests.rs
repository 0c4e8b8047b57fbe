use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The specification of a wheel, by a sorted map: deadline and number of scheduling to token.
struct Model {
    tick: u64,
    pending: BTreeMap<(Time, u64), u64>,
}

impl Model {
    fn advance(&mut self, now: Time) -> Vec<u64> {
        self.tick = self.tick.max(tick_reached(now));
        let mut fired = Vec::new();
        while let Some(first) = self.pending.first_entry()
            && tick_of_deadline(first.key().0) <= self.tick
        {
            fired.push(first.remove());
        }
        fired
    }

    /// The instant at which the next timer fires.
    fn next(&self) -> Option<Time> {
        let ((at, _), _) = self.pending.first_key_value()?;
        Some(tick_start(tick_of_deadline(*at).max(self.tick)))
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Schedules a timer at this distance from now, in the future or the past.
    Schedule { ahead: bool, by: u64 },
    /// Cancels one of the timers made so far, alive or not.
    Cancel(prop::sample::Index),
    /// Advances by nanoseconds.
    Advance(u64),
    /// Advances to the wheel's own next deadline.
    Next,
}

/// Distances of all sizes, so that every level is visited: nanoseconds up to 50 days and more.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..3_000_000_u64,
        0..200_000_000_u64,
        (0..5_000_u64).prop_map(|ms| ms * TICK_NS),
        (0..100_u64).prop_map(|s| s * 1_000_000_000),
        (0..60_u32, any::<u64>()).prop_map(|(bits, n)| n >> (63 - bits)),
        Just(50 * 86_400 * 1_000_000_000_u64),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (prop::bool::weighted(0.9), distance())
            .prop_map(|(ahead, by)| Step::Schedule { ahead, by }),
        2 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => distance().prop_map(Step::Advance),
        3 => Just(Step::Next),
    ]
}

/// Instants from which a carry runs through many digits, or where narrower clocks would wrap.
fn start() -> impl Strategy<Value = Time> {
    let near = |at: u64| (0..5_000_000_000_u64).prop_map(move |before| at.saturating_sub(before));
    prop_oneof![
        Just(0),
        any::<u64>(),
        near((1 << 32) * TICK_NS),
        near((1 << 31) * TICK_NS),
        near((1 << 36) * TICK_NS),
        near(1 << 32),
        near(1 << 63),
        near(u64::MAX),
    ]
    .prop_map(Time::from_nanos)
}

fn run(start: Time, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut now = start;
    let mut wheel = Callout::new(now);
    let mut model = Model {
        tick: tick_reached(now),
        pending: BTreeMap::new(),
    };
    let mut made = Vec::new();
    for step in steps {
        match step {
            Step::Schedule { ahead, by } => {
                let by = Duration::from_nanos(by);
                let at = if ahead { now + by } else { now - by };
                let token = made.len() as u64;
                let id = wheel.schedule(at, token);
                prop_assert_eq!(wheel.deadline(id), Some(at));
                made.push((id, at));
                model.pending.insert((at, token), token);
            }
            Step::Cancel(which) if !made.is_empty() => {
                let token = which.index(made.len());
                let (id, at) = made[token];
                let expected = model.pending.remove(&(at, token as u64));
                prop_assert_eq!(wheel.cancel(id), expected);
                prop_assert_eq!(wheel.deadline(id), None);
            }
            Step::Cancel(_) => {}
            Step::Advance(by) => {
                now += Duration::from_nanos(by);
                let mut fired = Vec::new();
                wheel.advance(now, &mut fired);
                prop_assert_eq!(fired, model.advance(now));
            }
            Step::Next => now = follow(&mut wheel, &mut model, now)?,
        }
        prop_assert!(wheel.is_valid());
        prop_assert_eq!(wheel.len(), model.pending.len());
        prop_assert_eq!(wheel.is_empty(), model.pending.is_empty());
        prop_assert!(wheel.next_deadline() <= model.next() || model.next().is_none());
        prop_assert_eq!(wheel.next_deadline().is_some(), model.next().is_some());
    }
    Ok(())
}

/// Advances to the wheel's deadline until a timer fires; that must not take many tries.
fn follow(
    wheel: &mut Callout<u64>,
    model: &mut Model,
    mut now: Time,
) -> Result<Time, TestCaseError> {
    let Some(expected) = model.next() else {
        prop_assert_eq!(wheel.next_deadline(), None);
        return Ok(now);
    };
    for _ in 0..=LEVELS + wheel.len() {
        let next = wheel.next_deadline().expect("something is pending");
        prop_assert!(next <= expected);
        now = now.max(next);
        let mut fired = Vec::new();
        wheel.advance(now, &mut fired);
        let model_fired = model.advance(now);
        prop_assert_eq!(&fired, &model_fired);
        if !fired.is_empty() {
            return Ok(now);
        }
        prop_assert!(
            wheel.next_deadline() > Some(next),
            "no progress at {:?}",
            next
        );
    }
    Err(TestCaseError::fail("the wheel spins"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_wheel_agrees_with_a_sorted_map(
        start in start(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        // Breaks if a timer is early, late, lost, doubled or out of order, at any level, across
        // any carry, or if the next deadline would make its owner sleep too long or spin.
        run(start, steps)?;
    }
}

#[test]
fn equal_deadlines_fire_in_order_of_scheduling() {
    // Breaks if cascading reverses lists: a seed would no longer replay.
    let mut wheel = Callout::new(Time::ZERO);
    let far = Time::from_secs(10_000);
    for token in 0..100 {
        wheel.schedule(far, token);
    }
    let mut fired = Vec::new();
    wheel.advance(far - Duration::from_secs(3_000), &mut fired);
    for token in 100..200 {
        wheel.schedule(far, token);
    }
    wheel.advance(far - Duration::from_nanos(1), &mut fired);
    assert!(fired.is_empty());
    wheel.advance(far, &mut fired);
    assert_eq!(fired, (0..200).collect::<Vec<_>>());
}

#[test]
fn fires_within_one_tick_and_never_early() {
    // Breaks if rounding goes the wrong way.
    let mut wheel = Callout::new(Time::from_nanos(999_999));
    let at = Time::from_nanos(1_000_001);
    wheel.schedule(at, ());
    let mut fired = Vec::new();
    wheel.advance(at, &mut fired);
    assert!(fired.is_empty(), "the tick of the deadline has not come");
    assert_eq!(wheel.next_deadline(), Some(Time::from_millis(2)));
    wheel.advance(Time::from_millis(2), &mut fired);
    assert_eq!(fired.len(), 1);
}

#[test]
fn a_deadline_that_passed_fires_at_the_next_advance() {
    // Breaks if the timer goes into a slot that the wheel reaches only much later.
    let mut wheel = Callout::new(Time::ZERO);
    wheel.advance(Time::from_secs(100), &mut Vec::new());
    wheel.schedule(Time::from_secs(1), "late");
    wheel.schedule(Time::from_secs(100), "now");
    assert_eq!(wheel.next_deadline(), Some(Time::from_secs(100)));
    let mut fired = Vec::new();
    wheel.advance(Time::from_secs(100), &mut fired);
    assert_eq!(fired, ["late", "now"]);
}

#[test]
fn an_old_id_does_not_cancel_a_new_timer() {
    // Breaks if places are reused without a new generation: an ended connection's id would cancel another connection's
    // retransmission.
    let mut wheel = Callout::new(Time::ZERO);
    let old = wheel.schedule(Time::from_secs(1), "old");
    assert_eq!(wheel.cancel(old), Some("old"));
    let new = wheel.schedule(Time::from_secs(1), "new");
    assert_eq!(wheel.cancel(old), None);
    assert_ne!(old, new);
    assert_eq!(wheel.cancel(new), Some("new"));
}

#[test]
fn an_advance_by_years_takes_few_steps() {
    // Breaks if an advance walks over empty ticks: 500 years have 1.6e13 of them.
    let mut wheel = Callout::new(Time::ZERO);
    let year = 365 * 86_400;
    for n in 0..500 {
        wheel.schedule(Time::from_secs(n * year), n);
    }
    let mut fired = Vec::new();
    let begun = std::time::Instant::now();
    wheel.advance(Time::MAX, &mut fired);
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(fired, (0..500).collect::<Vec<_>>());
    assert_eq!(wheel.next_deadline(), None);
}

#[test]
fn an_idle_wait_takes_one_wakeup() {
    // Breaks if the owner is woken at each level on the way to a far deadline.
    let mut wheel = Callout::new(Time::from_millis(17));
    let at = Time::from_secs(7200);
    wheel.schedule(at, ());
    assert_eq!(wheel.next_deadline(), Some(at));
    assert_eq!(format!("{wheel:?}").matches("7200.000000000s").count(), 1);
}

#[test]
fn the_end_of_time_is_a_deadline_too() {
    // Breaks if Time::MAX overflows on its way to a tick, or is a deadline that never comes and
    // makes the simulator spin.
    let mut wheel = Callout::new(Time::ZERO);
    wheel.schedule(Time::MAX, ());
    assert_eq!(wheel.next_deadline(), Some(Time::MAX));
    let mut fired = Vec::new();
    wheel.advance(Time::MAX - Duration::from_nanos(1), &mut fired);
    assert!(fired.is_empty());
    wheel.advance(Time::MAX, &mut fired);
    assert_eq!(fired.len(), 1);
}

#[test]
fn a_wheel_gives_the_memory_of_a_spike_back() {
    // Breaks when a wheel without timers keeps the room of many, or an id from before finds a timer that came after.
    let mut callout = Callout::new(Time::ZERO);
    let at = Time::from_secs(1);
    let first = callout.schedule(at, 0);
    callout.cancel(first);
    let ids: Vec<_> = (0..1000).map(|n| callout.schedule(at, n)).collect();
    let cancelled = ids.iter().filter_map(|&id| callout.cancel(id));
    assert!(cancelled.eq(0..1000));
    assert!(callout.timers.capacity() <= 64);
    let again: Vec<_> = (0..1000).map(|n| callout.schedule(at, n)).collect();
    assert!(ids.iter().all(|&id| callout.cancel(id).is_none()));
    assert!(again.iter().all(|&id| callout.deadline(id) == Some(at)));
}
