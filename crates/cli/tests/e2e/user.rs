//! Each feature once as an ordinary user, on a test host whose /dev/net/tun that user may open: the machine's own
//! device is not changed.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use crate::common::nameserver::{ANSWER, NameServer};
use crate::common::needs::{guests, programs, root};
use crate::common::scratch::noise;
use crate::common::server::{closed_port, connect, udp_echo};
use crate::common::test_host::{make_neighbour, make_tun, resolve_with};
use crate::common::{AS_NOBODY, Ended, MBUMA, Running, Scratch, Stats, http, program};

/// An ordinary user with a copy of mbuma.
struct User {
    mbuma: String,
    _scratch: Scratch,
}

impl User {
    fn new() -> User {
        let scratch = Scratch::new();
        User {
            mbuma: scratch.copy("mbuma", Path::new(MBUMA)),
            _scratch: scratch,
        }
    }

    fn start(&self, options: &[&str], script: &str) -> Running {
        let mut command = program(AS_NOBODY[0]);
        command.args(&AS_NOBODY[1..]).arg(&self.mbuma).arg("run");
        command.args(options).args(["--", "sh", "-c", script]);
        Running::start(command)
    }

    fn output_of(&self, options: &[&str], script: &str) -> String {
        self.start(options, script).finish().good()
    }
}

#[test]
fn an_ordinary_user_gets_everything() {
    // Breaks when something needs a privilege that an ordinary user does not have.
    let used = ["setpriv", "curl", "dig", "ping", "python3", "sha256sum"];
    needs!(guests(), root(), programs(&used));
    on_test_host!();
    needs!(make_tun("666"));
    make_neighbour();
    let user = User::new();

    assert_eq!(user.output_of(&[], "id -u"), "65534\n");
    assert_eq!(user.output_of(&["-r"], "id -u"), "0\n");
    let page = user.output_of(&[], "curl -sS http://10.0.2.2/");
    assert!(page.contains("</html>"), "{page}");

    traffic(&user);
    names_and_pings(&user);
    published(&user);
}

/// TCP and UDP, out and back.
fn traffic(user: &User) {
    let server = http::serve(noise(5_000_000, 11));
    let port = server.port();
    let script = format!("curl -sS -o /dev/null -w '%{{size_download}}' http://10.0.2.2:{port}/");
    let ended = user
        .start(&["--host-loopback", "--stats=json"], &script)
        .finish();
    assert_eq!(
        (ended.code, &*ended.out),
        (Some(0), "5000000"),
        "{ended:#?}"
    );
    Stats::checked(&ended.err);
    let echo = format!(
        "python3 -I -S -c \"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
s.sendto(b'x' * 5000, ('10.0.2.2', {}))
print(len(s.recv(65536)))\"",
        udp_echo()
    );
    assert_eq!(user.output_of(&["--host-loopback"], &echo), "5000\n");
}

fn names_and_pings(user: &User) {
    let _server = NameServer::start("127.0.0.1");
    resolve_with("nameserver 127.0.0.1\n");
    let out = user.output_of(&[], "dig +short +tries=1 +time=5 host.example");
    assert_eq!(out.trim(), ANSWER);

    let out = user.output_of(&[], "ping -n -c 1 -W 5 10.0.2.2");
    assert!(out.contains("1 received"), "{out}");
    // The system decides whether a user may ping other hosts, and the guest gets the same error.
    let ping = "ping -n -c 1 -W 5 198.51.100.2";
    let allow = |range: &str| std::fs::write("/proc/sys/net/ipv4/ping_group_range", range);
    allow("0 2147483647").expect("a file of the test host");
    let out = user.output_of(&[], ping);
    assert!(out.contains("1 received"), "{out}");
    allow("1 0").expect("a file of the test host");
    let Ended { code, out, err, .. } = user.start(&[], ping).finish();
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("Packet filtered"), "{out}");
    assert!(err.contains("net.ipv4.ping_group_range"), "{err}");
}

/// Servers of the guest, on a port that only root may bind on the host.
fn published(user: &User) {
    let source = "
import socket
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('0.0.0.0', 7))
l = socket.create_server(('0.0.0.0', 7))
print('listening', flush=True)
s, _ = l.accept()
s.sendall(s.recv(100).upper())
s.close()
text, peer = u.recvfrom(100)
u.sendto(text.upper(), peer)
";
    let (tcp, udp) = (closed_port(), closed_port());
    let options = [
        "--publish",
        &format!("{tcp}:7"),
        "--publish",
        &format!("{udp}:7/udp"),
    ];
    let running = user.start(&options, &format!("python3 -I -S -c \"{source}\""));
    running.wait_for("listening");
    let mut stream = connect(tcp).expect("the port is bound");
    stream.write_all(b"tcp").expect("the guest reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("the guest's end");
    assert_eq!(text, "TCP");

    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let wait = Some(Duration::from_secs(5));
    socket.set_read_timeout(wait).expect("a timeout can be set");
    let mut bytes = [0; 10];
    socket
        .send_to(b"udp", ("127.0.0.1", udp))
        .expect("the port is bound");
    let len = socket.recv(&mut bytes).expect("an answer");
    assert_eq!(&bytes[..len], b"UDP");
    running.finish().good();
}

#[test]
fn a_tun_for_root_alone_is_told() {
    // Breaks when a user is left with "Permission denied".
    needs!(guests(), root(), programs(&["setpriv"]));
    on_test_host!();
    needs!(make_tun("600"));
    let ended = User::new().start(&[], "echo started").finish();
    assert_eq!((ended.code, &*ended.out), (Some(125), ""), "{ended:#?}");
    assert!(
        ended.err.contains("/dev/net/tun") && ended.err.contains("chmod 666"),
        "{ended:#?}"
    );
}
