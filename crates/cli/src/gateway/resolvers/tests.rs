use super::Resolvers;

#[test]
fn nameservers_are_found_among_other_lines() {
    // Breaks when a usual resolv.conf leaves the guest without names.
    let text = "# nameserver 192.0.2.9\nsearch example.org\n  nameserver 192.0.2.1 # first\n\
                nameserver\t2001:db8::53\nnameserver fe80::1%1\nnameserver nonsense\nnameserver\n\
                options edns0\nnameserverx 192.0.2.8\n";
    let resolvers = Resolvers::parse(text);
    let found: Vec<_> = resolvers.list.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["192.0.2.1:53", "[2001:db8::53]:53", "[fe80::1%1]:53"]
    );
}

#[test]
fn a_silent_one_is_passed_over_once() {
    // Breaks when two questions that one resolver did not answer skip a good one.
    let mut resolvers = Resolvers::parse("nameserver 192.0.2.1\nnameserver 192.0.2.2\n");
    let first = resolvers.current().expect("there are two");
    resolvers.failed(first);
    let second = resolvers.current().expect("there are two");
    assert_ne!(first, second);
    resolvers.failed(first);
    assert_eq!(resolvers.current(), Some(second));
    resolvers.failed(second);
    assert_eq!(resolvers.current(), Some(first));
}

#[test]
fn no_resolver_is_no_panic() {
    // Breaks when a host without name servers takes the gateway down with the first question.
    let mut resolvers = Resolvers::parse("");
    assert_eq!((resolvers.current(), resolvers.len()), (None, 0));
    resolvers.failed("192.0.2.1:53".parse().expect("an address"));
    assert_eq!(resolvers.current(), None);
}
