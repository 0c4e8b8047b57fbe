//! Tests of cookies as values.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::inet::Pair;

/// Our own window scale.
const SCALE: u8 = 7;

fn ends(port: u16) -> Ends {
    Ends::V4(Pair {
        local: Ipv4Addr::new(192, 0, 2, 1),
        peer: Ipv4Addr::new(192, 0, 2, 2),
        local_port: 80,
        peer_port: port,
    })
}

fn cookies() -> Cookies {
    Cookies::new(&mut Random::from_seed(1))
}

fn offer() -> impl Strategy<Value = SynOptions> {
    let mss = prop::option::of(536..=u16::MAX);
    let window_scale = prop::option::of(0..=14_u8);
    (mss, window_scale, any::<bool>()).prop_map(|(mss, window_scale, sack_permitted)| SynOptions {
        mss,
        window_scale,
        sack_permitted,
    })
}

proptest! {
    /// Breaks if a cookie does not encode the options of the SYN, or encodes more than the peer offered.
    #[test]
    fn a_cookie_says_what_was_offered(
        offer in offer(),
        irs: u32,
        port: u16,
        at in 1..1_000_000_000_u64,
        later in 0..SLOT,
    ) {
        let (cookies, irs) = (cookies(), SeqNum(irs));
        let cookie = cookies.make(&ends(port), irs, offer, SCALE, Time::from_secs(at));
        let then = Time::from_secs(at + later);
        prop_assert!(cookies.are_out(then));
        let found = cookies.open(&ends(port), irs, cookie, SCALE, then).expect("it is ours").syn;
        prop_assert_eq!(found.window_scale, offer.window_scale);
        prop_assert_eq!(found.sack_permitted, offer.sack_permitted);
        let (told, meant) = (found.mss.expect("always"), offer.mss.unwrap_or(536));
        prop_assert!(told <= meant);
        let next = MSSES.iter().find(|&&m| m > told);
        prop_assert!(next.is_none_or(|&next| next > meant));
    }

    /// Breaks if a cookie is valid for another connection, another SYN, or with a bit changed.
    #[test]
    fn a_cookie_is_good_for_one_connection(
        offer in offer(),
        irs: u32,
        port in 1..u16::MAX,
        bit in 0..32_u32,
    ) {
        let (cookies, irs, now) = (cookies(), SeqNum(irs), Time::from_secs(1000));
        let cookie = cookies.make(&ends(port), irs, offer, SCALE, now);
        let open_with = |scale, port, irs, cookie| cookies.open(&ends(port), irs, cookie, scale, now).is_some();
        let open = |port, irs, cookie| open_with(SCALE, port, irs, cookie);
        prop_assert!(open(port, irs, cookie));
        prop_assert!(!open_with(SCALE - 1, port, irs, cookie), "it was sent with another scale");
        prop_assert!(!open(port + 1, irs, cookie));
        prop_assert!(!open(port, irs + 1, cookie));
        prop_assert!(!open(port, irs, SeqNum(cookie.0 ^ 1 << bit)));
    }
}

#[test]
fn a_cookie_grows_old() {
    // Breaks if an old cookie is valid for ever, or if guesses are checked although no cookie was sent.
    let (cookies, offer) = (cookies(), SynOptions::default());
    let at = Time::from_secs(10 * SLOT);
    assert!(!cookies.are_out(at));
    let cookie = cookies.make(&ends(1), SeqNum(7), offer, SCALE, at);
    for (later, good) in [
        (0, true),
        (SLOT, true),
        (2 * SLOT - 1, true),
        (2 * SLOT, false),
        (3 * SLOT, false),
    ] {
        let then = Time::from_secs(10 * SLOT + later);
        let opened = cookies.open(&ends(1), SeqNum(7), cookie, SCALE, then);
        assert_eq!(opened.is_some(), good, "{later} s");
        assert_eq!(cookies.are_out(then), good, "{later} s");
    }
}

#[test]
fn a_cookie_is_good_once() {
    // Breaks if a cookie is accepted a second time while it is valid, also where threads disagree about the slot, or if
    // accepted cookies are remembered for longer, or without bound.
    let cookies = cookies();
    let opened = |port, at| {
        let now = Time::from_secs(at);
        let cookie = cookies.make(&ends(port), SeqNum(7), SynOptions::default(), SCALE, now);
        cookies
            .open(&ends(port), SeqNum(7), cookie, SCALE, now)
            .expect("ours")
    };
    let late = 2 * SLOT - 1;
    let [first, second, third] = [1, 2, 3].map(|port| opened(port, late));
    for (cookie, at, taken) in [
        (first, late, true),
        (first, late, false),
        (first, late + 1, false),
        (second, late + 1, true),
        // By a thread whose batch began a moment before.
        (third, late, true),
        (first, late + 1, false),
        (second, late + 1, false),
        (first, late + SLOT, false),
        (second, late + SLOT, false),
    ] {
        assert_eq!(cookies.redeem(cookie, Time::from_secs(at)), taken, "{at}");
    }
    for port in 0..100_000_u32 {
        let id = u64::from(port);
        assert!(cookies.redeem(Opened { id, ..first }, Time::from_secs(10 * SLOT)));
    }
    let redeemed = cookies.redeemed.lock();
    assert_eq!(
        (redeemed.now.len(), redeemed.before.len()),
        (REDEEMED_MAX, 0)
    );
}

#[test]
fn few_guesses_are_right() {
    // Breaks if a cookie can be made by guessing less than 2^23 times.
    let (cookies, now) = (cookies(), Time::from_secs(1000));
    let guesses = (0..1_000_000_u32).map(|n| SeqNum(n.wrapping_mul(0x9E37_79B9)));
    let right = guesses.filter(|&guess| {
        cookies
            .open(&ends(1), SeqNum(7), guess, SCALE, now)
            .is_some()
    });
    assert!(right.count() <= 2);
}
