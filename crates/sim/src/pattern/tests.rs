//! The pattern.

use super::Pattern;

#[test]
fn any_range_is_a_range_of_the_whole() {
    // Breaks when a byte depends on the range of the request.
    let p = Pattern::new(9);
    let mut whole = [0; 200];
    p.fill(1000, &mut whole);
    for from in 0..20 {
        for len in 0..40 {
            let mut part = vec![0; len];
            p.fill(1000 + from as u64, &mut part);
            assert_eq!(part, whole[from..from + len]);
        }
    }
}

#[test]
fn a_moved_byte_is_seen() {
    // Breaks when the pattern repeats itself nearby: a skipped or doubled byte would go unnoticed.
    let p = Pattern::new(3);
    let mut bytes = vec![0; 4096];
    p.fill(0, &mut bytes);
    assert_eq!(p.mismatch(0, &bytes), None);
    for shift in 1..32 {
        assert!(
            p.mismatch(shift, &bytes).is_some_and(|at| at < shift + 8),
            "shift {shift}"
        );
    }
    bytes[700] ^= 1;
    assert_eq!(p.mismatch(0, &bytes), Some(700));
}
