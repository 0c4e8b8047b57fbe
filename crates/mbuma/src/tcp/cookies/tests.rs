use std::net::{Ipv4Addr, SocketAddrV4};

use kern::Random;
use proptest::prelude::*;

use super::*;

fn key(port: u16) -> Key {
    Key {
        local: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80),
        peer: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), port),
    }
}

fn cookies() -> Cookies {
    Cookies::new(KeyedHash::new(&mut Random::from_seed(1)))
}

fn offer() -> impl Strategy<Value = Offer> {
    let mss = prop::option::of(64..=u16::MAX);
    let window_scale = prop::option::of(0..=14_u8);
    (mss, window_scale).prop_map(|(mss, window_scale)| Offer { mss, window_scale })
}

proptest! {
    /// Fails if a cookie does not say what the SYN offered, or says more than it can take.
    #[test]
    fn a_cookie_says_what_was_offered(
        offer in offer(),
        irs: u32,
        port: u16,
        at in 1..1_000_000_000_u64,
        later in 0..SLOT,
    ) {
        let (cookies, irs) = (cookies(), SeqNum(irs));
        let cookie = cookies.make(&key(port), irs, offer, Time::from_secs(at));
        let then = Time::from_secs(at + later);
        prop_assert!(cookies.awaits(then));
        let found = cookies.open(&key(port), irs, cookie, then).expect("it is ours");
        prop_assert_eq!(found.window_scale, offer.window_scale);
        let (told, meant) = (found.mss.expect("always"), offer.mss.unwrap_or(536));
        prop_assert!(told <= meant);
        let next = MSSES.iter().find(|&&m| m > told);
        prop_assert!(next.is_none_or(|&next| next > meant));
    }

    /// Fails if a cookie is good for another connection, another SYN, or with a bit changed.
    #[test]
    fn a_cookie_is_good_for_one_connection(offer in offer(), irs: u32, port in 1..u16::MAX, bit in 0..32_u32) {
        let (cookies, irs, now) = (cookies(), SeqNum(irs), Time::from_secs(1000));
        let cookie = cookies.make(&key(port), irs, offer, now);
        let open = |port, irs, cookie| cookies.open(&key(port), irs, cookie, now).is_some();
        prop_assert!(open(port, irs, cookie));
        prop_assert!(!open(port + 1, irs, cookie));
        prop_assert!(!open(port, irs + 1, cookie));
        prop_assert!(!open(port, irs, SeqNum(cookie.0 ^ 1 << bit)));
    }
}

/// Fails if a cookie that somebody kept is good for ever, or if guesses are looked at when nobody was sent one.
#[test]
fn a_cookie_grows_old() {
    let (cookies, offer) = (cookies(), Offer::default());
    let at = Time::from_secs(10 * SLOT);
    assert!(!cookies.awaits(at));
    let cookie = cookies.make(&key(1), SeqNum(7), offer, at);
    for (later, good) in [
        (0, true),
        (SLOT, true),
        (2 * SLOT - 1, true),
        (2 * SLOT, false),
        (3 * SLOT, false),
    ] {
        let then = Time::from_secs(10 * SLOT + later);
        assert_eq!(
            cookies.open(&key(1), SeqNum(7), cookie, then).is_some(),
            good,
            "{later} s"
        );
        assert_eq!(cookies.awaits(then), good, "{later} s");
    }
}

/// Fails if who has seen one of our cookies, or a million, can make one.
#[test]
fn few_guesses_are_right() {
    let (cookies, now) = (cookies(), Time::from_secs(1000));
    let guesses = (0..1_000_000_u32).map(|n| SeqNum(n.wrapping_mul(0x9E37_79B9)));
    let right = guesses.filter(|&guess| cookies.open(&key(1), SeqNum(7), guess, now).is_some());
    // One in 2^24 of them is right.
    assert!(right.count() <= 2);
}
