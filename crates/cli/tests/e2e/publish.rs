//! Servers in the guest that the host reaches through `--publish`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use crate::common::needs::{guests, programs};
use crate::common::scratch::noise;
use crate::common::server::{TcpServer, closed_port, connect, wait_until_closed};
use crate::common::{
    Running, Scratch, alone, mbuma, mbuma_python, output_of, program, wait_until, with_descriptors,
};

#[test]
fn a_web_server_in_the_guest_is_reached() {
    // Breaks when the host cannot reach what the guest serves, on a privileged port of its own.
    needs!(guests(), programs(&["python3", "curl"]));
    let scratch = Scratch::new();
    let file = noise(3_000_000, 5);
    scratch.write("file", &file);
    let port = closed_port();
    let server = format!(
        "cd {} && exec python3 -I -u -m http.server 80 2>/dev/null",
        scratch.text("")
    );
    let published = format!("{port}:80");
    let running = Running::start(mbuma(&["--publish", &published], &server));
    running.wait_for("Serving HTTP");
    for _ in 0..3 {
        let mut curl = program("curl");
        curl.args(["-sS", "-o", &scratch.text("copy")]);
        curl.arg(format!("http://127.0.0.1:{port}/file"));
        Running::start(curl).finish().good();
        let copy = std::fs::read(scratch.path("copy")).expect("curl wrote it");
        assert!(copy == file, "the copy differs");
    }
    running.signal("TERM");
    let ended = running.finish();
    assert_eq!((ended.code, &*ended.err), (Some(143), ""), "{ended:#?}");
}

#[test]
fn iperf3_serves_in_the_guest() {
    // Breaks when many connections into the guest, and much on them, do not go through.
    needs!(guests(), programs(&["iperf3"]));
    let _alone = alone();
    let port = closed_port();
    let running = Running::start(mbuma(
        &["--publish", &format!("{port}:5201")],
        "exec iperf3 -s -1 --forceflush",
    ));
    running.wait_for("Server listening");
    let mut client = program("iperf3");
    client.args([
        "-c",
        "127.0.0.1",
        "-t",
        "1",
        "-P",
        "4",
        "-J",
        "-p",
        &port.to_string(),
    ]);
    let report: serde_json::Value =
        serde_json::from_str(&Running::start(client).finish().good()).expect("iperf3's JSON");
    let bytes = report["end"]["sum_received"]["bytes"].as_u64();
    assert!(bytes > Some(0), "{report}");
    running.finish().good();
}

#[test]
fn half_closed_connections_into_the_guest_go_on() {
    // Breaks when the end of file of a client on the host cuts the guest's answer off.
    needs!(guests(), programs(&["python3"]));
    let source = "
import socket
l = socket.create_server(('0.0.0.0', 7))
print('listening')
s, peer = l.accept()
print('from', peer[0])
got = b''
while piece := s.recv(65536):
    got += piece
s.sendall(got.upper() * 1000)
";
    let port = closed_port();
    let published = format!("127.0.0.1:{port}:7");
    let running = Running::start(mbuma_python(&["--publish", &published], source, &[]));
    running.wait_for("listening");
    let mut stream = connect(port).expect("the port is bound");
    stream.write_all(b"hello").expect("the guest reads");
    stream.shutdown(Shutdown::Write).expect("connected");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the guest's end");
    assert_eq!(answer, "HELLO".repeat(1000));
    // A client on the host itself has no address that the guest could answer to but the gateway's.
    assert_eq!(running.wait_for("from"), "10.0.2.2");
    running.finish().good();
}

/// A server on the guest's 127.0.0.1 only: it returns what a client sends, until the client's end.
const ON_LOOPBACK: &str = "
import socket
l = socket.create_server(('127.0.0.1', 7))
print('listening')
for _ in range(3):
    s, peer = l.accept()
    got = b''
    while piece := s.recv(65536):
        got += piece
    s.sendall(got)
    s.close()
";

#[test]
fn a_server_on_the_guests_loopback_is_reached() {
    // Breaks when a development server, which mostly listens on 127.0.0.1 alone, can't be reached from the host; or
    // when what a client says before the second attempt is lost.
    needs!(guests(), programs(&["python3"]));
    let port = closed_port();
    let published = format!("127.0.0.1:{port}:7");
    let running = Running::start(mbuma_python(&["--publish", &published], ON_LOOPBACK, &[]));
    running.wait_for("listening");
    let sent = noise(3_000_000, 6);
    for part in [&sent[..1], &sent[..5_000], &sent[..]] {
        let mut stream = connect(port).expect("the port is bound");
        let mut writer = stream.try_clone().expect("a copy");
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                writer.write_all(part).expect("the guest reads");
                writer.shutdown(Shutdown::Write).expect("connected");
            });
            stream.read_to_end(&mut got).expect("the guest's end");
        });
        assert!(got == part, "{} bytes of {}", got.len(), part.len());
    }
    let ended = running.finish();
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{ended:#?}");
}

#[test]
fn a_published_port_without_a_server_is_reset() {
    // Breaks when a client on the host waits for ever, or its connection stays open; or when no message gives the
    // reason of the reset.
    needs!(guests());
    let port = closed_port();
    let mut running = Running::start(mbuma(
        &["--publish", &format!("{port}:7")],
        "echo up; read line",
    ));
    running.wait_for("up");
    // The reset may come before the client has checked whether it is connected.
    let read = connect(port).and_then(|mut stream| stream.read(&mut [0]));
    assert_eq!(read.map_err(|e| e.kind()), Err(ErrorKind::ConnectionReset));
    // One line says which port, and where no server was; more clients do not make more lines.
    let said = format!("published port {port}: a client was reset");
    running.wait_for_complaint(&said);
    for _ in 0..20 {
        let _ = connect(port).and_then(|mut stream| stream.read(&mut [0]));
    }
    running.say("");
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(
        ended
            .err
            .contains("no server on port 7, at its addresses or at 127.0.0.1"),
        "{ended:#?}"
    );
    assert_eq!(ended.err.lines().count(), 1, "{ended:#?}");
}

#[test]
fn hundreds_of_clients_may_wait_at_once() {
    // Breaks if the listener's backlog is small: then the kernel drops the SYNs of clients that come while the gateway
    // is busy, and they try again after a second.
    needs!(guests(), programs(&["python3"]));
    let port = closed_port();
    let source = "
import socket
l = socket.create_server(('0.0.0.0', 7), backlog=4096)
print('listening')
for _ in range(600):
    l.accept()[0].close()
";
    let published = format!("{port}:7");
    let running = Running::start(mbuma_python(&["--publish", &published], source, &[]));
    running.wait_for("listening");
    // The gateway accepts no client meanwhile.
    running.signal_gateway("STOP");
    let to = (std::net::Ipv4Addr::LOCALHOST, port).into();
    let connect = |_| TcpStream::connect_timeout(&to, Duration::from_millis(900)).ok();
    let clients: Vec<_> = (0..600).map_while(connect).collect();
    running.signal_gateway("CONT");
    assert_eq!(clients.len(), 600);
    running.finish().good();
}

/// Holds every client that comes; opens a connection of its own when it is told to.
const HOLDING_SERVER: &str = "
import socket, sys, threading
l = socket.create_server(('0.0.0.0', 7), backlog=128)
def hold():
    held = []
    while True:
        held.append(l.accept())
threading.Thread(target=hold, daemon=True).start()
print('listening')
for line in sys.stdin:
    s = socket.create_connection(('10.0.2.2', int(line)), 10)
    print('connected')
";

#[test]
fn clients_leave_descriptors_for_the_guest() {
    // Breaks when clients of a published port take every descriptor: then the guest opens no connection of its own
    // until they leave, which they need not do.
    needs!(guests(), programs(&["python3"]));
    let port = closed_port();
    let server = TcpServer::start(|mut stream| drop(stream.read(&mut [0])));
    let published = format!("{port}:7");
    let mbuma = mbuma_python(
        &["--host-loopback", "--publish", &published],
        HOLDING_SERVER,
        &[],
    );
    let mut running = Running::start(with_descriptors(160, &mbuma));
    running.wait_for("listening");
    let to = (std::net::Ipv4Addr::LOCALHOST, port).into();
    let connect = |_| TcpStream::connect_timeout(&to, Duration::from_secs(10)).ok();
    let clients: Vec<_> = (0..150).map_while(connect).collect();
    running.wait_for_complaint("clients of ports have 80 descriptors");
    running.say(&server.port().to_string());
    running.wait_for("connected");
    drop(clients);
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}

#[test]
fn datagrams_into_the_guest_are_answered() {
    // Breaks when a client's datagrams, or the answers to two clients, go astray.
    needs!(guests(), programs(&["python3"]));
    let source = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', 7))
print('bound')
while True:
    text, peer = s.recvfrom(65536)
    s.sendto(text.upper(), peer)
    if text == b'stop':
        break
";
    let port = closed_port();
    let published = format!("{port}:7/udp");
    let running = Running::start(mbuma_python(&["--publish", &published], source, &[]));
    running.wait_for("bound");
    let clients = [(); 2].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        socket.connect(("127.0.0.1", port)).expect("an address");
        let wait = Some(Duration::from_secs(5));
        socket.set_read_timeout(wait).expect("a timeout can be set");
        socket
    });
    let ask = |client: &UdpSocket, text: &str| {
        client.send(text.as_bytes()).expect("the port is bound");
        let mut bytes = vec![0; 1 << 16];
        let len = client.recv(&mut bytes).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&bytes[..len]), text.to_uppercase());
    };
    clients[0].send(b"one").expect("the port is bound");
    ask(&clients[1], "two");
    let mut bytes = [0; 10];
    let len = clients[0].recv(&mut bytes).expect("an answer");
    assert_eq!(&bytes[..len], b"ONE");
    ask(&clients[0], &"long".repeat(10_000));
    ask(&clients[1], "stop");
    running.finish().good();
}

/// Opens a flow to the host's server and prints a line; answers all datagrams to port 7; then prints the datagram that
/// comes by the flow.
const FLOW_AND_SERVER: &str = "
import select, socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect(('10.0.2.2', int(sys.argv[1])))
own.send(b'hello')
served = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
served.bind(('0.0.0.0', 7))
print('bound')
while True:
    for s in select.select([own, served], [], [], 20)[0]:
        if s is own:
            print('got', own.recv(100).decode())
            sys.exit()
        served.sendto(*served.recvfrom(100))
";

#[test]
fn a_flood_of_clients_leaves_the_guests_own_flows() {
    // Breaks when clients of a published port, here six thousand, evict the flows that the guest opened: the answer of
    // the server then comes to a closed port.
    needs!(guests(), programs(&["python3"]));
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let wait = Some(Duration::from_secs(10));
    server.set_read_timeout(wait).expect("a timeout can be set");
    let own_port = server.local_addr().expect("bound").port().to_string();
    let port = closed_port();
    let published = format!("{port}:7/udp");
    let options = ["--host-loopback", "--publish", &published];
    let running = Running::start(mbuma_python(&options, FLOW_AND_SERVER, &[&own_port]));
    running.wait_for("bound");
    let (_, guest) = server
        .recv_from(&mut [0; 10])
        .expect("the guest says hello");
    let mut answered = 0;
    for _ in 0..6000 {
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        client
            .send_to(b"x", ("127.0.0.1", port))
            .expect("it is bound");
        let short = Some(Duration::from_millis(20));
        client
            .set_read_timeout(short)
            .expect("a timeout can be set");
        answered += usize::from(client.recv(&mut [0; 10]).is_ok());
    }
    assert!(answered > 5000, "{answered} clients were answered");
    server
        .send_to(b"still-here", guest)
        .expect("it has a socket");
    assert_eq!(running.wait_for("got"), "still-here");
    running.finish().good();
}

#[test]
fn a_port_in_use_is_told_before_command_starts() {
    // Breaks when COMMAND runs without the port that it was promised.
    needs!(guests());
    let scratch = Scratch::new();
    let touch = format!("touch {}", scratch.text("started"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it is bound").port();
    let ended = Running::start(mbuma(&["--publish", &format!("{port}:80")], &touch)).finish();
    assert_eq!(ended.code, Some(125), "{ended:#?}");
    assert!(
        ended.err.contains(&port.to_string()) && ended.err.contains("in use"),
        "{ended:#?}"
    );
    assert!(!scratch.path("started").exists());
    // The same for UDP, and a port is free again at once when mbuma is gone.
    let port = closed_port();
    let taken = UdpSocket::bind(("127.0.0.1", port)).expect("it is free");
    let udp = format!("{port}:80/udp");
    let ended = Running::start(mbuma(&["--publish", &udp], "true")).finish();
    assert_eq!(ended.code, Some(125), "{ended:#?}");
    drop(taken);
    wait_until_closed(port);
    for _ in 0..2 {
        output_of(
            &[
                "--publish",
                &udp,
                "--publish",
                &format!("{}:80", closed_port()),
            ],
            "true",
        );
    }
}

#[test]
fn a_published_port_ends_with_mbuma() {
    // Breaks when a listener outlives the guest that it leads to.
    needs!(guests());
    let port = closed_port();
    output_of(&["--publish", &format!("{port}:80")], "true");
    wait_until("the port to be free", || {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
    });
}
