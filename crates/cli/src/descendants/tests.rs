//! Tests of the search for the descendants of a process.

use super::*;

#[test]
fn a_name_cannot_pose_as_columns() {
    // Breaks when a program called ") S 1" makes mbuma signal the wrong process, or miss one.
    assert_eq!(living_parent("7 (sh) S 5 7 7 0"), Some(Pid(5)));
    assert_eq!(living_parent("7 (a) Z 1) S 5 7 7 0"), Some(Pid(5)));
    assert_eq!(living_parent("7 (sh) Z 5 7 7 0"), None);
    assert_eq!(living_parent("7 (sh"), None);
}

#[test]
fn below_finds_the_subtree_and_spares_what_was_there() {
    // Breaks when a grandchild survives COMMAND, another program's process is ended, or a child gets SIGTERM before its
    // parent.
    let pairs = [
        (2, 1),
        (3, 1),
        (10, 3),
        (11, 10),
        (12, 11),
        (20, 3),
        (21, 20),
        (30, 2),
    ];
    let parents = pairs
        .into_iter()
        .map(|(pid, parent)| (Pid(pid), Pid(parent)))
        .collect();
    let found = below(Pid(3), &[Pid(20)], &parents);
    // Parents first: if a child gets SIGTERM first, its parent may end before it gets its own SIGTERM.
    assert_eq!(found, [Pid(10), Pid(11), Pid(12)]);
    assert!(below(Pid(12), &[], &parents).is_empty());
}
