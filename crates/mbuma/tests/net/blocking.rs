//! TCP and UDP sockets whose users sleep: two threads of one program, over the stack's own address.
//!
//! Each wait has a limit that only a lost wakeup reaches.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::net::*;
use mbuma::{SocketError, TcpSocketOptions};

const HUNG: Option<Duration> = Some(Duration::from_secs(60));
const SHORT: Option<Duration> = Some(Duration::from_millis(2));

/// Says that it is done, also when the test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Drives the stack until `done`: a thread of its own, as in any program whose users sleep.
fn drive(lab: &Lab, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        lab.clock.advance(Duration::from_millis(5));
        lab.stack.poll();
        thread::sleep(Duration::from_millis(1));
    }
}

/// Breaks if a thread that accepts, connects, reads, or waits for room is not woken; or if a reader and a writer take
/// each other's wakeups.
#[test]
fn blocked_threads_of_tcp_sockets_are_woken() {
    let lab = Lab::plain();
    let there = at(US, 80);
    let listener = lab.stack.tcp_listen(there, 4).unwrap();
    assert!(listener.accept_blocking(SHORT).is_err());
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let client = lab.stack.tcp_connect(any, there).unwrap();
    let data = pattern_bytes(3 << 20);
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        // Delayed acknowledgements and probes need a thread that runs the timers.
        s.spawn(|| drive(&lab, &done));
        let _done = Done(&done);
        s.spawn(|| {
            let server = listener.accept_blocking(HUNG).expect("somebody comes");
            let mut buf = vec![0; 10_000];
            while let n @ 1.. = server.recv_blocking(&mut buf, HUNG).unwrap() {
                assert_eq!(server.send_blocking(&buf[..n], HUNG), Ok(n));
            }
        });
        client.connected_blocking(HUNG).unwrap();
        assert_eq!(
            client.recv_blocking(&mut [0; 8], SHORT),
            Err(SocketError::TimedOut)
        );
        s.spawn(|| {
            assert_eq!(client.send_blocking(&data, HUNG), Ok(data.len()));
        });
        let mut got = Vec::new();
        while got.len() < data.len() {
            let chain = client.recv_chain_blocking(100_000, HUNG).unwrap();
            got.extend_from_slice(&chain.to_vec());
        }
        assert!(got == data);
        client.shutdown(std::net::Shutdown::Write);
        assert_eq!(client.recv_blocking(&mut [0; 8], HUNG), Ok(0));
    });
}

/// Breaks if std's traits lose bytes, a dropped writing half sends no FIN, a split connection reads no end of file, or
/// a listener on port 0 has no port of its own.
#[test]
fn the_shape_of_std() {
    let lab = Lab::plain();
    let listener = lab.stack.tcp_listen(at(US, 0), 4).unwrap();
    let other = lab.stack.tcp_listen(at(US, 0), 4).unwrap();
    let there = listener.local_addr();
    assert!(there.port() >= 49_152 && there != other.local_addr());
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let client = lab.stack.tcp_connect(any, there).unwrap();
    let data = pattern_bytes(1 << 20);
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| drive(&lab, &done));
        let _done = Done(&done);
        s.spawn(|| {
            let stream = listener.incoming().next().expect("it never ends").unwrap();
            let (mut from, mut to) = stream.split();
            assert_eq!(std::io::copy(&mut from, &mut to).unwrap(), 1 << 20);
        });
        client.connected_blocking(HUNG).unwrap();
        s.spawn(|| {
            (&client).write_all(&data).unwrap();
            client.shutdown(std::net::Shutdown::Write);
        });
        let mut got = Vec::new();
        (&client).read_to_end(&mut got).unwrap();
        assert!(got == data);
    });
}

/// Breaks if the loop of a server ends because no client came within the listener's own timeout.
#[test]
fn accepting_goes_on_after_a_timeout() {
    let lab = Lab::plain();
    let listener = lab.stack.tcp_listen(at(US, 80), 4).unwrap();
    listener.set_options(&TcpSocketOptions {
        recv_timeout: Some(Duration::from_millis(1)),
        ..TcpSocketOptions::default()
    });
    let results = listener.incoming().take(2);
    assert_eq!(results.filter(|one| one.is_err()).count(), 2);
}

/// Breaks if a client does not learn that no socket listens.
#[test]
fn a_refused_connection_wakes() {
    let lab = Lab::plain();
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let client = lab.stack.tcp_connect(any, at(US, 81)).unwrap();
    assert_eq!(client.connected_blocking(HUNG), Err(SocketError::Refused));
}

/// Breaks if a thread that waits for a datagram sleeps on when there is one.
#[test]
fn a_thread_that_waits_for_a_datagram_is_woken() {
    let lab = Lab::plain();
    let there = lab.stack.udp_bind(at(US, 7)).unwrap();
    let here = lab.stack.udp_bind(at(US, 9)).unwrap();
    assert!(here.recv_blocking(SHORT).is_err());
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..1000 {
                let datagram = there.recv_blocking(HUNG).expect("it comes");
                there.send_to(datagram.payload, datagram.src).unwrap();
            }
        });
        for n in 0..1000_u32 {
            let payload = mbuf::Chain::from_slice(lab.stack.pool(), &n.to_be_bytes()).unwrap();
            here.send_to(payload, at(US, 7)).unwrap();
            let echo = here.recv_blocking(HUNG).expect("it comes");
            assert_eq!(echo.payload.to_vec(), n.to_be_bytes());
        }
    });
}
