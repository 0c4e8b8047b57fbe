use std::net::IpAddr;

use super::super::tests::{args, host, host6};
use super::*;

/// The network of a guest with this line, whose host has both versions of IP.
fn network(line: &str) -> NetOpts {
    try_network(line, &both()).expect("usable")
}

fn try_network(line: &str, host: &HostRoutes) -> Result<NetOpts, String> {
    args(&format!("--config-net {line} 1")).network(host)
}

fn both() -> HostRoutes {
    HostRoutes {
        v4: Some(host()),
        v6: Some(host6()),
    }
}

fn addr(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn newer_lines_of_podman_mean_what_they_mean_to_pasta() {
    // Breaks when a container of podman's later versions, or of the examples in its manual, gets no network, other
    // addresses for the host, or more of the host than it asks for.
    let net = network(
        "--dns-forward 169.254.1.1 -t none -u none -T none -U none --no-map-gw --quiet --map-guest-addr 169.254.1.2 \
         --map-host-loopback 169.254.1.2",
    );
    let loopback = (addr("169.254.1.2"), addr("127.0.0.1"));
    assert_eq!(net.maps, [loopback, (loopback.0, host().addr.into())]);
    assert!(!net.host_loopback && !net.no_dhcp);
    let net = network(
        "-I tap0 -a 10.0.2.100 -n 24 -g 10.0.2.2 --dns-forward 10.0.2.3 -m 1500 --no-ndp --no-dhcpv6 --no-dhcp --no-ra",
    );
    assert_eq!((net.cidr, net.no_dhcp), (Addressing::DEFAULT, true));
    assert!(net.v6().is_none());
    // Without a network the host has no address of its own to be reached at.
    let net = try_network(
        "--no-map-gw --map-guest-addr 169.254.1.2",
        &HostRoutes::default(),
    );
    assert_eq!(net.expect("usable").maps, []);
}

#[test]
fn the_gateway_means_the_hosts_loopback_unless_another_address_does() {
    // Breaks when an address for one version of IP closes the gateway of the other, or `none` leaves one open.
    let (v4, v6) = (addr("192.0.2.1"), addr("fe80::1"));
    let (lo4, lo6) = (addr("127.0.0.1"), addr("::1"));
    let maps = |line: &str| network(line).maps;
    assert_eq!(maps("-q"), [(v4, lo4), (v6, lo6)]);
    let other = addr("fd00::9");
    assert_eq!(
        maps("--map-host-loopback fd00::9"),
        [(v4, lo4), (other, lo6)]
    );
    let line = "--map-host-loopback fd00::9 --no-map-gw --map-guest-addr none";
    assert_eq!(maps(line), [(other, lo6)]);
    assert_eq!(
        maps("--map-host-loopback fd00::9 --map-host-loopback none"),
        []
    );
    let line = "--map-host-loopback none --map-host-loopback fd00::8 --map-host-loopback fd00::9";
    assert_eq!(maps(line), [(other, lo6)]);
    assert_eq!(maps("-4"), [(v4, lo4)]);
}

#[test]
fn a_gateway_that_the_host_does_not_have_means_nothing() {
    // Breaks when a guest behind a tunnel's interface reaches the host's loopback by a gateway that mbuma made up.
    let v4 = DefaultRoute {
        gateway: None,
        ..host()
    };
    let v6 = DefaultRoute6 {
        gateway: None,
        ..host6()
    };
    let neither = HostRoutes {
        v4: Some(v4.clone()),
        v6: Some(v6.clone()),
    };
    let v4_only = HostRoutes {
        v4: Some(host()),
        v6: None,
    };
    let (made4, made6) = (addr("169.254.2.2"), addr("fe80::1"));
    let (lo4, lo6) = (addr("127.0.0.1"), addr("::1"));
    let net = try_network("-q", &neither).expect("usable");
    let gateways = [
        net.cidr.gateway.into(),
        net.v6().expect("the host has it").gateway.into(),
    ];
    assert_eq!((gateways, net.maps), ([made4, made6], vec![]));
    let maps = |line: &str, host: &HostRoutes| try_network(line, host).expect("usable").maps;
    // Each version of IP by itself.
    let (v4, v6) = (Some(v4), Some(v6));
    let [without4, without6] = [HostRoutes { v4, ..both() }, HostRoutes { v6, ..both() }];
    assert_eq!(maps("-q", &without4), [(made6, lo6)]);
    assert_eq!(maps("-q", &without6), [(addr("192.0.2.1"), lo4)]);
    let line = "-a 2001:db8::5";
    assert_eq!(maps(line, &v4_only), [(addr("192.0.2.1"), lo4)]);
    // A user who names one means it.
    assert_eq!(maps("-g 192.0.2.9", &neither), [(addr("192.0.2.9"), lo4)]);
    assert_eq!(maps("-g fe80::9", &neither), [(addr("fe80::9"), lo6)]);
    let line = "--map-host-loopback 192.0.2.9";
    assert_eq!(maps(line, &neither), [(addr("192.0.2.9"), lo4)]);
    // Without any network a guest has its host.
    let default = Addressing::DEFAULT.gateway.into();
    let both_of_them = [(default, lo4), (made6, lo6)];
    assert_eq!(maps("-a 2001:db8::5", &HostRoutes::default()), both_of_them);
}

#[test]
fn the_last_of_an_option_counts() {
    // Breaks when podman's command line does not override the options of its configuration, as its tests do.
    let net = network(
        "-m 1500 --ns-mac-addr 02:00:00:00:00:01 -a 192.0.2.9 -g 192.0.2.1 -a 2001:db8::5 -q \
         -m 1280 --ns-mac-addr 02:00:00:00:00:02 -a 192.0.2.10 -g 192.0.2.2 -q --no-map-gw --no-map-gw",
    );
    assert_eq!((net.mtu, net.mac), (Some(1280), Some([2, 0, 0, 0, 0, 2])));
    let placed = (net.cidr.guest, net.cidr.gateway);
    assert_eq!(
        placed,
        (Ipv4Addr::new(192, 0, 2, 10), Ipv4Addr::new(192, 0, 2, 2))
    );
    assert_eq!(
        net.v6().map(|v6| v6.guest.into()),
        Some(addr("2001:db8::5"))
    );
    assert_eq!(network("-m 0").mtu, Some(1500));
}

#[test]
fn addresses_are_the_hosts_but_for_those_that_are_given() {
    // Breaks when one of the two must be given with the other, as podman's tests do not, or the guest takes neighbours
    // of the host for hosts of a network of its own, which are not there.
    let placed = |line: &str| {
        let v4 = network(line).cidr;
        format!(
            "{}/{} by {}, {}",
            v4.guest, v4.prefix_len, v4.gateway, v4.routed
        )
    };
    for (line, expected) in [
        ("-q", "192.0.2.7/24 by 192.0.2.1, true"),
        ("-n 25", "192.0.2.7/25 by 192.0.2.1, true"),
        ("-a 192.0.2.9", "192.0.2.9/24 by 192.0.2.1, true"),
        ("-a 10.1.2.3", "10.1.2.3/8 by 192.0.2.1, true"),
        ("-a 172.16.2.3/20", "172.16.2.3/20 by 192.0.2.1, true"),
        ("-g 192.0.2.9", "192.0.2.7/24 by 192.0.2.9, true"),
        (
            "-a 192.0.2.9 -g 192.0.2.1 -n 255.255.255.0",
            "192.0.2.9/24 by 192.0.2.1, true",
        ),
        (
            "-a 10.0.2.100 -g 10.0.2.2 -n 24",
            "10.0.2.100/24 by 10.0.2.2, false",
        ),
        // Podman's manual has it so, with the network's own address.
        (
            "-a 10.0.2.0 -n 24 -g 10.0.2.2",
            "10.0.2.0/24 by 10.0.2.2, true",
        ),
        (
            "-a 10.0.2.5/32 -g 10.0.2.2",
            "10.0.2.5/32 by 10.0.2.2, true",
        ),
    ] {
        assert_eq!(placed(line), expected, "{line}");
    }
    for wrong in [
        "-a 192.0.2.1",
        "-a 10.0.2.5/24 -n 24",
        "-a 10.0.2.5/33",
        "-a 2001:db8::5/129",
        "-6 -g 2001:db8::7",
        "-a 0.0.0.0",
        "-a 127.0.0.1/8",
        "-a ff02::1",
        "-g 255.255.255.255",
        "-g ::ffff:192.0.2.1",
        "--map-host-loopback ::1",
        "--map-guest-addr 224.0.0.1",
    ] {
        let words = ["mbuma", "pasta", "--config-net"].into_iter();
        let words = words.chain(wrong.split(' ')).chain(["1"]);
        let parsed = <crate::args::Args as clap::Parser>::try_parse_from(words);
        let refused = parsed.is_err() || try_network(wrong, &both()).is_err();
        assert!(refused, "{wrong}");
    }
    // A host without a network.
    let net = try_network("-a 172.16.2.3", &HostRoutes::default()).expect("usable");
    assert_eq!(
        (net.cidr.guest.into(), net.cidr.routed),
        (addr("172.16.2.3"), true)
    );
}

#[test]
fn no_guest_is_a_copy_of_the_loopback() {
    // Breaks when a guest gets the host's 127.0.0.1, or an interface whose name means settings of all interfaces.
    let of = |name: &str, addr: Ipv4Addr| {
        let interface = name.to_owned();
        let v4 = DefaultRoute {
            interface,
            addr,
            ..host()
        };
        let (v4, v6) = (Some(v4), None);
        HostRoutes { v4, v6 }
    };
    let lo = of("lo", Ipv4Addr::LOCALHOST);
    for line in ["-i lo", "-i lo -I tap0", "--outbound-if4 lo"] {
        let error = try_network(line, &lo).expect_err(line);
        assert!(error.starts_with("lo is the host's loopback"), "{error}");
    }
    let ifname = |line: &str, host: &HostRoutes| args(line).guest_ifname(host);
    for name in ["lo", "all", "default"] {
        let host = of(name, host().addr);
        let error = ifname("-q", &host).expect_err(name);
        assert!(error.contains(name) && error.contains("give -I"), "{error}");
        assert_eq!(ifname("-I tap1", &host).as_deref(), Ok("tap1"));
    }
    assert_eq!(ifname("-q", &both()).as_deref(), Ok("eth0"));
    let none = HostRoutes::default();
    assert_eq!(ifname("-q", &none).as_deref(), Ok("tap0"));
}

#[test]
fn an_interface_without_the_version_is_refused() {
    // Breaks when a guest has no IPv6, or not that of the interface that the user named, and nothing says so.
    let (v4, v6) = (both().v4, both().v6);
    let only4 = HostRoutes { v4, v6: None };
    let only6 = HostRoutes { v4: None, v6 };
    let error = |line: &str, host| try_network(line, host).expect_err(line);
    let said = error("--outbound-if4 eth0 --outbound-if6 eth9", &only4);
    assert!(said.contains("eth9 with an IPv6 address"), "{said}");
    let said = error("--outbound-if4 eth9 --outbound-if6 eth0", &only6);
    assert!(said.contains("eth9 with an IPv4 address"), "{said}");
    let said = error("-i eth9", &HostRoutes::default());
    assert!(said.contains("eth9 with an address"), "{said}");
    for line in ["-4 --outbound-if6 eth9", "-i eth0 --outbound-if6 eth9"] {
        assert!(try_network(line, &only4).is_ok(), "{line}");
    }
}

#[test]
fn a_command_with_ipv6_alone_has_a_name_server() {
    // Breaks when `pasta -6 COMMAND` keeps the host's resolv.conf, whose servers it may not reach.
    let dns = |line: &str| {
        let net = args(line).network(&both()).expect("usable");
        net.v6().expect("it has IPv6").dns
    };
    assert_eq!(dns("-6 ls"), Addressing6::DEFAULT.dns);
    let gateway = "2001:db8::9".parse().ok();
    assert_eq!(dns("-6 -g 2001:db8::9 ls"), gateway);
    assert_eq!(dns("-6 --dns-forward fd00::7 ls"), "fd00::7".parse().ok());
    assert_eq!(dns("ls"), None, "it has one of IPv4");
    assert_eq!(dns("-6 4711"), None, "its files are its own");
}

#[test]
fn values_for_a_guest_that_asks_are_refused_if_it_gets_no_answer() {
    // Breaks when an option has no effect and no error, or a guest that asks hears of other names.
    let own = "-4 -a 10.0.2.100 -g 10.0.2.2 -n 24";
    let net = network(&format!(
        "{own} --search a.example --hostname web --dhcp-dns --dhcp-search"
    ));
    assert_eq!(net.dhcp.search, ["a.example"]);
    assert_eq!(net.dhcp.hostname.as_deref(), Some("web"));
    assert!(
        network(&format!("{own} --search none"))
            .dhcp
            .search
            .is_empty()
    );
    for line in ["-S a.example", "-H web", "--dhcp-dns", "--dhcp-search"] {
        assert!(try_network(line, &both()).is_err(), "{line}");
        assert!(
            try_network(&format!("{own} --no-dhcp {line}"), &both()).is_err(),
            "{line}"
        );
    }
}

#[test]
fn names_go_to_the_servers_that_are_given() {
    // Breaks when questions to --dns-forward go elsewhere, or are answered although none are to be.
    let servers = |line: &str| {
        let net = network(line);
        (net.dns, net.no_dns)
    };
    let forward = "--dns-forward 169.254.1.1";
    assert_eq!(servers("-q"), (vec![], true));
    assert_eq!(servers(forward), (vec![], false));
    let (one, two) = (addr("192.0.2.53"), addr("2001:db8::53"));
    assert_eq!(
        servers(&format!("{forward} -D 192.0.2.53 --dns-host 2001:db8::53")),
        (vec![one, two], false)
    );
    assert_eq!(
        servers(&format!("{forward} -D 192.0.2.53 -D none")),
        (vec![], true)
    );
    let again = format!("{forward} -D none -D 192.0.2.53");
    assert_eq!(servers(&again), (vec![one], false));
    assert_eq!(servers("-D 192.0.2.53 -D none"), (vec![], true));
    for line in ["-D 192.0.2.53", "--dns-host 2001:db8::53"] {
        let error = try_network(line, &both()).expect_err(line);
        assert!(error.contains("give --dns-forward"), "{error}");
    }
}

#[test]
fn addresses_of_ipv6_are_the_hosts_or_those_that_are_given() {
    // Breaks when a guest of pasta gets a gateway that is not on its link, or IPv6 although the host has none.
    let network = |line: &str, host: Option<&DefaultRoute6>| {
        let v6 = host.cloned();
        try_network(line, &HostRoutes { v4: None, v6 })
    };
    let given = "-6 -a 2001:db8::5 -g fe80::9 --no-map-gw --dns-forward 2001:db8::53 --map-guest-addr 2001:db8::6";
    let net = network(given, Some(&host6())).expect("usable");
    let v6 = net.v6().expect("it is asked for");
    assert_eq!(v6.guest.to_string(), "2001:db8::5");
    assert_eq!(v6.gateway.to_string(), "fe80::9");
    assert_eq!(v6.dns, "2001:db8::53".parse().ok());
    assert!(net.v4().is_none() && !net.no_dns);
    let mapped = "2001:db8::6".parse().expect("an address");
    assert_eq!(net.maps, [(mapped, host6().addr.into())]);
    let elsewhere = DefaultRoute6 {
        gateway: "2001:db8::1".parse().ok(),
        ..host6()
    };
    let net = network("-4", Some(&elsewhere)).expect("usable");
    assert!(net.v6().is_none());
    let net = network("--quiet", Some(&elsewhere)).expect("usable");
    let v6 = net.v6().expect("the host has it");
    assert_eq!(
        (Some(v6.gateway), Some(v6.next_hop())),
        (elsewhere.gateway, elsewhere.gateway)
    );
    assert!(v6.link_gateway.is_unicast_link_local());
    let net = network("-a 2001:db8::5", None).expect("usable");
    assert_eq!(net.v6().map(|v6| v6.gateway), Some(LINK_GATEWAY));
    assert!(network("--quiet", None).expect("usable").v6().is_none());
    for wrong in ["-6", "-a 2001:db8::5 -g 2001:db8::5"] {
        assert!(network(wrong, None).is_err(), "{wrong}");
    }
}
