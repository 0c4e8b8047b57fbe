use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use mbuma::IcmpError;
use mbuma::socket::Refusal;

use super::{DNS_PORT, Denial, Destination, Policy, is_out_of_descriptors, unreach};
use crate::addressing::{Addressing, Addressing6};
use crate::args::{IgnoredProtocols, Proto, Sources};
use crate::guest::GuestEnd;
use crate::sys::socket::InterfaceName;

fn policy(host_loopback: bool) -> Policy {
    Policy::new(&GuestEnd::usual(), host_loopback)
}

fn asked(text: &str) -> SocketAddr {
    text.parse().expect("an address of the test")
}

#[test]
fn the_hosts_loopback_is_out_of_reach_unless_asked_for() {
    // Breaks when a guest without --host-loopback reaches servers on the host's 127.0.0.1.
    let gateway = asked("10.0.2.2:5432");
    assert_eq!(
        policy(false).decide(Proto::Tcp, gateway),
        Err(Denial::PortClosed)
    );
    let there = Destination::Host("127.0.0.1:5432".parse().expect("an address"));
    assert_eq!(policy(true).decide(Proto::Tcp, gateway), Ok(there));
    for text in [
        "127.0.0.1:80",
        "127.255.255.254:1",
        "0.0.0.0:80",
        "0.1.2.3:80",
    ] {
        assert_eq!(
            policy(true).decide(Proto::Tcp, asked(text)),
            Err(Denial::Prohibited),
            "{text}"
        );
    }
}

#[test]
fn an_address_that_stands_for_the_host_leads_there_by_its_first_meaning() {
    // Breaks when a guest reaches another address of the host, a closed gateway opens by itself, or a mapped one stays
    // closed.
    let addr = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let meanings = [
        (addr("169.254.1.2"), addr("127.0.0.1")),
        (addr("169.254.1.2"), addr("192.0.2.7")),
        (addr("10.0.2.2"), addr("127.0.0.1")),
    ];
    let mapped = policy(false).with_mappings(&meanings);
    let there = Destination::Host("127.0.0.1:80".parse().expect("an address"));
    for from in ["169.254.1.2:80", "10.0.2.2:80"] {
        assert_eq!(mapped.decide(Proto::Tcp, asked(from)), Ok(there));
    }
    assert_eq!(
        mapped.decide(Proto::Tcp, asked("[fd00::2]:80")),
        Err(Denial::PortClosed)
    );
    assert_eq!(
        mapped.decide(Proto::Tcp, asked("169.254.1.3:80")),
        Err(Denial::Prohibited)
    );
}

#[test]
fn addresses_of_no_host_are_prohibited() {
    // Breaks when a guest reaches a cloud's metadata service, or makes the host send broadcasts.
    for ip in [
        "169.254.169.254",
        "100.100.100.200",
        "169.254.0.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
    ] {
        let there = asked(&format!("{ip}:80"));
        assert_eq!(
            policy(true).decide(Proto::Tcp, there),
            Err(Denial::Prohibited),
            "{ip}"
        );
        assert_eq!(
            policy(true).decide_host(there.ip()),
            Err(Denial::Prohibited),
            "{ip}"
        );
    }
}

#[test]
fn the_name_servers_of_clouds_are_reached() {
    // Breaks when a guest with the resolv.conf of a machine of Azure or Google resolves no name, or gets the machine's
    // secrets; or when the address does not mean the host that the user gave it.
    for server in ["168.63.129.16", "169.254.169.254"] {
        let names = asked(&format!("{server}:53"));
        let at = |policy: &Policy, to| policy.decide(Proto::Udp, to);
        assert_eq!(at(&policy(true), names), Ok(Destination::Host(names)));
        let other = asked(&format!("{server}:80"));
        assert_eq!(at(&policy(true), other), Err(Denial::Prohibited));
        assert_eq!(at(&policy(true).closed(), names), Err(Denial::NoHost));
        let mapped = policy(true).with_mappings(&[(names.ip(), [127, 0, 0, 1].into())]);
        let host = Destination::Host(asked("127.0.0.1:53"));
        assert_eq!(at(&mapped, names), Ok(host), "{server}");
    }
}

#[test]
fn names_are_asked_at_two_ports_of_one_address() {
    // Breaks when names stop resolving, encrypted or not, or another port of 10.0.2.3 leads somewhere.
    let policy = policy(true);
    assert_eq!(
        policy.decide(Proto::Tcp, asked("10.0.2.3:53")),
        Ok(Destination::Resolver)
    );
    assert_eq!(
        policy.decide(Proto::Tcp, asked("10.0.2.3:853")),
        Ok(Destination::EncryptedResolver)
    );
    let nameless = policy.clone().without_names();
    for closed in ["10.0.2.3:53", "10.0.2.3:853"] {
        assert_eq!(
            nameless.decide(Proto::Tcp, asked(closed)),
            Err(Denial::PortClosed)
        );
    }
    assert_eq!(
        policy.decide(Proto::Tcp, asked("10.0.2.3:54")),
        Err(Denial::PortClosed)
    );
    assert_eq!(
        policy.decide(Proto::Tcp, asked("10.0.2.4:53")),
        Err(Denial::NoHost)
    );
    assert_eq!(
        policy.decide(Proto::Tcp, asked("10.0.2.100:80")),
        Err(Denial::NoHost)
    );
    assert_eq!(
        policy.decide(Proto::Tcp, asked("10.0.2.255:80")),
        Err(Denial::NoHost)
    );
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
            Ok(Destination::Host(there))
        };
        assert_eq!(policy(false).decide(Proto::Tcp, there), expected, "{text}");
    }
}

#[test]
fn clients_show_an_address_that_can_be_answered() {
    // Breaks when the guest sends its answer to itself, because the client's address is 127.0.0.1.
    let server = |ip: &str| ip.parse().expect("an address");
    let shown = |text: &str| policy(false).shown_address(asked(text), server("10.0.2.100"));
    assert_eq!(shown("192.0.2.7:1000"), asked("192.0.2.7:1000"));
    for text in [
        "127.0.0.1:1000",
        "10.0.2.100:1000",
        "10.0.2.2:1",
        "[2001:db8::1]:1000",
    ] {
        assert_eq!(shown(text), asked("10.0.2.2:0"), "{text}");
    }
    let shown = |text: &str| policy(false).shown_address(asked(text), server("fd00::100"));
    assert_eq!(shown("[2001:db8::1%7]:1000"), asked("[2001:db8::1]:1000"));
    for text in [
        "[::1]:1000",
        "[fe80::5%2]:1000",
        "[fd00::2]:1",
        "192.0.2.7:1000",
    ] {
        assert_eq!(shown(text), asked("[fd00::2]:0"), "{text}");
    }
}

#[test]
fn a_client_with_the_guests_own_address_is_shown_as_the_gateway() {
    // Breaks when a client on the host hangs at a published port of a guest that shares the host's address.
    let ends = GuestEnd {
        v4: Some(Addressing {
            guest: [192, 0, 2, 9].into(),
            gateway: [192, 0, 2, 1].into(),
            routed: true,
            ..Addressing::DEFAULT
        }),
        v6: Some(Addressing6::shared(
            "2001:db8::9".parse().expect("an address"),
            "2001:db8::1".parse().expect("an address"),
            None,
        )),
        ..GuestEnd::usual()
    };
    let policy = Policy::new(&ends, false);
    for (client, server, shown) in [
        ("192.0.2.9:1000", "192.0.2.9", "192.0.2.1:0"),
        ("192.0.2.10:1000", "192.0.2.9", "192.0.2.10:1000"),
        ("[2001:db8::9]:1000", "2001:db8::9", "[2001:db8::1]:0"),
        ("[2001:db8::7]:1000", "2001:db8::9", "[2001:db8::7]:1000"),
    ] {
        let server = server.parse().expect("an address");
        assert_eq!(policy.shown_address(asked(client), server), asked(shown));
    }
}

#[test]
fn names_at_the_gateways_address_leave_its_other_ports() {
    // Breaks when a guest whose gateway answers names reaches neither the host's loopback there, nor the router that
    // has the address.
    let ends = GuestEnd {
        v4: Some(Addressing {
            gateway: [192, 0, 2, 1].into(),
            dns: [192, 0, 2, 1].into(),
            routed: true,
            ..Addressing::DEFAULT
        }),
        ..GuestEnd::usual()
    };
    let (gateway, loopback) = (asked("192.0.2.1:80"), asked("127.0.0.1:80"));
    let router = Policy::new(&ends, false);
    let mapped = Policy::new(&ends, false).with_mappings(&[(gateway.ip(), loopback.ip())]);
    for (policy, there) in [
        (&router, gateway),
        (&mapped, loopback),
        (&Policy::new(&ends, true), loopback),
    ] {
        let there = Ok(Destination::Host(there));
        assert_eq!(policy.decide(Proto::Tcp, gateway), there);
        let names = policy.decide(Proto::Udp, asked("192.0.2.1:53"));
        assert_eq!(names, Ok(Destination::Resolver));
    }
}

#[test]
fn a_private_loopback_is_reached_from_the_hosts_alone() {
    // Breaks when a machine of the network reaches a server that listens at the guest's loopback alone.
    let private = policy(false).with_private_loopback(true);
    let loopback = asked("127.0.0.1:80");
    for (client, own) in [
        ("127.0.0.1:1000", true),
        ("[::1]:1000", true),
        ("192.0.2.7:1000", false),
    ] {
        assert_eq!(private.admits(asked(client), loopback), own, "{client}");
        assert!(private.admits(asked(client), asked("10.0.2.100:80")));
        assert!(policy(false).admits(asked(client), loopback));
    }
}

#[test]
fn errors_of_the_host_keep_their_meaning() {
    // Breaks when a guest is told "refused" about a host that is not there, or the other way round.
    let told = |errno| unreach(&io::Error::from_raw_os_error(errno));
    assert_eq!(told(libc::ENETUNREACH), Some(IcmpError::Net));
    assert_eq!(told(libc::EHOSTUNREACH), Some(IcmpError::Host));
    assert_eq!(told(libc::ETIMEDOUT), Some(IcmpError::Host));
    assert_eq!(told(libc::EPERM), Some(IcmpError::AdminProhibited));
    assert_eq!(told(libc::EAFNOSUPPORT), Some(IcmpError::Net));
    assert_eq!(told(libc::EADDRNOTAVAIL), Some(IcmpError::Net));
    assert_eq!(told(libc::ECONNREFUSED), None);
    assert_eq!(told(libc::EMFILE), None);
    let out = |errno| is_out_of_descriptors(&io::Error::from_raw_os_error(errno));
    assert!(out(libc::EMFILE) && out(libc::ENFILE) && !out(libc::ECONNREFUSED));
    assert_eq!(Denial::PortClosed.refusal(), Refusal::Reset);
    assert_eq!(
        Denial::NoHost.refusal(),
        Refusal::Unreachable(IcmpError::Host)
    );
    assert_eq!(Denial::PortClosed.unreach(), Some(IcmpError::Port));
}

#[test]
fn names_can_be_switched_off_and_sources_chosen() {
    // Breaks when the gateway answers questions in spite of `--disable-dns`, or a connection to the host itself gets a
    // source that cannot reach it.
    let v4 = Ipv4Addr::new(192, 0, 2, 7);
    let v6 = "2001:db8::7".parse().ok();
    let interfaces = ["eth0", "eth1"].map(|name| InterfaceName::new(name).ok());
    let sources = Sources {
        v4: Some(v4),
        v6,
        interfaces,
    };
    let policy = policy(true).without_names().with_sources(sources);
    for dns in ["10.0.2.3:53", "[fd00::3]:53"] {
        assert_eq!(
            policy.decide(Proto::Tcp, asked(dns)),
            Err(Denial::PortClosed),
            "{dns}"
        );
    }
    let to = |addr: &str| policy.local_end_for(asked(addr));
    assert_eq!(to("198.51.100.2:80").addr, Some(IpAddr::from(v4)));
    assert_eq!(to("[2001:db8:1::1]:80").addr, v6.map(IpAddr::from));
    let by = ["198.51.100.2:80", "[2001:db8:1::1]:80"].map(|addr| to(addr).interface);
    assert_eq!(by, interfaces);
    for here in ["127.0.0.1:80", "[::1]:80"] {
        assert_eq!(to(here), Default::default(), "{here}");
    }
}

#[test]
fn a_protocol_that_is_switched_off_gets_no_answer() {
    // Breaks when pasta's --no-tcp, --no-udp or --no-icmp lets packets of the guest out, stops another protocol, or
    // answers.
    let ignoring = |tcp, udp, icmp| {
        let policy = policy(true).ignoring(IgnoredProtocols { tcp, udp, icmp });
        let each = ["192.0.2.1:80", "10.0.2.2:80", "10.0.2.3:53"];
        let of = |proto| each.map(|to| policy.decide(proto, asked(to)) == Err(Denial::Ignored));
        let ping = policy.decide_ping(IpAddr::from([192, 0, 2, 1]));
        (of(Proto::Tcp), of(Proto::Udp), ping == Err(Denial::Ignored))
    };
    assert_eq!(ignoring(true, false, false), ([true; 3], [false; 3], false));
    assert_eq!(ignoring(false, true, false), ([false; 3], [true; 3], false));
    assert_eq!(ignoring(false, false, true), ([false; 3], [false; 3], true));
    assert_eq!(Denial::Ignored.refusal(), Refusal::Ignore);
    assert_eq!(Denial::Ignored.unreach(), None);
}

#[test]
fn ipv6_goes_where_the_table_says() {
    // Breaks when a guest reaches the host's ::1, its links or a cloud's credentials over IPv6, or is refused an
    // ordinary address.
    let here = "[::1]:5432";
    for gateway in ["[fd00::2]:5432", "[fe80::2%3]:5432"] {
        let gateway = asked(gateway);
        assert_eq!(
            policy(false).decide(Proto::Tcp, gateway),
            Err(Denial::PortClosed)
        );
        assert_eq!(
            policy(true).decide(Proto::Tcp, gateway),
            Ok(Destination::Host(asked(here)))
        );
    }
    let open = policy(true);
    assert_eq!(
        open.decide(Proto::Tcp, asked("[fd00::3]:53")),
        Ok(Destination::Resolver)
    );
    assert_eq!(
        open.decide(Proto::Tcp, asked("[fd00::3]:853")),
        Ok(Destination::EncryptedResolver)
    );
    assert_eq!(
        open.decide(Proto::Tcp, asked("[fd00::3]:54")),
        Err(Denial::PortClosed)
    );
    for nobody in ["[fd00::4]:80", "[fd00::100]:80", "[fd00::ffff]:53"] {
        assert_eq!(
            open.decide(Proto::Tcp, asked(nobody)),
            Err(Denial::NoHost),
            "{nobody}"
        );
    }
    for prohibited in [
        "[::1]:80",
        "[::]:80",
        "[::ffff:127.0.0.1]:80",
        "[::ffff:192.0.2.1]:80",
        "[fe80::1]:80",
        "[ff02::1]:80",
        "[fd00:ec2::254]:80",
        "[64:ff9b::127.0.0.1]:80",
        "[64:ff9b::169.254.169.254]:80",
        "[2002:7f00:1::]:80",
    ] {
        assert_eq!(
            open.decide(Proto::Tcp, asked(prohibited)),
            Err(Denial::Prohibited),
            "{prohibited}"
        );
    }
    assert_eq!(
        open.decide(Proto::Tcp, asked("[64:ff9b::10.0.2.2]:80")),
        Err(Denial::NoHost)
    );
    for ordinary in [
        "[2001:db8::1]:443",
        "[fd00:0:0:1::2]:80",
        "[64:ff9b::192.0.2.1]:80",
    ] {
        let ordinary = asked(ordinary);
        assert_eq!(
            open.decide(Proto::Tcp, ordinary),
            Ok(Destination::Host(ordinary))
        );
    }
    let closed = policy(false).closed();
    assert_eq!(
        closed.decide(Proto::Tcp, asked("[2001:db8::1]:443")),
        Err(Denial::NoHost)
    );
}

#[test]
fn an_allowed_address_is_reached_and_no_other() {
    // Breaks when --allow opens all link-local addresses, or none.
    let metadata: IpAddr = "fd00:ec2::254".parse().expect("an address");
    let policy = policy(false).with_allowed(&[metadata, [169, 254, 169, 254].into()]);
    for text in ["[fd00:ec2::254]:80", "169.254.169.254:80"] {
        let there = asked(text);
        assert_eq!(
            policy.decide(Proto::Tcp, there),
            Ok(Destination::Host(there))
        );
    }
    for text in ["[fd20:ce::254]:80", "169.254.169.253:80", "127.0.0.1:80"] {
        assert_eq!(
            policy.decide(Proto::Tcp, asked(text)),
            Err(Denial::Prohibited),
            "{text}"
        );
    }
}

#[test]
fn a_guest_with_the_hosts_address_reaches_the_hosts_neighbours() {
    // Breaks when pasta's guest is refused its LAN, or its gateway, or reaches the host's loopback without being told
    // to.
    let network = Addressing {
        guest: Ipv4Addr::new(192, 0, 2, 7),
        gateway: Ipv4Addr::new(192, 0, 2, 1),
        dns: Ipv4Addr::new(169, 254, 1, 1),
        prefix_len: 24,
        routed: true,
    };
    let ends = GuestEnd {
        v4: Some(network),
        ..GuestEnd::usual()
    };
    let (mapped, host) = (Ipv4Addr::new(169, 254, 1, 2), network.guest);
    let policy = Policy::new(&ends, false).with_mappings(&[(mapped.into(), host.into())]);
    let decided = |ip: Ipv4Addr, port| policy.decide(Proto::Tcp, (ip, port).into());
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
    assert_eq!(
        open.decide(Proto::Tcp, gateway.into()),
        itself(Ipv4Addr::LOCALHOST, 80)
    );
}
