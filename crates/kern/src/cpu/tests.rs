use super::*;

#[test]
fn current_is_a_valid_index() {
    // Breaks if a machine with gaps in its CPU ids indexes past a per-CPU table.
    assert!(count() >= 1);
    assert!(current() < count());
    assert_eq!(fold(0, 1), 0);
    assert_eq!(fold(5, 6), 5);
    assert_eq!(fold(6, 6), 0);
    assert_eq!(fold(usize::MAX, 1), 0);
}
