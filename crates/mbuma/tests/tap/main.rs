//! A stack on a real TAP device, in a network namespace of its own, against the kernel's stack.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mbuf::{Chain, Live, Mbufq};
use mbuma::device::tap::{Offloads, Tap, TapOptions};
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Config, IfConfig, IfIndex, SocketError, Stack};
use namespace::{US, US6, in_namespace, make_taps, skipped};

mod differential;
mod echo;
mod namespace;
mod runtime;

/// A stack on a TAP device, driven by a thread of its own.
struct Driven {
    stack: Stack,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Driven {
    fn new(options: TapOptions) -> Self {
        Self::on(options, |tap| Arc::new(tap))
    }

    /// The same with the device that `wrap` makes of the TAP.
    fn on(options: TapOptions, wrap: impl FnOnce(Tap) -> Arc<dyn Device>) -> Self {
        let mut config = Config::from_system();
        config.tcp.msl = Duration::from_millis(10);
        config.giant = Arc::new(kern::Giant::new(std::env::var_os("MBUMA_GIANT").is_some()));
        let stack = Stack::new(config).unwrap();
        let tap = Tap::from_fd(make_taps(options, 1).remove(0), options, stack.pool());
        let device = wrap(tap);
        let config = IfConfig::new("tap0").with_addr(US, 24).with_addr(US6, 64);
        let index = stack.attach(device, config).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (stack, stop) = (stack.clone(), Arc::clone(&stop));
            move || drive(&stack, index, &stop)
        });
        Self {
            stack,
            stop,
            thread: Some(thread),
        }
    }

    /// Ends the thread, takes the device away, and checks that no buffer is left.
    fn done(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        let stats = self.stack.stats();
        assert_eq!(stats.received, stats.ended(), "{:?}", stats.dropped);
        let pool = self.stack.pool().clone();
        drop(self);
        assert_eq!(pool.live(), Live::NONE);
    }
}

fn drive(stack: &Stack, index: IfIndex, stop: &AtomicBool) {
    let budget = Budget {
        frames: 64,
        bytes: 1 << 20,
    };
    while !stop.load(Ordering::Relaxed) {
        let more = stack.poll_interface(index, budget).unwrap();
        stack.poll();
        if !more {
            thread::sleep(Duration::from_micros(50));
        }
    }
    stack.detach(index);
}

const OFFLOADS: TapOptions = TapOptions {
    mtu: 1500,
    offloads: Offloads::ALL,
};
const PLAIN: TapOptions = TapOptions {
    mtu: 1500,
    offloads: Offloads::NONE,
};
const CSUM: TapOptions = TapOptions {
    mtu: 1500,
    offloads: Offloads {
        vnet_hdr: true,
        csum: true,
        ..Offloads::NONE
    },
};

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// The kernel's address of the same version.
fn kernels(us: IpAddr) -> IpAddr {
    match us {
        IpAddr::V4(_) => [10, 0, 2, 100].into(),
        IpAddr::V6(_) => [0xfd00, 0, 0, 0, 0, 0, 0, 0x100].into(),
    }
}

/// Runs `test` at our address of each version, where the kernel has it.
fn at_both(name: &str, test: fn(IpAddr)) {
    test(US.into());
    if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
        return skipped(name, "no IPv6 in this kernel");
    }
    // The device of the first half has gone with its descriptor.
    test(US6.into());
}

fn udp_echo(options: TapOptions, us: IpAddr) {
    let driven = Driven::new(options);
    let ours = driven.stack.udp_bind((us, 7)).unwrap();
    let theirs = UdpSocket::bind((kernels(us), 0)).unwrap();
    theirs
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut buf = vec![0; 65_536];
    for len in [0, 1, 100, 1472, 1473, 9000, 60_000] {
        theirs.send_to(&bytes(len), (us, 7)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let datagram = loop {
            if let Ok(datagram) = ours.recv() {
                break datagram;
            }
            assert!(
                Instant::now() < deadline,
                "{len} bytes did not arrive: {:?}",
                driven.stack.stats()
            );
            thread::sleep(Duration::from_micros(100));
        };
        assert_eq!(datagram.payload.to_vec(), bytes(len));
        ours.send_from(datagram.payload, datagram.dst, datagram.src)
            .unwrap();
        let (n, from) = theirs.recv_from(&mut buf).unwrap();
        assert_eq!((n, from), (len, (us, 7).into()), "{options:?}");
        assert_eq!(buf[..n], bytes(len));
    }
    // No socket listens there: the kernel must understand the error.
    theirs.connect((us, 8)).unwrap();
    theirs.send(b"hello").unwrap();
    let refused = theirs.recv(&mut buf).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    drop(ours);
    driven.done();
}

/// Retries what would block.
fn wait<T>(mut step: impl FnMut() -> Result<T, SocketError>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match step() {
            Ok(value) => return value,
            Err(SocketError::WouldBlock) => thread::sleep(Duration::from_micros(50)),
            Err(e) => panic!("{e}"),
        }
        assert!(Instant::now() < deadline, "stalled");
    }
}

/// The kernel sends a stream and gets it back.
fn tcp_echo(options: TapOptions, us: IpAddr) {
    const LEN: usize = 8 << 20;
    let driven = Driven::new(options);
    let listener = driven.stack.tcp_listen((us, 80), 4).unwrap();
    let echo = thread::spawn(move || {
        let stream = wait(|| listener.accept());
        let mut buf = vec![0; 1 << 16];
        loop {
            let n = wait(|| stream.recv(&mut buf));
            if n == 0 {
                return;
            }
            let mut sent = 0;
            while sent < n {
                sent += wait(|| stream.send(&buf[sent..n]));
            }
        }
    });
    let mut theirs = TcpStream::connect((us, 80)).unwrap();
    theirs
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    theirs
        .set_write_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut reader = theirs.try_clone().unwrap();
    let back = thread::spawn(move || {
        let mut back = Vec::new();
        reader.read_to_end(&mut back).unwrap();
        back
    });
    theirs.write_all(&bytes(LEN)).unwrap();
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(back.join().unwrap() == bytes(LEN), "{options:?}");
    echo.join().unwrap();
    // Let TIME-WAIT pass.
    thread::sleep(Duration::from_millis(200));
    driven.done();
}

/// Breaks if datagrams, whole or in fragments, do not pass between the kernel's stack and ours, or if
/// the kernel does not understand our checksums and errors.
#[test]
fn udp() {
    in_namespace("udp", || at_both("udp", |us| udp_echo(OFFLOADS, us)));
}

/// The same with checksums done here.
#[test]
fn udp_without_offloads() {
    in_namespace("udp_without_offloads", || {
        at_both("udp_without_offloads", |us| udp_echo(PLAIN, us))
    });
}

/// Breaks if segments of 64 KiB do not pass, one way or the other.
#[test]
fn tcp() {
    in_namespace("tcp", || at_both("tcp", |us| tcp_echo(OFFLOADS, us)));
}

/// A TAP that notes its largest frame.
#[derive(Debug)]
struct NotingTap {
    tap: Tap,
    largest: AtomicUsize,
}

impl Device for NotingTap {
    fn capabilities(&self) -> Capabilities {
        self.tap.capabilities()
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        self.tap.receive(rx, budget)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let frames: Vec<_> = std::mem::take(tx).collect();
        for frame in frames {
            self.largest.fetch_max(frame.len(), Ordering::Relaxed);
            tx.enqueue(frame);
        }
        self.tap.transmit(tx)
    }
}

/// Breaks if the kernel does not take our packets of more than 64 KiB, gets none of them, or a writer that fills
/// packets is not told how large they may be.
#[test]
fn tcp_in_packets_of_more_than_64_kib() {
    const NAME: &str = "tcp_in_packets_of_more_than_64_kib";
    if !kern::sys::tap::takes_big_tcp() {
        return skipped(NAME, "this kernel takes none");
    }
    in_namespace(NAME, || at_both(NAME, in_large_packets));
}

fn in_large_packets(us: IpAddr) {
    let options = TapOptions {
        offloads: Offloads {
            big_tcp: true,
            jumbo_option: kern::sys::tap::wants_jumbo_option(),
            ..Offloads::ALL
        },
        ..OFFLOADS
    };
    let mut noting = None;
    let driven = Driven::on(options, |tap| {
        let largest = AtomicUsize::new(0);
        let device = Arc::new(NotingTap { tap, largest });
        noting = Some(Arc::clone(&device));
        device
    });
    let noting = noting.unwrap();
    let listener = driven.stack.tcp_listen((us, 80), 4).unwrap();
    let reader = thread::spawn(move || {
        let mut theirs = TcpStream::connect((us, 80)).unwrap();
        let timeout = Some(Duration::from_secs(60));
        theirs.set_read_timeout(timeout).unwrap();
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).unwrap();
        all
    });
    let stream = wait(|| listener.accept());
    stream.set_buffers(1 << 20, 1 << 16);
    let (pool, data) = (driven.stack.pool().clone(), bytes(251 << 10));
    let (mut sent, deadline) = (0, Instant::now() + Duration::from_secs(60));
    // The first window is smaller.
    while noting.largest.load(Ordering::Relaxed) <= 14 + 40 + 65_535 {
        assert!(Instant::now() < deadline, "no large packet");
        if stream.send_space() < data.len() {
            thread::sleep(Duration::from_micros(50));
            continue;
        }
        let chain = Chain::from_slice(&pool, &data).unwrap();
        stream.send_chain(chain).unwrap();
        sent += 1;
    }
    let room = stream.send_room();
    assert!(
        room.packet > 65_535 && room.packet.is_multiple_of(room.mss),
        "{room:?}"
    );
    drop(stream);
    assert!(reader.join().unwrap() == data.repeat(sent));
    // Let TIME-WAIT pass.
    thread::sleep(Duration::from_millis(200));
    drop((listener, noting));
    driven.done();
}

/// Breaks if cut segments, whose checksums the kernel finishes, are not what it expects.
#[test]
fn tcp_with_checksum_offload() {
    in_namespace("tcp_with_checksum_offload", || {
        at_both("tcp_with_checksum_offload", |us| tcp_echo(CSUM, us))
    });
}

/// Breaks if cut segments are not what the kernel expects.
#[test]
fn tcp_without_offloads() {
    in_namespace("tcp_without_offloads", || {
        at_both("tcp_without_offloads", |us| tcp_echo(PLAIN, us))
    });
}

/// Breaks if the kernel's ping gets no answer, or a wrong one.
#[test]
fn ping() {
    in_namespace("ping", || {
        let driven = Driven::new(OFFLOADS);
        for size in ["0", "56", "20000"] {
            let ping = Command::new("ping")
                .args(["-c1", "-W20", "-s", size, "10.0.2.2"])
                .output();
            let Ok(ping) = ping else {
                return println!("skipped ping: no such program");
            };
            assert!(
                ping.status.success(),
                "{}",
                String::from_utf8_lossy(&ping.stdout)
            );
        }
        driven.done();
    });
}

/// Breaks if a frame for an interface that is not up yet ends the device for good, or if a device
/// that was deleted is not noticed.
#[test]
fn down_and_gone() {
    in_namespace("down_and_gone", || {
        let pool = mbuf::MbufPool::new(mbuf::PoolConfig::default()).unwrap();
        let tap = Tap::from_fd(make_taps(OFFLOADS, 1).remove(0), OFFLOADS, &pool);
        let ip = |args: &[&str]| assert!(Command::new("ip").args(args).status().unwrap().success());
        ip(&["link", "set", "tap0", "down"]);
        let mut tx = mbuf::Mbufq::new();
        let frame = || {
            let chain = Chain::from_slice(&pool, &[0xff; 60]).unwrap();
            chain.into_packet(&pool).unwrap()
        };
        tx.enqueue(frame());
        assert_eq!(tap.transmit(&mut tx).unwrap(), 1, "refused, and no more");
        ip(&["link", "delete", "tap0"]);
        tx.enqueue(frame());
        assert!(tap.transmit(&mut tx).is_err());
        let mut rx = mbuf::Mbufq::new();
        let budget = Budget {
            frames: 100,
            bytes: usize::MAX,
        };
        let ended = (0..10).any(|_| tap.receive(&mut rx, budget).is_err());
        assert!(ended, "a deleted device ends");
        drop((tap, tx, rx));
        assert_eq!(pool.live(), Live::NONE);
    });
}
