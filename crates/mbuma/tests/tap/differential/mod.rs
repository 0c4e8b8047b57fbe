//! The same frames to Linux's stack and to ours: both must answer with the same kind of packet, or the difference is in
//! the list of [`known`], with its reason.
//!
//! For Linux each frame is followed by a ping. Packets before the ping's answer are the answers to the frame, so
//! nothing depends on time. Our stack is in virtual time, and answers at once.
//!
//! `DIFFERENTIAL_FRAMES` is how many frames are sent, `DIFFERENTIAL_SEED` from which seed; the seed is printed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use kern::{Clock, Random, Time, VirtualClock};
use mbuf::{Live, MbufPool, Mbufq, Packet, PoolConfig};
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Config, IfConfig, IfIndex, Stack};

use crate::PLAIN;
use crate::namespace::{in_namespace, ip, make_taps, skipped};
use frames::{KERNEL_MAC, PEER_MAC, Sent};
use reply::Reply;

mod frames;
mod known;
mod reply;

/// Frames in CI.
const FRAMES: u64 = 3000;
/// The time between two frames, for our stack: no bucket of a limit gets empty.
const STEP: Duration = Duration::from_millis(500);

/// Linux's, by its TAP.
struct Linux(File);

impl Linux {
    /// Its answers to `frame`.
    fn answers(&mut self, frame: &[u8], number: u16) -> Vec<Reply> {
        self.give(frame);
        self.give(&frames::ping(number));
        let mut replies = Vec::new();
        loop {
            let Some(sent) = self.take() else {
                panic!("the ping behind {frame:02x?} got no answer after {replies:?}");
            };
            match reply::of(&sent) {
                Some(Reply::Pong(n)) if n == number => return replies,
                Some(Reply::Asks(answer)) => self.give(&answer),
                reply => replies.extend(reply),
            }
        }
    }

    fn give(&mut self, frame: &[u8]) {
        // A frame that the device refuses counts as one without an answer.
        let _ = self.0.write(frame);
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 2048];
        // The kernel handles a frame in the call that brings it in, or soon after.
        for _ in 0..20_000 {
            match self.0.read(&mut frame) {
                Ok(len) => {
                    frame.truncate(len);
                    return Some(frame);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(e) => panic!("{e}"),
            }
        }
        None
    }
}

/// Ours, in virtual time.
struct Ours {
    clock: Arc<VirtualClock>,
    stack: Stack,
    interface: IfIndex,
    peer: Pipe,
    pool: MbufPool,
    sent: Mbufq,
}

impl Ours {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let mut config = Config::new(Arc::clone(&clock) as Arc<dyn Clock>, Random::from_seed(7));
        config.giant = Arc::new(kern::Giant::new(std::env::var_os("MBUMA_GIANT").is_some()));
        let stack = Stack::new(config).unwrap();
        let (ours, peer) = Pipe::pair(Capabilities::plain(1500));
        let config = IfConfig {
            mac: Some(wire::MacAddr(KERNEL_MAC)),
            ..IfConfig::new("pipe0")
                .with_addr(std::net::Ipv4Addr::from(frames::KERNEL), 24)
                .with_addr(std::net::Ipv6Addr::from(frames::KERNEL6), 64)
        };
        let interface = stack.attach(Arc::new(ours), config).unwrap();
        Self {
            clock,
            stack,
            interface,
            peer,
            pool: MbufPool::new(PoolConfig::default()).unwrap(),
            sent: Mbufq::new(),
        }
    }

    /// Its answers to `frame`, which are there at once.
    fn answers(&mut self, frame: &[u8]) -> Vec<Reply> {
        self.give(frame);
        let mut replies = Vec::new();
        while let Some(sent) = self.take() {
            match reply::of(&sent) {
                Some(Reply::Asks(answer)) => self.give(&answer),
                reply => replies.extend(reply),
            }
        }
        replies
    }

    fn give(&mut self, frame: &[u8]) {
        self.clock.advance(STEP);
        let packet = Packet::from_slice(&self.pool, frame, 0).unwrap();
        self.stack.input(self.interface, packet);
        self.stack.poll();
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let all = Budget {
            frames: usize::MAX,
            bytes: usize::MAX,
        };
        if self.sent.is_empty() {
            self.peer.receive(&mut self.sent, all).unwrap();
        }
        self.sent.dequeue().map(|packet| packet.to_vec())
    }

    fn done(self) {
        let Self {
            clock,
            stack,
            peer,
            pool,
            sent,
            ..
        } = self;
        // Let the timers of reassembly run out.
        clock.advance(Duration::from_secs(120));
        stack.poll();
        let stats = stack.stats();
        assert_eq!(stats.received, stats.ended());
        let stacks = stack.pool().clone();
        drop((stack, peer, sent));
        assert_eq!((stacks.live(), pool.live()), (Live::NONE, Live::NONE));
    }
}

/// No limits, and the peer's Ethernet address, so that Linux answers each frame by itself.
fn set_linux_up() -> Linux {
    let tap = make_taps(PLAIN, 1).remove(0);
    let mac = |bytes: [u8; 6]| wire::MacAddr(bytes).to_string();
    ip(&["link", "set", "tap0", "address", &mac(KERNEL_MAC)]);
    for addr in ["10.0.2.9", "fd00::9", "fe80::9"] {
        let with = ["lladdr", &mac(PEER_MAC), "dev", "tap0", "nud", "permanent"];
        ip(&[&["neigh", "replace", addr], &with[..]].concat());
    }
    for (name, value) in [
        ("ipv4/icmp_ratelimit", "0"),
        ("ipv4/icmp_msgs_per_sec", "1000000"),
        ("ipv4/icmp_msgs_burst", "1000000"),
        ("ipv6/icmp/ratelimit", "0"),
        // A host, as ours is.
        ("ipv4/ip_forward", "0"),
        ("ipv6/conf/all/forwarding", "0"),
        ("ipv6/conf/tap0/forwarding", "0"),
    ] {
        // Older kernels do not have some of these for each namespace, and then answer less.
        let _ = fs::write(format!("/proc/sys/net/{name}"), value);
    }
    Linux(tap.into())
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn compare() {
    let frames = from_environment("DIFFERENTIAL_FRAMES").unwrap_or(FRAMES);
    let seed = from_environment("DIFFERENTIAL_SEED").unwrap_or(1);
    println!("DIFFERENTIAL_SEED={seed}");
    let (mut linux, mut ours) = (set_linux_up(), Ours::new());
    let mut random = Random::from_seed(seed);
    let (mut unknown, mut counts) = (BTreeMap::new(), known::Counts::default());
    for number in 0..frames {
        let Sent { bytes, what } = frames::draw(&mut random);
        let theirs = linux.answers(&bytes, number as u16);
        let ours = ours.answers(&bytes);
        if theirs == ours {
            counts.same(&ours);
        } else if let Some(reason) = known::reason(&bytes, &ours, &theirs) {
            counts.known(reason);
        } else {
            let kind = |replies: &[Reply]| replies.iter().map(Reply::kind).collect::<Vec<_>>();
            let key = (bytes[12], kind(&ours), kind(&theirs));
            let example =
                || format!("{what}\n  ours {ours:x?}\n  Linux {theirs:x?}\n  {bytes:02x?}");
            unknown.entry(key).or_insert_with(|| (0, example())).0 += 1;
        }
    }
    ours.done();
    println!("{counts}");
    let list = unknown
        .values()
        .map(|(n, example)| format!("{n} times: {example}"));
    let list: Vec<_> = list.collect();
    assert!(list.is_empty(), "differences:\n{}", list.join("\n"));
}

/// Breaks if our stack answers a frame in another way than Linux, and not for a listed reason.
#[test]
fn it_answers_as_linux_does() {
    const NAME: &str = "differential::it_answers_as_linux_does";
    in_namespace(NAME, || {
        match std::path::Path::new("/proc/sys/net/ipv6").exists() {
            true => compare(),
            false => skipped(NAME, "no IPv6 in this kernel"),
        }
    });
}
