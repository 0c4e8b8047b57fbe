use clap::Parser;

use super::*;
use crate::args::{Args, Verb};

/// The arguments of `attach` that an engine's command line becomes.
fn parsed(line: &str) -> AttachArgs {
    let args = Args::try_parse_from(["mbuma", "slirp4netns"].into_iter().chain(line.split(' ')));
    let Verb::Slirp4netns(args) = args.expect("an engine's line").verb else {
        panic!("another verb");
    };
    args.into_attach().expect("usable").expect("a guest")
}

#[test]
fn lines_of_engines_mean_what_they_mean_to_slirp4netns() {
    // Breaks when an engine that calls slirp4netns cannot call mbuma in its place.
    let podman = parsed(
        "--disable-host-loopback --mtu=65520 --enable-sandbox --enable-seccomp --enable-ipv6 -c -e 3 -r 4 \
         --netns-type=path /run/user/1001/netns/netns-1 tap0",
    );
    assert_eq!(
        podman.target,
        AttachTarget::Path("/run/user/1001/netns/netns-1".into())
    );
    assert_eq!((podman.exit_fd, podman.ready_fd), (Some(3), Some(4)));
    let net = &podman.net;
    assert_eq!((net.mtu(), net.tap), (65520, TapUse::Configure));
    assert!(!net.host_loopback && net.demands_isolation && !net.no_sandbox);
    assert!(net.v4().is_some() && net.v6().is_some());

    let buildah = parsed("--mtu 65520 -r 3 -c 4711 tap0");
    assert_eq!(buildah.target, AttachTarget::Pid(4711));
    assert!(buildah.net.v6().is_none(), "it was not asked for");
    assert!(buildah.net.host_loopback, "slirp4netns's own default");

    let rootlesskit =
        parsed("--mtu 1500 -r 3 --cidr 10.9.0.0/24 --enable-sandbox --enable-seccomp 4711 tap0");
    assert_eq!(rootlesskit.net.tap, TapUse::Leave);
    assert_eq!(rootlesskit.net.cidr.guest.to_string(), "10.9.0.100");
    assert_eq!(rootlesskit.net.cidr.gateway.to_string(), "10.9.0.2");
    assert_eq!(rootlesskit.net.cidr.dns.to_string(), "10.9.0.3");

    let detached = parsed(
        "--mtu 65520 -r 3 --enable-ipv6 --userns-path=/proc/4711/ns/user --netns-type=path /proc/4711/root/netns tap0",
    );
    assert_eq!(detached.userns_path, Some("/proc/4711/ns/user".into()));
    let outbound = parsed(
        "--outbound-addr=192.0.2.2 --outbound-addr6=2001:db8::2 -c --macaddress=02:00:00:00:00:01 4711",
    );
    let sources = outbound.net.outbound.sources().expect("addresses");
    assert_eq!(sources.v4, "192.0.2.2".parse().ok());
    assert_eq!(sources.v6, "2001:db8::2".parse().ok());
    assert_eq!(outbound.net.mac, Some([2, 0, 0, 0, 0, 1]));
    assert_eq!(outbound.ifname, "tap0");
}

#[test]
fn help_has_the_words_that_engines_look_for() {
    // Breaks when podman takes mbuma for a slirp4netns that lacks an option.
    let help = Args::try_parse_from(["mbuma", "slirp4netns", "--help"]).expect_err("help");
    assert_eq!(help.exit_code(), 0);
    let text = help.to_string();
    for word in [
        "--disable-host-loopback",
        "--mtu",
        "--enable-sandbox",
        "--enable-seccomp",
        "--cidr",
        "--enable-ipv6",
        "--outbound-addr",
        "--netns-type",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn a_path_is_no_process() {
    // Breaks when a path is read as a process id, so that mbuma serves another namespace.
    let args = Args::try_parse_from(["mbuma", "slirp4netns", "/run/netns/a"]).expect("parses");
    let Verb::Slirp4netns(args) = args.verb else {
        panic!("another verb")
    };
    assert!(args.into_attach().is_err());
    for mac in [
        "01:00:00:00:00:01",
        "02:00:00:00:01",
        "02:00:00:00:00:01:02",
        "2:0:0:0:0:1",
    ] {
        assert!(super::mac(mac).is_err(), "{mac}");
    }
}
