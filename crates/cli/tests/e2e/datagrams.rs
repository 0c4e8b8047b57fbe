//! Datagrams, names and pings of a guest.

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use crate::common::nameserver::{ANSWER, MANY, NameServer};
use crate::common::needs::{guests, programs, root};
use crate::common::server::{closed_port, udp_echo};
use crate::common::test_host::{join, make_neighbour, resolve_with, shell};
use crate::common::{
    Running, Stats, mbuma, mbuma_python, number, output_of, output_of_python, program,
};

#[test]
fn names_are_resolved_over_udp_and_tcp() {
    // Breaks when 10.0.2.3 is not the host's resolver, in either of DNS's two forms.
    needs!(guests(), programs(&["dig", "getent"]));
    on_test_host!();
    let server = NameServer::start("127.0.0.1");
    resolve_with("nameserver 127.0.0.1\n");
    let dig = "dig +short +tries=1 +time=5";

    let out = output_of(&[], &format!("{dig} @10.0.2.3 host.example A"));
    assert_eq!((out.trim(), server.connections()), (ANSWER, 0));
    let out = output_of(&[], &format!("{dig} +tcp @10.0.2.3 host.example A"));
    assert_eq!((out.trim(), server.connections()), (ANSWER, 1));
    // Too long for a datagram, so dig asks again over TCP.
    let out = output_of(&[], &format!("{dig} @10.0.2.3 many.example A"));
    assert_eq!(out.lines().count(), usize::from(MANY.1), "{out}");
    assert_eq!(server.connections(), 2);
    // As programs do: through the C library, with the guest's resolv.conf.
    let out = output_of(&[], "getent ahostsv4 host.example");
    assert!(out.starts_with(ANSWER), "{out}");
}

#[test]
fn a_dead_resolver_does_not_end_it() {
    // Breaks when only the first of the host's resolvers is ever asked.
    needs!(guests(), programs(&["dig"]));
    on_test_host!();
    let server = NameServer::start("127.0.0.3");
    resolve_with("nameserver 127.0.0.2\nnameserver 127.0.0.3\n");
    // The second is asked when the guest repeats its question, or even before.
    let out = output_of(&[], "dig +short +tries=3 +time=2 @10.0.2.3 host.example A");
    assert_eq!(out.lines().last(), Some(ANSWER), "{out}");
    let out = output_of(
        &[],
        "dig +short +tcp +tries=1 +time=5 @10.0.2.3 host.example A",
    );
    assert_eq!(out.trim(), ANSWER);
    assert!(server.udp_questions() > 0 && server.connections() == 1);
}

/// Asks one question three times on one socket: at once, after 0.4 s, and after 1.2 s. Prints how long the answer took.
const REPEATED: &str = "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(('10.0.2.3', 53))
question = b'\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x04host\\x07example\\x00\\x00\\x01\\x00\\x01'
begin = time.monotonic()
for wait in (0.4, 0.8, 10):
    s.send(question)
    s.settimeout(wait)
    try:
        s.recv(512)
        break
    except TimeoutError:
        pass
print(int((time.monotonic() - begin) * 1000))
";

#[test]
fn a_question_that_is_repeated_goes_to_the_next_server() {
    // Breaks when a repeated question goes to the silent server again, so that the guest waits for 3 s, or when each
    // repetition begins the wait anew; or when a question that is repeated at once, as by a program that asks twice,
    // goes to the next server before the first one could answer.
    needs!(guests(), programs(&["python3"]));
    on_test_host!();
    let silent = std::net::UdpSocket::bind("127.0.0.2:53").expect("a port of the test host");
    let server = NameServer::start("127.0.0.3");
    resolve_with("nameserver 127.0.0.2\nnameserver 127.0.0.3\n");
    let took: u64 = number(output_of_python(&[], REPEATED, &[]).trim());
    assert!((1200..2800).contains(&took), "{took} ms");
    assert_eq!(server.udp_questions(), 1);
    let mut bytes = [0; 512];
    silent.set_nonblocking(true).expect("a flag");
    for _ in 0..2 {
        assert!(silent.recv(&mut bytes).is_ok());
    }
    assert!(silent.recv(&mut bytes).is_err(), "the third went on");
}

/// Sends datagrams of these lengths to 10.0.2.2, one after the other, and compares the echoes.
const ECHO: &str = "
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.connect(('10.0.2.2', int(sys.argv[1])))
for n in (1, 0, 100, 1472, 1473, 9000, 32768, 65507):
    sent = os.urandom(n)
    s.send(sent)
    print(n, s.recv(65536) == sent)
";

#[test]
fn datagrams_of_every_length_come_back() {
    // Breaks when a datagram's end is lost: empty ones, full packets, fragments both ways.
    needs!(guests(), programs(&["python3"]));
    let port = udp_echo().to_string();
    // 119 fragments at 576.
    for mtu in ["576", "1500", "65520"] {
        let out = output_of_python(&["--host-loopback", "--mtu", mtu], ECHO, &[&port]);
        assert!(
            out.lines().count() == 8 && out.lines().all(|line| line.ends_with("True")),
            "at MTU {mtu}: {out}"
        );
    }
}

#[test]
fn datagrams_of_many_flows_are_not_mixed_up() {
    // Breaks when a reply has other ports than its question.
    needs!(guests(), programs(&["python3"]));
    let ports = [udp_echo(), udp_echo()].map(|port| port.to_string());
    let source = "
import select, socket, sys
peers = [('10.0.2.2', int(port)) for port in sys.argv[1:]]
flows = {}
for i in range(100):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for peer in peers:
        s.sendto(b'%d to %d' % (i, peer[1]), peer)
    flows[s] = (i, set(peers))
while waiting := [s for s in flows if flows[s][1]]:
    ready = select.select(waiting, [], [], 5)[0]
    assert ready, len(waiting)
    for s in ready:
        text, peer = s.recvfrom(100)
        assert text == b'%d to %d' % (flows[s][0], peer[1]), (text, peer)
        flows[s][1].remove(peer)
print('all')
";
    let args = [&*ports[0], &*ports[1]];
    assert_eq!(
        output_of_python(&["--host-loopback"], source, &args),
        "all\n"
    );
}

/// The two ends of an exchange of trains: `client` sends one to `server`, which answers by another. Each prints the
/// bytes and the datagrams' length that one call gave it.
const TRAINS: &str = "
import socket, struct, sys
role, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
s.setsockopt(17, 104, 1)  # UDP_GRO
def take():
    got, control, _, peer = s.recvmsg(65535, 64)
    each = [struct.unpack('i', data[:4])[0] for level, kind, data in control if (level, kind) == (17, 104)]
    print(role, len(got), *each, flush=True)
    return peer
def give(peer):
    s.setsockopt(17, 103, 1200)  # UDP_SEGMENT
    s.sendto(bytes(30000), peer)
if role == 'server':
    s.bind((host, port))
    print('port', s.getsockname()[1], flush=True)
    give(take())
else:
    give((host, port))
    take()
";

#[test]
fn trains_of_datagrams_stay_whole() {
    // Breaks when the gateway takes each datagram of a call by itself, in either direction: QUIC then costs as many
    // calls as datagrams.
    needs!(guests(), programs(&["python3"]));
    for (inside, outside) in [("10.0.2.2", "127.0.0.1"), ("fd00::2", "::1")] {
        let mut server = program("python3");
        server.args(["-I", "-S", "-c", TRAINS, "server", outside, "0"]);
        let server = Running::start(server);
        let port = server.wait_for("port");
        let out = output_of_python(&["--host-loopback"], TRAINS, &["client", inside, &port]);
        assert_eq!(out, "client 30000 1200\n");
        assert_eq!(server.wait_for("server"), "30000 1200");
        server.finish().good();
    }
}

/// Asks each of these ports of an address on one socket, one after the other, and prints the answers.
const ASK_EACH: &str = "
import socket, sys
host = sys.argv[1]
s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
for port in sys.argv[2:]:
    s.sendto(b'?', (host, int(port)))
    print(s.recv(99).decode())
";

#[test]
fn a_socket_leaves_by_one_port_whatever_its_destinations() {
    // Breaks when each destination sees another port of the host: a peer that learns the port from a third host, as
    // with STUN, then can't answer the guest (RFC 4787 section 4.1).
    needs!(guests(), programs(&["python3"]));
    for (inside, outside) in [("10.0.2.2", "127.0.0.1:0"), ("fd00::2", "[::1]:0")] {
        let servers = [0; 3].map(|_| UdpSocket::bind(outside).expect("a free port"));
        let ports = servers.each_ref().map(|server| {
            let addr = server.local_addr().expect("bound");
            addr.port().to_string()
        });
        let seen = thread::spawn(move || {
            servers.map(|server| {
                let wait = Some(Duration::from_secs(20));
                server.set_read_timeout(wait).expect("a time");
                let (_, from) = server.recv_from(&mut [0; 9]).expect("the guest's");
                server.send_to(b"!", from).expect("it has room");
                from.port()
            })
        });
        let [a, b, c] = ports.each_ref().map(String::as_str);
        let out = output_of_python(&["--host-loopback"], ASK_EACH, &[inside, a, b, c]);
        assert_eq!(out, "!\n!\n!\n");
        let seen = seen.join().expect("it was asked");
        assert_eq!(seen, [seen[0]; 3]);
    }
}

/// Sends a datagram to each address:port among its arguments, and prints the error that comes back.
pub(super) const DATAGRAM_ERRORS: &str = "
import errno, socket, sys
for where in sys.argv[1:]:
    host, port = where.rsplit(':', 1)
    six = ':' in host
    s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    if six:
        s.setsockopt(socket.IPPROTO_IPV6, 25, 1) # IPV6_RECVERR
    else:
        s.setsockopt(socket.IPPROTO_IP, 11, 1) # IP_RECVERR
    s.settimeout(20)
    s.connect((host, int(port)))
    try:
        s.send(b'?')
        print(where, s.recv(1))
    except TimeoutError:
        print(where, 'TIMEOUT')
    except OSError as e:
        print(where, errno.errorcode[e.errno])
";

/// The lines that a script printed: each an address:port and how it ended.
pub(super) fn outcomes(out: &str) -> Vec<(&str, &str)> {
    out.lines()
        .filter_map(|line| line.split_once(' '))
        .collect()
}

#[test]
fn the_sender_of_a_datagram_without_a_receiver_is_told() {
    // Breaks when a client waits although an ICMP error would end its wait at once.
    needs!(guests(), programs(&["python3"]));
    on_test_host!();
    shell("ip route add unreachable 203.0.113.0/28");
    let closed = format!("10.0.2.2:{}", closed_port());
    let wants = [
        (&*closed, "ECONNREFUSED"),
        ("10.0.2.3:54", "ECONNREFUSED"),
        ("192.0.2.1:9", "ENETUNREACH"),
        ("203.0.113.1:9", "EHOSTUNREACH"),
    ];
    let args = wants.map(|(at, _)| at);
    let out = output_of_python(&["--host-loopback"], DATAGRAM_ERRORS, &args);
    assert_eq!(outcomes(&out), wants);
    // Without the option the guest can't reach the host's loopback.
    let port = format!("10.0.2.2:{}", udp_echo());
    let out = output_of_python(&[], DATAGRAM_ERRORS, &[&port]);
    assert_eq!(out, format!("{port} ECONNREFUSED\n"));
}

/// Lets the neighbour reject datagrams to each of these ports by such an error.
fn neighbour_rejects(ports: &[(u16, &str)]) -> Result<(), String> {
    for (port, with) in ports {
        let rule = format!("-A INPUT -p udp --dport {port} -j REJECT --reject-with {with}");
        let mut command = program("ip");
        command.args(["netns", "exec", "far", "iptables"]);
        let done = command.args(rule.split(' ')).status();
        if !done.is_ok_and(|status| status.success()) {
            return Err("iptables makes no rule here".to_owned());
        }
    }
    Ok(())
}

#[test]
fn errors_of_the_network_reach_the_sender_of_a_datagram() {
    // Breaks when the guest is told of closed ports alone, and a question waits for the answer of a name server whose
    // host was said to be unreachable: the kernel reports that by a socket's queue of errors only.
    needs!(guests(), root(), programs(&["python3", "dig", "iptables"]));
    on_test_host!();
    make_neighbour();
    needs!(neighbour_rejects(&[
        (53, "icmp-host-unreachable"),
        (8001, "icmp-host-prohibited"),
        (8002, "icmp-net-unreachable"),
        (8003, "icmp-port-unreachable"),
    ]));
    let wants = [
        ("198.51.100.2:8001", "EHOSTUNREACH"),
        ("198.51.100.2:8002", "ENETUNREACH"),
        ("198.51.100.2:8003", "ECONNREFUSED"),
    ];
    let args = wants.map(|(at, _)| at);
    let out = output_of_python(&[], DATAGRAM_ERRORS, &args);
    assert_eq!(outcomes(&out), wants);
    let server = NameServer::start("127.0.0.3");
    resolve_with("nameserver 198.51.100.2\nnameserver 127.0.0.3\n");
    // Mbuma waits for an answer for longer than this program.
    let dig = "dig +short +tries=1 +time=2 @10.0.2.3 host.example A";
    assert_eq!(output_of(&[], dig).trim(), ANSWER);
    assert_eq!(server.udp_questions(), 1);
}

/// Sends a datagram to a closed port and prints which host said so: SO_EE_OFFENDER of ip(7).
const OFFENDER: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 11, 1)
s.sendto(b'probe', (sys.argv[1], 33434))
for _ in range(500):
    try:
        _, extra, _, _ = s.recvmsg(100, 512, socket.MSG_ERRQUEUE)
        break
    except BlockingIOError:
        time.sleep(0.01)
print(socket.inet_ntoa(extra[0][2][20:24]))
";

#[test]
fn a_traced_host_answers_itself() {
    // Breaks when the error about a closed port of another host comes from the gateway's address: `mtr -u` and
    // traceroute never find the end of the path.
    needs!(guests(), root(), programs(&["python3"]));
    on_test_host!();
    make_neighbour();
    let out = output_of_python(&[], OFFENDER, &["198.51.100.2"]);
    assert_eq!(out.trim(), "198.51.100.2");
}

#[test]
fn the_gateway_answers_pings() {
    // Breaks when the stack itself does not answer, small or in fragments.
    needs!(guests(), programs(&["ping"]));
    let out = output_of(
        &[],
        "ping -n -c 3 -i 0.2 -W 5 10.0.2.2 && ping -n -c 1 -s 5000 -W 5 10.0.2.2",
    );
    assert!(
        out.contains("3 received, 0% packet loss") && out.contains("5008 bytes from 10.0.2.2"),
        "{out}"
    );
}

#[test]
fn pings_are_answered_by_whom_they_are_for() {
    // Breaks when mbuma answers for a host that is not there, or not for one that is.
    needs!(guests(), root(), programs(&["ping"]));
    on_test_host!();
    make_neighbour();
    // Once by a raw socket, which root may open; once by a ping socket, which all users may open if the system permits
    // it.
    for group_range in ["1 0", "0 2147483647"] {
        fs::write("/proc/sys/net/ipv4/ping_group_range", group_range)
            .expect("a file of the test host");
        let out = output_of(&[], "ping -n -c 2 -i 0.2 -W 5 198.51.100.2");
        assert!(
            out.contains("2 received, 0% packet loss"),
            "{group_range}: {out}"
        );
        assert!(out.contains("64 bytes from 198.51.100.2"), "{out}");
        for silent in ["198.51.100.99", "192.0.2.1"] {
            let ended = Running::start(mbuma(&[], &format!("ping -n -c 1 -W 1 {silent}"))).finish();
            assert_eq!(ended.code, Some(1), "{ended:#?}");
            assert!(!ended.out.contains("bytes from"), "{ended:#?}");
        }
    }
    // Breaks when pings are lost without a count: the host keeps those for neighbours that are not there.
    let sweep = "for n in $(seq 100 199); do ping -n -c 1 -W 1 -s 8000 198.51.100.$n > /dev/null & done; wait; true";
    let ended = Running::start(mbuma(&["--stats=json"], sweep)).finish();
    assert!(
        Stats::checked(&ended.err).number("pings_lost") > 0,
        "{ended:#?}"
    );
}

#[test]
fn a_burst_of_new_flows_loses_no_datagram() {
    // Breaks if the gateway's queue for datagrams of new flows is shorter than the number of sockets that a program
    // opens at once.
    needs!(guests(), programs(&["python3"]));
    let source = "
import select, socket, sys
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(900)]
for s in sockets:
    s.connect(('10.0.2.2', int(sys.argv[1])))
socket.create_connection(('10.0.2.2', 80)).close()  # the neighbour is known from here on
print('ready')
input()
for s in sockets:
    s.send(b'x')
print('sent')
poll = select.poll()
for s in sockets:
    poll.register(s, select.POLLIN)
by_fd = {s.fileno(): s for s in sockets}
answered = 0
while answered < len(sockets) and (ready := poll.poll(3000)):
    for fd, _ in ready:
        by_fd[fd].recv(1)
        answered += 1
print('answered', answered)
";
    // An echo server whose buffer holds all datagrams: the gateway sends them faster than the server answers.
    let echo = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
s.bind(('127.0.0.1', 0))
print('port', s.getsockname()[1], flush=True)
for _ in range(900):
    s.sendto(*s.recvfrom(1))
";
    let mut server = program("python3");
    server.args(["-I", "-S", "-c", echo]);
    let server = Running::start(server);
    let port = server.wait_for("port");
    let options = ["--host-loopback", "--workers", "2"];
    let mut running = Running::start(mbuma_python(&options, source, &[&port]));
    running.wait_for("ready");
    // All datagrams wait in the TAP when the gateway continues.
    running.signal_gateway("STOP");
    running.say("");
    running.wait_for("sent");
    running.signal_gateway("CONT");
    assert_eq!(running.wait_for("answered"), "900");
    running.finish().good();
    server.finish().good();
}

/// Answers each datagram with this word.
const ANSWER_WITH: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('203.0.113.9', 7))
print('ready', flush=True)
while True:
    asked = s.recvfrom(99)[1]
    try:
        s.sendto(sys.argv[1].encode(), asked)
    except OSError:
        pass  # it has no route to the other network
";

/// Asks three times a second, by one socket, and prints each answer that is another than the one before.
const ASK_ON: &str = "
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.3)
last, changes = None, 0
while True:
    try:
        s.sendto(b'x', ('203.0.113.9', 7))
        answer = s.recv(99).decode()
        if answer != last:
            changes += 1
            print(changes, answer, flush=True)
        last = answer
    except OSError:
        pass
    time.sleep(0.05)
";

#[test]
fn a_flow_follows_the_hosts_routes() {
    // Breaks when a guest that keeps sending on one socket stays cut off after its host changes to another network, as
    // with a VPN.
    needs!(guests(), root());
    on_test_host!();
    make_neighbour();
    join("near1", "other", "198.18.0");
    shell(
        "for ns in far other; do ip -n $ns addr add 203.0.113.9/32 dev lo; done
         ip route add default via 198.51.100.2",
    );
    let servers = ["far", "other"].map(|name| {
        let mut command = program("ip");
        let python = [
            "netns",
            "exec",
            name,
            "python3",
            "-I",
            "-c",
            ANSWER_WITH,
            name,
        ];
        command.args(python);
        let server = Running::start(command);
        server.wait_for("ready");
        server
    });
    let running = Running::start(mbuma_python(&[], ASK_ON, &[]));
    running.wait_for("1 far");
    shell("ip route replace default via 198.18.0.2");
    running.wait_for("2 other");
    shell(
        "ip addr add 198.51.100.1/24 dev near0 2>/dev/null || true; ip route replace default via 198.51.100.2",
    );
    running.wait_for("3 far");
    // The address goes with its network.
    shell("ip addr del 198.51.100.1/24 dev near0; ip route replace default via 198.18.0.2");
    running.wait_for("4 other");
    drop(servers);
}
