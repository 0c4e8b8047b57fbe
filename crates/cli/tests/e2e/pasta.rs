//! pasta's options, by what they do: the cases that podman's own tests of pasta go through, and others of its manual.

use std::fs;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use crate::common::needs::{guests, ip6, programs, root};
use crate::common::server::connect;
use crate::common::test_host::{ip, make_tun};
use crate::common::{AS_NOBODY, MBUMA, Running, Scratch, program, wait_until, with_descriptors};
use crate::ip6::make_neighbour6;

/// A host with a neighbour, `far`, and an interface more, `second`; and a network namespace without a network, `blue`.
struct PastaHost {
    scratch: Scratch,
    pasta: String,
}

impl PastaHost {
    fn new() -> PastaHost {
        make_neighbour6();
        ip("route add default via 198.51.100.3");
        ip("-6 route add default via 2001:db8:1::3");
        ip("link add second type veth peer name third");
        ip("addr add 203.0.113.1/24 dev second");
        ip("-6 addr add 2001:db8:9::1/64 dev second nodad");
        ip("link set second up");
        let scratch = Scratch::new();
        symlink(MBUMA, scratch.path("pasta")).expect("a link");
        let pasta = scratch.text("pasta");
        PastaHost { scratch, pasta }
    }

    /// pasta with these options, in a new `blue`: ports are closed unless they say otherwise.
    fn start(&self, options: &str) -> Running {
        ip("netns add blue");
        let closed = [
            ("-t", " -t "),
            ("-u", " -u "),
            ("-T", " -T "),
            ("-U", " -U "),
        ];
        let closed = closed
            .into_iter()
            .filter(|(_, word)| !options.contains(word));
        let closed: String = closed
            .map(|(option, _)| format!("{option} none "))
            .collect();
        let mut command = program("sh");
        let pid = self.scratch.text("pid");
        let _ = fs::remove_file(&pid);
        let line = format!(
            "exec {} -f --config-net {closed} {options} --pid {pid} --netns /run/netns/blue",
            self.pasta
        );
        let running = Running::start({
            command.args(["-c", &line]);
            command
        });
        wait_until("the network", || {
            fs::metadata(&pid).is_ok_and(|file| file.len() > 0)
        });
        running
    }

    /// The output of a script in `blue`, with these options.
    fn output(&self, options: &str, script: &str) -> String {
        let running = self.start(options);
        let out = in_netns("blue", script);
        self.end(running);
        out
    }

    fn end(&self, running: Running) {
        ip("netns del blue");
        assert_eq!(running.finish().code, Some(0), "it ends with its namespace");
    }
}

/// The output of a script in a network namespace.
fn in_netns(name: &str, script: &str) -> String {
    let mut command = program("ip");
    command.args(["netns", "exec", name, "sh", "-ec", script]);
    Running::start(command).finish().good()
}

/// The output of a script on the host.
fn output(script: &str) -> String {
    let mut command = program("sh");
    command.args(["-ec", script]);
    Running::start(command).finish().good()
}

/// A server of `far`, at all of its addresses.
fn far_server() -> Running {
    let server = "import http.server, socket
class Both(http.server.HTTPServer):
    address_family = socket.AF_INET6
print('Serving', flush=True)
Both(('::', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()";
    let mut command = program("ip");
    command.args([
        "netns", "exec", "far", "python3", "-I", "-S", "-u", "-c", server,
    ]);
    command.current_dir("/run/netns");
    let server = Running::start(command);
    server.wait_for("Serving");
    server
}

#[test]
fn pasta_places_the_guest_and_its_gateway() {
    // Breaks when a case of podman's tests finds another address, gateway, name, MTU or Ethernet address than it asked
    // for.
    needs!(guests(), root(), ip6(), programs(&["curl", "ping"]));
    on_test_host!();
    let host = PastaHost::new();
    let addrs = "ip -o addr show dev IF | grep -v fe80 | awk '{print $4}'
                 ip route show default | awk '{print $3, $5}'
                 ip -6 route show default | awk '{print $3}'";
    let placed = |options: &str, ifname: &str| host.output(options, &addrs.replace("IF", ifname));
    assert_eq!(
        placed("-q", "near0"),
        "198.51.100.1/32\n2001:db8:1::1/128\n198.51.100.3 near0\n2001:db8:1::3\n"
    );
    assert_eq!(
        placed("-a 192.0.2.1 -a 2001:db8::1", "near0"),
        "192.0.2.1/32\n2001:db8::1/128\n198.51.100.3 near0\n2001:db8:1::3\n"
    );
    assert_eq!(
        placed(
            "-a 192.0.2.2 -g 192.0.2.1 -a 2001:db8::2 -g 2001:db8::1",
            "near0"
        ),
        "192.0.2.2/24\n2001:db8::2/128\n192.0.2.1 near0\n2001:db8::1\n"
    );
    assert_eq!(
        placed("-4", "near0"),
        "198.51.100.1/32\n198.51.100.3 near0\n"
    );
    assert_eq!(placed("-6", "near0"), "2001:db8:1::1/128\n2001:db8:1::3\n");
    assert_eq!(
        placed("-i second", "second"),
        "203.0.113.1/32\n2001:db8:9::1/128\n169.254.2.2 second\nfe80::1\n"
    );
    // The first of each pair is as from a configuration file.
    let twice = "-I other --ns-mac-addr 9a:dd:31:ea:92:98 -m 1500 -I mine --ns-mac-addr aa:bb:cc:dd:ee:fe -m 1280 \
                 -M 02:00:00:00:00:77";
    let link = "cat /sys/class/net/mine/address /sys/class/net/mine/mtu; ping -c 1 -W 9 198.51.100.2 >/dev/null
                ip neigh show dev mine | grep -v fe80 | awk '{print $1, $3}'";
    let out = host.output(twice, link);
    assert_eq!(
        out,
        "aa:bb:cc:dd:ee:fe\n1280\n198.51.100.3 02:00:00:00:00:77\n"
    );
    // Every host is reached by whatever gateway, and over both versions of IP.
    let far = far_server();
    let get = "curl -sS -g 'http://[2001:db8:1::2]:8000/' | grep -c blue
               curl -sS http://198.51.100.2:8000/ | grep -c blue";
    for options in [
        "-q",
        "-a 192.0.2.2 -g 192.0.2.1 -a 2001:db8::2 -g 2001:db8::1",
        "-a 198.51.100.9",
    ] {
        assert_eq!(host.output(options, get), "1\n1\n", "{options}");
    }
    drop(far);
}

#[test]
fn pasta_binds_ports_and_connections_to_interfaces() {
    // Breaks when a port that is open for one interface's clients is open for those of others, or for none; or when
    // connections of one version of IP leave by the interface that was named for the other.
    needs!(guests(), root(), ip6(), programs(&["curl"]));
    on_test_host!();
    let host = PastaHost::new();
    let running = host.start("-t 198.51.100.1%near0/8080:80 -t %lo/8081:80");
    let server = "python3 -I -S -u -m http.server 80 --directory /run/netns";
    let mut command = program("ip");
    command.args([
        "netns",
        "exec",
        "blue",
        "sh",
        "-c",
        &format!("exec {server}"),
    ]);
    let inside = Running::start(command);
    inside.wait_for("Serving");
    let get = |url: &str| format!("curl -sS -m 9 {url} 2>/dev/null | grep -c blue || true");
    let reached = |from: &str, url: &str| match from {
        "far" => in_netns("far", &get(url)) == "1\n",
        _ => output(&get(url)) == "1\n",
    };
    assert!(reached("far", "http://198.51.100.1:8080/"));
    assert!(!reached("far", "http://198.51.100.1:8081/"));
    assert!(reached("host", "http://127.0.0.1:8081/"));
    assert!(!reached("host", "http://127.0.0.1:8080/"));
    let listed = output(&format!("{MBUMA} publish list --pid {}", running.id()));
    let ports: Vec<_> = listed
        .lines()
        .filter_map(|line| line.split_once("  "))
        .collect();
    let ports: Vec<_> = ports.into_iter().map(|(_, port)| port).collect();
    let expected = [
        "198.51.100.1%near0:8080:80",
        "0.0.0.0%lo:8081:80",
        "[::]%lo:8081:80",
    ];
    assert_eq!(ports, expected);
    inside.signal("KILL");
    inside.finish();
    host.end(running);
    let far = far_server();
    let script = format!(
        "{}\n{}",
        get("http://198.51.100.2:8000/"),
        get("-g 'http://[2001:db8:1::2]:8000/'")
    );
    // No way from there to the neighbour.
    let from = "-i near0 --outbound-if4 second";
    assert_eq!(host.output(from, &script), "0\n1\n");
    assert_eq!(
        host.output("-i near0 --outbound-if6 second", &script),
        "1\n0\n"
    );
    drop(far);
}

#[test]
fn pasta_leaves_protocols_that_are_switched_off_without_an_answer() {
    // Breaks when --no-tcp, --no-udp or --no-icmp lets packets out, stops another protocol, or refuses what is to be
    // dropped.
    needs!(guests(), root(), ip6(), programs(&["curl", "ping"]));
    on_test_host!();
    let host = PastaHost::new();
    let far = far_server();
    let script = "curl -sS -m 1 http://198.51.100.2:8000/ >/dev/null 2>&1; echo $?
ping -c 1 -W 1 198.51.100.2 | grep -c 'bytes from' || true
python3 -I -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
s.connect((\"198.51.100.2\", 9))
s.send(b\"x\")
try: s.recv(9)
except Exception as e: print(type(e).__name__)
'";
    let script = script
        .replace("curl", "set +e; curl")
        .replacen("ping", "set -e; ping", 1);
    // 28: a timeout of curl's. A closed port answers.
    for (options, expected) in [
        ("-q", "0\n1\nConnectionRefusedError\n"),
        ("--no-tcp", "28\n1\nConnectionRefusedError\n"),
        ("--no-udp", "0\n1\nTimeoutError\n"),
        ("--no-icmp", "0\n0\nConnectionRefusedError\n"),
    ] {
        assert_eq!(host.output(options, &script), expected, "{options}");
    }
    drop(far);
}

#[test]
fn a_published_port_is_reached_by_the_hosts_own_address() {
    // Breaks when a client on the host, whose address the guest shares, gets no answer at the host's address, over
    // either version of IP or by datagrams.
    needs!(guests(), root(), ip6(), programs(&["curl"]));
    on_test_host!();
    let host = PastaHost::new();
    let running = host.start("-t 8080:80 -u 8080:80");
    let server = "import http.server, socket, threading
class Both(http.server.HTTPServer):
    address_family = socket.AF_INET6
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
u.bind(('::', 80))
def datagrams():
    while True:
        text, peer = u.recvfrom(100)
        u.sendto(text.upper(), peer)
threading.Thread(target=datagrams, daemon=True).start()
print('Serving', flush=True)
Both(('::', 80), http.server.SimpleHTTPRequestHandler).serve_forever()";
    let mut command = program("ip");
    command.args(["netns", "exec", "blue", "python3", "-I", "-S", "-u", "-c"]);
    let server = Running::start({
        command.arg(server).current_dir("/run/netns");
        command
    });
    server.wait_for("Serving");
    for addr in ["127.0.0.1", "198.51.100.1", "[2001:db8:1::1]"] {
        let plain = addr.trim_matches(['[', ']']);
        let script = format!(
            "curl -sS -m 10 -o /dev/null -w '%{{http_code}}' http://{addr}:8080/
python3 -I -S -c '
import socket
family = socket.AF_INET6 if \":\" in \"{plain}\" else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.settimeout(10)
s.connect((\"{plain}\", 8080))
s.send(b\"x\")
print(s.recv(9))'"
        );
        assert_eq!(output(&script), "200b'X'\n", "{addr}");
    }
    drop(server);
    host.end(running);
}

#[test]
fn pasta_outlives_its_namespaces_name_if_asked_to() {
    // Breaks when --no-netns-quit ends a network that processes still use, or a signal does not end it.
    needs!(guests(), root(), ip6());
    on_test_host!();
    let host = PastaHost::new();
    let mut running = host.start("--no-netns-quit --debug");
    running.wait_for_complaint("198.51.100.3 is the host's 127.0.0.1");
    ip("netns del blue");
    // mbuma looks at the name once a second.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(!running.has_ended());
    running.signal("TERM");
    assert_eq!(running.finish().code, Some(0));
}

#[test]
fn pasta_in_the_background_holds_nothing_of_its_caller() {
    // Breaks when the process in the background keeps the caller's directory or descriptors as long as a container
    // lives, or loses a file with a relative path when it leaves them.
    needs!(guests(), root(), ip6(), programs(&["flock"]));
    on_test_host!();
    let host = PastaHost::new();
    ip("netns add blue");
    let script = format!(
        "cd {}; ln -s /run/netns; exec 9>lock; flock 9
         {} --config-net -t none -u none -T auto -U none --pid pid -l log --trace --netns netns/blue 2>said
         grep -q 'trace has no effect' said",
        host.scratch.text(""),
        host.pasta
    );
    output(&script);
    let lock = fs::File::open(host.scratch.path("lock")).expect("it was made");
    lock.try_lock().expect("no process has it");
    let pid = fs::read_to_string(host.scratch.path("pid")).expect("it was written");
    let (pid, mut all) = (pid.trim(), Vec::new());
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("it runs");
    for pid in children.split_ascii_whitespace().chain([pid]) {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd"));
        all.extend(cwd.ok());
    }
    assert_eq!(all, vec![Path::new("/"); 3]);
    // mbuma looks at the name once a second: it has seen the name from the other directory.
    std::thread::sleep(Duration::from_millis(2500));
    // Its parent may be a process that does not wait for it.
    let status = format!("/proc/{pid}/stat");
    let is_over = || fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
    assert!(!is_over());
    ip("netns del blue");
    wait_until("its end", is_over);
    let log = fs::read_to_string(host.scratch.path("log")).expect("it was made");
    let lines: Vec<_> = log.lines().collect();
    assert!(
        matches!(*lines, [line] if line.contains("does not name the network namespace any more")),
        "{log}"
    );
    // An error is the caller's, too.
    let script = format!(
        "cd {}; {} --config-net -l log --pid /none/pid --netns netns/far 2>&1 || echo code $?; wc -l < log",
        host.scratch.text(""),
        host.pasta
    );
    let out = output(&script);
    let lines: Vec<_> = out.lines().collect();
    assert!(
        matches!(*lines, [why, "code 125", "1"] if why.contains("/none/pid")),
        "{out}"
    );
}

#[test]
fn pasta_runs_a_command_or_a_shell() {
    // Breaks when `pasta COMMAND` loses the command's status, does not give it the host's address and names, or leaves
    // out ports between the two loopbacks or from the host's neighbours.
    needs!(guests(), root(), ip6(), programs(&["curl"]));
    on_test_host!();
    let host = PastaHost::new();
    let far = far_server();
    let mut command = program("python3");
    let serve = "-I -S -u -m http.server 7001 --bind 127.0.0.1 --directory /run/netns";
    command.args(serve.split(' '));
    let near = Running::start(command);
    near.wait_for("Serving");
    let script = "ip -o -4 addr show dev near0 | awk '{print $4}'
                  id -u
                  grep nameserver /etc/resolv.conf
                  curl -sS http://198.51.100.2:8000/ | grep -c far
                  curl -sS http://127.0.0.1:7001/ | grep -c far
                  curl -sS http://198.51.100.3:7001/ | grep -c far
                  exit 7";
    let pid = host.scratch.text("pid");
    let mut command = program(&host.pasta);
    command.args([
        "-t", "none", "-u", "none", "--pid", &pid, "sh", "-c", script,
    ]);
    let out = Running::start(command).finish();
    assert_eq!(
        out.out, "198.51.100.1/32\n0\nnameserver 198.51.100.3\n1\n1\n1\n",
        "{}",
        out.err
    );
    assert_eq!(out.code, Some(7));
    assert!(fs::read_to_string(&pid).is_ok_and(|text| text.trim().parse::<u32>().is_ok()));
    // A server of the command's, found by looking, at the host's address.
    let mut command = program(&host.pasta);
    let serve =
        "-u none -T none -U none python3 -I -S -u -m http.server 7002 --directory /run/netns";
    command.args(serve.split(' '));
    let inside = Running::start(command);
    inside.wait_for("Serving");
    let get = "curl -sS -m 9 http://198.51.100.1:7002/ 2>/dev/null | grep -c far || true";
    wait_until("the port", || in_netns("far", get) == "1\n");
    inside.signal("TERM");
    inside.finish();
    // One that listens at the guest's loopback alone is the host's own.
    let mut command = program(&host.pasta);
    let serve = "-t 7003-7004,auto -u none -T none -U none python3 -I -S -u -m http.server 7003 --bind 127.0.0.1";
    command.args(serve.split(' ')).current_dir("/run/netns");
    let inside = Running::start(command);
    inside.wait_for("Serving");
    let get =
        |at: &str| format!("curl -sS -m 9 http://{at}:7003/ 2>/dev/null | grep -c far || true");
    wait_until("the port", || output(&get("127.0.0.1")) == "1\n");
    assert_eq!(in_netns("far", &get("198.51.100.1")), "0\n");
    inside.signal("TERM");
    inside.finish();
    let mut command = program(&host.pasta);
    command.env("SHELL", "/bin/true").arg("-q");
    assert_eq!(Running::start(command).finish().code, Some(0));
    drop((near, far));
}

/// A program for a guest: datagrams from many sockets, and then as many connections as its loopback takes, to the port
/// of the host that its argument names; and one connection to the neighbour. A server beside it says a word.
const OUTWARD_FLOOD: &str = "
import select, socket, sys, threading
port = int(sys.argv[1])
def serve(l):
    while True:
        l.accept()[0].sendall(b'word')
threading.Thread(target=serve, args=[socket.create_server(('0.0.0.0', 7004))], daemon=True).start()
for _ in range(300):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b'x', ('127.0.0.1', port))
    s.close()
held = []
for _ in range(150):
    s = socket.create_connection(('127.0.0.1', port), 10)
    held.append(s)
print('held')
sys.stdin.readline()
socket.create_connection(('198.51.100.2', 8000), 10)
print('connected')
";

#[test]
fn clients_of_outward_ports_leave_descriptors() {
    // Breaks when programs of the guest that send datagrams to the host's loopback from many ports, or hold connections
    // to it, take the descriptors of all other connections, or the places of a published port's clients.
    needs!(guests(), root(), ip6(), programs(&["python3"]));
    on_test_host!();
    let host = PastaHost::new();
    let far = far_server();
    let sink = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let port = sink.local_addr().expect("bound").port();
    let server = std::net::TcpListener::bind(("127.0.0.1", port)).expect("free for TCP too");
    let port = port.to_string();
    let mut command = program(&host.pasta);
    command.args(["-t", "7004", "-u", "none", "-T", &port, "-U", &port]);
    command.args(["python3", "-I", "-S", "-u", "-c", OUTWARD_FLOOD, &port]);
    let mut running = Running::start(with_descriptors(256, &command));
    running.wait_for("held");
    running.wait_for_complaint("clients of ports have 32 descriptors");
    let mut client = std::net::TcpStream::connect("127.0.0.1:7004").expect("published");
    let wait = Some(Duration::from_secs(20));
    client.set_read_timeout(wait).expect("a time");
    let mut word = [0; 4];
    client
        .read_exact(&mut word)
        .expect("the guest's server answers");
    assert_eq!(&word, b"word");
    running.say("");
    running.wait_for("connected");
    assert_eq!(running.finish().code, Some(0));
    drop((server, far));
}

/// A program for a guest: servers of UDP and TCP that answer in capitals; it prints the answer of the host's server.
const FOLLOWED_SERVERS: &str = "
import socket, sys, threading, time
def datagrams(u):
    while True:
        text, peer = u.recvfrom(100)
        u.sendto(text.upper(), peer)
def streams(l):
    while True:
        s, _ = l.accept()
        s.sendall(s.recv(100).upper())
        s.close()
for port in 5299, 5300:
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(('0.0.0.0', port))
    threading.Thread(target=datagrams, args=[u], daemon=True).start()
for port in 8000, 8010:
    l = socket.create_server(('0.0.0.0', port))
    threading.Thread(target=streams, args=[l], daemon=True).start()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(1)
while True:
    try:
        u.connect(('127.0.0.1', 6001))
        u.send(b'out')
        print(u.recv(9), flush=True)
        break
    except OSError:
        time.sleep(0.1)
sys.stdin.readline()
";

#[test]
fn an_ordinary_users_command_has_the_ports_of_lists_with_auto() {
    // Breaks when `pasta COMMAND` of an ordinary user does not find servers of UDP, or opens a port that is not among
    // the named ones, or one that leads elsewhere.
    needs!(guests(), root(), ip6(), programs(&["setpriv", "python3"]));
    on_test_host!();
    needs!(make_tun("666"));
    let _host = PastaHost::new();
    let scratch = Scratch::new();
    let pasta = scratch.copy("pasta", Path::new(MBUMA));
    let server = UdpSocket::bind("127.0.0.1:5301").expect("a network of its own");
    std::thread::spawn(move || {
        let mut bytes = [0; 9];
        while let Ok((n, peer)) = server.recv_from(&mut bytes) {
            let _ = server.send_to(&bytes[..n], peer);
        }
    });
    let mut command = program(AS_NOBODY[0]);
    command.args(&AS_NOBODY[1..]).arg(pasta);
    let options = "-t 7000-7009:8000-8009,auto -u auto,~5299 -T none -U 6001:5301,auto";
    command.args(options.split(' '));
    command.args(["python3", "-I", "-S", "-u", "-c", FOLLOWED_SERVERS]);
    let mut running = Running::start(command);
    running.wait_for("b'out'");
    let stream = || {
        let mut stream = connect(7000).ok()?;
        stream.write_all(b"in").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    };
    let datagram = || {
        let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
        socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        socket.send_to(b"in", ("127.0.0.1", 5300)).ok()?;
        let mut bytes = [0; 9];
        let n = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..n]).into_owned())
    };
    wait_until("the port of TCP", || stream().as_deref() == Some("IN"));
    wait_until("the port of UDP", || datagram().as_deref() == Some("IN"));
    for closed in [7010, 8000, 8010] {
        assert!(connect(closed).is_err(), "{closed}");
    }
    UdpSocket::bind("127.0.0.1:5299").expect("it is free");
    running.say("");
    running.finish().good();
}

/// A program for a guest: a server that ends when the host has found it, and begins again at once. It prints how often
/// its port was in use.
const RESTARTED: &str = "
import socket, time
s = socket.create_server(('0.0.0.0', 7100))
print('listening', flush=True)
s.accept()
s.close()
used = 0
for _ in range(100):
    time.sleep(0.02)
    for at in '0.0.0.0', '127.0.0.1':
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((at, 7100))
            s.listen()
        except OSError:
            used += 1
        s.close()
print('in use', used)
";

#[test]
fn a_guests_server_that_restarts_gets_its_port() {
    // Breaks when mbuma's own listener of the host, which it is about to close, is taken for a server of the host, and
    // is opened at the guest's loopback.
    needs!(guests(), root(), ip6(), programs(&["python3"]));
    on_test_host!();
    let host = PastaHost::new();
    let mut command = program(&host.pasta);
    command.args(["python3", "-I", "-S", "-u", "-c", RESTARTED]);
    let running = Running::start(command);
    running.wait_for("listening");
    wait_until("the port", || connect(7100).is_ok());
    assert_eq!(running.finish().good(), "listening\nin use 0\n");
}
