use clap::Parser;

use super::*;
use crate::args::{Args, Verb};

fn args(line: &str) -> PastaArgs {
    let words = ["mbuma", "pasta"].into_iter().chain(line.split(' '));
    match Args::try_parse_from(words).expect("an engine's line").verb {
        Verb::Pasta(args) => args,
        other => panic!("{other:?}"),
    }
}

fn host6() -> DefaultRoute6 {
    DefaultRoute6 {
        interface: "eth0".to_owned(),
        gateway: "fe80::1".parse().expect("an address"),
        addr: "2001:db8::7".parse().expect("an address"),
    }
}

fn host() -> DefaultRoute {
    DefaultRoute {
        interface: "eth0".to_owned(),
        gateway: Ipv4Addr::new(192, 0, 2, 1),
        addr: Ipv4Addr::new(192, 0, 2, 7),
        prefix_len: 24,
    }
}

#[test]
fn lines_of_engines_mean_what_they_mean_to_pasta() {
    // Breaks when an engine that calls pasta cannot call mbuma in its place.
    let rootlesskit = args(
        "--stderr --ns-ifname=tap0 --mtu=65520 --config-net --address=10.0.2.100 --netmask=24 --gateway=10.0.2.2 \
         --dns-forward=10.0.2.3 --no-map-gw --ipv4-only --tcp-ports=none --udp-ports=none --host-lo-to-ns-lo 4711",
    );
    let attach = rootlesskit.to_attach().expect("usable").expect("a guest");
    assert_eq!(
        (attach.target, &*attach.ifname),
        (AttachTarget::Pid(4711), "tap0")
    );
    assert_eq!(attach.net.cidr, Addressing::DEFAULT);
    assert!(!attach.net.host_loopback && !attach.net.no_dns);
    assert!(attach.net.v6().is_none(), "IPv4 only");

    let podman = args(
        "--config-net -t 127.0.0.1/8083-8083:80-80 -u none -T none -U none --dns-forward 169.254.1.1 --no-map-gw \
         --quiet --map-guest-addr 169.254.1.2 --pid /tmp/pid --netns /run/user/1001/netns/netns-1",
    );
    let net = podman
        .network(Some(&host()), Some(&host6()))
        .expect("usable");
    assert_eq!(
        (net.cidr.guest, net.cidr.gateway),
        (host().addr, host().gateway)
    );
    let mapped = Ipv4Addr::new(169, 254, 1, 2).into();
    assert_eq!(net.maps, [(mapped, host().addr.into())]);
    let v6 = net.v6().expect("the host has it");
    assert_eq!(
        (v6.guest, v6.gateway, v6.dns),
        (host6().addr, host6().gateway, None)
    );
    assert_eq!((v6.routed, v6.link_prefix_len()), (true, 128));
    let (ports, loopback) = podman.ports().expect("usable");
    assert!(loopback.is_empty(), "{loopback:?}");
    let ports: Vec<_> = ports
        .iter()
        .flat_map(PublishRange::ports)
        .map(|p| p.to_string())
        .collect();
    assert_eq!(ports, ["127.0.0.1:8083:80"]);
    let path = PathBuf::from("/run/user/1001/netns/netns-1");
    assert_eq!(podman.target(), Ok(AttachTarget::Path(path)));
}

#[test]
fn newer_lines_of_podman_mean_what_they_mean_to_pasta() {
    // Breaks when a container of podman's later versions, or of the examples in its manual, gets no network, other addresses for
    // the host, or more of the host than it asks for.
    let network = |line: &str| {
        let args = args(&format!(
            "--config-net {line} --netns /run/user/1001/netns/netns-1"
        ));
        args.network(Some(&host()), Some(&host6())).expect("usable")
    };
    let addr = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let net = network(
        "--dns-forward 169.254.1.1 -t none -u none -T none -U none --no-map-gw --quiet --map-guest-addr 169.254.1.2 \
         --map-host-loopback 169.254.1.2",
    );
    let loopback = (addr("169.254.1.2"), addr("127.0.0.1"));
    assert_eq!(net.maps, [loopback, (loopback.0, host().addr.into())]);
    assert!(!net.host_loopback && !net.no_dhcp);
    // In the gateway's place, unless it is none.
    let net = network("--map-host-loopback fd00::9 --map-guest-addr none");
    assert_eq!(net.maps, [(addr("fd00::9"), addr("::1"))]);
    assert!(!net.host_loopback && network("-q").host_loopback);
    let net = network("--map-host-loopback none");
    assert!(!net.host_loopback && net.maps.is_empty());
    let net = network(
        "-I tap0 -a 10.0.2.100 -n 24 -g 10.0.2.2 --dns-forward 10.0.2.3 -m 1500 --no-ndp --no-dhcpv6 --no-dhcp --no-ra",
    );
    assert_eq!((net.cidr, net.no_dhcp), (Addressing::DEFAULT, true));
    assert!(net.v6().is_none());
    // Without a network the host has no address of its own to be reached at.
    let args = args("--config-net --map-guest-addr 169.254.1.2 --netns /run/netns/1");
    assert_eq!(args.network(None, None).expect("usable").maps, []);
}

#[test]
fn a_command_is_sent_to_run() {
    // Breaks when a user who types `pasta COMMAND` does not learn which verb makes a namespace.
    let error = Args::try_parse_from(["mbuma", "pasta", "ls"]).expect_err("not a process");
    assert!(error.to_string().contains("mbuma run -- "), "{error}");
    let error = args("--quiet").to_attach().expect_err("no namespace");
    assert!(error.contains("mbuma run -- "), "{error}");
}

#[test]
fn ports_are_lists_of_ranges() {
    // Breaks when a form of pasta's manual means another port.
    let args = args("--config-net -t 22,80-81:8080-8081 -u 192.0.2.1/53 -T none -U none 1");
    let (ports, _) = args.ports().expect("usable");
    let ports: Vec<_> = ports
        .iter()
        .flat_map(PublishRange::ports)
        .map(|p| p.to_string())
        .collect();
    let expected = ["*:22:22", "*:80:8080", "*:81:8081", "192.0.2.1:53:53/udp"];
    assert_eq!(ports, expected);
    assert_eq!(prefix_len("255.255.255.0"), Ok(24));
    for wrong in ["255.0.255.0", "0", "33", "x"] {
        assert!(prefix_len(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn ports_of_the_loopback_are_lists_or_found_by_looking() {
    // Breaks when a form of `-T`, `-U` or `auto` means another port, protocol or direction.
    let loopback = |line: &str| {
        args(&format!("--config-net {line} 1"))
            .ports()
            .expect("usable")
            .1
    };
    let found = loopback("-q");
    let both = [Proto::Tcp, Proto::Udp];
    assert_eq!(
        (&found.follow_guest[..], &found.follow_host[..]),
        (&both[..], &both[..])
    );
    let listed = loopback("-t auto -u none -T 5000-5001:6000-6001 -T 22 -U 53:5353");
    assert_eq!(
        (&listed.follow_guest[..], &listed.follow_host[..]),
        (&both[..1], &[][..])
    );
    let port = |proto, guest_port, host_port| OutwardRequest {
        proto,
        guest_port,
        host_port,
    };
    let expected = [
        port(Proto::Tcp, 5000, 6000),
        port(Proto::Tcp, 5001, 6001),
        port(Proto::Tcp, 22, 22),
        port(Proto::Udp, 53, 5353),
    ];
    assert_eq!(listed.outward, expected);
    assert!(loopback("-t none -u none -T none -U none").is_empty());
}

#[test]
fn what_is_not_there_yet_is_refused() {
    // Breaks when mbuma accepts an option that has no effect.
    for line in [
        "--config-net -T 127.0.0.1/80 -t none -u none 1",
        "--config-net -t auto -t 80 1",
        "--config-net -U all 1",
        "1",
        "--config-net -t ~25 1",
        "--config-net",
    ] {
        assert!(args(line).to_attach().is_err(), "{line}");
    }
}

#[test]
fn addresses_of_ipv6_are_the_hosts_or_those_that_are_given() {
    // Breaks when a guest of pasta gets a gateway that is not on its link, or IPv6 although the host has none.
    let network = |line: &str, host: Option<&DefaultRoute6>| {
        args(&format!("--config-net {line} 1")).network(None, host)
    };
    let given =
        "-6 -a 2001:db8::5 -g fe80::9 --dns-forward 2001:db8::53 --map-guest-addr 2001:db8::6";
    let net = network(given, Some(&host6())).expect("usable");
    let v6 = net.v6().expect("it is asked for");
    assert_eq!(v6.guest.to_string(), "2001:db8::5");
    assert_eq!(v6.gateway.to_string(), "fe80::9");
    assert_eq!(v6.dns, "2001:db8::53".parse().ok());
    assert!(net.v4().is_none() && !net.no_dns);
    let mapped = "2001:db8::6".parse().expect("an address");
    assert_eq!(net.maps, [(mapped, host6().addr.into())]);
    let elsewhere = DefaultRoute6 {
        gateway: "2001:db8::1".parse().expect("an address"),
        ..host6()
    };
    let net = network("-4", Some(&elsewhere)).expect("usable");
    assert!(net.v6().is_none());
    let net = network("--quiet", Some(&elsewhere)).expect("usable");
    assert_eq!(net.v6().map(|v6| v6.gateway), Some(LINK_GATEWAY));
    assert!(network("--quiet", None).expect("usable").v6().is_none());
    for wrong in ["-6", "-a 192.0.2.1", "-a 2001:db8::5 -g 2001:db8::1"] {
        assert!(network(wrong, None).is_err(), "{wrong}");
    }
}
