//! Tunnels: the example as it is, and the routes of an interface.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use kern::{MonotonicClock, Random};
use mbuf::Mbufq;
use mbuma::device::capture::Capture;
use mbuma::device::impair::{Impaired, LinkConfig};
use mbuma::device::{Budget, Capabilities, Device, tunnel};
use mbuma::{Error, RouteKind, Runtime};

#[path = "../examples/tunnel.rs"]
mod example;

/// Breaks if the example loses bytes, or a packet that is given wakes no worker.
#[test]
fn two_stacks_joined_by_a_channel() {
    example::main().expect("all bytes come back");
}

/// Breaks if the builder leaves a version's default route out, takes a router outside the interface's networks, or
/// prefers the second router of a version.
#[test]
fn an_interface_has_a_default_route_of_each_version() {
    let runtime = Runtime::with_workers(1).expect("a thread");
    let stack = runtime.stack().build().expect("address space");
    let tunnel = || tunnel::pair(stack.pool(), 1420).expect("descriptors").0;
    let addr6 = || "2001:db8::1/64".parse().expect("an address");
    let stray: IpAddr = "2001:db8:1::1".parse().expect("an address");
    let refused = stack.add_interface(tunnel()).addr(addr6());
    let refused = refused.default_route(stray).up();
    assert!(matches!(refused, Err(Error::Gateway(ip)) if ip == stray));

    let (router, router6) = (Ipv4Addr::new(10, 0, 0, 254), "fe80::1");
    let router6: Ipv6Addr = router6.parse().expect("an address");
    let builder = stack.add_interface(tunnel()).addr(addr6());
    let builder = builder.addr("10.0.0.1/24".parse().expect("an address"));
    let builder = builder.default_route(router.into());
    let builder = builder.default_route([10, 0, 0, 253].into());
    let index = builder.default_route(router6.into()).up();
    let index = index.expect("both routers are on the link");
    let first = |net: &str| {
        let net = net.parse().expect("a network");
        let routes = stack.routes();
        let first = routes.iter().find(|route| route.net == net);
        first.expect("a default route").kind
    };
    let by = |router| RouteKind::Gateway(index, router);
    assert_eq!(first("0.0.0.0/0"), by(router.into()));
    assert_eq!(first("::/0"), by(router6.into()));
}

/// Breaks if two interfaces of a stack share a name, by which programs and zones name them, or if a second device
/// without a name of its own gets none.
#[test]
fn each_interface_has_a_name_of_its_own() {
    let runtime = Runtime::with_workers(1).expect("a thread");
    let stack = runtime.stack().build().expect("address space");
    let tunnel = || tunnel::pair(stack.pool(), 1420).expect("descriptors").0;
    let first = stack.add_interface(tunnel()).up().expect("an interface");
    stack.add_interface(tunnel()).up().expect("another name");
    let name_of = |n: usize| stack.stats().interfaces[n].name.clone();
    let names: Vec<_> = (0..stack.stats().interfaces.len()).map(name_of).collect();
    assert!(
        names.ends_with(&["tun0".to_owned(), "tun1".to_owned()]),
        "{names:?}"
    );
    for taken in ["tun1", "lo0"] {
        let refused = stack.add_interface(tunnel()).name(taken).up();
        assert!(matches!(refused, Err(Error::NameInUse(name)) if name == taken));
    }
    stack.detach(first);
    let again = stack.add_interface(tunnel()).name("tun0").up();
    again.expect("the name is free again");
}

#[derive(Debug)]
struct OnFile(File);

impl AsFd for OnFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Device for OnFile {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1500)
    }

    fn receive(&self, _: &mut Mbufq, _: Budget) -> io::Result<bool> {
        Ok(false)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        Ok(tx.count())
    }
}

/// Breaks if the error of a descriptor that epoll refuses says only "operation not permitted", or leaves an interface.
#[test]
fn a_device_on_a_file_is_refused_with_the_reason() {
    let runtime = Runtime::with_workers(1).expect("a thread");
    let stack = runtime.stack().build().expect("address space");
    let file = OnFile(File::open("Cargo.toml").expect("a file"));
    let refused = stack.add_interface(file).up().expect_err("a file");
    assert!(refused.to_string().contains("not of a file"), "{refused}");
    assert_eq!(stack.stats().interfaces.len(), 0);
}

/// Breaks if a device with a descriptor has none in a wrapper, so that no worker takes in its packets, or the worker
/// does not wait for those that an emulated link delays.
#[test]
fn a_wrapped_device_is_an_interface_of_a_runtime() {
    let runtime = Runtime::with_workers(1).expect("a thread");
    let stack = runtime.stack().build().expect("address space");
    let (device, end) = tunnel::pair(stack.pool(), 1420).expect("descriptors");
    let clock = Arc::new(MonotonicClock::new());
    let slow = LinkConfig {
        delay: Duration::from_millis(20),
        ..LinkConfig::PERFECT
    };
    let random = Random::from_seed(1);
    let device = Impaired::new(device, [slow, slow], stack.pool(), clock.clone(), random);
    let device = Capture::new(device, "tun0", std::io::sink(), clock, Duration::ZERO);
    let builder = stack.add_interface(device.expect("a header"));
    builder
        .addr("10.0.0.1/24".parse().expect("an address"))
        .up()
        .expect("an interface");
    // A ping from 10.0.0.9, whose IP header the kernel's tools would have made.
    let ping = [
        &[
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0x66, 0xd8, 10, 0, 0, 9, 10, 0, 0, 1,
        ][..],
        &[8, 0, 0xf7, 0xfd, 0, 1, 0, 1],
    ]
    .concat();
    assert!(end.give(&ping).expect("room"));
    let answer = end.take_blocking(Some(Duration::from_secs(60)));
    let answer = answer.expect("one comes");
    assert_eq!(answer.to_vec()[20], 0, "an echo reply");
}
