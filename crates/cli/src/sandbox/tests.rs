use super::*;

fn all_but_root() -> Isolation {
    Isolation {
        user: 65534,
        capabilities: Layer::On,
        root: Layer::Failed("denied".to_owned()),
        landlock: Layer::On,
        system_calls: Layer::On,
        ..Isolation::default()
    }
}

#[test]
fn one_of_two_layers_over_files_is_enough() {
    // Breaks when each start in a container that forbids namespaces prints a warning, or a start without any layer
    // prints none.
    let mut isolation = all_but_root();
    assert_eq!(isolation.lack(), None);
    isolation.landlock = Layer::Failed("unknown".to_owned());
    let lack = isolation.lack().expect("both failed");
    assert!(
        lack.contains("denied") && lack.contains("unknown"),
        "{lack}"
    );
}

#[test]
fn netstat_tells_each_layer() {
    // Breaks when netstat shows a missing layer as present.
    let text = all_but_root().to_string();
    assert_eq!(
        text,
        "user 65534, no capabilities, not: empty root, Landlock, few system calls"
    );
    assert!(
        Isolation::default()
            .to_string()
            .ends_with("nothing given up")
    );
}
