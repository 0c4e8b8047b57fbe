use std::net::{Ipv4Addr, SocketAddrV4};

use kern::{Random, Time, VirtualClock};
use mbuf::{ClusterSize, Csum, Live, MbufPool, Packet, PoolConfig};
use wire::{EtherHeader, EtherType, IpProto, Ipv4Fields, MacAddr, UdpHeader, pseudo_header_v4};

use super::*;
use crate::device::Capabilities;
use crate::device::epair::{EpairConfig, EpairEnd, Input};
use crate::device::memory::Pipe;
use crate::{Config, IfConfig, Stack};

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// A bridge in virtual time with some ports, whose other ends the test holds.
struct Lan {
    clock: Arc<VirtualClock>,
    pool: MbufPool,
    bridge: Bridge,
    ports: Vec<(PortId, Pipe)>,
}

impl Lan {
    fn new(caps: &[Capabilities]) -> Self {
        Self::with(BridgeConfig::default(), caps)
    }

    fn with(config: BridgeConfig, caps: &[Capabilities]) -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let mut random = Random::from_seed(1);
        let bridge = Bridge::new(clock.clone(), &mut random, &pool, config);
        let ports = caps.iter().map(|&caps| {
            let (inner, outer) = Pipe::pair(caps);
            (bridge.add(Arc::new(inner)).unwrap(), outer)
        });
        let ports = ports.collect();
        Self {
            clock,
            pool,
            bridge,
            ports,
        }
    }

    fn give(&self, port: usize, packet: Packet) {
        let mut tx = Mbufq::new();
        tx.enqueue(packet);
        self.ports[port].1.transmit(&mut tx).unwrap();
        while self.bridge.poll(self.ports[port].0, ALL).unwrap() {}
    }

    fn say(&self, port: usize, from: u8, to: MacAddr) {
        let frame = Packet::from_slice(&self.pool, &frame(mac(from), to), 0).unwrap();
        self.give(port, frame);
    }

    /// The packets that came out, port by port.
    fn taken(&self) -> Vec<Vec<Packet>> {
        let taken = self.ports.iter().map(|(_, outer)| {
            let mut rx = Mbufq::new();
            outer.receive(&mut rx, ALL).unwrap();
            rx.collect()
        });
        taken.collect()
    }

    /// The number of packets that came out, port by port.
    fn heard(&self) -> Vec<usize> {
        self.taken().iter().map(Vec::len).collect()
    }

    fn done(self) {
        balanced(&self.bridge);
        let pool = self.pool.clone();
        drop(self);
        assert_eq!(pool.live(), Live::NONE);
    }
}

fn balanced(bridge: &Bridge) {
    let s = bridge.stats();
    let ended = s.switched + s.flooded + s.filtered + s.bad_frame + s.too_big + s.looped;
    assert_eq!(s.received, ended + s.port_gone, "{s:?}");
    assert_eq!(
        s.switched + s.copies,
        s.sent + s.refused + s.no_bufs,
        "{s:?}"
    );
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn frame(src: MacAddr, dst: MacAddr) -> Vec<u8> {
    let mut out = vec![0; 60];
    EtherHeader::new(dst, src, EtherType(0x88b5)).emit(&mut out);
    out
}

const PLAIN: Capabilities = Capabilities::plain(1500);
const WHOLE: Capabilities = Capabilities::whole(1500);

/// Breaks if a frame goes to a port without its station, does not reach the station's port, or comes back.
#[test]
fn learns_the_port_of_each_station() {
    let lan = Lan::new(&[PLAIN; 3]);
    lan.say(0, 1, mac(2));
    assert_eq!(lan.heard(), [0, 1, 1], "no port of 2 is known yet");
    lan.say(1, 2, mac(1));
    assert_eq!(lan.heard(), [1, 0, 0]);
    lan.say(0, 1, mac(2));
    assert_eq!(lan.heard(), [0, 1, 0]);
    lan.say(0, 3, mac(1));
    assert_eq!(lan.heard(), [0, 0, 0], "1 heard it by itself");
    for group in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 1])] {
        lan.say(1, 2, group);
        assert_eq!(lan.heard(), [1, 0, 1]);
    }
    // The station moves, and the bridge finds it by the first frame that it sends.
    lan.say(2, 2, MacAddr::BROADCAST);
    assert_eq!(lan.heard(), [1, 1, 0]);
    lan.say(0, 1, mac(2));
    assert_eq!(lan.heard(), [0, 0, 1]);
    let stats = lan.bridge.stats();
    assert_eq!((stats.switched, stats.flooded, stats.filtered), (3, 4, 1));
    assert_eq!(stats.addresses, 3);
    lan.done();
}

/// Breaks if a frame of a protocol between neighbours on one link is passed on: a peer on another port would take a
/// station for its neighbour, or stop sending because of a PAUSE that another link's switch sent.
#[test]
fn frames_for_one_link_stay_there() {
    let lan = Lan::new(&[PLAIN; 2]);
    for last in 0..=0x0f {
        lan.say(0, 1, MacAddr([1, 0x80, 0xc2, 0, 0, last]));
        assert_eq!(lan.heard(), [0, 0], "{last:#x}");
    }
    assert_eq!(lan.bridge.stats().filtered, 16);
    lan.say(0, 1, MacAddr([1, 0x80, 0xc2, 0, 0, 0x10]));
    assert_eq!(lan.heard(), [0, 1]);
    lan.done();
}

/// Breaks if the bridge remembers silent stations for ever, or a flood of forged addresses takes memory without bound
/// or evicts known stations.
#[test]
fn the_table_is_bounded() {
    let config = BridgeConfig {
        addresses_max: 4,
        lifetime: Duration::from_secs(10),
    };
    let lan = Lan::with(config, &[PLAIN; 3]);
    for n in 0..100 {
        lan.say(0, n, MacAddr::BROADCAST);
    }
    assert_eq!(lan.bridge.stats().addresses, 4);
    lan.heard();
    lan.say(1, 200, mac(3));
    assert_eq!(lan.heard(), [1, 0, 0], "it was there first");
    lan.say(0, 3, mac(200));
    assert_eq!(lan.heard(), [0, 1, 1], "there was no room for it");
    // Forged sources let a full table be searched once a second at most.
    for (ms, forged) in [(9500, 201), (500, 202)] {
        lan.clock.advance(Duration::from_millis(ms));
        lan.say(0, forged, MacAddr::BROADCAST);
        assert_eq!(lan.bridge.stats().addresses, 4);
    }
    lan.clock.advance(Duration::from_millis(500));
    lan.heard();
    lan.say(1, 200, mac(2));
    assert_eq!(lan.heard(), [1, 0, 1], "2 was silent for too long");
    lan.say(0, 2, mac(200));
    assert_eq!(lan.heard(), [0, 1, 0]);
    assert_eq!(lan.bridge.stats().addresses, 2);
    // A source that is a group address is not learnt.
    let bad = Packet::from_slice(&lan.pool, &frame(MacAddr::BROADCAST, mac(1)), 0).unwrap();
    lan.give(0, bad);
    lan.give(0, Packet::from_slice(&lan.pool, &[0; 13], 0).unwrap());
    lan.give(0, Packet::from_slice(&lan.pool, &[2; 1519], 0).unwrap());
    let stats = lan.bridge.stats();
    assert_eq!((stats.bad_frame, stats.too_big), (2, 1));
    lan.done();
}

/// A datagram in a cluster, with its checksum undone.
fn datagram(lan: &Lan, from: u8, to: MacAddr, len: usize) -> Packet {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut bytes = vec![0; 42 + len];
    bytes[42..]
        .iter_mut()
        .zip(0..)
        .for_each(|(b, n)| *b = n as u8);
    EtherHeader::new(to, mac(from), EtherType::IPV4).emit(&mut bytes);
    let payload_len = (UdpHeader::LEN + len) as u16;
    let fields = Ipv4Fields {
        payload_len,
        protocol: IpProto::UDP,
        src,
        dst,
        ..Ipv4Fields::default()
    };
    fields.emit(&mut bytes[14..]);
    let mut header = UdpHeader::new(1, 2, payload_len);
    let sum = pseudo_header_v4(src, dst, IpProto::UDP, u32::from(payload_len));
    header.set_checksum(sum.partial());
    header.emit(&mut bytes[34..]);
    let mut packet = Packet::with_cluster(&lan.pool, ClusterSize::K2, 64).unwrap();
    packet.room_mut()[..bytes.len()].copy_from_slice(&bytes);
    packet.grow(bytes.len());
    let meta = packet.header_mut();
    (meta.l2_len, meta.l3_len, meta.csum) = (14, 20, Csum::UDP);
    packet
}

fn sum_is_valid(frame: &[u8]) -> bool {
    let len = (frame.len() - 34) as u32;
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let mut sum = pseudo_header_v4(src, dst, IpProto::UDP, len);
    sum.add_bytes(&frame[34..]);
    sum.is_valid()
}

/// Breaks if a frame that goes to many is copied, or one port's device changes another's bytes.
#[test]
fn floods_share_storage() {
    let lan = Lan::new(&[WHOLE, WHOLE, PLAIN, WHOLE]);
    let packet = datagram(&lan, 1, MacAddr::BROADCAST, 1000);
    let data = packet.front().as_ptr();
    let before = lan.pool.stats().bytes_copied;
    lan.give(0, packet);
    let taken = lan.taken();
    for port in [1, 3] {
        let packet = &taken[port][0];
        assert!(packet.header().csum.contains(Csum::UDP), "still undone");
        assert_eq!(packet.front().as_ptr(), data, "the same bytes");
        assert!(!sum_is_valid(&packet.to_vec()));
    }
    let plain = &taken[2][0];
    assert!(!plain.header().csum.contains(Csum::UDP));
    assert!(sum_is_valid(&plain.to_vec()), "done for it alone");
    assert_ne!(plain.front().as_ptr(), data);
    assert!(lan.pool.stats().bytes_copied - before <= 1042);
    drop(taken);
    lan.done();
}

/// Breaks if large segments are cut for ports that take them whole, or not for the others.
#[test]
fn offloads_pass_whole() {
    let lan = Lan::new(&[WHOLE, WHOLE, PLAIN]);
    let mut packet = datagram(&lan, 1, MacAddr::BROADCAST, 1);
    packet.append(&lan.pool, &[7; 29_999]).unwrap();
    let mut headers = packet.to_vec();
    headers.truncate(42);
    // Like TCP: 20 bytes of header, of which 12 are taken from the payload.
    let payload_len = 20 + 30_000 - 12;
    let fields = Ipv4Fields {
        payload_len,
        protocol: IpProto::TCP,
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        ..Ipv4Fields::default()
    };
    fields.emit(&mut headers[14..]);
    packet.write_at(0, &headers).unwrap();
    packet.write_at(34 + 12, &[0x50, 0x10]).unwrap();
    let meta = packet.header_mut();
    (meta.csum, meta.tso_segsz) = (Csum::TCP, 1460);
    lan.give(0, packet);
    let taken = lan.taken();
    assert_eq!(taken[1].len(), 1);
    assert_eq!(taken[1][0].header().tso_segsz, 1460);
    assert_eq!(taken[2].len(), 29_988_usize.div_ceil(1460));
    assert!(
        taken[2]
            .iter()
            .all(|p| p.len() <= 1514 && p.header().csum.is_empty())
    );
    drop(taken);
    let pool = lan.pool.clone();
    drop(lan);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a port that went still gets frames, is still known, or frames that waited there are not counted.
#[test]
fn ports_come_and_go() {
    let mut lan = Lan::new(&[PLAIN; 2]);
    let (pipe, _other) = Pipe::pair(Capabilities::plain(9000));
    assert_eq!(lan.bridge.add(Arc::new(pipe)), Err(BridgeError::Mtu));
    let (mut end, other) = EpairEnd::pair(EpairConfig::default());
    let sleeps = Input::Polled(std::task::Waker::noop().clone());
    let port = end.join(&lan.bridge, sleeps.clone()).unwrap();
    let plug = other.plug();
    let say = |to| {
        let mut tx = Mbufq::new();
        tx.enqueue(Packet::from_slice(&lan.pool, &frame(mac(9), to), 0).unwrap());
        plug.transmit(&mut tx).unwrap();
    };
    say(MacAddr::BROADCAST);
    lan.bridge.poll(port, ALL).unwrap();
    assert_eq!(lan.heard(), [1, 1]);
    lan.say(0, 1, mac(9));
    assert_eq!(lan.heard(), [0, 0]);
    say(mac(1));
    end.detach();
    assert_eq!(lan.bridge.stats().port_gone, 1, "it waited");
    assert!(lan.bridge.poll(port, ALL).is_err());
    lan.say(0, 1, mac(9));
    assert_eq!(lan.heard(), [0, 1], "nobody knows 9 now");
    let again = end.join(&lan.bridge, sleeps).unwrap();
    assert_ne!(port, again);
    // The port of a removed device is removed too.
    drop(other);
    drop(plug);
    assert!(lan.bridge.poll(again, ALL).is_err());
    assert_eq!(lan.bridge.ports_count(), 2);
    lan.say(0, 1, MacAddr::BROADCAST);
    drop(lan.ports.remove(1));
    lan.say(0, 1, MacAddr::BROADCAST);
    assert_eq!(lan.bridge.stats().refused, 1);
    drop(end);
    lan.done();
}

/// Breaks if one broadcast circles in a loop of bridges for ever, or each round nests calls deeper.
#[test]
fn a_loop_ends() {
    let lan = Lan::new(&[WHOLE; 2]);
    let mut random = Random::from_seed(2);
    let other = Bridge::new(
        lan.clock.clone(),
        &mut random,
        &lan.pool,
        BridgeConfig::default(),
    );
    let mut ends = Vec::new();
    for _ in 0..2 {
        let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
        a.join(&lan.bridge, Input::Direct).unwrap();
        b.join(&other, Input::Direct).unwrap();
        ends.push((a, b));
    }
    lan.say(0, 1, MacAddr::BROADCAST);
    let heard = lan.heard();
    assert!((1..100).contains(&heard[1]), "{heard:?}");
    assert!(lan.bridge.stats().looped + other.stats().looped > 0);
    balanced(&other);
    drop((ends, other));
    lan.done();
}

fn jail(clock: &Arc<VirtualClock>, seed: u64) -> Stack {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Stack::new(Config::new(clock, Random::from_seed(seed))).unwrap()
}

fn config(net: u8, host: u8) -> IfConfig {
    IfConfig::new(format!("epair{net}")).with_addr(Ipv4Addr::new(10, 0, net, host), 24)
}

/// Breaks if stacks on one bridge, or on two with a router between, do not reach each other, if a
/// thread or a poll is needed, or if a station that moves to another bridge is not found there.
#[test]
fn three_stacks_and_a_router() {
    let lan = Lan::new(&[]);
    let mut random = Random::from_seed(2);
    let (clock, pool) = (&lan.clock, &lan.pool);
    let mut bridge = || Bridge::new(clock.clone(), &mut random, pool, BridgeConfig::default());
    let lans = [bridge(), bridge()];
    let jails: Vec<_> = (0..4).map(|n| jail(&lan.clock, n)).collect();
    let mut ends = Vec::new();
    let mut join = |bridge: &Bridge, stack: &Stack, config: IfConfig| {
        let (mut plug, mut port) = EpairEnd::pair(EpairConfig::default());
        port.join(bridge, Input::Direct).unwrap();
        let index = plug.attach(stack, config, Input::Direct).unwrap();
        ends.push((plug, port));
        index
    };
    let router = &jails[3];
    join(&lans[0], router, config(0, 254));
    join(&lans[1], router, config(1, 254));
    router.set_forwarding(true);
    for (n, net) in [(0, 0), (1, 0), (2, 1)] {
        let index = join(&lans[net as usize], &jails[n], config(net, n as u8 + 1));
        jails[n]
            .add_default_route(index, Ipv4Addr::new(10, 0, net, 254))
            .unwrap();
    }
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let reach = |from: &Stack, to: &Stack, net, host| {
        let there = SocketAddrV4::new(Ipv4Addr::new(10, 0, net, host), 80);
        let listener = to.tcp_listen(there, 8).unwrap();
        let stream = from.tcp_connect(any, there).unwrap();
        let accepted = listener.accept().expect("all of it happened already");
        let (mut sent, mut got) = (0, 0);
        let mut buf = vec![0; 1 << 16];
        while got < 500_000 {
            sent += stream
                .send(&buf[..(500_000 - sent).min(1 << 16)])
                .unwrap_or(0);
            got += accepted.recv(&mut buf).unwrap_or(0);
        }
    };
    reach(&jails[0], &jails[1], 0, 2);
    assert_eq!(router.stats().forwarded, 0);
    reach(&jails[0], &jails[2], 1, 3);
    reach(&jails[2], &jails[1], 0, 2);
    assert!(router.stats().forwarded > 10);
    // Jail 1 moves to another port; only its announcement shows it.
    let stream = jails[0].tcp_connect(any, SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 81));
    drop(stream);
    let moved = &mut ends[3].1;
    moved.detach();
    moved.join(&lans[0], Input::Direct).unwrap();
    jails[1].announce(jails_index(&jails[1]));
    reach(&jails[0], &jails[1], 0, 2);
    for bridge in &lans {
        balanced(bridge);
    }
    let pools: Vec<_> = jails.iter().map(|jail| jail.pool().clone()).collect();
    drop((ends, jails, lans));
    lan.done();
    assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
}

/// The index of a stack's only interface.
fn jails_index(stack: &Stack) -> crate::IfIndex {
    let routes = stack.routes();
    let link = routes.iter().find_map(|r| match r.kind {
        crate::RouteKind::Link(index) if index != crate::IfIndex::LOOPBACK => Some(index),
        _ => None,
    });
    link.expect("it is attached")
}

/// Breaks if a frame that a thread has taken from a port before its removal makes the port known again as a station's:
/// frames to a station that has moved would go to all ports.
#[test]
fn a_port_that_is_gone_learns_nothing() {
    let lan = Lan::new(&[PLAIN; 4]);
    let ports = lan.bridge.ports();
    lan.bridge.remove(lan.ports[0].0);
    lan.say(1, 1, MacAddr::BROADCAST);
    assert_eq!(lan.heard(), [0, 0, 1, 1]);
    let mut late = Mbufq::new();
    late.enqueue(Packet::from_slice(&lan.pool, &frame(mac(1), mac(9)), 0).unwrap());
    Switching::new(&lan.bridge.0, &ports, &ports[0]).run(late);
    lan.taken();
    lan.say(2, 2, mac(1));
    assert_eq!(lan.heard(), [0, 1, 0, 0]);
    drop(ports);
    lan.done();
}
