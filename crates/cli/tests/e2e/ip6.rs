//! A guest over IPv6: its addresses, and where its connections, datagrams, names and pings go.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};

use crate::common::nameserver::{ANSWER, NameServer};
use crate::common::needs::{guests, ip6, programs, root};
use crate::common::scratch::noise;
use crate::common::server::{TcpServer, patient};
use crate::common::test_host::{make_neighbour, make_tun, resolve_with, shell};
use crate::common::{
    AS_NOBODY, MBUMA, PATIENCE, Running, Scratch, mbuma, mbuma_python, output_of, output_of_python,
    program, wait_until,
};
use crate::datagrams::{DATAGRAM_ERRORS, outcomes};

/// The network that [`make_neighbour`] makes, over IPv6 too: this side is 2001:db8:1::1, the other 2001:db8:1::2.
pub(crate) fn make_neighbour6() {
    make_neighbour();
    shell(
        "ip -6 addr add 2001:db8:1::1/64 dev near0 nodad
         ip -6 -n far addr add 2001:db8:1::2/64 dev far0 nodad",
    );
}

/// Prints, for each address and port among its arguments, how connecting ends.
const CONNECT: &str = "
import errno, socket, sys
for where in sys.argv[1:]:
    host, port = where.rsplit(':', 1)
    s = socket.socket(socket.AF_INET6)
    s.settimeout(20)
    try:
        s.connect((host, int(port)))
        s.getpeername()
        name = 'CONNECTED'
    except TimeoutError:
        name = 'TIMEOUT'
    except OSError as e:
        if e.errno == errno.ENOTCONN:
            e = OSError(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 'late')
        name = errno.errorcode[e.errno]
    print(where, name)
";

#[test]
fn ipv6_works_from_the_first_command_on() {
    // Breaks when an address is still being probed for duplicates as COMMAND begins, so that its bind or connect fails;
    // also for an ordinary user.
    needs!(
        guests(),
        root(),
        ip6(),
        programs(&["setpriv", "ping", "ip", "curl"])
    );
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    let copy = scratch.copy("mbuma", std::path::Path::new(MBUMA));
    let script = "ping -6 -n -c 1 -W 20 fd00::2 && ip -6 -o addr show dev tap0 && ip -6 route show default \
                  && curl -sS -g 'http://[fd00::2]/metrics'";
    for before in [&[][..], &AS_NOBODY] {
        let words = [before, &[&*copy], &["run", "--", "sh", "-c", script]].concat();
        let mut command = program(words[0]);
        command.args(&words[1..]);
        let out = Running::start(command).finish().good();
        assert!(out.contains("1 received, 0% packet loss"), "{out}");
        let own = ["inet6 fd00::100/64", "inet6 fe80::100/64"];
        assert!(own.iter().all(|addr| out.contains(addr)), "{out}");
        assert!(!out.contains("tentative"), "{out}");
        assert!(out.contains("default via fe80::2 dev tap0"), "{out}");
        assert!(out.contains("mbuma_uptime_seconds"), "{out}");
    }
}

#[test]
fn the_first_ping_of_each_guest_is_answered() {
    // Breaks when COMMAND can begin before the address or the way to the gateway is usable, however seldom.
    needs!(guests(), ip6(), programs(&["ping"]));
    for guest in 0..25 {
        let out = output_of(&[], "ping -n -c 1 -W 5 fd00::2");
        assert!(out.contains("1 received"), "guest {guest}: {out}");
    }
}

#[test]
fn each_version_of_ip_can_be_had_alone() {
    // Breaks when -4 leaves a guest with IPv6 addresses, or -6 with a name server that it can't reach.
    needs!(guests(), ip6(), programs(&["ip", "dig", "ping"]));
    on_test_host!();
    let _server = NameServer::start("127.0.0.1");
    resolve_with("nameserver 127.0.0.1\n");
    let script = "ip -o addr show dev tap0; grep nameserver /etc/resolv.conf; \
                  dig +short +tries=2 +time=15 host.example A";
    let out = output_of(&["-4"], script);
    assert!(
        out.contains("inet 10.0.2.100/24") && !out.contains("inet6"),
        "{out}"
    );
    assert!(
        out.contains("nameserver 10.0.2.3") && out.contains(ANSWER),
        "{out}"
    );
    let out = output_of(&["-6", "--ipv6-prefix", "fd12:3456::/64"], script);
    assert!(
        out.contains("inet6 fd12:3456::100/64") && !out.contains("inet "),
        "{out}"
    );
    assert!(
        out.contains("nameserver fd12:3456::3") && out.contains(ANSWER),
        "{out}"
    );
    // Other addresses of both networks. Breaks if an option changes the guest's address but not the stack's.
    let placed = ["10.0.2.15", "fd00::15"].map(|addr| ["--address", addr]);
    let gateways = ["10.0.2.1", "fd00::1"].map(|addr| ["--gateway", addr]);
    let ping = "ip -o addr show dev tap0; ping -nc1 -W9 10.0.2.1 && ping -nc1 -W9 fd00::1";
    let out = output_of(&[placed.concat(), gateways.concat()].concat(), ping);
    assert!(
        out.contains("inet 10.0.2.15/24") && out.contains("inet6 fd00::15/64"),
        "{out}"
    );
    // IPv6 does not exist on so narrow a link.
    let out = output_of(&["--mtu", "1279"], script);
    assert!(
        out.contains("inet 10.0.2.100/24") && !out.contains("inet6"),
        "{out}"
    );
}

#[test]
fn names_are_resolved_at_the_ipv6_address_too() {
    // Breaks when fd00::3 asks only name servers of its own family, or none.
    needs!(guests(), ip6(), programs(&["dig"]));
    on_test_host!();
    let server = NameServer::start("127.0.0.1");
    resolve_with("nameserver 127.0.0.1\n");
    let dig = "dig +short +tries=2 +time=15";
    let out = output_of(&[], &format!("{dig} @fd00::3 host.example A"));
    assert_eq!((out.trim(), server.connections()), (ANSWER, 0));
    let out = output_of(&[], &format!("{dig} +tcp @fd00::3 host.example A"));
    assert_eq!((out.trim(), server.connections()), (ANSWER, 1));
    drop(server);
    // The other way round: a name server of IPv6 behind 10.0.2.3.
    let _server = NameServer::start("[::1]");
    resolve_with("nameserver ::1\n");
    let out = output_of(&[], &format!("{dig} @10.0.2.3 host.example A"));
    assert_eq!(out.trim(), ANSWER);
}

#[test]
fn a_stream_over_ipv6_arrives_whole_both_ways() {
    // Breaks when bytes are lost or changed on a connection over IPv6, or the end of one direction ends the other.
    needs!(guests(), ip6(), programs(&["python3"]));
    on_test_host!();
    let sent = noise(3_000_000, 6);
    let answer = sent.clone();
    let server = TcpServer::start_at("[::1]:0", move |mut stream| {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("the guest's end");
        let reply = if got == answer { &got[..] } else { b"differs" };
        stream.write_all(reply).expect("the guest reads");
        stream.shutdown(Shutdown::Write).expect("connected");
    });
    let scratch = Scratch::new();
    scratch.write("file", &sent);
    let source = "
import socket, sys
s = socket.create_connection(('fd00::2', int(sys.argv[1])))
sent = open(sys.argv[2], 'rb').read()
s.sendall(sent)
s.shutdown(socket.SHUT_WR)
got = b''
while piece := s.recv(1 << 16):
    got += piece
print('same' if got == sent else 'different', s.getsockname()[0])
";
    let args = [&*server.port().to_string(), &*scratch.text("file")];
    for mtu in ["1280", "65520"] {
        let out = output_of_python(&["--host-loopback", "--mtu", mtu], source, &args);
        assert_eq!(out, "same fd00::100\n", "at MTU {mtu}");
    }
}

#[test]
fn refusals_over_ipv6_are_those_of_the_host() {
    // Breaks when a guest waits for an error that the host got at once, or gets another error; or when it reaches the
    // host's loopback, a cloud's metadata service or an IPv4 address embedded in an IPv6 address.
    needs!(guests(), ip6(), programs(&["python3"]));
    on_test_host!();
    shell(
        "ip -6 route add unreachable 2001:db8:e::/64
         ip -6 route add prohibit 2001:db8:d::/64",
    );
    let server = TcpServer::start_at("[::1]:0", |_| {});
    let open = format!("fd00::2:{}", server.port());
    let wants = [
        (&*open, "CONNECTED"),
        ("fd00::2:9", "ECONNREFUSED"),
        ("fd00::3:54", "ECONNREFUSED"),
        ("2001:db8:f::1:9", "ENETUNREACH"),
        ("2001:db8:e::1:9", "EHOSTUNREACH"),
        ("2001:db8:d::1:9", "EACCES"),
        ("fd00:ec2::254:80", "EACCES"),
        ("64:ff9b::7f00:1:80", "EACCES"),
    ];
    let args = wants.map(|(at, _)| at);
    let out = output_of_python(&["--host-loopback"], CONNECT, &args);
    assert_eq!(outcomes(&out), wants);
    let out = output_of_python(&["--host-loopback"], DATAGRAM_ERRORS, &args[1..]);
    assert_eq!(outcomes(&out), wants[1..]);
    let out = output_of_python(&[], CONNECT, &[&open]);
    assert_eq!(outcomes(&out), [(&*open, "ECONNREFUSED")]);
}

#[test]
fn a_host_without_ipv6_costs_its_guest_no_waiting() {
    // Breaks when mbuma does not start where IPv6 is off, or a program waits for an answer before it turns to IPv4.
    needs!(guests(), ip6(), programs(&["python3", "curl"]));
    on_test_host!();
    // In this namespace; those made in it begin with the machine's settings.
    shell("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    let out = output_of_python(&[], CONNECT, &["2001:db8:f::1:9"]);
    assert_eq!(outcomes(&out), [("2001:db8:f::1:9", "ENETUNREACH")]);
    let out = output_of(&[], "curl -sS -g 'http://[fd00::2]/metrics' | sed -n 1p");
    assert!(out.starts_with('#'), "{out}");
}

#[test]
fn datagrams_over_ipv6_come_back() {
    // Breaks when the end of a datagram over IPv6 is lost, or its answer comes from another address than it was sent
    // to.
    needs!(guests(), ip6(), programs(&["python3"]));
    on_test_host!();
    let echo = UdpSocket::bind("[::1]:0").expect("a free port");
    let port = echo.local_addr().expect("it is bound").port().to_string();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok((len, from)) = echo.recv_from(&mut bytes) {
            let _ = echo.send_to(&bytes[..len], from);
        }
    });
    let source = "
import os, socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.settimeout(20)
s.connect(('fd00::2', int(sys.argv[1])))
for n in (1, 0, 100, 1452, 9000, 32768, 65472):
    sent = os.urandom(n)
    s.send(sent)
    print(n, s.recv(65536) == sent)
";
    let out = output_of_python(&["--host-loopback"], source, &[&port]);
    let whole = out.lines().filter(|line| line.ends_with("True"));
    assert_eq!(whole.count(), 7, "{out}");
}

#[test]
fn pings_over_ipv6_are_answered_by_the_host_that_they_are_for() {
    // Breaks when mbuma answers for a host that is not there, or not for one that is, with either kind of socket.
    needs!(guests(), root(), ip6(), programs(&["ping"]));
    on_test_host!();
    make_neighbour6();
    for group_range in ["1 0", "0 2147483647"] {
        fs::write("/proc/sys/net/ipv4/ping_group_range", group_range)
            .expect("a file of the test host");
        let out = output_of(&[], "ping -6 -n -c 2 -i 0.2 -W 20 -s 1000 2001:db8:1::2");
        assert!(
            out.contains("2 received, 0% packet loss") && out.contains("from 2001:db8:1::2"),
            "{group_range}: {out}"
        );
        let ended = Running::start(mbuma(&[], "ping -6 -n -c 1 -W 20 2001:db8:f::1")).finish();
        let told = ended.out.contains("Destination unreachable: No route");
        assert!(ended.code == Some(1) && told, "{ended:#?}");
    }
}

#[test]
fn connections_over_ipv6_come_from_the_address_that_is_chosen() {
    // Breaks when --outbound-addr does nothing over IPv6, or --interface for either version.
    needs!(guests(), root(), ip6(), programs(&["python3"]));
    on_test_host!();
    make_neighbour6();
    shell(
        "ip -6 addr add 2001:db8:1::9/64 dev near0 nodad
         ip link add other0 type veth peer name other1
         ip link set other1 up
         ip -6 addr add 2001:db8:9::1/64 dev other0 nodad
         ip link set other0 up
         ip -6 route add 2001:db8:7::/64 dev other0
         ip -6 -n far addr add 2001:db8:7::2/64 dev far0 nodad
         ip -6 -n far route add default via 2001:db8:1::1",
    );
    let server = "
import socket
l = socket.create_server(('::', 7), family=socket.AF_INET6)
print('listening')
while True:
    s, peer = l.accept()
    s.sendall(peer[0].encode())
    s.close()
";
    let mut far = program("ip");
    far.args([
        "netns", "exec", "far", "python3", "-I", "-S", "-u", "-c", server,
    ]);
    let far = Running::start(far);
    far.wait_for("listening");
    let source = "
import socket, sys
print(socket.create_connection((sys.argv[1], 7), 20).recv(100).decode())
";
    let seen = |options: &[&str], at: &str| output_of_python(options, source, &[at]);
    let chosen = ["--outbound-addr", "2001:db8:1::9"];
    assert_eq!(seen(&chosen, "2001:db8:1::2").trim(), "2001:db8:1::9");
    // The route leads to other0, behind which there is no host; the named interface leads to the host.
    shell("ip -6 route add 2001:db8:7::/64 dev near0 metric 4096");
    let by = ["--interface", "near0"];
    let from: std::net::Ipv6Addr = seen(&by, "2001:db8:7::2")
        .trim()
        .parse()
        .expect("an address");
    assert!(from.to_string().starts_with("2001:db8:1::"), "{from}");
}

#[test]
fn traceroute_finds_the_gateway_and_the_end_of_the_way() {
    // Breaks when traceroute does not show the gateway, or the gateway answers in the place of the destination, by UDP,
    // ICMP or TCP.
    needs!(guests(), root(), ip6(), programs(&["traceroute"]));
    on_test_host!();
    make_neighbour6();
    // traceroute sends 16 probes at once, over both workers. The host at the end would answer the first six alone.
    shell("ip netns exec far sysctl -qw net.ipv6.icmp.ratelimit=0 net.ipv4.icmp_ratelimit=0");
    for (gateway, host) in [("10.0.2.2", "198.51.100.2"), ("fd00::2", "2001:db8:1::2")] {
        for method in ["", "-I", "-T -p 7"] {
            let out = output_of(&[], &format!("traceroute -n -q 1 -w 20 {method} {host}"));
            let hops = out.lines().skip(1);
            let hops: Vec<_> = hops
                .filter_map(|hop| hop.split_whitespace().nth(1))
                .collect();
            assert_eq!(hops, [gateway, host], "{method}: {out}");
        }
    }
}

#[test]
fn bulk_over_ipv6_moves() {
    // Breaks when iperf3 over IPv6 stalls in either direction.
    needs!(guests(), ip6(), programs(&["iperf3"]));
    on_test_host!();
    let mut server = program("iperf3");
    server.args(["-s", "-B", "::1", "--forceflush"]);
    let server = Running::start(server);
    server.wait_for("Server listening");
    for direction in ["", "-R"] {
        let script = format!("iperf3 -6 -c fd00::2 -n 20M {direction} -J");
        let out = output_of(&["--host-loopback"], &script);
        let report: serde_json::Value = serde_json::from_str(&out).expect("iperf3's JSON");
        let bytes = report["end"]["sum_received"]["bytes"].as_u64();
        assert!(bytes > Some(1_000_000), "{direction}: {report}");
    }
}

/// Serves one connection after the other at each of the addresses among its arguments: sends the client's address.
const SERVERS: &str = "
import socket, sys, threading
def serve(at):
    family = socket.AF_INET6 if ':' in at else socket.AF_INET
    l = socket.socket(family)
    if family == socket.AF_INET6:
        l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    l.bind((at, 7))
    l.listen()
    print('listening', flush=True)
    while True:
        s, peer = l.accept()
        s.sendall(peer[0].encode())
        s.close()
for at in sys.argv[1:]:
    threading.Thread(target=serve, args=(at,)).start()
";

/// The address of this client as the server at `at` sees it.
fn seen_at(at: (&str, u16)) -> String {
    let mut stream = patient(TcpStream::connect(at).expect("the port is bound"));
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the server's word");
    text
}

#[test]
fn a_published_port_leads_from_both_families_to_either() {
    // Breaks when a client of ::1 finds the port closed, or a server that listens on one version of IP alone is not
    // found from the other.
    needs!(guests(), ip6(), programs(&["python3"]));
    on_test_host!();
    // A port each: the process that served the one before may still hold its own.
    for (port, server, over_v4, over_v6) in [
        (8080, "0.0.0.0", "10.0.2.2", "10.0.2.2"),
        (8081, "127.0.0.1", "10.0.2.2", "10.0.2.2"),
        (8082, "::", "fd00::2", "fd00::2"),
    ] {
        let options = ["--publish", &format!("{port}:7")];
        let running = Running::start(mbuma_python(&options, SERVERS, &[server]));
        running.wait_for("listening");
        assert_eq!(seen_at(("127.0.0.1", port)), over_v4, "{server}");
        assert_eq!(seen_at(("::1", port)), over_v6, "{server}");
        running.signal("KILL");
        running.finish();
    }
}

#[test]
fn ports_of_both_families_come_and_go_together() {
    // Breaks when a port that is published later is one of IPv4 alone, when one of the two sockets stays after the
    // removal, or when the one of IPv6 takes the port of IPv4 too.
    needs!(guests(), ip6(), programs(&["python3"]));
    on_test_host!();
    let options = ["--publish", "*:8080:7"];
    let servers = ["0.0.0.0", "::"];
    let scratch = Scratch::new();
    let home = scratch.text("");
    let mut command = mbuma_python(&options, SERVERS, &servers);
    command.env("XDG_RUNTIME_DIR", &home);
    let running = Running::start(command);
    running.wait_for("listening");
    let publish = |words: &[&str]| {
        let mut command = program(MBUMA);
        command.arg("publish").args(words);
        command.args(["--pid", &running.id().to_string()]);
        command.env("XDG_RUNTIME_DIR", &home);
        Running::start(command).finish().good()
    };
    assert_eq!(
        publish(&["add", "8081:7", "[::1]:8082:7/udp"])
            .lines()
            .count(),
        2
    );
    wait_until("the new port", || {
        TcpStream::connect(("::1", 8081)).is_ok() && TcpStream::connect(("127.0.0.1", 8081)).is_ok()
    });
    assert_eq!(seen_at(("::1", 8080)), "fd00::2");
    assert_eq!(seen_at(("127.0.0.1", 8080)), "10.0.2.2");
    let list = publish(&["list"]);
    for line in [
        "1  0.0.0.0:8080:7",
        "1  [::]:8080:7",
        "2  127.0.0.1:8081:7",
        "2  [::1]:8081:7",
        "3  [::1]:8082:7/udp",
    ] {
        assert!(list.lines().any(|l| l == line), "{line}: {list}");
    }
    publish(&["remove", "1", "2"]);
    wait_until("the ports to be closed", || {
        let at = [
            ("::1", 8080),
            ("127.0.0.1", 8080),
            ("::1", 8081),
            ("127.0.0.1", 8081),
        ];
        at.iter().all(|at| TcpStream::connect(at).is_err())
    });
    running.signal("KILL");
    running.finish();
}

#[test]
fn datagrams_to_a_published_port_are_answered_over_ipv6() {
    // Breaks when a client of ::1 gets no answer from the guest's server, or one from another port.
    needs!(guests(), ip6(), programs(&["python3"]));
    on_test_host!();
    let source = "
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 7))
print('listening')
while True:
    text, peer = s.recvfrom(100)
    s.sendto(text + b' ' + peer[0].encode(), peer)
";
    let running = Running::start(mbuma_python(&["--publish", "8080:7/udp"], source, &[]));
    running.wait_for("listening");
    let client = UdpSocket::bind("[::1]:0").expect("a free port");
    client.connect("[::1]:8080").expect("a datagram socket");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client.send(b"hello").expect("it is bound");
    let mut bytes = [0; 100];
    let len = client.recv(&mut bytes).expect("an answer");
    assert_eq!(&bytes[..len], b"hello fd00::2");
    running.signal("KILL");
    running.finish();
}
