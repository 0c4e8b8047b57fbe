//! The list of contestants, each started as by a container engine.
//!
//! Each gets the options to make an interface tap0 in the guest's namespace and to map 10.0.2.2, or fd00::2, to the
//! host's loopback. The tools' options are those under which podman starts them.

use super::host::{Place, Tool};
use crate::harness::choice::Kind;
use crate::harness::namespace::ip;
use rustix::net::{AddressFamily, SocketType};
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name, in all output.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// The guest reaches the host over IPv6.
    pub(crate) ip6: bool,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    /// Starts it.
    pub(crate) start: fn(&Place<'_>) -> io::Result<Link>,
    /// How it runs a command in a network of its own, if it does: the command's words follow.
    pub(crate) run: Option<fn(&OsStr) -> Command>,
}

/// The joint of the two namespaces.
pub(crate) struct Link {
    /// The tool between the namespaces, if there is one.
    pub(crate) tool: Option<Tool>,
    /// The address of the host's servers for the guest.
    pub(crate) server: IpAddr,
}

/// All contestants, in the order in which they are shown: each over IPv4, then each over IPv6.
pub(crate) const CATALOG: &[Entry] = &[
    entry("mbuma", Kind::Ours, false, MBUMA, mbuma).runs(|program| words(program, "run -4 --")),
    entry(
        "mbuma-no-sandbox",
        Kind::Ours,
        false,
        NO_SANDBOX,
        no_sandbox,
    )
    .runs(|program| words(program, "run -4 --no-sandbox --")),
    entry("pasta", Kind::Peer, false, PASTA, pasta).runs(|_| words("pasta", "-4 --config-net")),
    entry("slirp4netns", Kind::Peer, false, SLIRP4NETNS, slirp4netns),
    entry("kernel", Kind::Peer, false, KERNEL, kernel),
    entry("mbuma-ip6", Kind::Ours, true, MBUMA, mbuma).runs(|program| words(program, "run --")),
    entry("pasta-ip6", Kind::Peer, true, PASTA, pasta).runs(|_| words("pasta", "--config-net")),
    entry(
        "slirp4netns-ip6",
        Kind::Peer,
        true,
        SLIRP4NETNS,
        slirp4netns,
    ),
    entry("kernel-ip6", Kind::Peer, true, KERNEL, kernel),
];

const MBUMA: &str = "this program, as `mbuma attach`";
const NO_SANDBOX: &str = "the same without its isolation, which is what that costs";
const PASTA: &str = "passt's pasta, by its TAP: not its shortcut from loopback to loopback";
const SLIRP4NETNS: &str = "libslirp's, in its sandbox";
const KERNEL: &str =
    "no tool: a veth pair between the namespaces, which takes privileges on the host";

const fn entry(
    name: &'static str,
    kind: Kind,
    ip6: bool,
    about: &'static str,
    start: fn(&Place<'_>) -> io::Result<Link>,
) -> Entry {
    Entry {
        name,
        kind,
        ip6,
        about,
        start,
        run: None,
    }
}

impl Entry {
    const fn runs(self, run: fn(&OsStr) -> Command) -> Self {
        Self {
            run: Some(run),
            ..self
        }
    }
}

/// A program with these words behind its name.
fn words(program: impl AsRef<OsStr>, words: &str) -> Command {
    let mut command = Command::new(program);
    command.args(words.split(' '));
    command
}

fn mbuma(place: &Place<'_>) -> io::Result<Link> {
    tool(attach(place), place)
}

fn no_sandbox(place: &Place<'_>) -> io::Result<Link> {
    let mut command = attach(place);
    command.arg("--no-sandbox");
    tool(command, place)
}

fn attach(place: &Place<'_>) -> Command {
    let mut command = Command::new(place.program);
    command.args(["attach", &place.guest.to_string()]);
    command.args(["--ifname", IFNAME, "--host-loopback"]);
    command.args(["--mtu", &place.mtu.to_string()]);
    command
}

fn pasta(place: &Place<'_>) -> io::Result<Link> {
    // It takes an interface of the host's with a route for its model. Not every kernel has dummy ones.
    ip("link add host0 type veth peer name host1")?;
    ip("link set host1 up")?;
    ip("link set host0 up")?;
    let mut command = Command::new("pasta");
    command.args(["-f", "--config-net", "-i", "host0", "-I", IFNAME]);
    let gateway = gateway(place).to_string();
    match place.ip6 {
        true => {
            ip("-6 addr add fd77::1/64 dev host0 nodad")?;
            ip("-6 route add default via fd77::fe dev host0")?;
            command.args(["-6", "-a", "fd00::15", "-g", &gateway]);
        }
        false => {
            ip("addr add 10.77.0.1/24 dev host0")?;
            ip("route add default via 10.77.0.254 dev host0")?;
            command.args(["-4", "-a", "10.0.2.15", "-n", "24", "-g", &gateway]);
        }
    }
    command.args(["-m", &place.mtu.to_string(), "--runas", "0:0"]);
    command.args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"]);
    // Earlier versions do it without the option.
    if says("pasta", "--help", "--map-host-loopback") {
        command.args(["--map-host-loopback", &gateway]);
    }
    command.args(["--netns", &format!("/proc/{}/ns/net", place.guest)]);
    command.arg("--netns-only");
    tool(command, place)
}

fn slirp4netns(place: &Place<'_>) -> io::Result<Link> {
    let mut command = Command::new("slirp4netns");
    command.args(["--configure", "--enable-sandbox", "--enable-seccomp"]);
    command.arg(format!("--mtu={}", place.mtu));
    command.args(place.ip6.then_some("--enable-ipv6"));
    command.args([&place.guest.to_string(), IFNAME]);
    tool(command, place)
}

fn kernel(place: &Place<'_>) -> io::Result<Link> {
    let (mtu, guest) = (place.mtu, place.guest);
    ip(&format!(
        "link add veth0 mtu {mtu} type veth peer name {IFNAME} mtu {mtu} netns {guest}"
    ))?;
    let (ours, theirs) = match place.ip6 {
        true => ("fd00::2/64", "fd00::15/64"),
        false => ("10.0.2.2/24", "10.0.2.15/24"),
    };
    // Without a probe for duplicates, which IPv4 has none of.
    let nodad = if place.ip6 { " nodad" } else { "" };
    ip(&format!("addr add {ours} dev veth0{nodad}"))?;
    ip("link set veth0 up")?;
    place.in_guest(&format!("addr add {theirs} dev {IFNAME}{nodad}"))?;
    place.in_guest(&format!("link set {IFNAME} up"))?;
    Ok(Link {
        tool: None,
        server: gateway(place),
    })
}

fn tool(command: Command, place: &Place<'_>) -> io::Result<Link> {
    Ok(Link {
        tool: Some(Tool::start(command)?),
        server: gateway(place),
    })
}

/// Whether a program prints a word when called with an argument.
fn says(program: &str, told: &str, word: &str) -> bool {
    let output = Command::new(program).arg(told).output();
    output.is_ok_and(|out| {
        let said = [out.stdout, out.stderr].concat();
        String::from_utf8_lossy(&said).contains(word)
    })
}

/// The interface in the guest.
const IFNAME: &str = "tap0";

/// Its index, in the guest.
pub(super) fn interface() -> io::Result<u32> {
    let any = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(rustix::net::netdevice::name_to_index(any, IFNAME)?)
}

/// The way to the host: each maps it to the host's loopback, or, with no tool, it is the host.
fn gateway(place: &Place<'_>) -> IpAddr {
    match place.ip6 {
        true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into(),
        false => Ipv4Addr::new(10, 0, 2, 2).into(),
    }
}
