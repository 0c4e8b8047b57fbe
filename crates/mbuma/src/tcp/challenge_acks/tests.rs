use super::*;

#[test]
fn ten_in_a_second() {
    // Breaks if a peer gets more than ten in a second, or none in the next second, also where the milliseconds wrap.
    for start in [0, 5, (1 << 24) - 300, 1 << 32] {
        let at = |ms: u64| Time::from_millis(start + ms);
        let mut acks = ChallengeAcks::new(at(0));
        let sent = (0..999_u64).filter(|ms| acks.take_one(at(*ms))).count();
        assert_eq!(sent, 10);
        assert!(acks.take_one(at(1000)));
        let sent = (1000..1999).filter(|ms| acks.take_one(at(*ms))).count();
        assert_eq!(sent, 9);
    }
}
