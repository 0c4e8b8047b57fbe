//! TLS connections of the stack against rustls, in one process: handshakes, each suite, key updates of both sides,
//! tickets, files, and how a stream may end.
//!
//! `cert.der` and `key.der` are made for these tests and protect nothing.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use kern::{MonotonicClock, Random};
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::socket::{HandshakeError, SocketError, TlsHandshake, TlsStream};
use mbuma::tls::TlsError;
use mbuma::{Config, IfConfig, Stack, TcpStream};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

#[path = "../common/empty_at_end.rs"]
mod empty_at_end;

mod certificate;
mod endings;
mod files;
mod keys;
mod peers;
mod splices;

use certificate::{client_config, server_config};
use empty_at_end::EmptyAtEnd;

/// Two stacks and a connection between them.
struct Wire {
    stacks: [Stack; 2],
    client: Option<TcpStream>,
    server: Option<TcpStream>,
    _ends: (EpairEnd, EpairEnd),
    _empty: EmptyAtEnd,
}

impl Wire {
    fn new() -> Self {
        Self::configured(|_| {})
    }

    /// Receive buffers of so many bytes: a program that reads nothing stops its peer.
    fn with_window(bytes: usize) -> Self {
        Self::configured(|config| {
            (config.tcp.recv_buffer, config.tcp.recv_buffer_max) = (bytes, bytes);
        })
    }

    fn configured(change: impl Fn(&mut Config)) -> Self {
        let stack = |seed| {
            let clock = Arc::new(MonotonicClock::new());
            let mut config = Config::new(clock, Random::from_seed(seed));
            change(&mut config);
            Stack::new(config).expect("a stack")
        };
        let stacks = [1, 2].map(stack);
        let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
        for (end, host) in [(&mut a, 1), (&mut b, 2)] {
            let config = IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, host), 24);
            end.attach(&stacks[usize::from(host) - 1], config, Input::Direct)
                .unwrap();
        }
        let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 443);
        let listener = stacks[1].tcp_listen(there, 1).expect("a listener");
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let client = stacks[0].tcp_connect(any, there).expect("a connection");
        Self {
            _empty: EmptyAtEnd::new(stacks.iter().map(Stack::pool)),
            server: listener.accept().ok(),
            client: Some(client),
            stacks,
            _ends: (a, b),
        }
    }

    fn poll(&self) {
        for stack in &self.stacks {
            stack.poll();
        }
    }
}

/// Calls `f` until it is done; fails when that takes seconds.
fn until(wire: &Wire, mut f: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !f() {
        wire.poll();
        assert!(begin.elapsed() < Duration::from_secs(20), "no progress");
    }
}

/// Both sides are ours.
fn ours(wire: &mut Wire, client: ClientConfig, server: ServerConfig) -> (TlsStream, TlsStream) {
    let name = "server.test".try_into().expect("a name");
    let tcp = wire.client.take().expect("a connection");
    let mut client = TlsHandshake::client(tcp, Arc::new(client), name).expect("a client");
    let tcp = wire.server.take().expect("a connection");
    let mut server = TlsHandshake::server(tcp, Arc::new(server)).expect("a server");
    let (mut a, mut b) = (false, false);
    until(wire, || {
        a = a || client.advance().expect("the client goes on");
        b = b || server.advance().expect("the server goes on");
        a && b
    });
    (
        client.finish().expect("keys"),
        server.finish().expect("keys"),
    )
}

fn receive(wire: &Wire, stream: &TlsStream, len: usize) -> Vec<u8> {
    let mut got = Vec::new();
    until(wire, || {
        match stream.recv_chain(usize::MAX) {
            Ok(data) => got.extend(data.to_vec()),
            Err(e) => assert!(e.is_would_block(), "{e}"),
        }
        got.len() >= len
    });
    got
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 9) as u8)
        .collect()
}

#[test]
fn every_suite_of_both_versions_carries_data_both_ways() {
    // Breaks if the sides use different keys, nonces or associated data of a suite, or an end is not reported.
    let all = aws_lc_rs::ALL_CIPHER_SUITES.iter();
    // The certificate's key is of ECDSA.
    let suites: Vec<_> = all.filter(|s| !format!("{s:?}").contains("RSA")).collect();
    assert_eq!(suites.len(), 6);
    for suite in suites {
        let mut wire = Wire::new();
        let (client, server) = ours(&mut wire, client_config(&[*suite]), server_config());
        let up = pattern(100_000);
        assert_eq!(client.send(&up), Ok(up.len()), "{suite:?}");
        assert!(receive(&wire, &server, up.len()) == up, "{suite:?}");
        server.send(b"answer").expect("room");
        assert_eq!(receive(&wire, &client, 6), b"answer");
        server.shutdown(Shutdown::Write);
        until(&wire, || {
            client.recv_chain(1).is_ok_and(|end| end.is_empty())
        });
        client.send(b"the other direction is open").expect("room");
        assert_eq!(receive(&wire, &server, 27).len(), 27);
    }
}

#[test]
fn a_servers_flight_is_one_segment() {
    // Breaks when records of a flight go out one by one: the client is woken, and answers, for each of them.
    use aws_lc_rs::cipher_suite;
    let tls13 = cipher_suite::TLS13_AES_128_GCM_SHA256;
    let tls12 = cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    for suite in [tls13, tls12] {
        let mut wire = Wire::new();
        let mut server_side = server_config();
        server_side.send_tls13_tickets = 0;
        let name = "server.test".try_into().expect("a name");
        let (tcp, client) = (wire.client.take(), client_config(&[suite]));
        let client = TlsHandshake::client(tcp.expect("a connection"), Arc::new(client), name);
        let mut client = client.expect("a client");
        let tcp = wire.server.take().expect("a connection");
        // Nagle's algorithm would hold the others back.
        tcp.set_nodelay(true);
        let mut server = TlsHandshake::server(tcp, Arc::new(server_side)).expect("a server");
        assert!(
            matches!(client.advance(), Ok(false)),
            "the server has not answered"
        );
        wire.poll();
        let sent = || wire.stacks[1].stats().tcp.segments_out;
        let before = sent();
        assert!(
            matches!(server.advance(), Ok(false)),
            "the client has not answered"
        );
        assert_eq!(sent() - before, 1, "{suite:?}");
    }
}

/// A task that must run, at first and when it was woken.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_handshake_wakes_a_waiting_thread_and_a_task() {
    // Breaks if a thread that waits in its handshake, or a task that is called only after a wakeup, misses a flight.
    let mut wire = Wire::new();
    let name = "server.test".try_into().expect("a name");
    let tcp = wire.client.take().expect("a connection");
    let client = TlsHandshake::client(tcp, Arc::new(client_config(&[])), name);
    let client = client.expect("a client");
    let tcp = wire.server.take().expect("a connection");
    let mut server = TlsHandshake::server(tcp, Arc::new(server_config())).expect("a server");
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let waiting = thread::spawn(move || client.finish_blocking(Some(Duration::from_secs(20))));
    let mut is_done = false;
    until(&wire, || {
        if !is_done && woken.0.swap(false, Ordering::Acquire) {
            let step = server.poll_advance(&mut Context::from_waker(&waker));
            is_done = step.map(|r| r.expect("the server goes on")).is_ready();
        }
        is_done && waiting.is_finished()
    });
    let client = waiting.join().expect("no panic").expect("a stream");
    let server = server.finish().expect("keys");
    client.send(b"hello").expect("room");
    assert_eq!(receive(&wire, &server, 5), b"hello");
}

#[test]
fn both_sides_change_their_keys() {
    // Breaks if the two sides change keys at different places of the stream.
    let mut wire = Wire::new();
    let (client, server) = ours(&mut wire, client_config(&[]), server_config());
    for n in 0..10_u8 {
        client.send(&[n; 1000]).expect("room");
        client.update_key(n % 3 == 0).expect("TLS 1.3");
        server.update_key(n % 4 == 0).expect("TLS 1.3");
        server.send(&[n; 500]).expect("room");
        assert_eq!(receive(&wire, &server, 1000), [n; 1000]);
        assert_eq!(receive(&wire, &client, 500), [n; 500]);
    }
    assert!(client.counts().tx_updates >= 10 && client.counts().rx_updates >= 10);
}

#[test]
fn alpn_and_early_data_of_the_client_are_kept() {
    // Breaks if bytes that came with the last ones of the handshake are lost in the library, or the program can't learn
    // the protocol or the server's certificate.
    let mut wire = Wire::new();
    let (mut a, mut b) = (client_config(&[]), server_config());
    a.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    b.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = "server.test".try_into().expect("a name");
    let tcp = wire.client.take().expect("a connection");
    let mut client = TlsHandshake::client(tcp, Arc::new(a), name).expect("a client");
    let tcp = wire.server.take().expect("a connection");
    let mut server = TlsHandshake::server(tcp, Arc::new(b)).expect("a server");
    until(&wire, || {
        let done = client.advance().expect("the client goes on");
        if !done {
            _ = server.advance().expect("the server goes on");
        }
        done
    });
    // The server has not seen the client's Finished yet, and now gets data right behind it.
    let client = client.finish().expect("keys");
    client.send(b"GET / HTTP/1.1\r\n\r\n").expect("room");
    until(&wire, || server.advance().expect("the server goes on"));
    let server = server.finish().expect("keys");
    assert_eq!(receive(&wire, &server, 18), b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(server.about().alpn.as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!(client.about().alpn, server.about().alpn);
    assert_eq!(client.about().peer_certificates, [certificate::CERTIFICATE]);
    assert!(server.about().peer_certificates.is_empty());
}

#[test]
fn a_configuration_that_keeps_its_keys_is_refused_at_once() {
    // Breaks if the program only gets the error after a handshake.
    let mut wire = Wire::new();
    let mut config = server_config();
    config.enable_secret_extraction = false;
    let tcp = wire.server.take().expect("a connection");
    let refused = TlsHandshake::server(tcp, Arc::new(config));
    assert!(matches!(refused, Err(HandshakeError::SecretsKept)));
}
