//! A runtime that drives a stack on a real TAP device of two queues, against the kernel's stack.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::OFFLOADS;
use crate::namespace::{US, in_namespace, ip, make_taps};
use mbuf::Live;
use mbuma::device::Device;
use mbuma::device::tap::Tap;
use mbuma::runtime::Runtime;
use mbuma::{Config, IfConfig, IfIndex, Stack};

const PATIENCE: Duration = Duration::from_secs(20);
const CONNECTIONS: usize = 8;
const LEN: usize = 1 << 20;

fn stack(runtime: &Runtime) -> Stack {
    let mut config = Config {
        cpus: runtime.cpus(),
        ..Config::from_system()
    };
    config.tcp.msl = Duration::from_millis(1);
    Stack::new(config).unwrap()
}

fn interface() -> IfConfig {
    IfConfig::new("tap0").with_addr(US, 24)
}

/// Both queues as `Runtime::add_tap` attaches them.
fn by_add_tap(runtime: &Runtime, stack: &Stack) -> IfIndex {
    let taps = make_taps(OFFLOADS, 2);
    runtime.add_tap(stack, taps, OFFLOADS, interface()).unwrap()
}

/// The same by hand, with devices that a program made itself.
fn by_add_queue(runtime: &Runtime, stack: &Stack) -> IfIndex {
    let taps = make_taps(OFFLOADS, 2);
    let watched: Vec<_> = taps.iter().map(|fd| fd.try_clone().unwrap()).collect();
    let devices = taps.into_iter().map(|fd| {
        let tap = Tap::from_fd(fd, OFFLOADS, stack.pool());
        Arc::new(tap) as Arc<dyn Device>
    });
    let index = stack.attach_queues(devices.collect(), interface()).unwrap();
    for (queue, fd) in watched.iter().enumerate() {
        runtime.add_queue(stack, index, queue, fd.as_fd()).unwrap();
    }
    index
}

/// Sends streams and datagrams from the kernel to the stack and back.
fn exchange(stack: &Stack) {
    let listener = stack.tcp_listen(SocketAddrV4::new(US, 80), 64).unwrap();
    let echoes: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let theirs = TcpStream::connect((US, 80)).unwrap();
            let ours = listener.accept_blocking(Some(PATIENCE)).expect("a client");
            let echo = thread::spawn(move || {
                let mut buf = vec![0; 1 << 16];
                while let len @ 1.. = ours.recv_blocking(&mut buf, Some(PATIENCE)).unwrap() {
                    let mut rest = &buf[..len];
                    while !rest.is_empty() {
                        rest = &rest[ours.send_blocking(rest, Some(PATIENCE)).unwrap()..];
                    }
                }
            });
            (echo, thread::spawn(move || there_and_back(theirs, n as u8)))
        })
        .collect();
    for (echo, client) in echoes {
        client.join().unwrap();
        echo.join().unwrap();
    }

    let ours = stack.udp_bind(SocketAddrV4::new(US, 7)).unwrap();
    for n in 0..CONNECTIONS as u8 {
        // Each from a port, and so perhaps by a queue, of its own.
        let theirs = UdpSocket::bind("10.0.2.100:0").unwrap();
        theirs.set_read_timeout(Some(PATIENCE)).unwrap();
        theirs.send_to(&[n; 9000], (US, 7)).unwrap();
        let asked = ours.recv_blocking(Some(PATIENCE)).expect("a datagram");
        ours.send_from(asked.payload, asked.dst, asked.src).unwrap();
        let mut buf = [0; 10_000];
        assert_eq!(theirs.recv(&mut buf).unwrap(), 9000);
        assert_eq!(buf[..9000], [n; 9000]);
    }
}

/// The kernel's side of a connection.
fn there_and_back(mut stream: TcpStream, n: u8) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let back = thread::spawn(move || {
        let mut back = Vec::new();
        reader.read_to_end(&mut back).map(|_| back)
    });
    let sent: Vec<u8> = (0..LEN).map(|i| (i % 251) as u8 ^ n).collect();
    stream.write_all(&sent).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(back.join().unwrap().unwrap() == sent, "connection {n}");
}

/// Waits until it is so: a worker does it.
fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it does not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Two interfaces one after the other: the first is taken away, the second goes by itself.
fn drives(first: fn(&Runtime, &Stack) -> IfIndex, second: fn(&Runtime, &Stack) -> IfIndex) {
    let runtime = Runtime::with_workers(2).unwrap();
    let stack = stack(&runtime);
    let index = first(&runtime, &stack);
    exchange(&stack);
    // The runtime has descriptors of it, so it goes only if these do.
    runtime.remove_interface(&stack, index);
    stack.detach(index);
    until(|| !std::path::Path::new("/sys/class/net/tap0").exists());

    second(&runtime, &stack);
    exchange(&stack);
    ip(&["link", "delete", "tap0"]);
    until(|| stack.stats().tcp.connections == 0);
    runtime.remove(&stack);
    let pool = stack.pool().clone();
    drop(stack);
    runtime.shutdown();
    assert_eq!(pool.live(), Live::NONE);
}

#[test]
fn a_runtime_drives_a_tap_of_two_queues() {
    // Breaks when a queue is not watched, or still is after it was taken away, or keeps its descriptor; when a
    // deleted interface keeps a worker busy for ever, or a buffer.
    in_namespace("runtime::a_runtime_drives_a_tap_of_two_queues", || {
        drives(by_add_tap, by_add_queue);
    });
}

#[test]
fn and_the_other_way_round() {
    // Breaks when one of the two ways to add queues leaves state behind that the other can't remove.
    in_namespace("runtime::and_the_other_way_round", || {
        drives(by_add_queue, by_add_tap)
    });
}
