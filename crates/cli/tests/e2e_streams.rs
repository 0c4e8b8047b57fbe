//! What TCP connections of a guest come to: accepted or refused as the host's side is, ended as the
//! other side ended them.

#[macro_use]
mod common;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::mpsc;

use common::island::{make_neighbour, shell};
use common::needs::{an_island, guests, programs, root};
use common::scratch::noise;
use common::server::{self, TcpServer, closed_port};
use common::{Running, alone, http, mbuma_python, number, output_of, output_of_python, wait_until};

/// Prints, for each address:port among its arguments, the error of connecting and the milliseconds.
const CONNECT: &str = "
import errno, socket, sys, time
for where in sys.argv[1:]:
    host, port = where.split(':')
    s = socket.socket()
    s.settimeout(1)
    begun = time.monotonic()
    try:
        s.connect((host, int(port)))
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
    // Breaks when a refusal is an accepted connection that dies, a silence, or a detour over a timer.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let at = format!("10.0.2.2:{}", closed_port());
    let fast = || {
        let out = output_of_python(&["--host-loopback"], CONNECT, &[&at]);
        let (name, ms) = outcome(&out);
        assert_eq!(name, "ECONNREFUSED");
        ms < 50
    };
    // The second chance is the machine's, which may have had something else to do.
    assert!(fast() || fast(), "refused, but not in 50 ms, twice");
}

#[test]
fn loopback_is_out_of_reach_unless_asked_for() {
    // Breaks when a guest reaches what listens on the host's 127.0.0.1 for the host alone.
    needs!(guests(), programs(&["python3"]));
    let server = TcpServer::start(|_| ());
    let at = format!("10.0.2.2:{}", server.port());
    let out = output_of_python(&[], CONNECT, &[&at]);
    assert_eq!(outcome(&out).0, "ECONNREFUSED");
    assert_eq!(server.accepted(), 0);
    let out = output_of_python(&["--host-loopback"], CONNECT, &[&at]);
    assert_eq!(outcome(&out).0, "CONNECTED");
}

#[test]
fn unreachable_is_told_as_the_host_was_told() {
    // Breaks when a guest waits for minutes where its host knows at once that there is no way.
    needs!(guests(), an_island(), programs(&["python3"]));
    on_an_island!();
    // No default route here: what has no route of its own has none.
    shell(
        "ip route add unreachable 203.0.113.0/28
         ip route add prohibit 203.0.113.16/28",
    );
    let wants = [
        ("192.0.2.1:80", "ENETUNREACH"),
        ("203.0.113.1:80", "EHOSTUNREACH"),
        // What the kernel makes of "communication administratively prohibited".
        ("203.0.113.17:80", "EHOSTUNREACH"),
        ("169.254.169.254:80", "EHOSTUNREACH"),
        ("10.0.2.3:80", "ECONNREFUSED"),
    ];
    let out = output_of_python(&["--host-loopback"], CONNECT, &wants.map(|(at, _)| at));
    assert_eq!(out.lines().count(), wants.len());
    for (line, (at, want)) in out.lines().zip(wants) {
        let (name, ms) = outcome(line);
        assert_eq!(name, want, "{at}");
        assert!(ms < 500, "{at}: {name} after {ms} ms");
    }
}

#[test]
fn silence_stays_silence_and_a_neighbour_answers() {
    // Breaks when a guest's connection is accepted, or refused, before the other side said anything.
    needs!(guests(), an_island(), root(), programs(&["python3"]));
    on_an_island!();
    make_neighbour();
    let server = TcpServer::start_at("198.51.100.1:0", |_| ());
    let near = format!("198.51.100.1:{}", server.port());
    // The last is on the guest's own network, and nobody is there.
    let ats = ["198.51.100.99:80", "198.51.100.2:80", &near, "10.0.2.77:80"];
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
const FROM_HOST: [u8; 700_000] = [b'h'; 700_000];

#[test]
fn either_side_may_end_first() {
    // Breaks when the end of one direction takes the other along, or does not pass.
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
    // Breaks when a crashed client looks to the host like one that finished.
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
    // Breaks when a crashed server looks to the guest like one that said all it had to say.
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
        let command_ended = gone.lock().expect("nobody panicked with it");
        command_ended
            .recv_timeout(common::PATIENCE)
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
    needs!(guests(), programs(&["python3"]));
    let server = TcpServer::start(|mut stream: TcpStream| {
        // The guest's byte, an answer, and the guest's end: its reset is as good.
        let _ = stream.read_exact(&mut [0]);
        let _ = stream.write_all(b"!");
        let _ = stream.read(&mut [0]);
    });
    let port = server.port().to_string();
    let mut running = Running::start(mbuma_python(&["--host-loopback"], MANY, &[&port]));
    let fds = format!("/proc/{}/fd", running.id());
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
        .map(|_| Running::start(common::mbuma(&["--host-loopback"], &script)))
        .collect();
    for one in running {
        assert_eq!(one.finish().good(), "100000");
    }
}
