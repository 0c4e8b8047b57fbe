use std::net::Ipv4Addr;

use clap::Parser;

use super::network::prefix_len;
use super::*;
use crate::addressing::Addressing;
use crate::args::{Args, Verb};
use crate::sys::routes::{DefaultRoute, DefaultRoute6};

pub(super) fn args(line: &str) -> PastaArgs {
    let words = ["mbuma", "pasta"].into_iter().chain(line.split(' '));
    match Args::try_parse_from(words).expect("an engine's line").verb {
        Verb::Pasta(args) => args,
        other => panic!("{other:?}"),
    }
}

pub(super) fn host6() -> DefaultRoute6 {
    DefaultRoute6 {
        interface: "eth0".to_owned(),
        gateway: "fe80::1".parse().ok(),
        addr: "2001:db8::7".parse().expect("an address"),
    }
}

pub(super) fn host() -> DefaultRoute {
    DefaultRoute {
        interface: "eth0".to_owned(),
        gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
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
    assert!(attach.net.maps.is_empty() && !attach.net.no_dns);
    assert!(attach.net.v6().is_none(), "IPv4 only");

    let podman = args(
        "--config-net -t 127.0.0.1/8083-8083:80-80 -u none -T none -U none --dns-forward 169.254.1.1 --no-map-gw \
         --quiet --map-guest-addr 169.254.1.2 --pid /tmp/pid --netns /run/user/1001/netns/netns-1",
    );
    let host_routes = HostRoutes {
        v4: Some(host()),
        v6: Some(host6()),
    };
    let net = podman.network(&host_routes).expect("usable");
    assert_eq!(
        (net.cidr.guest, Some(net.cidr.gateway)),
        (host().addr, host().gateway)
    );
    let mapped = Ipv4Addr::new(169, 254, 1, 2).into();
    assert_eq!(net.maps, [(mapped, host().addr.into())]);
    let v6 = net.v6().expect("the host has it");
    assert_eq!(
        (v6.guest, Some(v6.gateway), v6.dns),
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
    assert_eq!(podman.target(), Some(AttachTarget::Path(path)));
}

/// Each range by its first and last port.
fn ranges(ranges: &[PublishRange]) -> Vec<String> {
    let text = |range: &PublishRange| {
        let (first, last) = (range.ports().next(), range.ports().last());
        let (Some(first), Some(last)) = (first, last) else {
            return String::new();
        };
        let (to, end) = (first.publish.guest_port, last.publish.guest_port);
        let ports = format!("{}:{to}", first.publish.host.port());
        let all = format!(
            "{}-{}:{to}-{end}",
            first.publish.host.port(),
            last.publish.host.port()
        );
        first.to_string().replacen(&ports, &all, 1)
    };
    ranges.iter().map(text).collect()
}

#[test]
fn a_command_is_run() {
    // Breaks when `pasta COMMAND` takes the command's options for its own, a command for a process, or a namespace for
    // a command; or when it does not get pasta's ports, names and root.
    let run = |line: &str| args(line).to_run().expect("usable");
    let made = run("-4 -a 192.0.2.2 -H web -S none ls -t x").expect("a command");
    assert_eq!(made.command, ["ls", "-t", "x"]);
    assert_eq!(
        (made.hostname.as_deref(), &*made.search),
        (Some("web"), &[".".to_owned()][..])
    );
    assert!(made.map_root && !made.net.no_dns);
    let everything = ["*:1-65535:1-65535", "*:1-65535:1-65535/udp"];
    assert_eq!(ranges(&made.net.loopback.follow_guest), everything);
    assert_eq!(ranges(&made.net.loopback.follow_host), everything);
    assert_eq!(run("-q").expect("a shell").command.len(), 1);
    assert_eq!(run("1 2").expect("a command").command, ["1", "2"]);
    assert!(run("-D none ls").expect("a command").net.no_dns);
    assert_eq!(run("-D 192.0.2.9 ls").expect("a command").net.dns.len(), 1);
    for line in ["4711", "--netns blue", "--version"] {
        assert!(run(line).is_none(), "{line}");
    }
    for wrong in ["--netns-only ls", "--userns /x ls", "--splice-only ls"] {
        assert!(args(wrong).to_run().is_err(), "{wrong}");
    }
    assert!(args("--config-net --no-pidns 1").to_attach().is_err());
    let both = ["mbuma", "pasta", "--netns", "blue", "ls"];
    assert!(Args::try_parse_from(both).is_err());
}

#[test]
fn ports_are_lists_of_ranges() {
    // Breaks when a form of pasta's manual means another port.
    let few = args("--config-net -t 22,80-81:8080-8081 -u 192.0.2.1/53 -T none -U none 1");
    let (ports, _) = few.ports().expect("usable");
    let ports: Vec<_> = ports
        .iter()
        .flat_map(PublishRange::ports)
        .map(|p| p.to_string())
        .collect();
    let expected = ["*:22:22", "*:80:8080", "*:81:8081", "192.0.2.1:53:53/udp"];
    assert_eq!(ports, expected);
    assert_eq!(prefix_len("255.255.255.0"), Ok(24));
    let more =
        args("--config-net -t 20-25:80-85,~22-23 -t 192.0.2.1%lo/53,~9 -t %lo/54 -u [::1]/55 1");
    let (ports, _) = more.ports().expect("usable");
    let ports: Vec<_> = ports
        .iter()
        .flat_map(PublishRange::ports)
        .map(|p| p.to_string())
        .collect();
    let expected = [
        "*:20:80",
        "*:21:81",
        "*:24:84",
        "*:25:85",
        "192.0.2.1%lo:53:53",
        "*%lo:54:54",
        "[::1]:55:55/udp",
    ];
    assert_eq!(ports, expected);
    let led = args(
        "--config-net -t 0.0.0.0/5000:192.0.2.5/6000 -t 8080:[fd00::7],1-2:10.0.2.9 -u none 1",
    );
    let (ports, _) = led.ports().expect("usable");
    let ports: Vec<_> = ports
        .iter()
        .flat_map(PublishRange::ports)
        .map(|p| p.to_string())
        .collect();
    let expected = [
        "0.0.0.0:5000:192.0.2.5:6000",
        "*:8080:[fd00::7]:8080",
        "*:1:10.0.2.9:1",
        "*:2:10.0.2.9:2",
    ];
    assert_eq!(ports, expected);
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
    let everything = ["*:1-65535:1-65535", "*:1-65535:1-65535/udp"];
    assert_eq!(ranges(&found.follow_guest), everything);
    assert_eq!(ranges(&found.follow_host), everything);
    let listed = loopback("-t auto -u none -T 5000-5001:6000-6001 -T 22 -U 53:5353");
    assert_eq!(ranges(&listed.follow_guest), everything[..1]);
    assert_eq!(ranges(&listed.follow_host), [""; 0]);
    let parts = loopback(
        "-t 8000-8010:80-90,auto -t ::1/auto,~1-1023,~65535 -u auto,~1,~5-9,~7-11 -T 5000-5001:6000-6001,auto \
         -U all,auto",
    );
    let expected = [
        "*:8000-8010:80-90",
        "[::1]:1024-65534:1024-65534",
        "*:2-4:2-4/udp",
        "*:12-65535:12-65535/udp",
    ];
    assert_eq!(ranges(&parts.follow_guest), expected);
    let expected = ["*:5000-5001:6000-6001", everything[1]];
    assert_eq!(ranges(&parts.follow_host), expected);
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
fn a_protocol_that_is_switched_off_has_no_ports() {
    // Breaks when the guest reaches the host's loopback, or the host the guest, by a protocol that is off; or when a
    // mistake goes unreported because of that.
    let ports = |line: &str| args(&format!("--config-net {line} 1")).ports();
    for line in ["-q", "-t 80 -u 53 -T 80 -U 53"] {
        let of = |off: &str| ports(&format!("{line} {off}")).expect("usable");
        let (published, loopback) = of("--no-tcp --no-udp");
        assert_eq!(published, [], "{line}");
        assert!(loopback.is_empty(), "{line}: {loopback:?}");
        for (off, left) in [("--no-tcp", Proto::Udp), ("--no-udp", Proto::Tcp)] {
            let (published, loopback) = of(off);
            let published = published.iter().flat_map(PublishRange::ports);
            let inward = published.map(|port| port.publish.proto);
            let followed = loopback.follow_guest.iter().map(PublishRange::proto);
            let inward: Vec<_> = inward.chain(followed).collect();
            let outward = loopback.outward.iter().map(|port| port.proto);
            let followed = loopback.follow_host.iter().map(PublishRange::proto);
            let outward: Vec<_> = outward.chain(followed).collect();
            assert_eq!((inward, outward), (vec![left], vec![left]), "{line} {off}");
        }
    }
    for wrong in ["-t x", "-u all", "-T x", "-T 127.0.0.1/80", "-U all"] {
        let line = format!("--no-tcp --no-udp {wrong}");
        assert!(ports(&line).is_err(), "{line}");
    }
}

#[test]
fn what_is_not_there_yet_is_refused() {
    // Breaks when mbuma accepts an option that has no effect.
    for line in [
        "--config-net -t 192.0.2.1/~25 1",
        "--config-net -T %lo/80 1",
        "--config-net -t %/80 1",
        "--config-net -c FILE 1",
        "--config-net --fqdn web.test 1",
        "--config-net -F 3 1",
        "--config-net --splice-only 1",
        "--config-net -T 127.0.0.1/80 -t none -u none 1",
        "--config-net -t 80,all 1",
        "--config-net -t 80:10.0.2.x/80 1",
        "--config-net -t 80:fd00::7 1",
        "--config-net -T 80:10.0.2.9/80 -t none -u none 1",
        "--config-net -T ::1/auto -t none -u none 1",
        "--config-net -U all 1",
        "1",
        "--config-net -t ~25 1",
    ] {
        assert!(args(line).to_attach().is_err(), "{line}");
    }
}

#[test]
fn an_option_that_changes_nothing_ends_no_container() {
    // Breaks when an engine's configuration with such an option starts no container, or the option is not named.
    let options = "--trace --stats 5 --log-size 9 --runas nobody --chroot-fallback --freebind";
    let given = args(&format!(
        "--config-net -4 -a 192.0.2.2 -g 192.0.2.1 {options} 1"
    ));
    assert!(given.to_attach().is_ok_and(|attach| attach.is_some()));
    let notes: Vec<_> = given.refused.notes().collect();
    let named = options.split(' ').filter(|word| word.starts_with("--"));
    let named: Vec<_> = named.collect();
    assert_eq!(notes.len(), named.len());
    for (note, option) in notes.iter().zip(named) {
        assert!(note.starts_with(option), "{note}");
    }
}
