//! Programs on tokio over two stacks, in virtual time: tokio's paused clock is the clock of the stacks.
//!
//! One thread runs all. A task for each stack runs its timers; frames cross an epair in the call that sends them.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use kern::{Clock, Random, Time};
use mbuf::{Chain, Live};
use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
use mbuma::socket::{SpliceEnd, SpliceOptions, splice};
use mbuma::{Config, IfConfig, SocketError, Stack};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

#[cfg(feature = "tls")]
#[path = "tls/certificate.rs"]
mod certificate;

/// The runtime's clock, paused or not.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Time {
        Time::from_secs(1) + self.0.elapsed()
    }
}

struct Kick(Notify);

impl Wake for Kick {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// Two stacks, joined, each with a task that runs its timers.
struct Net {
    stacks: [Stack; 2],
    drivers: Vec<tokio::task::JoinHandle<()>>,
    _ends: [EpairEnd; 2],
}

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

impl Net {
    fn new() -> Self {
        let clock = Arc::new(TokioClock(Instant::now()));
        let stack = |seed| {
            let mut config = Config::new(clock.clone(), Random::from_seed(seed));
            config.tcp.msl = Duration::from_millis(10);
            Stack::new(config).expect("address space")
        };
        let stacks = [1, 2].map(stack);
        let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
        for (end, host) in [(&mut a, 1), (&mut b, 2)] {
            let config = IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, host), 24);
            end.attach(&stacks[usize::from(host) - 1], config, Input::Direct)
                .unwrap();
        }
        let drivers = stacks
            .iter()
            .map(|stack| tokio::spawn(drive(stack.clone())));
        Self {
            drivers: drivers.collect(),
            stacks,
            _ends: [a, b],
        }
    }

    fn client(&self) -> &Stack {
        &self.stacks[0]
    }

    fn server(&self) -> &Stack {
        &self.stacks[1]
    }

    /// Nothing is left of the sockets.
    async fn done(self) {
        sleep(Duration::from_secs(1)).await;
        self.drivers.iter().for_each(|driver| driver.abort());
        let pools = self.stacks.each_ref().map(|stack| stack.pool().clone());
        for driver in self.drivers {
            let _ = driver.await;
        }
        for stack in &self.stacks {
            stack.set_cpu_waker(0, None);
        }
        drop((self.stacks, self._ends));
        assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
    }
}

/// Runs a stack's timers: sleeps until the next one, or until a socket has set an earlier one.
async fn drive(stack: Stack) {
    let kick = Arc::new(Kick(Notify::new()));
    stack.set_cpu_waker(0, Some(Waker::from(Arc::clone(&kick))));
    loop {
        let wait = stack.poll().map(|at| at.max(stack.now()) - stack.now());
        let at = Instant::now() + wait.unwrap_or(Duration::from_secs(3600));
        tokio::select! {
            () = sleep_until(at) => {}
            () = kick.0.notified() => {}
        }
    }
}

fn run(program: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(program);
}

/// Breaks if a task that waits for the end of a relay or of a splice is not woken, or gets another outcome.
#[test]
fn a_task_waits_for_a_relay_and_for_a_splice() {
    run(async {
        let net = Net::new();
        let (front, back) = (
            net.server().tcp_listen((SERVER, 80), 128),
            net.client().tcp_listen("192.0.2.1:8080", 128),
        );
        let (front, back) = (front.expect("a port"), back.expect("a port"));
        for max in [None, Some(3)] {
            let client = net
                .client()
                .tcp_connect_async("192.0.2.2:80")
                .await
                .expect("a proxy");
            let accepted = front.accept_async().await.expect("a client");
            let onward = net
                .server()
                .tcp_connect_async("192.0.2.1:8080")
                .await
                .expect("a server");
            let served = back.accept_async().await.expect("a proxy");
            let waits = tokio::spawn(async move {
                match max {
                    None => {
                        accepted
                            .relay(onward, None)
                            .expect("two connections")
                            .wait_async()
                            .await
                    }
                    Some(_) => {
                        let options = SpliceOptions {
                            max,
                            ..SpliceOptions::default()
                        };
                        let up = splice(&accepted, &onward, options).expect("two connections");
                        [up.wait_async().await; 2]
                    }
                }
            });
            sleep(Duration::from_millis(10)).await;
            assert!(!waits.is_finished());
            assert_eq!(client.send(b"hello"), Ok(5));
            drop((client, served));
            let [there, _] = timeout(Duration::from_secs(60), waits)
                .await
                .expect("a wakeup")
                .expect("no panic");
            assert_eq!(there.bytes, max.unwrap_or(5));
            assert_eq!(there.end == SpliceEnd::Max, max.is_some());
        }
        drop((front, back));
        net.done().await;
    });
}

/// Breaks if a stream loses, repeats or reorders bytes, if an end of file does not arrive, or if a waiting task is not
/// woken.
#[test]
fn a_program_of_tokio_echoes() {
    run(async {
        let net = Net::new();
        let listener = net.server().tcp_listen((SERVER, 7), 128).expect("a port");
        let server = tokio::spawn(async move {
            let stream = listener.accept_async().await.expect("a client");
            let (mut reader, mut writer) = stream.split();
            let copied = tokio::io::copy(&mut reader, &mut writer).await;
            writer.shutdown().await.expect("an end");
            copied.expect("until the end")
        });
        let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n >> 2) as u8).collect();
        let stream = net.client().tcp_connect_async("192.0.2.2:7").await;
        let (mut reader, mut writer) = stream.expect("a connection").split();
        let sent = data.clone();
        let sends = tokio::spawn(async move {
            writer.write_all(&sent).await.expect("it takes all");
            writer.shutdown().await.expect("an end");
            writer.shutdown().await.expect("it may be repeated");
        });
        let mut got = Vec::new();
        reader.read_to_end(&mut got).await.expect("until the end");
        assert!(got == data, "{} bytes of {}", got.len(), data.len());
        sends.await.expect("no panic");
        assert_eq!(server.await.expect("no panic"), data.len() as u64);
        drop(reader);
        net.done().await;
    });
}

/// Sends back all bytes until the end, and then ends its own direction.
async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> u64 {
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let copied = tokio::io::copy(&mut reader, &mut writer).await;
    let ended = AsyncWriteExt::shutdown(&mut writer).await;
    ended.and(copied).expect("until the end")
}

/// Sends bytes and an end, reads the same time, and expects the same bytes back.
async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, len: u32) {
    let data: Vec<u8> = (0..len).map(|n| (n >> 2) as u8).collect();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let sent = data.clone();
    let sends = tokio::spawn(async move {
        let (head, rest) = sent.split_at(1000);
        let pieces = [IoSlice::new(&head[..1]), IoSlice::new(&head[1..])];
        let n = writer.write_vectored(&pieces).await.expect("it takes some");
        writer.write_all(&head[n..]).await.expect("it takes all");
        writer.write_all(rest).await.expect("it takes all");
        AsyncWriteExt::shutdown(&mut writer).await.expect("an end");
        AsyncWriteExt::shutdown(&mut writer)
            .await
            .expect("it may be repeated");
    });
    let mut got = Vec::new();
    reader.read_to_end(&mut got).await.expect("until the end");
    assert!(got == data, "{} bytes of {}", got.len(), data.len());
    sends.await.expect("no panic");
}

/// Breaks if a stream of UNIX sockets loses bytes or its end, or a task that waits for data or room is not woken.
#[test]
fn unix_streams_are_streams_of_tokio() {
    run(async {
        let net = Net::new();
        let (left, right) = net.client().unix().pair();
        let server = tokio::spawn(echo(right));
        exchange(left, 3_000_000).await;
        assert_eq!(server.await.expect("no panic"), 3_000_000);
        net.done().await;
    });
}

/// Breaks if a TLS connection loses bytes or its end, or a task that waits for a record, for room or for the
/// handshake's next message is not woken.
#[cfg(feature = "tls")]
#[test]
fn tls_connections_are_streams_of_tokio() {
    use mbuma::socket::TlsHandshake;
    run(async {
        let net = Net::new();
        let listener = net.server().tcp_listen((SERVER, 443), 128).expect("a port");
        let server = tokio::spawn(async move {
            let tcp = listener.accept_async().await.expect("a client");
            let config = Arc::new(certificate::server_config());
            let handshake = TlsHandshake::server(tcp, config).expect("a configuration");
            echo(handshake.finish_async().await.expect("keys")).await
        });
        let tcp = net.client().tcp_connect_async((SERVER, 443)).await;
        let config = Arc::new(certificate::client_config(&[]));
        let name = "example.org".try_into().expect("a name");
        let handshake = TlsHandshake::client(tcp.expect("a connection"), config, name);
        let stream = handshake.expect("a configuration").finish_async().await;
        let stream = stream.expect("keys");
        assert!(!stream.is_write_vectored(), "each piece would be a record");
        exchange(stream, 3_000_000).await;
        assert_eq!(server.await.expect("no panic"), 3_000_000);
        net.done().await;
    });
}

/// Breaks if the stacks have another clock than the program: then an hour takes a real hour, or a timer of TCP comes
/// early.
#[test]
fn an_hour_passes_at_once() {
    let begun = std::time::Instant::now();
    run(async {
        let net = Net::new();
        let listener = net.server().tcp_listen((SERVER, 7), 128).expect("a port");
        let client = net
            .client()
            .tcp_connect_async((SERVER, 7))
            .await
            .expect("a connection");
        let mut server = listener.accept_async().await.expect("a client");
        let mut client = client;
        client.write_all(b"before").await.expect("room");
        sleep(Duration::from_secs(3600)).await;
        client.write_all(b" and after").await.expect("room");
        let mut got = [0; 16];
        server.read_exact(&mut got).await.expect("it comes");
        assert_eq!(&got, b"before and after");
        assert!(net.server().now() >= Time::from_secs(3601));
        // No answer comes: the client gives up by its own timers.
        let tried = Instant::now();
        let lost = net
            .client()
            .tcp_connect_async("192.0.2.77:7")
            .await
            .map(|_| ());
        assert!(lost.is_err(), "no such host");
        assert!(tried.elapsed() >= Duration::from_secs(1));
        drop((client, server, listener));
        net.done().await;
    });
    assert!(begun.elapsed() < Duration::from_secs(60));
}

/// Breaks if one of several tasks that wait for connections is forgotten, or if one that gives up takes a connection
/// with it.
#[test]
fn several_tasks_accept() {
    run(async {
        let net = Net::new();
        let listener = Arc::new(net.server().tcp_listen((SERVER, 7), 128).expect("a port"));
        let gives_up = timeout(Duration::from_secs(1), listener.accept_async());
        assert!(gives_up.await.is_err(), "there is no client yet");
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let listener = Arc::clone(&listener);
                tokio::spawn(async move { listener.accept_async().await })
            })
            .collect();
        sleep(Duration::from_secs(1)).await;
        let mut clients = Vec::new();
        for _ in &tasks {
            let client = net.client().tcp_connect_async((SERVER, 7)).await;
            clients.push(client.expect("a connection"));
        }
        let mut served = Vec::new();
        for task in tasks {
            served.push(task.await.expect("no panic").expect("a client"));
        }
        assert_eq!(listener.accept().err(), Some(SocketError::WouldBlock));
        drop((clients, served, listener));
        net.done().await;
    });
}

/// Breaks if a task that waits for a datagram sleeps on when there is one, or one that gave up has taken it.
#[test]
fn datagrams_are_awaited() {
    run(async {
        let net = Net::new();
        let server = net
            .server()
            .udp_bind(SocketAddrV4::new(SERVER, 53))
            .expect("a port");
        let client = net
            .client()
            .udp_bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))
            .expect("a port");
        assert!(
            timeout(Duration::from_secs(5), server.recv_async())
                .await
                .is_err()
        );
        let waiter = tokio::spawn({
            let server = server.clone();
            async move { server.recv_async().await }
        });
        sleep(Duration::from_secs(1)).await;
        let question = Chain::from_slice(net.client().pool(), b"question").expect("a buffer");
        client
            .send_to(question, server.local_addr())
            .expect("a way");
        let datagram = waiter.await.expect("no panic").expect("it came");
        assert_eq!(datagram.payload.to_vec(), b"question");
        drop((datagram, server, client));
        net.done().await;
    });
}
