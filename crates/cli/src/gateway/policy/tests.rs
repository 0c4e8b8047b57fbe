use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use mbuma::IcmpError;
use mbuma::socket::Refusal;

use super::{DNS_PORT, Denial, Destination, Policy, is_out_of_descriptors, unreach};
use crate::guest::{Addressing, GuestEnd};

fn policy(host_loopback: bool) -> Policy {
    Policy::new(
        &GuestEnd::new("tap0", [2; 6], &Addressing::DEFAULT),
        host_loopback,
    )
}

fn asked(text: &str) -> SocketAddrV4 {
    text.parse().expect("an address of the test")
}

#[test]
fn the_hosts_loopback_is_out_of_reach_unless_asked_for() {
    // Breaks when a guest reaches what listens on the host's 127.0.0.1 without --host-loopback.
    let gateway = asked("10.0.2.2:5432");
    assert_eq!(policy(false).decide(gateway), Err(Denial::PortClosed));
    let there = Destination::Host("127.0.0.1:5432".parse().expect("an address"));
    assert_eq!(policy(true).decide(gateway), Ok(there));
    for text in [
        "127.0.0.1:80",
        "127.255.255.254:1",
        "0.0.0.0:80",
        "0.1.2.3:80",
    ] {
        assert_eq!(
            policy(true).decide(asked(text)),
            Err(Denial::Prohibited),
            "{text}"
        );
    }
}

#[test]
fn what_is_nobodys_is_prohibited() {
    // Breaks when a guest reaches a cloud's metadata service, or makes the host send broadcasts.
    for ip in [
        "169.254.169.254",
        "169.254.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
    ] {
        let there = asked(&format!("{ip}:80"));
        assert_eq!(policy(true).decide(there), Err(Denial::Prohibited), "{ip}");
        assert_eq!(
            policy(true).decide_host(*there.ip()),
            Err(Denial::Prohibited),
            "{ip}"
        );
    }
}

#[test]
fn names_are_asked_at_one_port_of_one_address() {
    // Breaks when names stop resolving, or another port of 10.0.2.3 leads somewhere.
    let policy = policy(true);
    assert_eq!(
        policy.decide(asked("10.0.2.3:53")),
        Ok(Destination::Resolver)
    );
    assert_eq!(policy.decide(asked("10.0.2.3:54")), Err(Denial::PortClosed));
    assert_eq!(policy.decide(asked("10.0.2.4:53")), Err(Denial::NoHost));
    assert_eq!(policy.decide(asked("10.0.2.100:80")), Err(Denial::NoHost));
    assert_eq!(policy.decide(asked("10.0.2.255:80")), Err(Denial::NoHost));
}

#[test]
fn the_rest_is_the_hosts_network() {
    // Breaks when an ordinary address is changed on the way, or refused.
    for text in [
        "192.0.2.1:443",
        "10.0.3.2:80",
        "10.0.1.255:9",
        "8.8.8.8:53",
        "239.0.0.0:0",
    ] {
        let there = asked(text);
        let expected = if there.ip().is_multicast() {
            Err(Denial::Prohibited)
        } else {
            Ok(Destination::Host(there.into()))
        };
        assert_eq!(policy(false).decide(there), expected, "{text}");
    }
}

#[test]
fn clients_show_an_address_that_can_be_answered() {
    // Breaks when the guest sends its answer to itself, because the client's address is 127.0.0.1.
    let shown = |text: &str| policy(false).shown_address(text.parse().expect("an address"));
    assert_eq!(shown("192.0.2.7:1000"), Some(asked("192.0.2.7:1000")));
    for text in [
        "127.0.0.1:1000",
        "10.0.2.100:1000",
        "10.0.2.2:1",
        "[2001:db8::1]:1000",
    ] {
        assert_eq!(shown(text), None, "{text}");
    }
    assert_eq!(policy(false).gateway(), Ipv4Addr::new(10, 0, 2, 2));
}

#[test]
fn errors_of_the_host_keep_their_meaning() {
    // Breaks when a guest is told "refused" about a host that is not there, or the other way round.
    let told = |errno| unreach(&io::Error::from_raw_os_error(errno));
    assert_eq!(told(libc::ENETUNREACH), Some(IcmpError::Net));
    assert_eq!(told(libc::EHOSTUNREACH), Some(IcmpError::Host));
    assert_eq!(told(libc::ETIMEDOUT), Some(IcmpError::Host));
    assert_eq!(told(libc::EPERM), Some(IcmpError::AdminProhibited));
    assert_eq!(told(libc::ECONNREFUSED), None);
    assert_eq!(told(libc::EMFILE), None);
    let out = |errno| is_out_of_descriptors(&io::Error::from_raw_os_error(errno));
    assert!(out(libc::EMFILE) && out(libc::ENFILE) && !out(libc::ECONNREFUSED));
    assert_eq!(Denial::PortClosed.refusal(), Refusal::Reset);
    assert_eq!(
        Denial::NoHost.refusal(),
        Refusal::Unreachable(IcmpError::Host)
    );
    assert_eq!(Denial::PortClosed.unreach(), IcmpError::Port);
}

#[test]
fn names_can_be_switched_off_and_sources_chosen() {
    // Breaks when `--disable-dns` still tells the host's names, or a connection to the host itself gets a source that cannot
    // reach it.
    let source = Ipv4Addr::new(192, 0, 2, 7);
    let policy = policy(true).without_names().with_source(Some(source));
    let dns = SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, 3), DNS_PORT);
    assert_eq!(policy.decide(dns), Err(Denial::PortClosed));
    let to = |addr: &str| policy.source_for(addr.parse().expect("an address"));
    assert_eq!(to("198.51.100.2:80"), Some(source));
    assert_eq!(to("127.0.0.1:80"), None);
    assert_eq!(to("[2001:db8::1]:80"), None);
}

#[test]
fn a_guest_with_the_hosts_address_reaches_the_hosts_neighbours() {
    // Breaks when pasta's guest is refused its LAN, or its gateway, or reaches the host's loopback without being told to.
    let network = Addressing {
        guest: Ipv4Addr::new(192, 0, 2, 7),
        gateway: Ipv4Addr::new(192, 0, 2, 1),
        dns: Ipv4Addr::new(169, 254, 1, 1),
        prefix_len: 24,
        routed: true,
    };
    let ends = GuestEnd::new("eth0", [2; 6], &network);
    let (mapped, host) = (Ipv4Addr::new(169, 254, 1, 2), network.guest);
    let policy = Policy::new(&ends, false).with_mapping(Some((mapped, host)));
    let decided = |ip: Ipv4Addr, port| policy.decide(SocketAddrV4::new(ip, port));
    let itself = |ip: Ipv4Addr, port: u16| Ok(Destination::Host((ip, port).into()));
    let neighbour = Ipv4Addr::new(192, 0, 2, 9);
    assert_eq!(decided(neighbour, 80), itself(neighbour, 80));
    assert_eq!(decided(network.gateway, 80), itself(network.gateway, 80));
    assert_eq!(decided(mapped, 80), itself(host, 80));
    assert_eq!(decided(network.dns, DNS_PORT), Ok(Destination::Resolver));
    let metadata = Ipv4Addr::new(169, 254, 169, 254);
    assert_eq!(decided(metadata, 80), Err(Denial::Prohibited));
    let open = Policy::new(&ends, true);
    let gateway = SocketAddrV4::new(network.gateway, 80);
    assert_eq!(open.decide(gateway), itself(Ipv4Addr::LOCALHOST, 80));
}
