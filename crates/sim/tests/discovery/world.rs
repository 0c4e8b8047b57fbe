//! A link with its stations, drawn from a seed, and the phases that it goes through.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use kern::Random;
use mbuf::{Chain, Live};
use mbuma::{Autoconf, IfAddr, IfConfig, IfIndex, Membership, TemporaryPolicy, UdpSocket};
use sim::{Burst, Faults, Lateness, Link, Net, NodeId, PortConfig, WireId};
use wire::{MacAddr, link_local_of, solicited_node};

use super::querier::{DELAY_MAX_MS, Querier};
use super::router::{self, PREFIX, Router};

/// Frames that a station may send in a second: twenty questions to others, as many answers, discovery for each.
pub(crate) const RATE_MAX: u64 = 100;
/// Seconds for which a temporary address is in use at most, if a host has such addresses: some change before the
/// questions, and all of them before the end.
const IN_USE: std::ops::RangeInclusive<u64> = 60..=90;
/// The time for which they stay valid then.
const STAY: Duration = Duration::from_secs(20);
/// The temporary addresses that a host has at a time.
const TEMPORARY: std::ops::RangeInclusive<usize> = 1..=5;
/// Frames of a change: three probes, and each group joined or left twice.
const CHANGE_FRAMES: u64 = 12;
/// Changes of a minute at most: a time of use is shortened by up to two fifths, and by that of the probes.
const CHANGES_MAX: u64 = 3;

const STEP: Duration = Duration::from_millis(250);
const PORT: u16 = 4000;
const QUESTION: u8 = 0;
const ANSWER: u8 = 1;

/// Two stations are to have one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conflict {
    None,
    /// The first two hosts are given one.
    Hosts,
    /// The first host is given the router's.
    WithRouter,
    /// The first two hosts have one Ethernet address, and so one address of the link.
    Mac,
}

/// A station, the router too.
struct Station {
    node: NodeId,
    index: IfIndex,
    /// The end of the wire.
    end: usize,
    mac: MacAddr,
    given: Option<Ipv6Addr>,
    /// It has temporary addresses.
    is_temporary: bool,
    socket: UdpSocket,
    groups: Vec<(Ipv6Addr, Membership)>,
    /// Frames that it had sent at the last look.
    sent: u64,
}

/// The link.
pub(crate) struct World {
    net: Net,
    random: Random,
    wire: WireId,
    good: bool,
    conflict: Conflict,
    /// The router is the last.
    stations: Vec<Station>,
    router: Router,
    querier: Querier,
    /// (asker, address) of answers that came.
    answered: BTreeSet<(usize, Ipv6Addr)>,
    /// Addresses from which questions came, and those that each host had before.
    asked_from: BTreeSet<Ipv6Addr>,
    configured: Vec<Vec<Ipv6Addr>>,
    steps: u32,
    violations: Vec<String>,
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The address of this number in the link's network.
fn address(n: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(PREFIX.to_bits() | u128::from(n))
}

fn draw_link(random: &mut Random, good: bool) -> Link {
    let mut percent = |max: u64| random.below(max + 1) as f64 / 100.0;
    let faults = Faults {
        loss: percent(30),
        duplicate: percent(20),
        reorder: percent(30),
        ..Faults::default()
    };
    let late = Duration::from_millis(random.below(3000));
    let burst = random.chance(0.3).then_some(Burst {
        enter: 0.02,
        leave: 0.1,
        loss: 1.0,
    });
    let faults = Faults {
        late: Lateness::UpTo(late),
        burst,
        ..faults
    };
    Link {
        faults: if good { Faults::default() } else { faults },
        ..Link::delay(Duration::from_millis(random.below(30)))
    }
}

impl World {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        let mut net = Net::new(seed);
        let good = random.chance(0.15);
        let link = draw_link(&mut random, good);
        let wire = net.wire(link);
        let conflict = match random.below(10) {
            0 | 1 => Conflict::Hosts,
            2 => Conflict::WithRouter,
            3 => Conflict::Mac,
            _ => Conflict::None,
        };
        let hosts = 2 + random.below(3);
        let mut stations: Vec<Station> = (0..hosts)
            .map(|n| host(&mut net, wire, &mut random, conflict, n))
            .collect();
        let given = Some(address(1));
        stations.push(station(&mut net, wire, router::MAC, given, None));
        let last = stations.last().expect("the router");
        let router = Router::new(net.at(last.node), last.index);
        net.at(last.node).set_forwarding(true);
        let querier = Querier::new(&mut net, wire);
        Self {
            net,
            random,
            wire,
            good,
            conflict,
            stations,
            router,
            querier,
            answered: BTreeSet::new(),
            asked_from: BTreeSet::new(),
            configured: Vec::new(),
            steps: 0,
            violations: Vec::new(),
        }
    }

    pub(crate) fn is_on_good_wires(&self) -> bool {
        self.good
    }

    pub(crate) fn has_conflict(&self) -> bool {
        self.conflict != Conflict::None
    }

    pub(crate) fn has_temporary(&self) -> bool {
        self.stations.iter().any(|station| station.is_temporary)
    }

    /// Goes through all phases; the rules that were broken.
    pub(crate) fn run(mut self) -> Vec<String> {
        self.disturb();
        self.net.wire_mut(self.wire).heal();
        self.configure();
        self.question();
        self.ask_for_groups();
        self.fall_silent();
        self.judge_changes();
        self.end()
    }

    /// Traffic in all directions, and groups that come and go.
    fn disturb(&mut self) {
        let steps = 4 * (30 + self.random.below(30));
        for step in 0..steps {
            for at in 0..self.stations.len() {
                if self.random.chance(0.2) {
                    self.ask_any(at);
                }
                if self.random.chance(0.03) {
                    self.change_groups(at);
                }
            }
            if step % 50 == 25 {
                self.querier.ask(&mut self.net);
            }
            self.step();
        }
    }

    /// Hosts probe for their addresses, and learn others.
    fn configure(&mut self) {
        (0..80).for_each(|_| self.step());
        for at in 0..self.stations.len() - 1 {
            let (own, wanted) = (self.addresses(at), self.wanted(at));
            let lacks = wanted.iter().any(|addr| !own.contains(addr));
            if !self.is_in_conflict(at) && (lacks || !self.has_learnt(at)) {
                self.report(format!(
                    "host {at} has the addresses {own:?}, not {wanted:?}"
                ));
            }
            self.configured.push(own);
        }
        if self.good {
            self.judge_conflict();
        }
    }

    /// Whether a host has made as many addresses of the router's prefix as it must: a stable one, and temporary ones
    /// where it is to have them.
    fn has_learnt(&self, at: usize) -> bool {
        let wanted = self.wanted(at);
        let learnt = self.addresses(at).into_iter();
        let learnt = learnt.filter(|addr| !wanted.contains(addr) && is_of_prefix(*addr));
        match (learnt.count(), self.stations[at].is_temporary) {
            (count, false) => count == 1,
            (0, true) => false,
            (count, true) => TEMPORARY.contains(&(count - 1)),
        }
    }

    /// Temporary addresses have gone, others came, and questions came from them.
    fn judge_changes(&mut self) {
        for at in 0..self.stations.len() - 1 {
            if self.is_in_conflict(at) || !self.stations[at].is_temporary {
                continue;
            }
            let own = self.addresses(at);
            if !self.has_learnt(at) {
                self.report(format!("host {at} has no temporary address, but {own:?}"));
            }
            // Those that are there still are the stable ones.
            let mut stable = self.configured[at].iter().filter(|addr| own.contains(addr));
            if let Some(addr) = stable.find(|addr| self.asked_from.contains(addr)).copied() {
                self.report(format!(
                    "host {at} asks from {addr}, which is not temporary"
                ));
            }
        }
    }

    /// Without loss, probes find each address that another station has.
    fn judge_conflict(&mut self) {
        let shared = self.stations[0].given;
        let has = |at| shared.is_some_and(|addr| self.addresses(at).contains(&addr));
        let broken = match self.conflict {
            Conflict::None => false,
            Conflict::Hosts => has(0) && has(1),
            Conflict::WithRouter => has(0),
            Conflict::Mac => (0..2).all(|at| !self.addresses(at).is_empty()),
        };
        if broken {
            self.report(format!("{:?}: both have it", self.conflict));
        }
    }

    /// Each station asks each other, at each address.
    fn question(&mut self) {
        let pairs = self.pairs();
        self.answered.clear();
        self.asked_from.clear();
        for step in 0..40 {
            for &(at, addr) in pairs.iter().filter(|_| step % 4 == 0) {
                if !self.answered.contains(&(at, addr)) {
                    self.say(at, addr, QUESTION);
                }
            }
            self.step();
        }
        for (at, addr) in pairs {
            // A temporary one may have gone meanwhile.
            let is_there = (0..self.stations.len()).any(|at| self.addresses(at).contains(&addr));
            if is_there && !self.answered.contains(&(at, addr)) {
                self.report(format!("{addr} does not answer station {at}"));
            }
        }
    }

    fn ask_for_groups(&mut self) {
        self.querier.answers(&mut self.net);
        self.querier.ask(&mut self.net);
        let before: Vec<_> = (0..self.stations.len())
            .map(|at| self.addresses(at))
            .collect();
        let patience = Duration::from_millis(DELAY_MAX_MS.into()) + secs(1);
        for _ in 0..patience.as_millis() / STEP.as_millis() {
            self.step();
        }
        let said = self.querier.answers(&mut self.net);
        for (at, before) in before.iter().enumerate().take(self.stations.len() - 1) {
            let own = self.addresses(at).into_iter();
            let own = own.filter(|addr| before.contains(addr)).map(solicited_node);
            let joined = self.stations[at].groups.iter().map(|(group, _)| *group);
            let wanted: BTreeSet<_> = own.chain(joined).collect();
            let said = said.get(&link_local_of(self.stations[at].mac));
            let is_said = match said {
                // Also those of an address that comes or goes.
                Some(said) if self.stations[at].is_temporary => said.is_superset(&wanted),
                said => said == Some(&wanted),
            };
            if !self.is_in_conflict(at) && !is_said {
                self.report(format!(
                    "host {at} reports the groups {said:?}, not {wanted:?}"
                ));
            }
        }
    }

    /// The first host is gone; the others notice, and then no station sends.
    fn fall_silent(&mut self) {
        let end = self.stations[0].end;
        let faults = Faults {
            loss: 1.0,
            ..Faults::default()
        };
        let dead = Link {
            faults,
            ..Link::delay(Duration::ZERO)
        };
        self.net.wire_mut(self.wire).set_link(end, dead);
        for (at, addr) in self.pairs() {
            self.say(at, addr, QUESTION);
        }
        // Neighbours count as reachable for 15 s at most, and are asked for a few seconds.
        for _ in 0..20 {
            self.step();
        }
        for (at, addr) in self.pairs() {
            self.say(at, addr, QUESTION);
        }
        self.look_for(secs(40));
        let before: Vec<u64> = (0..self.stations.len()).map(|at| self.sent(at)).collect();
        self.look_for(secs(60));
        for (at, before) in before.into_iter().enumerate() {
            let more = self.sent(at) - before;
            let changes = u64::from(self.stations[at].is_temporary) * CHANGES_MAX;
            if more > changes * CHANGE_FRAMES {
                self.report(format!("station {at} sent {more} frames in silence"));
            }
        }
    }

    fn end(mut self) -> Vec<String> {
        let nodes: Vec<NodeId> = self.stations.iter().map(|station| station.node).collect();
        self.stations.clear();
        drop(self.router);
        self.net.run_for(secs(10));
        for node in nodes {
            let left = self.net.at(node).pool().live();
            if left != Live::NONE {
                self.violations.push(format!("buffers are left: {left:?}"));
            }
        }
        self.violations
    }

    fn report(&mut self, violation: String) {
        self.violations.push(violation);
    }

    /// Lets a quarter of a second pass, with the programs of all stations.
    fn step(&mut self) {
        let now = self.net.now();
        self.router.step(now, &mut self.random);
        self.look_for(STEP);
    }

    /// Lets time pass without the router's program.
    fn look_for(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / STEP.as_millis() {
            self.net.run_for(STEP);
            (0..self.stations.len()).for_each(|at| self.hear(at));
            self.steps += 1;
            if self.steps.is_multiple_of(4) {
                self.count_frames();
            }
        }
    }

    /// Answers questions, and notes answers.
    fn hear(&mut self, at: usize) {
        while let Ok(datagram) = self.stations[at].socket.recv() {
            let (src, dst) = (datagram.src, datagram.dst);
            let IpAddr::V6(from) = src.ip() else { continue };
            match datagram.payload.to_vec().first() {
                Some(&QUESTION) => {
                    self.asked_from.insert(from);
                    let stack = self.net.at(self.stations[at].node);
                    let payload = Chain::from_slice(stack.pool(), &[ANSWER]).expect("buffers");
                    // The address may have gone again meanwhile.
                    let _ = self.stations[at].socket.send_from(payload, dst, src);
                }
                _ => drop(self.answered.insert((at, from))),
            }
        }
    }

    fn say(&mut self, at: usize, addr: Ipv6Addr, word: u8) {
        let stack = self.net.at(self.stations[at].node);
        let payload = Chain::from_slice(stack.pool(), &[word]).expect("buffers");
        let to = SocketAddr::from((addr, PORT));
        // Without an address or a route yet there is nothing to send.
        let _ = self.stations[at].socket.send_to(payload, to);
    }

    /// A station sends a question to another, at an address that the other may have or not.
    fn ask_any(&mut self, at: usize) {
        let other = self.random.below(self.stations.len() as u64) as usize;
        let addrs = self.addresses(other);
        let mut global = addrs.iter().filter(|addr| !wire::is_link_local6(**addr));
        if let Some(&addr) = global.next_back().filter(|_| other != at) {
            self.say(at, addr, QUESTION);
        }
    }

    /// A host joins a group of four, or leaves one.
    fn change_groups(&mut self, at: usize) {
        let n = self.random.below(4) as u16;
        let group = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, n);
        let station = &mut self.stations[at];
        let before = station.groups.len();
        station.groups.retain(|(joined, _)| *joined != group);
        if station.groups.len() == before {
            let stack = self.net.at(station.node);
            let joined = stack.join_group(station.index, group);
            station.groups.push((group, joined.expect("there is room")));
        }
    }

    fn addresses(&self, at: usize) -> Vec<Ipv6Addr> {
        let station = &self.stations[at];
        let all = self.net.at(station.node).addresses(station.index);
        let v6 = all.into_iter().filter_map(|(addr, _)| match addr {
            IpAddr::V6(addr) => Some(addr),
            IpAddr::V4(_) => None,
        });
        v6.collect()
    }

    /// The addresses that a host must have, besides the one that it makes of the router's prefix.
    fn wanted(&self, at: usize) -> Vec<Ipv6Addr> {
        let station = &self.stations[at];
        let given = station.given.filter(|_| !self.is_contested(at));
        let own = [link_local_of(station.mac)];
        own.into_iter().chain(given).collect()
    }

    /// Whether another station may have the address that it was given.
    fn is_contested(&self, at: usize) -> bool {
        match self.conflict {
            Conflict::Hosts => at < 2,
            Conflict::WithRouter => at == 0 || at == self.stations.len() - 1,
            Conflict::None | Conflict::Mac => false,
        }
    }

    /// Whether its conflict may leave it without IPv6, or with an address more or less.
    fn is_in_conflict(&self, at: usize) -> bool {
        match self.conflict {
            Conflict::Mac | Conflict::Hosts => at < 2,
            Conflict::WithRouter => at == 0,
            Conflict::None => false,
        }
    }

    /// Each station with each address of each other, as far as no conflict is about them: an answer to an address that
    /// two stations have comes to one of them.
    fn pairs(&self) -> Vec<(usize, Ipv6Addr)> {
        let mut pairs = Vec::new();
        let plain = |at: &usize| !(self.conflict == Conflict::Mac && *at < 2);
        for to in (0..self.stations.len()).filter(plain) {
            let contested = self.stations[to].given.filter(|_| self.is_contested(to));
            let usable = |addr: &Ipv6Addr| !wire::is_link_local6(*addr) && Some(*addr) != contested;
            for addr in self.addresses(to).into_iter().filter(usable) {
                let askers = (0..self.stations.len()).filter(plain);
                let askers = askers.filter(|at| *at != to && !self.is_contested(*at));
                pairs.extend(askers.map(|at| (at, addr)));
            }
        }
        pairs
    }

    fn sent(&mut self, at: usize) -> u64 {
        let end = self.stations[at].end;
        self.net.wire_mut(self.wire).counts(end).sent
    }

    /// The frames of the last second.
    fn count_frames(&mut self) {
        for at in 0..self.stations.len() {
            let sent = self.sent(at);
            let more = sent - std::mem::replace(&mut self.stations[at].sent, sent);
            if more > RATE_MAX {
                self.report(format!("station {at} sent {more} frames in a second"));
            }
        }
    }
}

fn is_of_prefix(addr: Ipv6Addr) -> bool {
    wire::is_same_prefix(addr, PREFIX, 64)
}

/// Temporary addresses that change within a run.
fn draw_policy(random: &mut Random) -> TemporaryPolicy {
    let in_use = IN_USE.start() + random.below(IN_USE.end() - IN_USE.start() + 1);
    let mut policy = TemporaryPolicy::default();
    policy.preferred = secs(in_use);
    policy.valid = policy.preferred + STAY;
    policy
}

/// A host, which configures itself.
fn host(net: &mut Net, wire: WireId, random: &mut Random, conflict: Conflict, n: u64) -> Station {
    let mac = match (conflict, n) {
        (Conflict::Mac, 0 | 1) => 1,
        _ => 1 + n as u8,
    };
    let given = match (conflict, n) {
        (Conflict::Hosts, 0 | 1) => Some(address(100)),
        (Conflict::WithRouter, 0) => Some(address(1)),
        _ => random.chance(0.5).then(|| address(101 + n)),
    };
    let autoconf = Autoconf {
        dad_transmits: 1 + random.below(3) as u8,
        temporary: random.chance(0.3).then(|| draw_policy(random)),
        ..Autoconf::default()
    };
    let mac = MacAddr([2, 0, 0, 0, 0, mac]);
    station(net, wire, mac, given, Some(autoconf))
}

fn station(
    net: &mut Net,
    wire: WireId,
    mac: MacAddr,
    given: Option<Ipv6Addr>,
    autoconf: Option<Autoconf>,
) -> Station {
    let node = net.stack();
    let addrs = given.map(|addr| IfAddr::new(addr, 64));
    let config = IfConfig {
        mac: Some(mac),
        addrs: addrs.into_iter().collect(),
        autoconf,
        ..IfConfig::new("sim0")
    };
    let (index, end) = net.plug_with(node, wire, &PortConfig::plain(1500), config);
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let socket = net.at(node).udp_bind(any).expect("the port is free");
    Station {
        is_temporary: autoconf.is_some_and(|autoconf| autoconf.temporary.is_some()),
        node,
        index,
        end,
        mac,
        given,
        socket,
        groups: Vec::new(),
        sent: 0,
    }
}
