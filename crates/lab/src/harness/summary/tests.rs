//! Tests of the median and the quartiles.

use super::*;

#[test]
fn quantiles_are_exact_for_few_and_many_readings() {
    // Breaks when a quantile is off by one reading, or no reading at all is taken for zero.
    assert_eq!(Summary::of([]), None);
    let one = Summary::of([4.0]).expect("one");
    assert_eq!((one.median, one.p25, one.p75, one.n), (4.0, 4.0, 4.0, 1));
    let five = Summary::of([5.0, 1.0, 4.0, 2.0, 3.0]).expect("five");
    assert_eq!((five.median, five.p25, five.p75), (3.0, 2.0, 4.0));
    let even = Summary::of([1.0, 2.0]).expect("two");
    assert_eq!(even.median, 1.5);
}
