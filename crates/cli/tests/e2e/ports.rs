//! Ports that are published while a guest is served: by slirp4netns's API, and by `mbuma publish`.

use std::io::{Read, Write};
use std::net::{Shutdown, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::common::needs::{guests, programs};
use crate::common::server::{TcpServer, closed_port, connect};
use crate::common::{
    MBUMA, Running, Scratch, TAKE_ALL_DESCRIPTORS, mbuma, mbuma_python, program, wait_until,
    with_descriptors,
};

/// Answers each client of port 7 with the client's bytes in capitals: TCP on the guest's loopback only, UDP on all
/// addresses.
const SERVER: &str = "
import socket, threading
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('0.0.0.0', 7))
def datagrams():
    while True:
        text, peer = u.recvfrom(100)
        u.sendto(text.upper(), peer)
threading.Thread(target=datagrams, daemon=True).start()
l = socket.create_server(('127.0.0.1', 7))
print('listening', flush=True)
def streams():
    while True:
        s, _ = l.accept()
        s.sendall(s.recv(100).upper())
        s.close()
threading.Thread(target=streams, daemon=True).start()
input()
";

/// Asks as podman does.
fn ask(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Podman's request to publish a port of the host as the guest's port 7.
fn add(proto: &str, port: u16) -> String {
    format!(
        "{{\"execute\":\"add_hostfwd\",\"arguments\":{{\"proto\":\"{proto}\",\"host_addr\":\"127.0.0.1\",\
         \"host_port\":{port},\"guest_addr\":\"\",\"guest_port\":7}}}}\n"
    )
}

/// Runs `mbuma publish`, about this one.
fn publish(about: &Running, home: &str, words: &[&str]) -> crate::common::Ended {
    let mut command = program(MBUMA);
    command.arg("publish").args(words);
    command.args(["--pid", &about.id().to_string()]);
    Running::start({
        command.env("XDG_RUNTIME_DIR", home);
        command
    })
    .finish()
}

fn tcp_answer(port: u16) -> Option<String> {
    let mut stream = connect(port).ok()?;
    stream.write_all(b"tcp").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

fn udp_answer(port: u16) -> Option<String> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    let wait = Some(Duration::from_secs(2));
    socket.set_read_timeout(wait).ok()?;
    socket.connect(("127.0.0.1", port)).ok()?;
    socket.send(b"udp").ok()?;
    let mut bytes = [0; 10];
    let len = socket.recv(&mut bytes).ok()?;
    String::from_utf8(bytes[..len].to_vec()).ok()
}

#[test]
fn ports_come_and_go_while_a_guest_is_served() {
    // Breaks when an engine can't publish by the API socket, or a user by `mbuma publish`; or when a removed port stays
    // open, or its id leads to another port.
    needs!(guests(), programs(&["python3"]));
    let scratch = Scratch::new();
    let (api, home) = (scratch.path("api"), scratch.text(""));
    let first = closed_port();
    let options = [
        "--api-socket",
        api.to_str().expect("text"),
        "--publish",
        &format!("{first}:7"),
    ];
    let mut command = mbuma_python(&options, SERVER, &[]);
    command.env("XDG_RUNTIME_DIR", &home);
    let running = Running::start(command);
    running.wait_for("listening");
    assert_eq!(tcp_answer(first).as_deref(), Some("TCP"));

    let (tcp, udp) = (closed_port(), closed_port());
    assert_eq!(ask(&api, &add("tcp", tcp)), r#"{"return":{"id":2}}"#);
    assert_eq!(ask(&api, &add("udp", udp)), r#"{"return":{"id":3}}"#);
    wait_until("the new TCP port", || {
        tcp_answer(tcp).as_deref() == Some("TCP")
    });
    wait_until("the new UDP port", || {
        udp_answer(udp).as_deref() == Some("UDP")
    });
    assert!(
        ask(&api, &add("tcp", tcp)).contains("error"),
        "it is in use"
    );

    let list = publish(&running, &home, &["list"]).good();
    // The first is one of both families.
    assert_eq!(list.lines().count(), 4, "{list}");
    assert!(
        list.contains(&format!("3  127.0.0.1:{udp}:7/udp\n")),
        "{list}"
    );
    publish(&running, &home, &["remove", "1", "2", "3"]).good();
    for port in [first, tcp] {
        wait_until("the end of a port", || connect(port).is_err());
    }
    wait_until("the end of the UDP port", || udp_answer(udp).is_none());

    let (low, high) = (closed_port(), closed_port());
    let words = [format!("{low}:7"), format!("{high}:7/udp")];
    let said = publish(&running, &home, &["add", &words[0], &words[1]]).good();
    assert!(said.starts_with("4  ") && said.contains("\n5  "), "{said}");
    wait_until("a port of a place that was left", || {
        tcp_answer(low).as_deref() == Some("TCP")
    });
    wait_until("the same over UDP", || {
        udp_answer(high).as_deref() == Some("UDP")
    });
    let wrong = publish(&running, &home, &["remove", "2"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");

    running.finish();
    assert!(!api.exists(), "the engine's socket was left behind");
}

#[test]
fn a_port_that_was_removed_is_free_at_once() {
    // Breaks when the answer to a removal comes before the gateway process has closed the port.
    needs!(guests());
    let scratch = Scratch::new();
    let api = scratch.path("api");
    let options = ["--api-socket", api.to_str().expect("text")];
    let running = Running::start(mbuma(&options, "echo up; read line || true"));
    running.wait_for("up");
    let port = closed_port();
    for id in 1..=50 {
        let added = ask(&api, &add("tcp", port));
        assert_eq!(added, format!("{{\"return\":{{\"id\":{id}}}}}"));
        let remove = format!(r#"{{"execute":"remove_hostfwd","arguments":{{"id":{id}}}}}"#);
        assert_eq!(ask(&api, &remove), r#"{"return":{}}"#);
    }
    running.finish().good();
}

#[test]
fn a_port_that_the_gateway_process_cannot_take_is_refused() {
    // Breaks when a guest that holds all descriptors lets mbuma publish a port in words only.
    needs!(guests(), programs(&["python3"]));
    let scratch = Scratch::new();
    let home = scratch.text("");
    let server = TcpServer::start(|mut stream| drop(stream.read(&mut [0])));
    let to = server.port().to_string();
    let mut command = mbuma_python(&["--host-loopback"], TAKE_ALL_DESCRIPTORS, &[&to]);
    command.env("XDG_RUNTIME_DIR", &home);
    let mut running = Running::start(with_descriptors(256, &command));
    running.wait_for("up");
    running.wait_for_complaint("no descriptor is left");
    let words = [format!("{}:7", closed_port())];
    let refused = publish(&running, &home, &["add", &words[0]]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("open files"), "{refused:?}");
    assert_eq!(publish(&running, &home, &["list"]).good(), "");
    running.say("");
    running.wait_for("closed");
    wait_until("descriptors", || {
        publish(&running, &home, &["add", &words[0]]).code == Some(0)
    });
    running.finish();
}

#[test]
fn a_gateway_process_that_does_not_answer_stops_no_other_client() {
    // Breaks when the monitor waits for a stopped gateway process: then it answers nothing else, or a client waits for
    // ever. The port that it has refused must be free, and stay closed when the process goes on.
    needs!(guests());
    let scratch = Scratch::new();
    let api = scratch.path("api");
    let options = ["--api-socket", api.to_str().expect("text")];
    let running = Running::start(mbuma(&options, "echo up; read line || true"));
    running.wait_for("up");
    running.signal_gateway("STOP");
    let (first, second) = (closed_port(), closed_port());
    std::thread::scope(|scope| {
        let asks = |port| {
            scope.spawn({
                let api = &api;
                move || ask(api, &add("tcp", port))
            })
        };
        let waiting = [asks(first), asks(second)];
        wait_until("both in the list", || {
            let listed = ask(&api, r#"{"execute":"list_hostfwd"}"#);
            listed.matches("host_port").count() == 2
        });
        for answer in waiting {
            let answer = answer.join().expect("it asked");
            assert!(answer.contains("does not answer"), "{answer}");
        }
    });
    running.signal_gateway("CONT");
    for port in [first, second] {
        wait_until("a free port", || {
            ask(&api, &add("tcp", port)).contains("return")
        });
    }
    let listed = ask(&api, r#"{"execute":"list_hostfwd"}"#);
    assert_eq!(listed.matches("host_port").count(), 2, "{listed}");
    running.finish().good();
}
