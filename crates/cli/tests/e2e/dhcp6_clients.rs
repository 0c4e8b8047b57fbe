//! Guests that configure themselves over IPv6: the kernel by router advertisements, clients of DHCPv6 by their leases.
//!
//! Each is in a namespace that `mbuma attach` serves, after the addresses that mbuma configured were taken away.

use crate::common::needs::{guests, programs, root};
use crate::common::{Stats, wait_until};
use crate::dhcp_clients::{Place, networkd, start_networkd};

/// A script that dhclient calls with what it was given.
const SCRIPT: &str = "#!/bin/sh
case \"$reason\" in
BOUND6)
    ip -6 addr add $new_ip6_address/128 dev $interface
    echo \"LEASE6 $new_ip6_address $new_dhcp6_name_servers $new_max_life\"
    ;;
esac
exit 0
";

/// A served namespace that has a link-local address. `routers`: its kernel asks for routers.
fn place(routers: bool) -> Place {
    let place = Place::new();
    let accept = u8::from(routers);
    place.run(&format!(
        "cd /proc/sys/net/ipv6/conf/tap0
         echo 1 > disable_ipv6; echo 0 > addr_gen_mode; echo 0 > accept_dad
         echo {accept} > accept_ra; echo {accept} > autoconf; echo 0 > router_solicitation_delay
         echo 0 > disable_ipv6"
    ));
    wait_until("an address of the link", || {
        place.run("ip -6 addr show tap0").contains("inet6 fe80::")
    });
    place
}

#[test]
fn a_kernel_configures_itself_by_router_advertisements() {
    // Breaks when a guest's kernel that solicits routers gets no address, route or MTU, or forgets its router because a
    // neighbour advertisement lacks the router flag; or when mbuma ends without an advertisement that ends the router.
    needs!(guests(), root(), programs(&["ping"]));
    on_test_host!();
    let place = place(true);
    wait_until("a default route", || {
        place.run("ip -6 route").contains("default via fe80::2")
    });
    let configured =
        place.run("ip -6 addr show tap0 dynamic; ip -6 route show default; ip -6 neigh");
    assert!(configured.contains("inet6 fd00::"), "{configured}");
    assert!(configured.contains("hoplimit 64"), "{configured}");
    let mtu = place.run("cat /proc/sys/net/ipv6/conf/tap0/mtu");
    assert_eq!(mtu.trim(), "4000");
    place.run(
        "ip -6 neigh flush dev tap0
         ping -c 1 -W 20 fe80::2%tap0 > /dev/null; ping -c 1 -W 20 fd00::2 > /dev/null",
    );
    let after = place.run("ip -6 route show default; ip -6 neigh");
    assert!(after.contains("default via fe80::2"), "{after}");
    assert!(after.contains("router REACHABLE"), "{after}");
    place.attached.signal("TERM");
    wait_until("the end of the route", || {
        !place.run("ip -6 route").contains("default via fe80::2")
    });
    let stats = Stats::checked(&place.attached.finish().err);
    assert!(stats.number("router_adverts") >= 1);
}

#[test]
fn dhclient_gets_its_address_of_ipv6() {
    // Breaks when ISC's client gets no answer, or other values than `run` configures.
    needs!(guests(), root(), programs(&["dhclient", "ping"]));
    on_test_host!();
    // The address has no prefix: the route to the gateway comes from a router advertisement.
    let place = place(true);
    wait_until("a default route", || {
        place.run("ip -6 route").contains("default via fe80::2")
    });
    let script = place.scratch.write("script6", SCRIPT.as_bytes());
    let [leases, pid] = ["leases", "pid"].map(|name| place.scratch.text(name));
    let said = place.run(&format!(
        "chmod 755 {script}
         dhclient -6 -1 -v -sf {script} -lf {leases} -pf {pid} tap0 2>&1 | cat
         until [ -s {pid} ]; do sleep 0.1; done
         kill $(cat {pid}); ping -c 1 -W 20 -I fd00::100 fd00::2 > /dev/null"
    ));
    assert!(said.contains("LEASE6 fd00::100 fd00::3 86400"), "{said}");
    // Advertised, and confirmed; a client that waits too long asks again.
    assert!(place.stop().number("dhcp6_replies") >= 2);
}

#[test]
fn dhcpcd_gets_its_address_of_ipv6() {
    // Breaks when dhcpcd, which asks all servers again with the lease that it has, is not answered.
    needs!(guests(), root(), programs(&["dhcpcd"]));
    on_test_host!();
    crate::common::test_host::shell(
        "[ ! -d /var/lib/dhcpcd ] || mount -t tmpfs none /var/lib/dhcpcd",
    );
    let place = place(false);
    let config = place.scratch.write(
        "dhcpcd.conf",
        b"ipv6only\nnoipv6rs\nia_na 1\noption dhcp6_name_servers\n",
    );
    for round in ["a lease", "the same after a restart"] {
        let said = place.run(&format!("dhcpcd -6 -1 -B -t 60 -f {config} tap0 2>&1"));
        assert!(said.contains("fd00::100"), "{round}: {said}");
    }
    assert!(place.stop().number("dhcp6_replies") >= 3);
}

const NETWORKD_CONFIG: &str = "[Match]
Name=tap0
[Network]
DHCP=ipv6
LinkLocalAddressing=ipv6
IPv6AcceptRA=yes
IPv6DuplicateAddressDetection=0
[IPv6AcceptRA]
DHCPv6Client=always
";

#[test]
fn systemd_networkd_configures_ipv6() {
    // Breaks when networkd drops an advertisement or a lease because an option that it requires is missing.
    needs!(guests(), root(), networkd(), programs(&["nsenter", "ping"]));
    on_test_host!();
    let place = place(false);
    let daemon = start_networkd(NETWORKD_CONFIG);
    wait_until("a lease and a route", || {
        let all = place.run("ip -6 addr show tap0; ip -6 route");
        all.contains("inet6 fd00::100/128") && all.contains("default")
    });
    place.run("ping -c 1 -W 20 -I fd00::100 fd00::2 > /dev/null");
    let stats = place.stop();
    // It may ask for the lease at once.
    assert!(stats.number("dhcp6_replies") >= 1 && stats.number("router_adverts") >= 1);
    daemon.signal("TERM");
    daemon.finish();
}
