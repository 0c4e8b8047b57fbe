//! Several workers, each with a queue of the TAP: results are the same as with one, whichever worker serves a
//! connection, to the last byte after the guest's end.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::needs::{guests, programs};
use crate::common::scratch::{noise, sha256};
use crate::common::server::{self, TcpServer};
use crate::common::{
    PATIENCE, Running, Stats, alone, http, mbuma, output_of, output_of_python, wait_until,
};

/// Options for as many workers.
fn workers(n: &str) -> [&str; 3] {
    ["--host-loopback", "--workers", n]
}

#[test]
fn as_many_queues_as_workers() {
    // Breaks when a queue is not attached: its worker would have nothing to do.
    needs!(guests());
    for n in ["1", "2", "3", "64"] {
        let out = output_of(&workers(n), "ls -d /sys/class/net/tap0/queues/rx-* | wc -l");
        assert_eq!(out.trim(), n);
    }
}

#[test]
fn many_streams_carry_every_byte_both_ways() {
    // Breaks when a connection's bytes are lost or change places between two workers.
    needs!(guests(), programs(&["curl", "sha256sum"]));
    let _alone = alone();
    const LEN: usize = 8_000_000;
    let body = Arc::new(noise(LEN, 0x776f_726b));
    let want = sha256(|to| to.write_all(&body).expect("sha256sum reads"));
    let server = http::serve(body.to_vec());
    let at = format!("http://10.0.2.2:{}", server.port());
    let script =
        format!("for i in 1 2 3 4 5 6 7 8; do (curl -sS {at}/$i | sha256sum) & done; wait");
    let out = output_of(&workers("2"), &script);
    let good = out.lines().filter(|line| line.starts_with(&want)).count();
    assert_eq!(good, 8, "{out}");

    let (server, told) = TcpServer::telling(|mut stream| {
        sha256(|to| {
            std::io::copy(&mut stream, to).expect("it is read to its end");
        })
    });
    let script = "
import os, socket, sys, threading
body = open(sys.argv[2], 'rb').read()
def send():
    s = socket.create_connection(('10.0.2.2', int(sys.argv[1])))
    s.sendall(body)
    s.close()
threads = [threading.Thread(target=send) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
";
    needs!(programs(&["python3"]));
    let scratch = crate::common::Scratch::new();
    let file = scratch.write("body", &body);
    let port = server.port().to_string();
    output_of_python(&workers("2"), script, &[&port, &file]);
    (0..8).for_each(|_| assert_eq!(server::next(&told), want));
}

#[test]
fn those_beside_a_bulk_stream_go_to_a_worker_with_less_to_do() {
    // Breaks when a connection waits behind another one that has become bulk, or when bytes or a wakeup are lost on its
    // way to another worker.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    // The first byte selects the service: echo, or discard.
    let server = TcpServer::start(|mut stream| {
        let mut first = [0];
        let mut to = stream.try_clone().expect("a descriptor");
        if stream.read_exact(&mut first).is_err() {
            return;
        }
        let _ = match first {
            [b'e'] => std::io::copy(&mut stream, &mut to),
            _ => std::io::copy(&mut stream, &mut std::io::sink()),
        };
    });
    let script = "
import random, re, socket, sys, threading, time, urllib.request
def connect(first):
    s = socket.create_connection(('10.0.2.2', int(sys.argv[1])), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(first)
    return s
def figure(name):
    page = urllib.request.urlopen('http://10.0.2.2/metrics').read().decode()
    return int(re.search(rf'(?m)^mbuma_{name} (\\d+)', page)[1])
def moved():
    return figure('connections_moved_total')
def bulk(s):
    data = bytes(1 << 20)
    while not done:
        s.sendall(data)
    s.close()
# Some of them come to the worker that the bulk comes to: all but one time in 65536.
echoes = [connect(b'e') for _ in range(16)]
done, deadline = False, time.monotonic() + 60
assert moved() == 0
stream = threading.Thread(target=bulk, args=[connect(b'b')])
stream.start()
rounds = 0
while rounds < 20:
    for s in echoes:
        data = random.randbytes(random.choice([1, 100, 3000]))
        s.sendall(data)
        back = b''
        while len(back) < len(data):
            back += s.recv(len(data) - len(back))
        assert back == data
    if rounds or moved():
        rounds += 1
    assert time.monotonic() < deadline, 'none was moved'
done = True
stream.join()
for s in echoes:
    s.close()
while figure('connections') > 0:
    assert time.monotonic() < deadline, 'some do not end'
    time.sleep(0.01)
print('OK')
";
    let options = [&workers("2")[..], &["--stats=json"]].concat();
    let port = server.port().to_string();
    let guest = Running::start(crate::common::mbuma_python(&options, script, &[&port]));
    let ended = guest.finish();
    assert_eq!((ended.code, ended.out.trim()), (Some(0), "OK"), "{ended:?}");
    let stats = Stats::checked(&ended.err);
    assert!(stats.number("connections_moved") > 0);
    assert_eq!(stats.number("connections_out"), 17);
}

#[test]
fn short_connections_by_all_workers() {
    // Breaks when a connection is begun by no worker, or by two, or is never ended.
    needs!(guests(), programs(&["curl"]));
    let _alone = alone();
    let (server, script) = http::short_connections();
    let mut options = workers("3").to_vec();
    options.push("--stats=json");
    let ended = Running::start(mbuma(&options, &script)).finish();
    let good = ended.out.lines().filter(|line| *line == "200 1 5").count();
    assert_eq!((ended.code, good), (Some(0), 500), "{ended:?}");
    assert_eq!(server.accepted(), 500);
    let stats = Stats::checked(&ended.err);
    assert_eq!(stats.number("connections_out"), 500);
    let loads = stats.loads();
    assert_eq!(loads.iter().sum::<u64>(), 500, "{loads:?}");
    // The kernel spreads flows by a hash: that 500 of them miss a queue is as likely as 500 heads.
    assert!(
        loads.len() == 3 && loads.iter().all(|&n| n > 0),
        "{loads:?}"
    );
}

#[test]
fn the_last_bytes_of_a_guest_arrive_by_any_worker() {
    // Breaks when the workers leave while one of them holds what the guest sent before its end.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let script = "
import os, socket, sys
for n in range(8):
    s = socket.create_connection(('10.0.2.2', int(sys.argv[1])))
    s.sendall(bytes([n]) * 300000)
os._exit(0)
";
    for n in ["2", "4"] {
        let (server, told) = TcpServer::telling(|mut stream| {
            // A host that takes its time: the bytes wait in mbuma when the guest is gone.
            thread::sleep(Duration::from_millis(50));
            let mut all = Vec::new();
            stream.read_to_end(&mut all).map(|_| all.len()).unwrap_or(0)
        });
        let port = server.port().to_string();
        output_of_python(&workers(n), script, &[&port]);
        let lens: Vec<usize> = (0..8).map(|_| server::next(&told)).collect();
        assert_eq!(lens, [300_000; 8], "{n} workers");
    }
}

#[test]
fn nothing_to_deliver_is_no_reason_to_wait() {
    // Breaks when the end of an idle guest always takes the wait for its last bytes.
    needs!(guests());
    let begun = std::time::Instant::now();
    (0..8).for_each(|_| drop(output_of(&workers("4"), "true")));
    // A start takes some tens of milliseconds; the wait would be 250 each time. The machine may be slow.
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn many_busy_leftovers_are_not_served_for_ever() {
    // Breaks when the end waits until no worker has work, although processes that COMMAND left running always make
    // some.
    needs!(guests(), programs(&["curl"]));
    let _alone = alone();
    let server = http::Endless::start();
    for n in ["1", "3"] {
        let script = format!(
            "for i in $(seq 40); do curl -sS -o /dev/null http://10.0.2.2:{}/ 2>/dev/null & done; sleep 0.5; exit 3",
            server.port()
        );
        let ended = Running::start(mbuma(&workers(n), &script)).finish();
        assert_eq!((ended.code, &*ended.err), (Some(3), ""), "{ended:?}");
    }
}

#[test]
fn a_published_port_and_datagrams_beside_other_workers() {
    // Breaks when packets that only the first worker may serve come by another worker's queue, and the first is not
    // woken.
    needs!(guests(), programs(&["python3"]));
    let _alone = alone();
    let port = server::closed_port().to_string();
    let publish = format!("{port}:7777");
    let options = ["--host-loopback", "--workers", "3", "--publish", &publish];
    let script = "
import socket, sys
tcp = socket.create_server(('0.0.0.0', 7777))
print('READY', flush=True)
for _ in range(20):
    s, _ = tcp.accept()
    while (data := s.recv(65536)):
        s.sendall(data)
    s.close()
";
    let guest = Running::start(crate::common::mbuma_python(&options, script, &[]));
    guest.wait_for("READY");
    for n in 0..20_u8 {
        let mut client =
            TcpStream::connect(("127.0.0.1", port.parse().expect("a port"))).expect("published");
        client.write_all(&[n; 10_000]).expect("taken");
        client.shutdown(Shutdown::Write).expect("open");
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).expect("echoed");
        assert_eq!(heard, [n; 10_000]);
    }
    guest.finish().good();

    let at = server::udp_echo().to_string();
    let script = "
import socket, sys
for n in range(40):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.sendto(b'%d' % n, ('10.0.2.2', int(sys.argv[1])))
    assert s.recv(100) == b'%d' % n
print('OK')
";
    let out = output_of_python(&workers("3"), script, &[&at]);
    assert_eq!(out.trim(), "OK");
}

#[test]
fn no_thread_is_left_and_a_signal_ends_all() {
    // Breaks when a worker's thread keeps mbuma from ending, or takes a signal that was the first one's.
    needs!(guests());
    let guest = Running::start(mbuma(&workers("4"), "echo UP; exec sleep 1000"));
    guest.wait_for("UP");
    let workers = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", guest.gateway())).expect("it runs");
        let names = tasks
            .flatten()
            .map(|task| fs::read_to_string(task.path().join("comm")));
        let workers = names.flatten().filter(|name| name.starts_with("mbuma"));
        workers.count()
    };
    // The watch is one more thread; until it sets its name, it has the first worker's.
    wait_until("four workers", || workers() == 4);
    guest.signal("TERM");
    let ended = guest.finish();
    assert_eq!(ended.code, Some(128 + 15), "{ended:?}");
}

#[test]
fn an_interface_that_goes_ends_all_workers() {
    // Breaks when one worker's error leaves the others serving half a guest.
    needs!(guests(), programs(&["ip"]));
    let mut options = workers("3").to_vec();
    options.push("-r");
    let guest = Running::start(mbuma(&options, "ip link delete tap0; exec sleep 1000"));
    let ended = guest.finish();
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.err.contains("interface is gone"), "{ended:?}");
}

#[test]
fn a_capture_has_every_queues_frames() {
    // Breaks when the queues' frames overwrite each other in the file.
    needs!(guests(), programs(&["curl"]));
    let scratch = crate::common::Scratch::new();
    let file = scratch.write("out.pcapng", b"");
    let server = http::serve(vec![7; 5000]);
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8; do curl -sS -o /dev/null http://10.0.2.2:{}/; done",
        server.port()
    );
    let mut options = workers("3").to_vec();
    options.extend(["--pcap", &file]);
    output_of(&options, &script);
    let bytes = fs::read(&file).expect("it is there");
    // Blocks follow each other, each with its length at both its ends.
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let len = word(at + 4) as usize;
        assert_eq!(word(at + len - 4) as usize, len, "a block at {at}");
        packets += usize::from(word(at) == 6);
        at += len;
    }
    assert!(packets > 8 * 8, "{packets}");
}
