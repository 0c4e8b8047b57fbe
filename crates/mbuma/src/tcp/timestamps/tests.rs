//! Tests of timestamps: the echo rule, PAWS and its 24 days.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn ts(value: u32) -> Timestamps {
    Timestamps { value, echo: 0 }
}

/// A clock that has seen `value` in the peer's SYN.
fn begun(value: u32, now: Time) -> TimestampClock {
    let mut clock = TimestampClock::new(true).with_offset(77);
    clock.begin(Some(ts(value)), SeqNum(0), now);
    clock
}

#[test]
fn a_delayed_acknowledgement_echoes_the_earliest_segment() {
    // Breaks if a segment beyond the last acknowledgement sent sets the value to echo: the peer would take the delay
    // for no part of the round trip (RFC 7323 4.3, the fault of BSD's RCV.NXT).
    let now = Time::from_secs(9);
    let mut clock = begun(100, now);
    let last_ack_sent = SeqNum(1000);
    clock.note(ts(101), SeqNum(1000), last_ack_sent, now);
    clock.note(ts(102), SeqNum(2000), last_ack_sent, now);
    assert_eq!(clock.option(now, true), Some((clock.value(now), 101)));
    clock.note(ts(103), SeqNum(500), last_ack_sent, now);
    assert_eq!(clock.recent(), Some(103));
    assert_eq!(clock.option(now, false), Some((clock.value(now), 0)));
}

#[test]
fn a_peer_without_timestamps_gets_none() {
    // Breaks if timestamps go to a peer that did not offer them, or come from a stack that is configured without.
    let now = Time::from_secs(9);
    let mut refused = TimestampClock::new(true);
    refused.begin(None, SeqNum(0), now);
    let mut off = TimestampClock::new(false);
    off.begin(Some(ts(5)), SeqNum(0), now);
    for clock in [refused, off] {
        assert_eq!((clock.option(now, true), clock.recent()), (None, None));
        assert_eq!(clock.echoed_ms(ts(5), now), None);
    }
}

#[test]
fn a_value_is_believed_for_24_days() {
    // Breaks if a connection that was idle for longer than half a turn of its peer's clock drops all later segments
    // (RFC 7323 5.5).
    let day = Duration::from_secs(86_400);
    let start = Time::from_secs(9);
    let clock = begun(100, start);
    assert!(clock.is_too_old(ts(99), start + 23 * day));
    assert!(!clock.is_too_old(ts(99), start + 25 * day));
    let mut clock = clock;
    clock.note(ts(99), SeqNum(0), SeqNum(0), start + 25 * day);
    assert!(clock.is_too_old(ts(98), start + 26 * day));
}

#[test]
fn what_was_never_sent_gives_no_round_trip() {
    // Breaks if a peer that echoes a value from the future has its round trip taken for 49 days.
    let sent = Time::from_secs(9);
    let clock = begun(100, sent);
    let echo = |echo| Timestamps { value: 0, echo };
    let now = sent + Duration::from_millis(30);
    let echoed_ms = |value| clock.echoed_ms(echo(value), now);
    assert_eq!(echoed_ms(clock.value(sent)), Some(sent.as_millis()));
    assert_eq!(echoed_ms(clock.value(now) + 1), None);
}

proptest! {
    /// Breaks if the order is wrong where the peer's clock, or ours, wraps.
    #[test]
    fn order_is_modular(at: u32, ahead in 1..1_u32 << 31, offset: u32, ms in 0..u64::MAX / 2_000_000) {
        let now = Time::from_millis(ms);
        let clock = begun(at, now);
        prop_assert!(!clock.is_too_old(ts(at), now));
        prop_assert!(!clock.is_too_old(ts(at.wrapping_add(ahead)), now));
        prop_assert!(clock.is_too_old(ts(at.wrapping_sub(ahead)), now));
        let ours = TimestampClock::new(true).with_offset(offset);
        let later = ours.value(now + Duration::from_millis(ahead.into()));
        prop_assert_eq!(later.wrapping_sub(ours.value(now)), ahead);
    }
}
