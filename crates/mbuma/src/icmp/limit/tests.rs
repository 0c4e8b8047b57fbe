use super::*;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Breaks if more go out than the rate and one burst allow, or fewer than the rate.
#[test]
fn the_limit_allows_its_rate_and_one_burst() {
    for rate in [1, 10, 1000, 1_000_000] {
        let limiter = Limiter::new(rate);
        let step = Duration::from_nanos(1_000_000_000 / u64::from(rate) / 2);
        let mut now = Time::from_secs(1);
        let mut admitted = 0;
        for _ in 0..2 * rate {
            admitted += u32::from(limiter.admit(now));
            now += step;
        }
        assert!(
            (rate..=rate + rate / 10 + 1).contains(&admitted),
            "{admitted} of {rate}"
        );
    }
}

/// Breaks if a long silence permits a flood after it.
#[test]
fn silence_saves_one_burst() {
    let limiter = Limiter::new(1000);
    let now = Time::from_secs(3600);
    let burst = (0..10_000).filter(|_| limiter.admit(now)).count();
    assert_eq!(burst, 100);
}

/// Breaks if a rate of zero lets anything through.
#[test]
fn zero_is_never() {
    let limiter = Limiter::new(0);
    assert!((0..100).all(|s| !limiter.admit(Time::from_secs(s))));
}

/// Breaks if errors to one destination use up the share of another, one destination gets more than its share, or an
/// attacker can predict the number that it gets.
#[test]
fn i4_each_destination_has_its_limit() {
    let limits = KeyedLimits::new(100, 512, &mut Random::from_seed(1));
    let dst = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    let burst = |last, from| {
        let time = |ms| Time::from_secs(from) + Duration::from_millis(ms);
        (0..1000)
            .filter(|ms| limits.admit(&dst(last).octets(), time(*ms)))
            .count()
    };
    let counts: Vec<usize> = (1..=20).map(|second| burst(1, second * 2)).collect();
    assert!(
        counts.iter().all(|count| (60..=180).contains(count)),
        "{counts:?}"
    );
    assert!(counts.iter().any(|count| *count != counts[0]), "{counts:?}");
    assert!(limits.admit(&dst(2).octets(), Time::from_secs(40)));
}
