//! Tests of the id maps.

use super::*;

const CONTAINER: &str = "         0       1000          1\n         1     100000      65536\n";

#[test]
fn identity_maps_what_exists_here() {
    // Breaks when root in a container maps ids that it does not have, which the kernel refuses.
    assert_eq!(
        identity("         0          0 4294967295\n"),
        "0 0 4294967295\n"
    );
    assert_eq!(identity(CONTAINER), "0 0 1\n1 1 65536\n");
}

#[test]
fn an_ordinary_user_maps_one_id() {
    // Breaks when a user without --map-root would appear as root, or the other way round.
    assert_eq!(single(1000, false), "1000 1000 1\n");
    assert_eq!(single(1000, true), "0 1000 1\n");
}

#[test]
fn the_range_holds_the_own_group() {
    // Breaks when ping_group_range is given groups that do not exist inside (EINVAL).
    assert_eq!(range_around("0 0 4294967295\n", 0), Some(0..=4_294_967_294));
    assert_eq!(range_around("65534 65534 1\n", 65534), Some(65534..=65534));
    assert_eq!(range_around(CONTAINER, 20), Some(1..=65536));
    assert_eq!(range_around(CONTAINER, 70000), None);
    assert_eq!(range_around("garbage\n\n1 2\n", 1), None);
}

#[test]
fn a_user_has_another_number_outside() {
    // Breaks when two users who are both root of their namespaces want one directory.
    assert_eq!(outer("0 1000 1\n", 0), Some(1000));
    assert_eq!(outer("0 1000 1\n1 100000 65536\n", 3), Some(100_002));
    assert_eq!(outer("0 1000 1\n", 1), None);
    assert_eq!(outer("0 0 4294967295\n", 7), Some(7));
    assert_eq!(outer("nonsense", 0), None);
}
