//! Plans: breaks when a plan fails other calls than it names.

use super::{FailPlan, Point, parse};

fn failing(plan: FailPlan, calls: u64) -> Vec<u64> {
    let point = Point::default();
    point.set(plan);
    (1..=calls).filter(|_| point.fails()).collect()
}

#[test]
fn a_plan_fails_the_calls_that_it_names() {
    // Breaks when counting begins at 0, or "for ever" ends, or Off is not off.
    let nth = |n, forever| FailPlan::Nth { n, forever };
    assert_eq!(failing(nth(3, false), 6), [3]);
    assert_eq!(failing(nth(4, true), 6), [4, 5, 6]);
    assert!(failing(FailPlan::Off, 100).is_empty());
    let seeded = FailPlan::Seeded {
        seed: 7,
        one_in: 10,
    };
    let fails = failing(seeded, 10_000).len();
    assert!((900..1100).contains(&fails), "{fails} of 10000");
    assert_eq!(failing(seeded, 1000), failing(seeded, 1000));
}

#[test]
fn fail_plans_are_parsed_from_the_environment() {
    // Breaks when a name with a colon, a plus, or rubbish in the list is misread.
    let plans = parse("mbuf:3,a:b:4+,rubbish,mbuf:x");
    let plan = |n, forever| FailPlan::Nth { n, forever };
    let expected = [("mbuf", plan(3, false)), ("a:b", plan(4, true))];
    let expected: Vec<_> = expected.map(|(z, p)| (z.to_owned(), p)).into();
    assert_eq!(plans, expected);
}
