//! The outcome of a guest's TCP connections: accepted or refused as the host's connections, and ended as the other side
//! ended them.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::http::Endless;
use crate::common::needs::{guests, programs, root};
use crate::common::scratch::noise;
use crate::common::server::{self, TcpServer, closed_port};
use crate::common::test_host::{make_neighbour, shell};
use crate::common::{
    Running, Stats, alone, http, mbuma_python, number, output_of, output_of_python, program,
    wait_until, with_descriptors,
};

/// Prints, for each address:port among its arguments, the error of connecting and the milliseconds.
/// The first argument is the seconds that it waits at most.
///
/// It also reads the peer's address, because Linux (since 5.9) queues an ICMP error of a connection in progress, and
/// wakes the waiting thread, just before it sets the socket's error: a read in between finds no error.
const CONNECT: &str = "
import errno, socket, sys, time
def connect(s, at):
    s.connect(at)
    while True:
        try:
            return s.getpeername()
        except OSError as e:
            if e.errno != errno.ENOTCONN:
                raise
        error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, 'late')
for where in sys.argv[2:]:
    host, port = where.split(':')
    s = socket.socket()
    s.settimeout(int(sys.argv[1]))
    begun = time.monotonic()
    try:
        connect(s, (host, int(port)))
        name = 'CONNECTED'
    except TimeoutError:
        name = 'TIMEOUT'
    except OSError as e:
        name = errno.errorcode[e.errno]
    print(where, name, round((time.monotonic() - begun) * 1000))
    s.close()
";

/// One line that [`CONNECT`] printed: the error and the milliseconds.
fn outcome(line: &str) -> (&str, u64) {
    let mut words = line.split_whitespace().skip(1);
    let name = words.next().expect("an outcome");
    (name, number(words.next().expect("a time")))
}

#[test]
fn a_closed_port_is_refused_in_50_ms() {
    // Breaks when a refused connection is first accepted, gets no answer, or an answer only after a timer.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let at = format!("10.0.2.2:{}", closed_port());
    // A busy machine may delay any of the attempts; a timer of mbuma would delay all of them.
    let args = [&["9"][..], &[&*at; 10]].concat();
    let out = output_of_python(&["--host-loopback"], CONNECT, &args);
    let outcomes: Vec<_> = out.lines().map(outcome).collect();
    assert_eq!(outcomes.len(), 10, "{out}");
    assert!(
        outcomes.iter().all(|&(name, _)| name == "ECONNREFUSED"),
        "{out}"
    );
    assert!(outcomes.iter().any(|&(_, ms)| ms < 50), "{out}");
}

#[test]
fn loopback_is_out_of_reach_unless_asked_for() {
    // Breaks when a guest reaches what listens on the host's 127.0.0.1 for the host alone.
    needs!(guests(), programs(&["python3"]));
    let server = TcpServer::start(|_| ());
    let at = format!("10.0.2.2:{}", server.port());
    let out = output_of_python(&[], CONNECT, &["9", &at]);
    assert_eq!(outcome(&out).0, "ECONNREFUSED");
    assert_eq!(server.accepted(), 0);
    let out = output_of_python(&["--host-loopback"], CONNECT, &["9", &at]);
    assert_eq!(outcome(&out).0, "CONNECTED");
}

#[test]
fn unreachable_is_told_as_the_host_was_told() {
    // Breaks when a guest waits for minutes although the host gets the error at once.
    needs!(guests(), programs(&["python3"]));
    on_test_host!();
    // There is no default route here, so most addresses have no route.
    shell(
        "ip route add unreachable 203.0.113.0/28
         ip route add prohibit 203.0.113.16/28",
    );
    let wants = [
        ("192.0.2.1:80", "ENETUNREACH"),
        ("203.0.113.1:80", "EHOSTUNREACH"),
        // The kernel's errno for "communication administratively prohibited".
        ("203.0.113.17:80", "EHOSTUNREACH"),
        ("169.254.169.254:80", "EHOSTUNREACH"),
        ("10.0.2.3:80", "ECONNREFUSED"),
    ];
    for (at, want) in wants {
        // The kernel forgets an error that comes while connect(2) is not through, and tries again after a
        // second: seldom, unless the machine is busy.
        let args = [&["9"][..], &[at; 5]].concat();
        let out = output_of_python(&["--host-loopback"], CONNECT, &args);
        let outcomes: Vec<_> = out.lines().map(outcome).collect();
        assert_eq!(outcomes.len(), 5, "{out}");
        assert!(outcomes.iter().all(|&(name, _)| name == want), "{out}");
        assert!(outcomes.iter().any(|&(_, ms)| ms < 200), "slowly: {out}");
    }
}

/// A firewall of the host that rejects connections to this port.
fn rejecting(port: u16) -> Result<(), String> {
    let mut command = program("iptables");
    let rule = format!("-A OUTPUT -p tcp --dport {port} -j REJECT");
    let done = command.args(rule.split(' ')).status();
    match done.is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err("iptables makes no rule here".to_owned()),
    }
}

#[test]
fn a_connection_that_a_firewall_rejects_is_tried_once() {
    // Breaks when an ICMP error that comes during connect(2) is not seen: the guest then waits until the host sends its
    // SYN again, a second later.
    needs!(guests(), root(), programs(&["python3", "iptables"]));
    on_test_host!();
    needs!(rejecting(8765));
    let args = [&["9"][..], &["10.0.2.2:8765"; 5]].concat();
    let out = output_of_python(&["--host-loopback"], CONNECT, &args);
    let outcomes: Vec<_> = out.lines().map(|line| outcome(line).0).collect();
    assert_eq!(outcomes, ["ECONNREFUSED"; 5], "{out}");
    let list = program("iptables").args(["-nvxL", "OUTPUT"]).output();
    let list = String::from_utf8(list.expect("it runs").stdout).expect("text");
    let rule = list.lines().find(|line| line.contains("8765"));
    let packets = rule.and_then(|rule| rule.split_whitespace().next());
    assert_eq!(packets, Some("5"), "{list}");
}

#[test]
fn silence_stays_silence_and_a_neighbour_answers() {
    // Breaks when a guest's connection is accepted or refused before the other side answered.
    needs!(guests(), root(), programs(&["python3"]));
    on_test_host!();
    make_neighbour();
    let server = TcpServer::start_at("198.51.100.1:0", |_| ());
    let near = format!("198.51.100.1:{}", server.port());
    // The last address is in the guest's own network, and no host has it.
    let ats = [
        "1",
        "198.51.100.99:80",
        "198.51.100.2:80",
        &near,
        "10.0.2.77:80",
    ];
    let out = output_of_python(&[], CONNECT, &ats);
    let names: Vec<_> = out.lines().map(|line| outcome(line).0).collect();
    assert_eq!(
        names,
        ["TIMEOUT", "ECONNREFUSED", "CONNECTED", "TIMEOUT"],
        "{out}"
    );
}

/// Ends its own side first when told "first", and last when told "last"; sends and prints what it is
/// told either way.
const HALF_CLOSE: &str = "
import socket, sys
s = socket.create_connection(('10.0.2.2', int(sys.argv[2])), 20)
def finish():
    s.sendall(b'from the guest ' * 50000)
    s.shutdown(socket.SHUT_WR)
def collect():
    n = 0
    while piece := s.recv(65536):
        n += len(piece)
    print('got', n)
steps = [finish, collect]
for step in steps if sys.argv[1] == 'first' else reversed(steps):
    step()
";
/// What [`HALF_CLOSE`] sends.
const FROM_GUEST_LEN: usize = 15 * 50_000;
static FROM_HOST: [u8; 700_000] = [b'h'; 700_000];

#[test]
fn either_side_may_end_first() {
    // Breaks when the end of one direction also ends the other, or does not reach the other side.
    needs!(guests(), programs(&["python3"]));
    for who in ["first", "last"] {
        let (server, told) = TcpServer::telling(move |mut stream| {
            let mut all = Vec::new();
            if who == "first" {
                stream.read_to_end(&mut all).expect("the guest's end");
            }
            stream.write_all(&FROM_HOST).expect("the guest reads");
            stream.shutdown(Shutdown::Write).expect("connected");
            if who == "last" {
                stream.read_to_end(&mut all).expect("the guest's end");
            }
            all.len()
        });
        let port = server.port().to_string();
        let out = output_of_python(&["--host-loopback"], HALF_CLOSE, &[who, &port]);
        assert_eq!(out, format!("got {}\n", FROM_HOST.len()), "{who}");
        assert_eq!(server::next(&told), FROM_GUEST_LEN, "{who}");
    }
}

#[test]
fn netcat_ends_with_its_input() {
    // Breaks when a pipeline over the network hangs at its end.
    needs!(guests(), programs(&["nc"]));
    let (server, told) = TcpServer::telling(|mut stream| {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("netcat's end");
        stream
            .write_all(text.to_uppercase().as_bytes())
            .expect("netcat reads");
        text
    });
    let script = format!("echo hello | nc -N 10.0.2.2 {}", server.port());
    assert_eq!(output_of(&["--host-loopback"], &script), "HELLO\n");
    assert_eq!(server::next(&told), "hello\n");
}

#[test]
fn a_guests_reset_reaches_the_host() {
    // Breaks when a server on the host can't tell a crashed client from one that ended its stream.
    needs!(guests(), programs(&["python3"]));
    let (server, told) = TcpServer::telling(|mut stream| {
        stream.read_exact(&mut [0]).expect("the guest's byte");
        stream.write_all(b"!").expect("the guest reads");
        stream.read(&mut [0]).map_err(|e| e.kind())
    });
    let source = "
import socket, struct, sys
s = socket.create_connection(('10.0.2.2', int(sys.argv[1])), 20)
s.sendall(b'?')
s.recv(1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()
";
    output_of_python(&["--host-loopback"], source, &[&server.port().to_string()]);
    assert_eq!(server::next(&told), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_hosts_reset_reaches_the_guest() {
    // Breaks when a guest can't tell a crashed server from one that ended its stream.
    needs!(guests(), programs(&["python3"]));
    let server = TcpServer::start(|stream| {
        // Closed with something unread, it is reset (RFC 2525, 2.17).
        server::wait_for_data(&stream);
    });
    let source = "
import socket, sys
s = socket.create_connection(('10.0.2.2', int(sys.argv[1])), 20)
s.sendall(b'?')
try:
    print('read', s.recv(1))
except ConnectionResetError:
    print('reset')
";
    let out = output_of_python(&["--host-loopback"], source, &[&server.port().to_string()]);
    assert_eq!(out, "reset\n");
}

#[test]
fn the_last_bytes_of_a_command_that_ended_arrive() {
    // Breaks when what a program sent just before it ended is lost with its namespace.
    needs!(guests(), programs(&["python3"]));
    let (go, gone) = mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let (server, told) = TcpServer::telling(move |mut stream| {
        let command_ended = gone.lock().expect("no thread panicked with it");
        command_ended
            .recv_timeout(crate::common::PATIENCE)
            .expect("the word");
        let mut all = Vec::new();
        stream
            .read_to_end(&mut all)
            .map(|_| all.len())
            .map_err(|e| e.kind())
    });
    // Fills every buffer on the way, and ends.
    let source = "
import os, select, socket, sys
s = socket.create_connection(('10.0.2.2', int(sys.argv[1])), 20)
s.setblocking(False)
n = 0
while select.select([], [s], [], 0.3)[1]:
    n += s.send(b'z' * 65536)
print('sent', n)
print('pid', os.getpid())
";
    let port = server.port().to_string();
    let running = Running::start(mbuma_python(&["--host-loopback"], source, &[&port]));
    let sent = number(&running.wait_for("sent"));
    let pid = running.wait_for("pid");
    wait_until("COMMAND's end", || !Path::new("/proc").join(&pid).exists());
    go.send(()).expect("the server waits");
    let received = server::next(&told).map(|n| n as u64);
    assert_eq!(received, Ok(sent));
    running.finish().good();
}

/// For each line that it reads, makes that many connections, one after the other, each with a byte
/// in both directions; every other one it resets.
const MANY: &str = "
import socket, struct, sys
for line in sys.stdin:
    for i in range(int(line)):
        s = socket.create_connection(('10.0.2.2', int(sys.argv[1])), 20)
        s.sendall(b'?')
        s.recv(1)
        if i % 2:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        s.close()
    print('done', line.strip())
";

#[test]
fn no_descriptor_stays_behind() {
    // Breaks when a connection that ended, well or badly, keeps its host socket.
    // Only root may look at the descriptors of the isolated process.
    needs!(guests(), root(), programs(&["python3"]));
    let server = TcpServer::start(|mut stream: TcpStream| {
        // A byte of the guest, an answer, and the guest's end of file or reset.
        let _ = stream.read_exact(&mut [0]);
        let _ = stream.write_all(b"!");
        let _ = stream.read(&mut [0]);
    });
    let port = server.port().to_string();
    let mut running = Running::start(mbuma_python(&["--host-loopback"], MANY, &[&port]));
    let fds = format!("/proc/{}/fd", running.gateway());
    let open = || fs::read_dir(&fds).expect("mbuma runs").count();
    running.say("0");
    running.wait_for("done 0");
    let before = open();
    running.say("200");
    running.wait_for("done 200");
    wait_until("mbuma to close what ended", || open() == before);
    assert_eq!(server.accepted(), 200);
    running.finish().good();
}

/// Four processes hold [`HELD_EACH`] connections each until all have theirs; then one more connects. Prints the number
/// of connections, and that the last one was made.
const HOLD: &str = "
import os, socket, sys, time
def connect():
    s = socket.socket()
    s.settimeout(0.3)
    try:
        s.connect(('10.0.2.2', int(sys.argv[1])))
        return s
    except TimeoutError:
        return None
(told, tell), (go, let_go) = os.pipe(), os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.close(let_go)
        held = [connect() for _ in range(int(sys.argv[2]))]
        os.write(tell, bytes([sum(s is not None for s in held)]))
        os.read(go, 1)
        os._exit(0)
print('held', sum(os.read(told, 1)[0] for _ in range(4)))
os.close(let_go)
for _ in range(4):
    os.wait()
for _ in range(1000):
    if s := connect():
        print('again')
        break
    time.sleep(0.01)
";
const HELD_EACH: u64 = 20;

#[test]
fn without_descriptors_connections_wait() {
    // Breaks when running out of descriptors stalls mbuma, ends it, or lasts; when the guest is told that the server
    // refused; or when nothing says so.
    needs!(guests(), programs(&["python3"]));
    let server = TcpServer::start(|mut stream| {
        // Held open until the guest ends it.
        let _ = stream.read(&mut [0]);
    });
    let mbuma = mbuma_python(
        &["--host-loopback", "--stats=json"],
        HOLD,
        &[&server.port().to_string(), &HELD_EACH.to_string()],
    );
    let running = Running::start(with_descriptors(48, &mbuma));
    let held = number(&running.wait_for("held"));
    assert!(held > 0 && held < 4 * HELD_EACH, "{held} connections held");
    running.wait_for("again");
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let (said, stats) = ended.err.split_at(ended.err.find('{').expect("JSON"));
    assert!(said.contains("no descriptor is left"), "{said}");
    assert!(said.lines().count() <= 4, "{said}");
    let stats = Stats::checked(stats);
    assert!(stats.number("descriptors_exhausted") > 0);
}

/// Asks for a body without end, and reads nothing of it until told; then some, and ends.
const LAZY: &str = "
import socket, sys
s = socket.create_connection(('10.0.2.2', int(sys.argv[1])), 20)
s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')
print('asked')
sys.stdin.readline()
n = 0
while n < 100_000_000:
    n += len(s.recv(1 << 20))
print('read')
sys.stdin.readline()
";

#[test]
fn a_guest_that_does_not_read_stops_the_host() {
    // Breaks when mbuma buffers the bytes that the guest does not read without bound, or does not go on when the guest
    // reads.
    needs!(guests(), programs(&["python3"]));
    let server = Endless::start();
    let port = server.port().to_string();
    let mut running = Running::start(mbuma_python(&["--host-loopback"], LAZY, &[&port]));
    running.wait_for("asked");
    let mut sent = 0;
    wait_until("the server to stop", || {
        // Longer than any pause of a transfer that goes on.
        thread::sleep(Duration::from_millis(300));
        let before = std::mem::replace(&mut sent, server.sent());
        sent > 0 && sent == before
    });
    assert!(
        sent < 50_000_000,
        "{sent} bytes for a guest that reads none"
    );
    let resident = resident_kb(running.gateway());
    assert!(resident < 50_000, "{resident} kB in memory");
    running.say("");
    running.wait_for("read");
    running.say("");
    running.finish().good();
}

/// The memory that a process has in use, in kB.
fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number(kb.expect("a figure"))
}

#[test]
#[ignore = "its server's send buffers take 512 MiB of the kernel's TCP memory: by hand, alone"]
fn a_thousand_downloads_without_a_reader_leave_room_for_others() {
    // Breaks when their data take all buffers: then mbuma can receive no packet of the guest, not even the
    // acknowledgements that would free buffers.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let server = Endless::start_for_many();
    let echo = TcpServer::start(|mut stream| {
        let mut to = stream.try_clone().expect("a descriptor");
        let _ = std::io::copy(&mut stream, &mut to);
    });
    let script = "
import resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def connect(port):
    return socket.create_connection(('10.0.2.2', int(port)), timeout=60)
downloads = []
for _ in range(1000):
    s = connect(sys.argv[1])
    s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
    downloads.append(s)
time.sleep(1)
s = connect(sys.argv[2])
for n in range(10):
    data = bytes([n]) * 30000
    s.sendall(data)
    back = b''
    while len(back) < len(data):
        back += s.recv(len(data))
    assert back == data
for s in downloads[::10]:
    left = 3000000
    while left > 0:
        left -= len(s.recv(65536))
print('OK')
";
    let ports = [server.port().to_string(), echo.port().to_string()];
    let options = ["--host-loopback", "--stats=json"];
    let guest = Running::start(mbuma_python(&options, script, &[&ports[0], &ports[1]]));
    let ended = guest.finish();
    assert_eq!((ended.code, ended.out.trim()), (Some(0), "OK"), "{ended:?}");
    let stats = Stats::checked(&ended.err);
    assert_eq!(stats.number("connections_out"), 1001);
}

#[test]
fn many_guests_are_apart() {
    // Breaks when two mbumas get in each other's way: names, ports, namespaces.
    needs!(guests(), programs(&["curl"]));
    let server = http::serve(noise(100_000, 7));
    let script = format!(
        "curl -sS -o /dev/null -w '%{{size_download}}' http://10.0.2.2:{}/",
        server.port()
    );
    let running: Vec<_> = (0..4)
        .map(|_| Running::start(crate::common::mbuma(&["--host-loopback"], &script)))
        .collect();
    for one in running {
        assert_eq!(one.finish().good(), "100000");
    }
}

#[test]
fn a_burst_of_packets_waits_in_the_interface() {
    // Breaks if the TAP's queue is short: then the guest's kernel drops SYNs of a program that opens a thousand
    // connections at once, and they come a second late; or if it is so long that a flood of datagrams, which no socket
    // pays for, takes much of the host's memory.
    needs!(guests(), programs(&["python3"]));
    let source = "
import socket
socket.create_connection(('10.0.2.2', 80)).close()  # the neighbour is known from here on
print('ready')
input()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
for _ in range(1900):
    s.sendto(b'x', ('10.0.2.2', 9))
fields = [l.split() for l in open('/proc/net/dev') if 'tap0' in l][0]
print('dropped', fields[12])
# Each datagram that waits may hold 64 KiB of the host's memory.
print('places', open('/sys/class/net/tap0/tx_queue_len').read())
";
    // The caller's send buffer is at most net.core.wmem_max, and each packet needs room in it.
    let mut running = Running::start(mbuma_python(&["--workers", "1"], source, &[]));
    running.wait_for("ready");
    // The stack reads nothing meanwhile.
    running.signal_gateway("STOP");
    running.say("");
    let dropped = running.wait_for("dropped");
    assert_eq!(running.wait_for("places"), "2000");
    running.signal_gateway("CONT");
    assert_eq!(dropped, "0");
    running.finish().good();
}
