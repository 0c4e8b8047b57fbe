//! Draws a scenario: every choice from the seed's stream, in a fixed order.
//!
//! Each fault is left out of a good part of the scenarios, so that most combinations of two or three faults occur
//! alone, and other faults do not hide their effect.

use std::time::Duration;

use kern::{Random, Time};
use mbuf::PoolConfig;
use mbuma::congestion::CongestionControl;
use mbuma::socket::Refusal;
use mbuma::{AccEcnOptionUse, EcnMode, IcmpError, NagleForm, TcpConfig};
use wire::Ipv6Header;

use super::{Answer, Connection, Scenario, Topology};
use crate::app::{Decision, Leave, Manners, Reading};
use crate::family::IpFamily;
use crate::frame::Shape;
use crate::net::START;
use crate::pattern::Pattern;
use crate::port::PortConfig;
use mbuma::device::impair::{Faults, Lateness, LinkConfig};

pub(super) fn scenario(seed: u64) -> Scenario {
    let mut r = Random::from_seed(seed);
    let topology = pick(&mut r, &[Topology::Pair, Topology::Chain, Topology::Hub]);
    let nodes = if topology == Topology::Hub { 3 } else { 2 };
    let directions = if topology == Topology::Chain {
        4
    } else {
        nodes
    };
    let mtu = pick(&mut r, &[576, 1280, 1500, 1500, 4000, 9000]);
    let slow_bps = pick(
        &mut r,
        &[
            0,
            0,
            256_000,
            1_000_000,
            10_000_000,
            100_000_000,
            1_000_000_000,
        ],
    );
    let whole = r.chance(0.25);
    // The least length of a queue with which a burst passes.
    let largest = if whole { 1 << 16 } else { usize::from(mtu) };
    let mut link = || LinkConfig {
        mtu,
        ..link(&mut r, slow_bps, 4 * largest)
    };
    let mut links: Vec<_> = (0..directions).map(|_| link()).collect();
    let mut ports: Vec<_> = (0..nodes).map(|_| port(&mut r, mtu, whole)).collect();
    let pools: Vec<_> = ports.iter().map(|port| pool(&mut r, port.shape)).collect();
    let mut tcp: Vec<_> = (0..nodes).map(|_| tunables(&mut r)).collect();
    features(seed, &mut tcp, &mut links);
    large_packets(seed, &mut ports);
    let heal_at = Duration::from_millis(between(&mut r, 2_000, 30_000));
    let budget = budget(&ports, slow_bps);
    let mut connections = connections(&mut r, nodes, budget, heal_at);
    let is_scarce = pools.iter().any(is_scarce);
    if is_scarce {
        // A side that gives up can't always tell its peer: the peer must probe.
        connections.iter_mut().for_each(Connection::keep_alive);
    } else {
        large_writes(seed, &mut links, &mut ports, &mut tcp, &mut connections);
    }
    let patience_after = patience_after(&links, &tcp, &connections, is_scarce);
    let backlog = pick(&mut r, &[1, 4, 128, 128]);
    let patience = Duration::from_millis(between(&mut r, 0, 2_000));
    let random = r.fork();
    let family = family(&mut r, &links, &ports);
    Scenario {
        seed,
        topology,
        links,
        ports,
        tcp,
        pools,
        backlog,
        patience,
        connections,
        heal_at,
        patience_after,
        crowd: None,
        family,
        random,
    }
}

/// The time that connections may take after the links have healed.
fn patience_after(
    links: &[LinkConfig],
    tcp: &[TcpConfig],
    connections: &[Connection],
    is_scarce: bool,
) -> Duration {
    // A connection may retry for ten minutes before it releases buffers that others need.
    let starved = if is_scarce { 1200 } else { 0 };
    let slowest = links.iter().map(|l| l.rate_bps).filter(|&r| r > 0).min();
    let bytes: u64 = connections.iter().map(Connection::bytes).sum();
    let transfer = slowest.map_or(0, |rate| 20 * 8 * bytes / rate);
    // A window each round trip.
    let trip: Duration = links.iter().map(|l| l.delay + l.jitter).sum();
    let window = tcp.iter().map(|t| t.recv_buffer.min(t.send_buffer)).min();
    let windows = bytes / window.map_or(1, |bytes| bytes as u64) * trip.as_millis() as u64 / 1000;
    Duration::from_secs(600 + transfer + 4 * windows + starved)
}

/// IPv6 in half of the scenarios whose links carry what it asks for.
fn family(r: &mut Random, links: &[LinkConfig], ports: &[PortConfig]) -> IpFamily {
    let mtus = links.iter().map(|link| link.mtu);
    let least = mtus.chain(ports.iter().map(|port| port.caps.mtu)).min();
    let carries = least.is_some_and(|mtu| mtu >= Ipv6Header::MTU_MIN);
    match r.chance(0.5) && carries {
        true => IpFamily::V6,
        false => IpFamily::V4,
    }
}

pub(super) fn pick<T: Copy>(r: &mut Random, from: &[T]) -> T {
    from[r.below(from.len() as u64) as usize]
}

pub(super) fn between(r: &mut Random, low: u64, high: u64) -> u64 {
    low + r.below(high - low + 1)
}

/// A rate up to `max`, or none in half of the cases.
fn rate(r: &mut Random, max: f64) -> f64 {
    let share = r.below(1_000_000) as f64 / 1e6;
    if r.chance(0.5) { share * max } else { 0.0 }
}

fn link(r: &mut Random, rate_bps: u64, queue_min: usize) -> LinkConfig {
    let faults = Faults {
        loss: rate(r, 0.2),
        duplicate: rate(r, 0.1),
        reorder: rate(r, 0.2),
        late: Lateness::UpTo(Duration::from_millis(between(r, 1, 100))),
        corrupt: rate(r, 0.05),
        truncate: rate(r, 0.03),
        burst: None,
    };
    let delay = pick(r, &[0, 1, 10, 50, 200]);
    let jitter = pick(r, &[0, 0, 1, 20]);
    LinkConfig {
        faults,
        delay: Duration::from_micros(r.below(delay * 1000 + 1)),
        jitter: Duration::from_millis(jitter),
        rate_bps,
        queue_bytes: pick(r, &[16 << 10, 64 << 10, 256 << 10]).max(queue_min),
        ..LinkConfig::PERFECT
    }
}

fn port(r: &mut Random, link_mtu: u16, whole: bool) -> PortConfig {
    let mtu = if r.chance(0.3) {
        pick(r, &[576, 1006, 1500]).min(link_mtu)
    } else {
        link_mtu
    };
    let base = match (whole, r.below(3)) {
        (true, _) => PortConfig::whole(mtu),
        (false, 0) => PortConfig::plain(mtu),
        (false, 1) => {
            let mut p = PortConfig::offloading(mtu);
            p.caps.tso4_max = 0;
            p
        }
        (false, _) => PortConfig::offloading(mtu),
    };
    let shapes = [
        Shape::Cluster,
        Shape::Cluster,
        Shape::Headers,
        Shape::Pieces(1),
        Shape::Pieces(100),
    ];
    let coalesce = Duration::from_micros(pick(r, &[0, 0, 100, 5_000]));
    PortConfig {
        shape: pick(r, &shapes),
        coalesce,
        ..base
    }
}

/// Now and then so few buffers that allocations fail.
fn pool(r: &mut Random, shape: Shape) -> PoolConfig {
    let scarce = r.chance(0.1) && !matches!(shape, Shape::Pieces(1));
    match scarce {
        true => PoolConfig {
            mbufs_max: 1024,
            cluster_bytes_max: 1 << 20,
        },
        false => PoolConfig::default(),
    }
}

pub(super) fn is_scarce(pool: &PoolConfig) -> bool {
    pool.mbufs_max < PoolConfig::default().mbufs_max
}

fn tunables(r: &mut Random) -> TcpConfig {
    let sizes = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
    TcpConfig {
        recv_buffer: pick(r, &sizes),
        send_buffer: pick(r, &sizes),
        // Long enough that a peer whose timeout has backed off over four lost segments still finds TIME-WAIT.
        msl: Duration::from_secs(60),
        ..TcpConfig::default()
    }
}

/// Switches features at each end, and has links mark. A stream of its own: the rest of a scenario does not depend on
/// which features there are.
fn features(seed: u64, tcp: &mut [TcpConfig], links: &mut [LinkConfig]) {
    let mut r = Random::from_seed(!seed);
    for tcp in tcp.iter_mut() {
        tcp.sack = r.chance(0.8);
        tcp.timestamps = r.chance(0.8);
        tcp.ecn = pick(&mut r, &[EcnMode::Off, EcnMode::Accept, EcnMode::Offer]);
        if r.chance(0.3) {
            tcp.congestion = CongestionControl::Reno;
        }
        // Without a bound above it, the receive buffer does not grow, and the window scale is of its size.
        if r.chance(0.3) {
            tcp.recv_buffer_max = 0;
        }
    }
    for link in links {
        link.ecn_bytes = r.chance(0.3).then_some(link.queue_bytes / 4);
    }
    for tcp in tcp.iter_mut() {
        tcp.pacing = r.chance(0.8);
    }
    for tcp in tcp.iter_mut() {
        if tcp.ecn == EcnMode::Offer && r.chance(0.5) {
            tcp.ecn = EcnMode::OfferAccurate;
        }
        if r.chance(0.2) {
            tcp.congestion = CongestionControl::Bbr;
        }
        tcp.path_mtu_search = r.chance(0.8);
    }
    const OPTION_USES: [AccEcnOptionUse; 3] = [
        AccEcnOptionUse::Off,
        AccEcnOptionUse::Changed,
        AccEcnOptionUse::Always,
    ];
    for tcp in tcp {
        tcp.accecn_option = pick(&mut r, &OPTION_USES);
        tcp.ecn_control_packets = r.chance(0.5);
        if r.chance(0.3) {
            tcp.nagle = NagleForm::AnySegment;
        }
    }
}

/// Bytes of the largest packet that Linux takes from a TAP.
const BIG_TCP_MAX: u32 = 272 << 10;

/// Cards that cut TCP cut packets of more than 64 KiB too (BIG TCP). A stream of its own.
fn large_packets(seed: u64, ports: &mut [PortConfig]) {
    let mut r = Random::from_seed(seed.rotate_left(32));
    for port in ports {
        let caps = &mut port.caps;
        if !port.whole && r.chance(0.5) {
            for max in [&mut caps.tso4_max, &mut caps.tso6_max] {
                *max = if *max > 0 { BIG_TCP_MAX } else { 0 };
            }
        }
    }
}

/// Few faults leave a window open for more than 64 KiB at once. So now and then links are clean, and both sides of a
/// connection write much, and pause, so that their windows are open at the next write. A stream of its own.
fn large_writes(
    seed: u64,
    links: &mut [LinkConfig],
    ports: &mut [PortConfig],
    tcp: &mut [TcpConfig],
    connections: &mut [Connection],
) {
    const BUFFER: usize = 1 << 20;
    let mut r = Random::from_seed(seed.rotate_left(16));
    let other = |port: &PortConfig| port.whole || matches!(port.shape, Shape::Pieces(1));
    if !r.chance(0.15) || ports.iter().any(other) {
        return;
    }
    for link in links {
        *link = LinkConfig {
            mtu: link.mtu,
            delay: link.delay,
            ..LinkConfig::PERFECT
        };
    }
    for port in &mut *ports {
        port.caps = PortConfig::offloading(port.caps.mtu).caps;
        (port.caps.tso4_max, port.caps.tso6_max) = (BIG_TCP_MAX, BIG_TCP_MAX);
    }
    for tcp in tcp {
        (tcp.recv_buffer, tcp.send_buffer, tcp.pacing) = (BUFFER, BUFFER, false);
    }
    let Some(first) = connections.first_mut() else {
        return;
    };
    let (client, server) = (&mut first.client_manners, &mut first.server_manners);
    for manners in [&mut *client, server] {
        manners.sends.1 = between(&mut r, 1 << 20, 2 << 20);
        (manners.write_max, manners.reading) = (BUFFER / 4, Reading::Eager);
        manners.pause = Duration::from_millis(between(&mut r, 1, 50));
    }
    (client.expects.1, server.expects.1) = (server.sends.1, client.sends.1);
    // IPv4 has no jumbograms.
    if r.chance(0.5) {
        for port in ports {
            (port.whole, port.caps.tso4_max) = (true, u32::from(u16::MAX));
        }
    }
}

/// The most bytes that a scenario moves: enough to show faults, and still fast to run.
fn budget(ports: &[PortConfig], slow_bps: u64) -> u64 {
    let tiny = ports.iter().any(|p| matches!(p.shape, Shape::Pieces(1)));
    match (tiny, slow_bps) {
        (true, _) => 200_000,
        (false, 256_000) => 1_000_000,
        (false, _) => 4_000_000,
    }
}

impl Connection {
    fn keep_alive(&mut self) {
        let idle = Some(Duration::from_secs(10));
        (self.client_manners.keepalive, self.server_manners.keepalive) = (idle, idle);
    }

    fn bytes(&self) -> u64 {
        self.client_manners.sends.1 + self.server_manners.sends.1
    }
}

fn connections(r: &mut Random, nodes: usize, budget: u64, heal_at: Duration) -> Vec<Connection> {
    let count = pick(r, &[1, 2, 5, 20, 50]);
    (0..count)
        .map(|i| {
            let client = between(r, 1, nodes as u64 - 1) as usize;
            connection(r, i, client, budget / count, heal_at)
        })
        .collect()
}

fn connection(r: &mut Random, i: u64, client: usize, budget: u64, heal_at: Duration) -> Connection {
    let amount = |r: &mut Random| match r.below(4) {
        0 => 0,
        1 => r.below(100),
        2 => r.below(10_000),
        _ => r.below(budget),
    };
    let there = (Pattern::new(r.next_u64() ^ i), amount(r));
    let back = (Pattern::new(r.next_u64() ^ i), amount(r));
    let client_manners = manners(r, there, back, heal_at);
    let mut server_manners = manners(r, back, there, heal_at);
    // If both sides waited for the other's end, neither would end.
    server_manners.answers = r.chance(0.3);
    let mut c = Connection {
        client,
        at: Duration::from_millis(r.below(heal_at.as_millis() as u64)),
        answer: answer(r),
        client_manners,
        server_manners,
    };
    if r.chance(0.15) {
        abort(r, &mut c, there.1 + back.1);
    }
    c
}

/// One side resets in the middle. The reset may be lost, so that the other side must ask.
fn abort(r: &mut Random, c: &mut Connection, bytes: u64) {
    let leave = Leave::Abort(r.below(bytes / 2 + 1));
    c.keep_alive();
    let (one, other) = (&mut c.client_manners, &mut c.server_manners);
    let aborts = if r.chance(0.5) {
        &mut *one
    } else {
        &mut *other
    };
    aborts.leave = leave;
    // A side that waits for the peer's end would wait for ever if the peer never closes.
    (one.answers, other.answers) = (false, false);
}

fn answer(r: &mut Random) -> Answer {
    match r.below(20) {
        0 => Answer::Nobody,
        1 => Answer::Gate(Decision::Refuse(Refusal::Reset)),
        2 => Answer::Gate(Decision::Refuse(Refusal::Unreachable(IcmpError::Host))),
        3..6 => Answer::Gate(Decision::Accept),
        _ => Answer::Listener,
    }
}

fn manners(
    r: &mut Random,
    sends: (Pattern, u64),
    expects: (Pattern, u64),
    heal_at: Duration,
) -> Manners {
    let reading = match r.below(6) {
        0 => Reading::Slow {
            // A transfer takes half a minute at most.
            bytes: (expects.1 / 300).max(1) as usize,
            every: Duration::from_millis(100),
        },
        1 => {
            let until = START + heal_at + Duration::from_millis(between(r, 0, 60_000));
            Reading::Stops {
                at: r.below(expects.1 + 1),
                until: until.max(Time::ZERO),
            }
        }
        _ => Reading::Eager,
    };
    Manners {
        sends,
        expects,
        write_max: pick(r, &[1, 100, 1_000, 20_000, 200_000]).max(sends.1 as usize / 2_000),
        pause: Duration::ZERO,
        chains: r.chance(0.5),
        nodelay: r.chance(0.5),
        reading,
        answers: false,
        leave: if r.chance(0.3) {
            Leave::Close
        } else {
            Leave::HalfClose
        },
        keepalive: None,
    }
}
