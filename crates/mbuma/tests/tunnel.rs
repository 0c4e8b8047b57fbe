//! Tunnels: the example as it is, and the routes of an interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mbuma::device::tunnel;
use mbuma::{Error, RouteKind, Runtime};

#[path = "../examples/tunnel.rs"]
mod example;

/// Breaks if the example loses bytes, or a packet that is given wakes no worker.
#[test]
fn two_stacks_joined_by_a_channel() {
    example::main().expect("all bytes come back");
}

/// Breaks if the builder leaves a version's default route out, or takes a router outside the interface's networks.
#[test]
fn an_interface_has_a_default_route_of_each_version() {
    let runtime = Runtime::with_workers(1).expect("a thread");
    let stack = runtime.stack().build().expect("address space");
    let tunnel = || tunnel::pair(stack.pool(), 1420).expect("descriptors").0;
    let addr6 = || "2001:db8::1/64".parse().expect("an address");
    let stray: IpAddr = "2001:db8:1::1".parse().expect("an address");
    let refused = stack.add_interface(tunnel()).addr6(addr6());
    let refused = refused.default_route(stray).up();
    assert!(matches!(refused, Err(Error::Gateway(ip)) if ip == stray));

    let (router, router6) = (Ipv4Addr::new(10, 0, 0, 254), "fe80::1");
    let router6: Ipv6Addr = router6.parse().expect("an address");
    let builder = stack.add_interface(tunnel()).addr6(addr6());
    let builder = builder.addr("10.0.0.1/24".parse().expect("an address"));
    let builder = builder.default_route(router.into());
    let index = builder.default_route(router6.into()).up();
    let index = index.expect("both routers are on the link");
    let (kind, kind6) = (
        RouteKind::Gateway(index, router),
        RouteKind::Gateway(index, router6),
    );
    assert!(stack.routes().iter().any(|route| route.kind == kind));
    assert!(stack.routes6().iter().any(|route| route.kind == kind6));
}
