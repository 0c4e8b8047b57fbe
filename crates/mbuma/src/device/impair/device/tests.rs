//! The device in virtual time: alone, and under a stack.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use kern::VirtualClock;
use mbuf::{Live, PoolConfig};

use super::super::LinkEvent;
use super::*;
use crate::device::memory::Pipe;
use crate::{Config, IfConfig, IfIndex, Stack};

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};
const MS: Duration = Duration::from_millis(1);

fn link(text: &str) -> LinkConfig {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

/// A device alone, with the other end of its pipe.
struct Alone {
    pool: MbufPool,
    clock: Arc<VirtualClock>,
    device: Impaired<Pipe>,
    peer: Pipe,
}

impl Alone {
    fn new(inward: &str, outward: &str, caps: Capabilities) -> Self {
        let pool = MbufPool::new(PoolConfig::default()).expect("address space");
        let clock = Arc::new(VirtualClock::new(Time::ZERO));
        let (device, peer) = Pipe::pair(caps);
        let random = Random::from_seed(1);
        let links = [link(inward), link(outward)];
        let device = Impaired::new(device, links, &pool, clock.clone(), random);
        Self {
            pool,
            clock,
            device,
            peer,
        }
    }

    fn frame(&self, number: u8, len: usize) -> Packet {
        Packet::from_slice(&self.pool, &vec![number; len], 0).expect("buffers")
    }

    fn send(&self, numbers: std::ops::Range<u8>) {
        let mut tx = Mbufq::new();
        numbers.for_each(|n| tx.enqueue(self.frame(n, 100)));
        self.device.transmit(&mut tx).expect("it is there");
    }

    fn finish(self) {
        drop((self.device, self.peer));
        assert_eq!(self.pool.live(), Live::NONE);
    }
}

/// The first byte of each frame that waits at a device.
fn received(device: &dyn Device) -> Vec<u8> {
    let mut rx = Mbufq::new();
    device.receive(&mut rx, ALL).expect("it is there");
    rx.map(|frame| frame.front()[0]).collect()
}

#[test]
fn frames_come_out_at_their_times_both_ways() {
    // Breaks when a frame is early, or the device does not report its deadline: then the frame never comes.
    let alone = Alone::new("delay=10ms", "delay=25ms", Capabilities::plain(1500));
    assert_eq!(alone.device.next_deadline(), None);
    alone.send(1..3);
    assert_eq!(alone.device.next_deadline(), Some(Time::from_millis(25)));
    let mut tx = Mbufq::new();
    tx.enqueue(alone.frame(7, 60));
    alone.peer.transmit(&mut tx).expect("room");
    assert!(received(&alone.device).is_empty());
    assert_eq!(alone.device.next_deadline(), Some(Time::from_millis(10)));
    alone.clock.set(Time::from_millis(10));
    assert_eq!(received(&alone.device), [7]);
    alone.clock.set(Time::from_millis(25));
    assert!(received(&alone.peer).is_empty());
    alone.send(0..0);
    assert_eq!(received(&alone.peer), [1, 2]);
    assert_eq!(alone.device.next_deadline(), None);
    alone.finish();
}

#[test]
fn what_is_under_way_is_bounded() {
    // Breaks when a long delay without a rate lets a flood take memory without end.
    let alone = Alone::new("delay=1s", "delay=60s", Capabilities::plain(1500));
    for _ in 0..20 {
        let mut tx = Mbufq::new();
        (0..1000).for_each(|_| tx.enqueue(alone.frame(1, 1500)));
        alone.device.transmit(&mut tx).expect("it is there");
    }
    let [_, outward] = alone.device.counts();
    let under_way = outward.of(LinkEvent::Delivered);
    assert_eq!(under_way + outward.of(LinkEvent::Overflowed), 20_000);
    assert!(under_way as usize * 1500 <= HELD_MAX, "{under_way}");
    assert_eq!(alone.device.detached(), 0);
    assert_eq!(alone.device.next_deadline(), None);
    // Attached again, it begins with nothing under way.
    let mut tx = Mbufq::new();
    tx.enqueue(alone.frame(1, 1500));
    alone.device.transmit(&mut tx).expect("it is there");
    let [_, outward] = alone.device.counts();
    assert_eq!(outward.of(LinkEvent::Delivered), under_way + 1);
    alone.device.detached();
    alone.finish();
}

#[test]
fn what_came_out_makes_room() {
    // Breaks when a link drops every frame once it has carried as many bytes as may be under way.
    let alone = Alone::new("delay=1ms", "delay=1ms", Capabilities::plain(1500));
    for _ in 0..=HELD_MAX / (1000 * 1500) {
        let mut tx = Mbufq::new();
        (0..1000).for_each(|_| tx.enqueue(alone.frame(1, 1500)));
        alone.device.transmit(&mut tx).expect("it is there");
        alone.clock.advance(MS);
        alone.send(0..0);
        assert_eq!(received(&alone.peer).len(), 1000);
    }
    alone.finish();
}

#[test]
fn damage_is_not_seen_by_others_that_share_the_bytes() {
    // Breaks when a bit is inverted in storage that the send buffer shares: a retransmission would be damaged too.
    let alone = Alone::new("delay=1ms", "corrupt=100%", Capabilities::plain(1500));
    let mut original = alone.frame(5, 1000);
    let mut tx = Mbufq::new();
    tx.enqueue(original.copy_packet().expect("buffers"));
    alone.device.transmit(&mut tx).expect("it is there");
    let mut rx = Mbufq::new();
    alone.peer.receive(&mut rx, ALL).expect("it is there");
    let got = rx.dequeue().expect("one frame").to_vec();
    let inverted: u32 = got.iter().map(|byte| (byte ^ 5).count_ones()).sum();
    assert_eq!((got.len(), inverted), (1000, 1));
    assert_eq!(original.to_vec(), vec![5; 1000]);
    drop(original);
    // ARP has no checksum that would show the damage.
    let mut arp = vec![0; 60];
    EtherHeader::new(MacAddr::BROADCAST, MacAddr::ZERO, EtherType::ARP).emit(&mut arp);
    tx.enqueue(Packet::from_slice(&alone.pool, &arp, 0).expect("buffers"));
    alone.device.transmit(&mut tx).expect("it is there");
    assert!(received(&alone.peer).is_empty(), "it is lost");
    alone.finish();
}

/// A stack behind an impaired device, and one beside it.
struct Pair {
    clock: Arc<VirtualClock>,
    stacks: [(Stack, IfIndex); 2],
    device: Arc<Impaired<Pipe>>,
}

impl Pair {
    fn new(links: [&str; 2], caps: Capabilities) -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let stack = |seed| {
            let config = Config::new(clock.clone(), Random::from_seed(seed));
            Stack::new(config).expect("address space")
        };
        let (a, b) = (stack(1), stack(2));
        let (device, other) = Pipe::pair(caps);
        let random = Random::from_seed(3);
        let links = links.map(link);
        let device = Impaired::new(device, links, a.pool(), clock.clone(), random);
        let device = Arc::new(device);
        let config = |n| IfConfig::new("wan0").with_addr(Ipv4Addr::new(192, 0, 2, n), 24);
        let at = a.attach(Arc::clone(&device) as _, config(1)).unwrap();
        let there = b.attach(Arc::new(other), config(2)).unwrap();
        let stacks = [(a, at), (b, there)];
        Self {
            clock,
            stacks,
            device,
        }
    }

    /// Drives both for `by`, as a program's loop does.
    fn run(&self, by: Duration) {
        let end = self.clock.now() + by;
        loop {
            // Each receives the other's frames, and answers.
            for (stack, index) in self.stacks.iter().cycle().take(8) {
                let more = stack.poll_interface(*index, ALL);
                assert!(!more.expect("it is there"));
                stack.poll();
            }
            let deadlines = self.stacks.iter().map(|(stack, _)| stack.next_deadline());
            match deadlines.flatten().min().filter(|at| *at <= end) {
                Some(at) => self.clock.set(at.max(self.clock.now())),
                None => return self.clock.set(end),
            }
        }
    }
}

#[test]
fn a_stack_drives_its_link() {
    // Breaks when the link's times are no deadlines of the stack, frames are counted twice, or buffers are lost. All
    // bytes must arrive unchanged over a link that loses, doubles, damages and reorders frames, also large segments.
    let bad =
        "rate=50mbit,delay=5ms,jitter=1ms,loss=1%,duplicate=1%,corrupt=1%,reorder=2%,late=3ms";
    let pair = Pair::new([bad, bad], Capabilities::whole(1500));
    let [(a, _), (b, _)] = &pair.stacks;
    let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
    let listener = b.tcp_listen(there, 1).expect("free");
    let here = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 0);
    let client = a.tcp_connect(here, there).expect("free");
    pair.run(500 * MS);
    let server = listener.accept().expect("it connected");
    let sent: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (mut at, mut got, mut buf) = (0, Vec::new(), vec![0; 1 << 16]);
        for _ in 0..60_000 {
            at += from.send(&sent[at..]).unwrap_or(0);
            pair.run(MS);
            let n = to.recv(&mut buf).unwrap_or(0);
            got.extend_from_slice(&buf[..n]);
            if got.len() == sent.len() {
                break;
            }
        }
        assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    }
    for counts in pair.device.counts() {
        let of = |event| counts.of(event);
        assert!(
            of(LinkEvent::Lost) > 0 && of(LinkEvent::Reordered) > 0,
            "{counts:?}"
        );
    }
    drop((client, server, listener));
    pair.run(Duration::from_secs(120));
    for (stack, index) in &pair.stacks {
        stack.detach(*index);
        let stats = stack.stats();
        let dropped: u64 = stats.dropped.iter().map(|(_, n)| n).sum();
        assert!(stats.received <= stats.delivered + dropped, "{stats:?}");
    }
    let Pair { stacks, device, .. } = pair;
    drop(device);
    for (stack, _) in stacks {
        let pool = stack.pool().clone();
        drop(stack);
        assert_eq!(pool.live(), Live::NONE);
    }
}
