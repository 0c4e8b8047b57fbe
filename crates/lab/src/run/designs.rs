//! The list of contestants, and how each is started: as a container engine does it.
//!
//! Each gets the options to make an interface tap0 in the guest's namespace and to map 10.0.2.2 to the host's
//! loopback. The tools' options are those under which podman starts them.

use super::host::{Place, Tool};
use crate::harness::choice::Kind;
use crate::harness::namespace::ip;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name, in all output.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    /// Starts it.
    pub(crate) start: fn(&Place<'_>) -> io::Result<Link>,
}

/// The joint of the two namespaces.
pub(crate) struct Link {
    /// The tool that does, if it is one.
    pub(crate) tool: Option<Tool>,
    /// Where the guest finds the host's servers.
    pub(crate) server: Ipv4Addr,
}

/// All contestants, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "mbuma",
        kind: Kind::Ours,
        about: "this program, as `mbuma attach`",
        start: mbuma,
    },
    Entry {
        name: "pasta",
        kind: Kind::Peer,
        about: "passt's pasta, by its TAP: not its shortcut from loopback to loopback",
        start: pasta,
    },
    Entry {
        name: "slirp4netns",
        kind: Kind::Peer,
        about: "libslirp's, in its sandbox",
        start: slirp4netns,
    },
    Entry {
        name: "kernel",
        kind: Kind::Peer,
        about: "no tool: a veth pair between the namespaces, which takes privileges on the host",
        start: kernel,
    },
];

fn mbuma(place: &Place<'_>) -> io::Result<Link> {
    let mut command = Command::new(place.program);
    command.args(["attach", &place.guest.to_string()]);
    command.args(["--ifname", IFNAME, "--host-loopback"]);
    command.args(["--mtu", &place.mtu.to_string()]);
    tool(command)
}

fn pasta(place: &Place<'_>) -> io::Result<Link> {
    // It takes an interface of the host's with a route for its model. Not every kernel has dummy ones.
    ip("link add host0 type veth peer name host1")?;
    ip("addr add 10.77.0.1/24 dev host0")?;
    ip("link set host1 up")?;
    ip("link set host0 up")?;
    ip("route add default via 10.77.0.254 dev host0")?;
    let mut command = Command::new("pasta");
    command.args(["-f", "--config-net", "-4", "-a", "10.0.2.15", "-n", "24"]);
    command.args(["-g", "10.0.2.2", "-i", "host0", "-I", IFNAME]);
    command.args(["-m", &place.mtu.to_string(), "--runas", "0:0"]);
    command.args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"]);
    // Earlier ones do it unasked.
    if says("pasta", "--help", "--map-host-loopback") {
        command.args(["--map-host-loopback", "10.0.2.2"]);
    }
    command.args(["--netns", &format!("/proc/{}/ns/net", place.guest)]);
    command.arg("--netns-only");
    tool(command)
}

fn slirp4netns(place: &Place<'_>) -> io::Result<Link> {
    let mut command = Command::new("slirp4netns");
    command.args(["--configure", "--enable-sandbox", "--enable-seccomp"]);
    command.arg(format!("--mtu={}", place.mtu));
    command.args([&place.guest.to_string(), IFNAME]);
    tool(command)
}

fn kernel(place: &Place<'_>) -> io::Result<Link> {
    let (mtu, guest) = (place.mtu, place.guest);
    ip(&format!(
        "link add veth0 mtu {mtu} type veth peer name {IFNAME} mtu {mtu} netns {guest}"
    ))?;
    ip("addr add 10.0.2.2/24 dev veth0")?;
    ip("link set veth0 up")?;
    place.in_guest(&format!("addr add 10.0.2.15/24 dev {IFNAME}"))?;
    place.in_guest(&format!("link set {IFNAME} up"))?;
    Ok(Link {
        tool: None,
        server: GATEWAY,
    })
}

fn tool(command: Command) -> io::Result<Link> {
    Ok(Link {
        tool: Some(Tool::start(command)?),
        server: GATEWAY,
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
/// The way to the host.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
