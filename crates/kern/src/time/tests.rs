use super::*;

#[test]
fn arithmetic_on_times_saturates() {
    // Breaks if a deadline made from a huge number wraps round to the past and fires at once.
    assert_eq!(Time::MAX + Duration::from_nanos(1), Time::MAX);
    assert_eq!(Time::from_secs(1) + Duration::MAX, Time::MAX);
    assert_eq!(Time::ZERO - Duration::from_nanos(1), Time::ZERO);
    assert_eq!(Time::from_secs(1) - Duration::MAX, Time::ZERO);
    assert_eq!(Time::ZERO - Time::MAX, Duration::ZERO);
    assert_eq!(Time::from_secs(u64::MAX), Time::MAX);
    assert_eq!(Time::from_millis(u64::MAX), Time::MAX);
    assert_eq!(Time::from_micros(u64::MAX), Time::MAX);
}

#[test]
fn time_units_agree() {
    // Breaks if one constructor has a wrong factor.
    assert_eq!(Time::from_secs(3), Time::from_millis(3_000));
    assert_eq!(Time::from_millis(3), Time::from_micros(3_000));
    assert_eq!(Time::from_micros(3), Time::from_nanos(3_000));
    assert_eq!(Time::from_nanos(2_999_999).as_millis(), 2);
    assert_eq!(Time::from_nanos(2_999_999).as_micros(), 2_999);
    let mut time = Time::ZERO;
    time += Duration::from_millis(7);
    assert_eq!(time.as_nanos(), 7_000_000);
    assert_eq!(format!("{time:?}"), "0.007000000s");
}

#[test]
fn the_earliest_of_some_times_is_the_least_that_is_there() {
    // Breaks if a time that is not there counts, or none is found among some.
    let at = |secs| Some(Time::from_secs(secs));
    assert_eq!(Time::earliest([None, at(3), None, at(2)]), at(2));
    assert_eq!(Time::earliest([at(0), None]), at(0));
    assert_eq!(Time::earliest([None, Some(Time::MAX)]), None);
    assert_eq!(Time::earliest([]), None);
}
