//! DHCP clients of the system get their lease from the gateway, the first time that they ask.
//!
//! Each runs in a namespace that `mbuma attach` serves, after the address that mbuma configured was taken away.

use std::process::Command;

use crate::common::needs::{guests, ip6, programs, root};
use crate::common::test_host::{ip, shell};
use crate::common::{MBUMA, PATIENCE, Running, Scratch, Stats, program, wait_until};

/// A script that udhcpc and dhclient call with what they were given; each has other names for it.
const SCRIPT: &str = "#!/bin/sh
mask=${mask:-$new_subnet_mask}
case \"${1:-$reason}\" in
bound|renew|BOUND|REBOOT|RENEW)
    ip addr replace ${ip:-$new_ip_address}/24 dev $interface
    ip link set $interface mtu ${mtu:-$new_interface_mtu}
    ip route replace default via ${router:-$new_routers}
    echo \"LEASE ${ip:-$new_ip_address} $mask ${router:-$new_routers} \
${dns:-$new_domain_name_servers} ${mtu:-$new_interface_mtu}\"
    ;;
esac
exit 0
";

/// A namespace that is served, without an address.
pub(super) struct Place {
    pub(super) attached: Running,
    pub(super) scratch: Scratch,
}

impl Place {
    pub(super) fn new() -> Place {
        ip("netns add blue");
        let mut command = program("sh");
        let line = format!(
            "exec {MBUMA} attach /run/netns/blue --mtu 4000 --stats=json --ready-fd 3 3>&1 1>&2"
        );
        command.args(["-c", &line]);
        let attached = Running::start(command);
        assert_eq!(attached.wait_for_end_of_output(), "1");
        ip("-n blue addr flush dev tap0");
        let scratch = Scratch::new();
        let script = scratch.write("script", SCRIPT.as_bytes());
        shell(&format!("chmod 755 {script}"));
        Place { attached, scratch }
    }

    /// Runs a client there to its end, and returns its output.
    pub(super) fn run(&self, line: &str) -> String {
        let mut client: Command = program("ip");
        client.args(["netns", "exec", "blue", "sh", "-c", line]);
        let ended = Running::start(client).with_patience(PATIENCE * 4).finish();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.out + &ended.err
    }

    /// Ends the gateway, and gives its figures.
    pub(super) fn stop(self) -> Stats {
        self.attached.signal("TERM");
        Stats::checked(&self.attached.finish().err)
    }

    /// The client's address and route are there, and the gateway has replied that often at least: a client that waits
    /// too long asks again.
    fn end(self, replies: u64) {
        let addr = self.run("ip -4 addr show tap0; ip -4 route; cat /sys/class/net/tap0/mtu");
        assert!(addr.contains("inet 10.0.2.100/24"), "{addr}");
        assert!(addr.contains("default via 10.0.2.2"), "{addr}");
        self.run("ping -c 1 -W 20 10.0.2.2 > /dev/null");
        assert!(self.stop().number("dhcp_replies") >= replies);
    }
}

const LEASE: &str = "LEASE 10.0.2.100 255.255.255.0 10.0.2.2 10.0.2.3 4000";

#[test]
fn udhcpc_gets_its_lease() {
    // Breaks when busybox's client gets no answer, or other values than `run` configures.
    needs!(guests(), root(), programs(&["udhcpc", "ping"]));
    on_test_host!();
    let place = Place::new();
    let script = place.scratch.text("script");
    let said = place.run(&format!(
        "udhcpc -f -n -q -t 20 -T 5 -i tap0 -O mtu -s {script}"
    ));
    // It writes the mask in another form too.
    assert!(
        said.contains(LEASE) || said.contains(&LEASE.replace("255.255.255.0", "24")),
        "{said}"
    );
    place.end(2);
}

#[test]
fn dhclient_gets_its_lease() {
    // Breaks when ISC's client gets no answer, or other values than `run` configures.
    needs!(guests(), root(), programs(&["dhclient", "ping"]));
    on_test_host!();
    let place = Place::new();
    let [script, leases, pid] = ["script", "leases", "pid"].map(|name| place.scratch.text(name));
    let said = place.run(&format!(
        "dhclient -4 -1 -v -sf {script} -lf {leases} -pf {pid} tap0 2>&1 | cat; cat {leases}"
    ));
    for words in [
        "fixed-address 10.0.2.100",
        "routers 10.0.2.2",
        "interface-mtu 4000",
        "server-identifier 10.0.2.2",
    ] {
        assert!(said.contains(words), "no {words}: {said}");
    }
    place.run(&format!("kill $(cat {pid})"));
    place.end(2);
}

#[test]
fn dhcpcd_gets_its_lease() {
    // Breaks when dhcpcd, which probes whether its address is in use, gets no lease, or an answer to its probe.
    needs!(guests(), root(), programs(&["dhcpcd", "ping"]));
    on_test_host!();
    // It asks for the address that it had here last.
    shell("[ ! -d /var/lib/dhcpcd ] || mount -t tmpfs none /var/lib/dhcpcd");
    let place = Place::new();
    let config = place.scratch.write(
        "dhcpcd.conf",
        b"option interface_mtu\noption domain_name_servers, host_name\n",
    );
    let said = place.run(&format!("dhcpcd -4 -1 -B -t 60 -f {config} tap0 2>&1"));
    assert!(said.contains("leased 10.0.2.100"), "{said}");
    place.end(2);
}

pub(super) const NETWORKD: &str = "/lib/systemd/systemd-networkd";
const NETWORKD_CONFIG: &str = "[Match]
Name=tap0
[Network]
DHCP=ipv4
LinkLocalAddressing=no
IPv6AcceptRA=no
[DHCPv4]
UseMTU=yes
";

pub(super) fn networkd() -> Result<(), String> {
    let is_there = std::path::Path::new(NETWORKD).is_file();
    is_there.then_some(()).ok_or(format!("no {NETWORKD}"))
}

/// Starts networkd in the namespace, with its configuration of the interface.
pub(super) fn start_networkd(config: &str) -> Running {
    // With a /sys to write to it waits for udev.
    shell(
        "mkdir -p /run/systemd/network /run/systemd/netif
         chown systemd-network: /run/systemd/netif
         mount -t sysfs -o ro none /sys",
    );
    std::fs::write("/run/systemd/network/10.network", config).expect("/run of the test host");
    let mut daemon = program("nsenter");
    daemon.args(["--net=/run/netns/blue", NETWORKD]);
    Running::start(daemon)
}

#[test]
fn systemd_networkd_gets_its_lease() {
    // Breaks when networkd takes no reply, because an option that it requires is missing.
    needs!(guests(), root(), networkd(), programs(&["nsenter", "ping"]));
    on_test_host!();
    let place = Place::new();
    let daemon = start_networkd(NETWORKD_CONFIG);
    wait_until("a lease", || {
        place.run("ip -4 route").contains("default via 10.0.2.2")
    });
    place.end(2);
    daemon.signal("TERM");
    daemon.finish();
}

const BUS_CONFIG: &str = "<busconfig><type>system</type>
<listen>unix:path=/run/dbus/system_bus_socket</listen>
<policy context='default'>
<allow own='*'/><allow send_destination='*'/><allow receive_sender='*'/><allow user='*'/>
</policy>
</busconfig>";
const MANAGER_CONFIG: &str = "[main]
plugins=keyfile
dhcp=internal
dns=none
rc-manager=unmanaged
auth-polkit=false
systemd-resolved=false
firewall-backend=none
[keyfile]
path=/run/nm/connections
[device]
match-device=interface-name:tap0
managed=1
";
const MANAGER_CONNECTION: &str = "[connection]
id=tap0
uuid=1b3c8b5e-6ae9-4b6c-9a5a-0a8b9b6f0a11
type=tun
interface-name=tap0
[tun]
mode=2
vnet-hdr=true
multi-queue=true
[ipv4]
method=auto
[ipv6]
method=auto
";

/// Starts NetworkManager in the namespace, beside a bus of its own.
fn start_network_manager() -> [Running; 2] {
    shell(
        "mkdir -p /run/dbus /run/NetworkManager /run/nm/empty
         mkdir -m 700 /run/nm/connections
         mount -t sysfs -o ro none /sys",
    );
    let write = |name: &str, text: &str| {
        std::fs::write(format!("/run/nm/{name}"), text).expect("/run of the test host");
    };
    write("bus.conf", BUS_CONFIG);
    write("nm.conf", MANAGER_CONFIG);
    write("connections/tap0.nmconnection", MANAGER_CONNECTION);
    shell("chmod 600 /run/nm/connections/*");
    let mut bus = program("dbus-daemon");
    bus.args(["--config-file=/run/nm/bus.conf", "--nofork", "--nopidfile"]);
    let bus = Running::start(bus);
    wait_until("the bus", || {
        std::path::Path::new("/run/dbus/system_bus_socket").exists()
    });
    let mut manager = program("nsenter");
    manager.args(["--net=/run/netns/blue", "NetworkManager", "--debug"]);
    manager.args(["--config=/run/nm/nm.conf", "--config-dir=/run/nm/empty"]);
    manager.args([
        "--system-config-dir=/run/nm/empty",
        "--pid-file=/run/nm/pid",
    ]);
    manager.args([
        "--intern-config=/run/nm/intern.conf",
        "--state-file=/run/nm/state",
    ]);
    [bus, Running::start(manager)]
}

#[test]
fn network_manager_gets_its_lease() {
    // Breaks when NetworkManager takes no lease, because an option that it requires is missing, or no address from the
    // router advertisement.
    needs!(
        guests(),
        root(),
        programs(&["NetworkManager", "dbus-daemon", "nsenter", "ping"])
    );
    on_test_host!();
    let place = Place::new();
    let [bus, manager] = start_network_manager();
    wait_until("a lease", || {
        place.run("ip -4 route").contains("default via 10.0.2.2")
    });
    wait_until("an address of IPv6", || {
        ip6().is_err() || place.run("ip -6 addr show tap0").contains("inet6 fd00::")
    });
    // It takes the first reply (rapid commit).
    place.end(1);
    for daemon in [manager, bus] {
        daemon.signal("TERM");
        daemon.finish();
    }
}
