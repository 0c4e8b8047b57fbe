//! Much data through `mbuma run`: every byte arrives, in order, at every MTU, on every stream.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use crate::common::needs::{guests, programs};
use crate::common::scratch::{noise, sha256};
use crate::common::server::{self, TcpServer};
use crate::common::{Running, Scratch, alone, http, number, output_of, output_of_python, program};

const MB: usize = 1_000_000;

#[test]
fn curl_fetches_and_sends_100_mb() {
    // Breaks when a byte is lost, doubled, moved or changed anywhere between two programs.
    needs!(guests(), programs(&["curl", "sha256sum"]));
    let _alone = alone();
    fetch_and_send(100 * MB, &["--host-loopback"]);
}

#[test]
fn every_mtu_carries_every_byte() {
    // Breaks when segments are cut at another length than the interface takes, or checksums are
    // left to a side that does not fill them in.
    needs!(guests(), programs(&["curl", "sha256sum"]));
    let _alone = alone();
    for mtu in ["576", "1500", "9000", "65520", "65521"] {
        let options = ["--host-loopback", "--mtu", mtu];
        let shown = output_of(&options, "cat /sys/class/net/tap0/mtu");
        assert_eq!(shown.trim(), mtu);
        fetch_and_send(10 * MB, &options);
    }
}

/// Has curl fetch `len` bytes and send them back, and compares.
pub(crate) fn fetch_and_send(len: usize, options: &[&str]) {
    let body = Arc::new(noise(len, 0x6d62_756d));
    let want = sha256(|to| to.write_all(&body).expect("sha256sum reads"));
    let scratch = Scratch::new();
    let file = scratch.write("body", &body);
    let (server, told) = TcpServer::telling(move |stream| fetched_or_sent(stream, &body));
    let port = server.port();

    let fetched = output_of(
        options,
        &format!("curl -sS http://10.0.2.2:{port}/ | sha256sum"),
    );
    assert_eq!(fetched.split_whitespace().next(), Some(&*want), "fetched");
    assert_eq!(server::next(&told), "GET");

    output_of(
        options,
        &format!("curl -sS -T {file} http://10.0.2.2:{port}/"),
    );
    assert_eq!(server::next(&told), want, "sent");
}

/// Gives `body` to a GET; takes the body of a PUT, and gives back its hash.
fn fetched_or_sent(mut stream: TcpStream, body: &[u8]) -> String {
    let request = http::read_request(&mut stream).expect("a request");
    if request.method == "GET" {
        http::respond(&mut stream, "200 OK", body).expect("curl reads all of it");
        return request.method;
    }
    let hash = sha256(|to| {
        http::read_body(&mut stream, &request, |piece| {
            to.write_all(piece).expect("sha256sum reads");
        })
        .expect("curl sends all of it");
    });
    http::respond(&mut stream, "200 OK", b"").expect("curl reads the answer");
    hash
}

#[test]
fn iperf3_runs_both_ways_on_1_and_8_streams() {
    // Breaks when streams starve each other, or one direction stalls.
    needs!(guests(), programs(&["iperf3"]));
    let _alone = alone();
    for (streams, direction, in_all) in [
        (1, "", 1),
        (1, "-R", 1),
        (8, "", 8),
        (8, "-R", 8),
        (8, "--bidir", 16),
    ] {
        let bytes = iperf3(streams, direction);
        assert!(
            bytes.len() == in_all && bytes.iter().all(|&n| n > 0),
            "{streams} streams {direction}: {bytes:?}"
        );
    }
}

/// The bytes that each stream carried to the receiver.
fn iperf3(streams: u32, direction: &str) -> Vec<u64> {
    let port = server::closed_port();
    let mut command = program("iperf3");
    command.args([
        "-s",
        "-1",
        "--forceflush",
        "-B",
        "127.0.0.1",
        "-p",
        &port.to_string(),
    ]);
    let listening = Running::start(command);
    listening.wait_for("Server listening");
    let client = format!("iperf3 -c 10.0.2.2 -p {port} -t 1 -P {streams} {direction} -J");
    let report: serde_json::Value =
        serde_json::from_str(&output_of(&["--host-loopback"], &client)).expect("iperf3's JSON");
    assert_eq!(listening.finish().code, Some(0));
    let streams = report["end"]["streams"].as_array().expect("streams");
    let received = streams.iter().map(|stream| &stream["receiver"]["bytes"]);
    received
        .map(|bytes| bytes.as_u64().expect("a count"))
        .collect()
}

/// Counts the bytes of each of 64 downloads during three seconds, after two seconds to settle. Prints the number of
/// downloads without a byte in some second, and Jain's fairness index in percent.
const DOWNLOADS: &str = "
import select, socket, sys, time
N, buf = 64, bytearray(1 << 18)
socks = [socket.create_connection(('10.0.2.2', int(sys.argv[1]))) for _ in range(N)]
poll = select.epoll()
index = {s.fileno(): i for i, s in enumerate(socks)}
for s in socks:
    s.setblocking(False)
    poll.register(s, select.EPOLLIN)
def read(seconds):
    got, end = [0] * N, time.monotonic() + seconds
    while time.monotonic() < end:
        for fd, _ in poll.poll(0.1):
            i = index[fd]
            try:
                n = socks[i].recv_into(buf)
            except BlockingIOError:
                continue
            assert n > 0, 'it ended'
            got[i] += n
    return got
read(2)
by_second = [read(1) for _ in range(3)]
total = [sum(got) for got in zip(*by_second)]
print(sum(0 in got for got in zip(*by_second)), 100 * sum(total) ** 2 // (N * sum(n * n for n in total)))
";

/// The most readings until one is fair.
const READINGS_MAX: usize = 6;

#[test]
fn sixty_four_downloads_share_alike() {
    // Breaks when a download starves beside others, or those of one worker move a multiple of another's. Before
    // workers compared the numbers of their connections the index was 0.46 to 0.67.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let server = TcpServer::start(|mut stream| {
        let body = vec![0; 1 << 17];
        while stream.write_all(&body).is_ok() {}
    });
    let port = server.port().to_string();
    let options = ["--host-loopback", "--workers", "2"];
    let fair = |out: &String| {
        let figures: Vec<u64> = out.split_whitespace().map(number).collect();
        matches!(figures[..], [0, index] if index >= 95)
    };
    let mut outs = Vec::new();
    // Workers that move unequal numbers of connections do so each time. Other programs that take the CPUs from one
    // worker for seconds look the same, but not each time: so one fair reading is enough.
    while outs.len() < READINGS_MAX && !outs.last().is_some_and(fair) {
        outs.push(output_of_python(&options, DOWNLOADS, &[&port]));
    }
    assert!(outs.last().is_some_and(fair), "{outs:?}");
}

/// Prints the mean length of the packets of a download of 256 MiB.
const DOWNLOAD: &str = "
import socket, sys
def read(name):
    return int(open('/sys/class/net/tap0/statistics/rx_' + name).read())
s = socket.create_connection(('10.0.2.2', int(sys.argv[1])))
s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
into, left = bytearray(1 << 18), 256 << 20
while left > 0:
    left -= s.recv_into(into)
print(read('bytes') // read('packets'))
";

#[test]
fn a_download_comes_in_packets_that_are_full() {
    // Breaks when a read from the host takes more than a packet carries: the rest then goes in a small packet of its
    // own, and the mean is 32 KiB where 64 fit.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let server = http::Endless::start();
    let port = server.port().to_string();
    let out = output_of_python(&["--host-loopback"], DOWNLOAD, &[&port]);
    assert!(number(out.trim()) > 45_000, "{out}");
}

#[test]
fn five_hundred_short_connections_16_at_a_time() {
    // Breaks when a connection is refused, stalled or mixed up among many.
    needs!(guests(), programs(&["curl"]));
    let _alone = alone();
    let (server, script) = http::short_connections();
    let out = output_of(&["--host-loopback"], &script);
    let good = out.lines().filter(|line| *line == "200 1 5").count();
    assert_eq!((good, out.lines().count()), (500, 500), "{out}");
    assert_eq!(server.accepted(), 500);
}
