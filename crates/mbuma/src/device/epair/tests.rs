use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use kern::{Clock, Giant, Random, Taskqueue, Time, VirtualClock};
use mbuf::{Csum, Live, MbufPool, Packet, PoolConfig};

use super::*;
use crate::device::{Budget, Capabilities, Device};
use crate::{Config, DropReason, StackStats, TcpStream};
use crate::{IfConfig, Stack};

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).unwrap()
}

fn row(pool: &MbufPool, count: usize) -> Mbufq {
    let mut row = Mbufq::new();
    for n in 0..count {
        row.enqueue(Packet::from_slice(pool, &[n as u8; 100], 0).unwrap());
    }
    row
}

fn received(plug: &Plug, budget: Budget) -> Vec<u8> {
    let mut rx = Mbufq::new();
    plug.receive(&mut rx, budget).unwrap();
    rx.map(|p| p.front()[0]).collect()
}

/// Giant is over the stack if `MBUMA_GIANT` is set.
fn giant() -> Arc<Giant> {
    Arc::new(Giant::new(std::env::var_os("MBUMA_GIANT").is_some()))
}

fn stack(clock: &Arc<VirtualClock>, seed: u64) -> Stack {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let mut config = Config::new(clock, Random::from_seed(seed));
    config.giant = giant();
    Stack::new(config).unwrap()
}

fn clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new(Time::from_secs(1)))
}

fn addr(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, host)
}

fn config(host: u8) -> IfConfig {
    IfConfig::new("epair0").with_addr(addr(host), 24)
}

fn dropped(stats: &StackStats, reason: DropReason) -> u64 {
    let found = stats.dropped.iter().find(|(r, _)| *r == reason);
    found.map_or(0, |&(_, n)| n)
}

/// A connection between two stacks: the connecting end, the accepted one.
fn connect(from: &Stack, to: &Stack, host: u8) -> (TcpStream, TcpStream) {
    let there = SocketAddrV4::new(addr(host), 80);
    let listener = to.tcp_listen(there, 8).unwrap();
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let stream = from.tcp_connect(any, there).unwrap();
    let accepted = listener.accept().expect("all of it happened already");
    (stream, accepted)
}

/// Breaks if packets are lost or disordered by a budget, or a reader is not told of the rest.
#[test]
fn what_a_budget_leaves_comes_next() {
    let pool = pool();
    let (a, b) = EpairEnd::pair(EpairConfig::default());
    let (from, to) = (a.plug(), b.plug());
    from.transmit(&mut row(&pool, 6)).unwrap();
    let frames = |frames| Budget {
        frames,
        bytes: usize::MAX,
    };
    assert_eq!(received(&to, frames(2)), [0, 1]);
    from.transmit(&mut row(&pool, 1)).unwrap();
    let two = Budget {
        frames: 9,
        bytes: 150,
    };
    assert_eq!(received(&to, two), [2, 3]);
    assert_eq!(received(&to, ALL), [4, 5], "what was kept is first");
    assert_eq!(received(&to, ALL), [0]);
    assert!(!to.receive(&mut Mbufq::new(), ALL).unwrap());
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a reader is not woken for packets that come while it works, or does not learn that packets wait behind
/// those that it kept.
#[test]
fn a_resting_thread_is_woken_or_comes_back() {
    let pool = pool();
    let (a, b) = EpairEnd::pair(EpairConfig::default());
    let polled = Input::Polled(Waker::noop().clone());
    let (from, to) = (a.plug(), b.plug_for(&polled));
    let count = Arc::new(Count::default());
    to.set_waker(Waker::from(Arc::clone(&count)));
    let woken = || count.0.load(Ordering::Relaxed);
    let more = |budget| to.receive(&mut Mbufq::new(), budget).unwrap();
    from.transmit(&mut row(&pool, 1)).unwrap();
    assert!(!more(ALL), "all was taken");
    from.transmit(&mut row(&pool, 2)).unwrap();
    assert_eq!(woken(), 2);
    let one = Budget {
        frames: 1,
        bytes: usize::MAX,
    };
    assert!(more(one), "one is kept");
    from.transmit(&mut row(&pool, 1)).unwrap();
    assert!(more(one), "what was woken for is not what was kept");
    assert!(!more(one));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if the reader is woken for each packet, or not for the first.
#[test]
fn wakes_a_sleeping_thread() {
    let pool = pool();
    let (a, b) = EpairEnd::pair(EpairConfig::default());
    let (from, to) = (a.plug(), b.plug());
    let count = Arc::new(Count::default());
    to.set_waker(Waker::from(Arc::clone(&count)));
    let woken = || count.0.load(Ordering::Relaxed);
    from.transmit(&mut row(&pool, 2)).unwrap();
    from.transmit(&mut row(&pool, 2)).unwrap();
    assert_eq!(woken(), 1);
    assert_eq!(received(&to, ALL).len(), 4);
    from.transmit(&mut row(&pool, 1)).unwrap();
    assert_eq!(woken(), 1, "it will look again");
    assert_eq!(received(&to, ALL).len(), 1);
    assert!(!to.receive(&mut Mbufq::new(), ALL).unwrap());
    from.transmit(&mut row(&pool, 1)).unwrap();
    assert_eq!(woken(), 2);
    drop(a);
    assert_eq!(woken(), 3, "the other end went");
    assert_eq!(Arc::strong_count(&count), 1, "nobody is to be told more");
    assert_eq!(b.stats().wakeups, 2);
    drop((from, to, b));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a queue grows past its bound, or does not count refused packets and how full it was.
#[test]
fn a_full_queue_leaves_the_rest() {
    let pool = pool();
    let queue_max = 8;
    let (a, b) = EpairEnd::pair(EpairConfig {
        queue_max,
        ..EpairConfig::default()
    });
    let (from, to) = (a.plug(), b.plug());
    let mut tx = row(&pool, 11);
    assert_eq!(from.transmit(&mut tx).unwrap(), 0);
    assert_eq!(tx.len(), 3);
    let stats = b.stats();
    assert_eq!((stats.queued, stats.full, stats.high_water), (8, 3, 8));
    drop((from, to, tx));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a detached plug can still receive or send, or takes the packets of the new one.
#[test]
fn a_plug_that_is_out_is_void() {
    let pool = pool();
    let (a, b) = EpairEnd::pair(EpairConfig::default());
    let (from, old) = (a.plug(), b.plug());
    from.transmit(&mut row(&pool, 3)).unwrap();
    received(
        &old,
        Budget {
            frames: 1,
            bytes: usize::MAX,
        },
    );
    from.transmit(&mut row(&pool, 1)).unwrap();
    assert_eq!(old.detached(), 3, "two were kept, one waited");
    let mut tx = row(&pool, 2);
    assert_eq!(from.transmit(&mut tx).unwrap(), 2, "nobody is there");
    assert!(tx.is_empty());
    let new = b.plug();
    from.transmit(&mut row(&pool, 1)).unwrap();
    assert!(old.receive(&mut Mbufq::new(), ALL).is_err());
    assert!(old.transmit(&mut row(&pool, 1)).is_err());
    drop(old);
    assert_eq!(
        received(&new, ALL).len(),
        1,
        "the old one's end is not ours"
    );
    drop((from, new));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if packets that one end sent before it went are lost, or its absence goes unnoticed.
#[test]
fn packets_of_a_dropped_end_arrive_and_its_end_is_noticed() {
    let pool = pool();
    let (a, b) = EpairEnd::pair(EpairConfig::default());
    let (from, to) = (a.plug(), b.plug());
    from.transmit(&mut row(&pool, 1)).unwrap();
    drop((a, from));
    assert_eq!(received(&to, ALL).len(), 1);
    assert!(to.receive(&mut Mbufq::new(), ALL).is_err());
    let mut tx = row(&pool, 1);
    assert!(to.transmit(&mut tx).is_err());
    assert_eq!(tx.len(), 1, "the stack is to count it");
    drop((b, to, tx));
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a checksum that was left to the device is verified by the other end, or a large segment
/// is cut on its way.
#[test]
fn offloads_pass_whole() {
    let pool = pool();
    for mtu in [1500, u16::MAX] {
        let (a, b) = EpairEnd::pair(EpairConfig {
            mtu,
            ..EpairConfig::default()
        });
        let (from, to) = (a.plug(), b.plug());
        assert_eq!(from.capabilities(), Capabilities::whole(mtu));
        let mut packet = Packet::from_slice(&pool, &[7; 60_000], 0).unwrap();
        packet.header_mut().csum = Csum::TCP;
        packet.header_mut().tso_segsz = 1448;
        let mut tx = Mbufq::new();
        tx.enqueue(packet);
        from.transmit(&mut tx).unwrap();
        let mut rx = Mbufq::new();
        to.receive(&mut rx, ALL).unwrap();
        let packet = rx.dequeue().unwrap();
        assert_eq!((packet.len(), packet.header().tso_segsz), (60_000, 1448));
        assert!(packet.header().csum.contains(Csum::L4_VALID));
    }
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if direct input needs a thread or a poll, differs between two runs, or goes deeper with
/// every segment (this one has some thousand).
#[test]
fn direct_input_in_virtual_time() {
    let run = |mtu| {
        let clock = clock();
        let (left, right) = (stack(&clock, 1), stack(&clock, 2));
        let (mut a, mut b) = EpairEnd::pair(EpairConfig {
            mtu,
            ..EpairConfig::default()
        });
        a.attach(&left, config(1), Input::Direct).unwrap();
        b.attach(&right, config(2), Input::Direct).unwrap();
        let (from, to) = connect(&left, &right, 2);
        let (mut sent, mut got) = (0, Vec::new());
        let bytes: Vec<u8> = (0..4_000_000_u32).map(|n| (n % 251) as u8).collect();
        let mut buf = vec![0; 1 << 16];
        while got.len() < bytes.len() {
            sent += from.send(&bytes[sent..]).unwrap_or(0);
            let n = to.recv(&mut buf).unwrap_or(0);
            got.extend_from_slice(&buf[..n]);
            clock.advance(Duration::from_millis(1));
            left.poll();
            right.poll();
        }
        assert!(got == bytes, "every byte, in order");
        let figures = (a.stats(), b.stats(), clock.now());
        let pools = (left.pool().clone(), right.pool().clone());
        drop((from, to, a, b, left, right));
        assert_eq!(pools.0.live(), Live::NONE);
        assert_eq!(pools.1.live(), Live::NONE);
        figures
    };
    for mtu in [576, 1500, 9000, u16::MAX] {
        assert_eq!(run(mtu), run(mtu), "MTU {mtu}");
    }
}

/// Breaks if a task leaves packets behind, or if the queue that runs it is not told.
#[test]
fn input_on_a_taskqueue() {
    let clock = clock();
    let (left, right) = (stack(&clock, 1), stack(&clock, 2));
    let count = Arc::new(Count::default());
    let woken = Waker::from(Arc::clone(&count));
    let queue = Arc::new(Taskqueue::new(move || woken.wake_by_ref()));
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    a.attach(&left, config(1), Input::Task(Arc::clone(&queue)))
        .unwrap();
    b.attach(&right, config(2), Input::Task(Arc::clone(&queue)))
        .unwrap();
    let there = SocketAddrV4::new(addr(2), 80);
    let listener = right.tcp_listen(there, 8).unwrap();
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let stream = left.tcp_connect(any, there).unwrap();
    assert!(listener.accept().is_err(), "nobody ran the queue yet");
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    while queue.run(1).more {}
    assert!(listener.accept().is_ok());
    let weak = Arc::downgrade(&queue);
    drop((a, b, queue, listener, stream));
    assert_eq!(weak.strong_count(), 0, "a cable or a task keeps the queue");
}

/// Breaks if two stacks and the device between them keep each other alive, whichever is dropped first.
#[test]
fn stacks_end_though_they_are_joined() {
    type Everything = (
        Option<Stack>,
        Option<Stack>,
        Option<EpairEnd>,
        Option<EpairEnd>,
    );
    let endings: [fn(&mut Everything); 4] = [
        |all| all.0 = None,
        |all| all.1 = None,
        |all| all.2 = None,
        |all| all.3 = None,
    ];
    for first in 0..4 {
        let clock = clock();
        let (left, right) = (stack(&clock, 1), stack(&clock, 2));
        let weak = [Arc::downgrade(&left.0), Arc::downgrade(&right.0)];
        let pools = (left.pool().clone(), right.pool().clone());
        let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
        let cable = Arc::downgrade(&a.cable);
        a.attach(&left, config(1), Input::Direct).unwrap();
        b.attach(&right, config(2), Input::Direct).unwrap();
        let sockets = connect(&left, &right, 2);
        sockets.0.send(&[1; 100_000]).unwrap();
        drop(sockets);
        let mut all = (Some(left), Some(right), Some(a), Some(b));
        (0..4).for_each(|n| endings[(first + n) % 4](&mut all));
        assert_eq!(
            weak.each_ref().map(std::sync::Weak::strong_count),
            [0, 0],
            "{first}"
        );
        assert_eq!(cable.strong_count(), 0, "{first}");
        assert_eq!(pools.0.live(), Live::NONE);
        assert_eq!(pools.1.live(), Live::NONE);
    }
}

/// Breaks if an end that moves keeps a route, a neighbour's queue or a packet in the stack that it
/// left, if waiting packets are not counted there, or if an index is given twice.
#[test]
fn moving_to_another_stack() {
    let clock = clock();
    let stacks = [stack(&clock, 1), stack(&clock, 2), stack(&clock, 3)];
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    let sleeps = || Input::Polled(Waker::noop().clone());
    let was = a.attach(&stacks[0], config(1), sleeps()).unwrap();
    b.attach(&stacks[1], config(2), Input::Direct).unwrap();
    // Towards a host that does not answer: the packet waits for its address.
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let nobody = SocketAddrV4::new(addr(99), 80);
    let lost = stacks[0].tcp_connect(any, nobody).unwrap();
    // Another packet waits on the cable behind the announcement; the first stack would take it in.
    let asked = stacks[1].tcp_connect(any, SocketAddrV4::new(addr(1), 80));
    let now = a.attach(&stacks[2], config(1), Input::Direct).unwrap();
    let left = stacks[0].stats();
    assert_eq!(dropped(&left, DropReason::NoInterface), 2, "on the cable");
    assert_eq!(dropped(&left, DropReason::InterfaceGone), 1, "in ARP");
    assert_eq!(left.received, 2);
    assert!(left.interfaces.is_empty());
    assert!(stacks[0].poll_interface(was, ALL).is_err());
    let again = stacks[0].attach(Arc::new(b.plug()), config(1)).unwrap();
    assert_ne!(again, was, "an index is for ever");
    stacks[0].detach(again);
    b.attach(&stacks[1], config(2), Input::Direct).unwrap();
    let (from, to) = connect(&stacks[1], &stacks[2], 1);
    from.send(b"moved").unwrap();
    assert_eq!(to.recv(&mut [0; 16]).unwrap(), 5);
    assert!(stacks[2].poll_interface(now, ALL).is_ok());
    let pools = stacks.each_ref().map(|stack| stack.pool().clone());
    drop((lost, asked, from, to, a, b, stacks));
    assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
}

/// Breaks if an end that was away for a while has another Ethernet address, or no routes, when it is
/// back, or if the connection's segments wait without a wakeup.
#[test]
fn a_connection_outlives_its_cable() {
    let clock = clock();
    let (left, right) = (stack(&clock, 1), stack(&clock, 2));
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    a.attach(&left, config(1), Input::Direct).unwrap();
    b.attach(&right, config(2), Input::Direct).unwrap();
    let mac = right.stats().interfaces[0].mac;
    let (from, to) = connect(&left, &right, 2);
    let (mut sent, mut got) = (0, 0);
    let mut buf = vec![0; 1 << 16];
    for turn in 0..4000 {
        sent += from.send(&buf[..5000]).unwrap_or(0);
        match turn % 800 {
            // In the middle of a window, for a few retransmission timeouts.
            300 => b.detach(),
            600 => {
                b.attach(&right, config(2), Input::Direct).unwrap();
            }
            _ => {}
        }
        clock.advance(Duration::from_millis(2));
        left.poll();
        right.poll();
        got += to.recv(&mut buf).unwrap_or(0);
    }
    assert_eq!(right.stats().interfaces[0].mac, mac, "neighbours know it");
    assert!(b.stats().away > 0, "it was missed");
    for _ in 0..100 {
        clock.advance(Duration::from_secs(1));
        left.poll();
        right.poll();
        got += to.recv(&mut buf).unwrap_or(0);
    }
    assert_eq!((from.error(), got), (None, sent), "all of it arrived");
    let pools = (left.pool().clone(), right.pool().clone());
    drop((from, to, a, b, left, right));
    assert_eq!(pools.0.live(), Live::NONE);
    assert_eq!(pools.1.live(), Live::NONE);
}

/// Breaks if a connection goes on sending to a former Ethernet address of its neighbour, or never checks the address
/// that it keeps (RFC 1122 2.3.2.1).
#[test]
fn a_connection_follows_its_neighbour() {
    let clock = clock();
    let (left, right) = (stack(&clock, 1), stack(&clock, 2));
    let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
    a.attach(&left, config(1), Input::Direct).unwrap();
    b.attach(&right, config(2), Input::Direct).unwrap();
    let (from, to) = connect(&left, &right, 2);
    from.set_nodelay(true);
    let say = |what: &[u8]| {
        let frames = || left.stats().interfaces[0].output.packets();
        let before = frames();
        from.send(what).unwrap();
        assert_eq!(to.recv(&mut [0; 16]), Ok(what.len()), "at once");
        frames() - before
    };
    assert_eq!(say(b"here"), 1);
    let mac = Some(MacAddr([2, 0, 0, 0, 0, 77]));
    b.attach(&right, IfConfig { mac, ..config(2) }, Input::Direct)
        .unwrap();
    assert_eq!(say(b"and there"), 1);
    // First the acknowledgement; then all known addresses become stale.
    for seconds in [1, 21 * 60] {
        clock.advance(Duration::from_secs(seconds));
        right.poll();
        left.poll();
    }
    assert_eq!(say(b"are you?"), 2, "a question as well");
    assert_eq!(say(b"good"), 1);
    let pools = (left.pool().clone(), right.pool().clone());
    drop((from, to, a, b, left, right));
    assert_eq!(pools.0.live(), Live::NONE);
    assert_eq!(pools.1.live(), Live::NONE);
}
