//! Breaks if sequence numbers are compared as plain integers anywhere on the circle.

use proptest::prelude::*;

use super::*;

const HALF: u32 = 1 << 31;

/// Distances where an off-by-one or a wrong sign would show, and any other.
fn distance() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0u32),
        0u32..4,
        (HALF - 2)..=(HALF + 2),
        (u32::MAX - 3)..=u32::MAX,
        any::<u32>(),
    ]
}

fn point() -> impl Strategy<Value = SeqNum> {
    distance().prop_map(SeqNum)
}

#[test]
fn comparisons_hold_around_zero_and_half() {
    // Breaks if the wrap at 2^32 or the turn at 2^31 is off by one.
    let zero = SeqNum(0);
    assert!(SeqNum(u32::MAX).before(zero) && zero.after(SeqNum(u32::MAX)));
    assert!(zero.before(SeqNum(HALF - 1)) && !SeqNum(HALF - 1).before(zero));
    assert!(!zero.before(SeqNum(HALF + 1)) && SeqNum(HALF + 1).before(zero));
    // Exactly opposite: each before the other, as the head of the file says.
    assert!(zero.before(SeqNum(HALF)) && SeqNum(HALF).before(zero));
    assert_eq!(SeqNum(HALF) - zero, i32::MIN);
}

#[test]
fn an_empty_window_holds_nothing() {
    // Breaks if in_window compares with "at or before" its end.
    let start = SeqNum(u32::MAX);
    assert!(!start.in_window(start, 0));
    assert!(start.in_window(start, 1) && !(start + 1).in_window(start, 1));
    assert!((start + 1).in_window(start, 2) && !(start - 1).in_window(start, u32::MAX));
}

proptest! {
    #[test]
    fn order_is_the_sign_of_the_shorter_way(a in point(), d in distance()) {
        // Breaks if any comparison disagrees with a 64-bit computation of the distance.
        let b = a + d;
        let signed = if d < HALF { i64::from(d) } else { i64::from(d) - (1 << 32) };
        prop_assert_eq!(i64::from(b - a), signed);
        prop_assert_eq!(b.since(a), d);
        prop_assert_eq!(b.before(a), signed < 0);
        prop_assert_eq!(a.after(b), signed < 0);
        prop_assert_eq!(b.at_or_before(a), signed <= 0);
        prop_assert_eq!(a.at_or_after(b), signed <= 0);
    }

    #[test]
    fn the_two_strict_orders_exclude_each_other(a in point(), d in distance()) {
        // Breaks if, off the exact half, a point can be both before and after another, or neither.
        let b = a + d;
        if d != 0 && d != HALF {
            prop_assert!(a.before(b) != b.before(a));
            prop_assert!(a.before(b) == b.after(a));
            prop_assert_eq!(a.min(b), b.min(a));
            prop_assert_eq!(a.max(b), b.max(a));
            prop_assert!(a.min(b).before(a.max(b)));
        }
    }

    #[test]
    fn adding_and_subtracting_cancel(a in point(), d in distance()) {
        // Breaks if addition saturates or panics at the wrap.
        let mut c = a;
        c += d;
        prop_assert_eq!(c, a + d);
        prop_assert_eq!(c - d, a);
    }

    #[test]
    fn windows_are_counted_from_their_start(start in point(), len in distance(), d in distance()) {
        // Breaks if a window that crosses the wrap loses its far part.
        prop_assert_eq!((start + d).in_window(start, len), d < len);
    }
}
