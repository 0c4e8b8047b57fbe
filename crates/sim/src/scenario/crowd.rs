//! The additions of a scenario whose stacks have virtual CPUs: their number, the dispatch policy, an epair instead of
//! wires, an end of it that is moved, numbered datagrams.
//!
//! They are drawn from a random stream of their own. The rest of the scenario is drawn as without them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kern::{Random, Time};
use mbuma::Dispatch;
use mbuma::device::epair::EpairConfig;

use super::draw::{between, pick};
use super::{Answer, Scenario, Topology};
use crate::app::{Decision, Fickle, Sequence, SharedFlow, Sink};
use crate::event::{CableId, NodeId};
use crate::net::Net;

/// The additions of a scenario with CPUs.
#[derive(Debug)]
pub struct Crowd {
    /// Each node's CPUs.
    pub cpus: Vec<usize>,
    /// The first dispatch policy of each node.
    pub dispatch: Vec<Dispatch>,
    /// Whether each node changes its policy all the time.
    pub fickle: Vec<bool>,
    /// The times at which an end of the epair is pulled out, the end, and for how long.
    pub moves: Vec<(Duration, usize, Duration)>,
    /// Flows of numbered datagrams.
    pub flows: Vec<FlowPlan>,
    random: Random,
}

/// A flow.
#[derive(Debug, Clone, Copy)]
pub struct FlowPlan {
    /// The node that sends; node 0 receives.
    pub client: usize,
    /// The number of datagrams, and the length of each.
    pub datagrams: (u64, usize),
    /// The datagrams of a burst, and the time between two bursts.
    pub burst: (u64, Duration),
    /// When, from the start.
    pub at: Duration,
}

/// The destination of the first flow.
const FLOW_PORT: u16 = 9000;

/// All packets of an epair's queue fit.
const EPAIR: EpairConfig = EpairConfig {
    mtu: 1500,
    queue_max: 4096,
};

/// Adds the rest to a scenario.
pub(super) fn overlay(mut s: Scenario) -> Scenario {
    let mut r = Random::from_seed(s.seed ^ 0x0c40_5d00);
    if s.topology == Topology::Pair && r.chance(0.6)
        || s.topology == Topology::Chain && r.chance(0.3)
    {
        s.topology = Topology::Epair;
    } else if r.chance(0.5) {
        for faults in s.links.iter_mut().map(|l| &mut l.faults) {
            (faults.reorder, faults.duplicate) = (0.0, 0.0);
        }
    }
    let nodes = s.tcp.len();
    let heal_ms = s.heal_at.as_millis() as u64;
    let moves = match s.topology == Topology::Epair && r.chance(0.4) {
        true => (0..between(&mut r, 1, 4))
            .map(|_| moved(&mut r, heal_ms))
            .collect(),
        false => Vec::new(),
    };
    if !moves.is_empty() {
        // An interceptor belongs to an interface, which does not come back.
        for c in &mut s.connections {
            if matches!(
                c.answer,
                Answer::Gate(Decision::Accept | Decision::Refuse(_))
            ) {
                c.answer = Answer::Listener;
            }
        }
    }
    let mut flows: Vec<_> = (0..r.below(4))
        .map(|_| flow(&mut r, nodes, heal_ms))
        .collect();
    if s.links.iter().any(|l| l.faults.corrupt > 0.0) {
        // Bits turned in two fragments of one datagram may hide each other from its checksum.
        let sizes = flows.iter_mut().map(|f| &mut f.datagrams.1);
        sizes.for_each(|len| *len = (*len).min(400));
    }
    s.crowd = Some(Crowd {
        cpus: (0..nodes).map(|_| pick(&mut r, &[1, 2, 2, 3, 4])).collect(),
        dispatch: (0..nodes).map(|_| pick(&mut r, &Dispatch::ALL)).collect(),
        fickle: (0..nodes).map(|_| r.chance(0.3)).collect(),
        moves,
        flows,
        random: r,
    });
    s
}

fn moved(r: &mut Random, heal_ms: u64) -> (Duration, usize, Duration) {
    let at = Duration::from_millis(r.below(heal_ms));
    (
        at,
        r.below(2) as usize,
        Duration::from_millis(pick(r, &[0, 1, 100, 2_000])),
    )
}

fn flow(r: &mut Random, nodes: usize, heal_ms: u64) -> FlowPlan {
    FlowPlan {
        client: between(r, 1, nodes as u64 - 1) as usize,
        datagrams: (between(r, 1, 1_000), pick(r, &[16, 400, 3_000])),
        burst: (
            pick(r, &[1, 3, 20]),
            Duration::from_micros(pick(r, &[10, 1_000, 20_000])),
        ),
        at: Duration::from_millis(r.below(heal_ms)),
    }
}

impl Scenario {
    /// Whether datagrams stay in order on the way.
    fn is_orderly(&self) -> bool {
        let orderly = self
            .links
            .iter()
            .all(|l| l.faults.reorder == 0.0 && l.faults.duplicate == 0.0);
        orderly || self.topology == Topology::Epair
    }

    /// Joins two nodes by an epair.
    pub(super) fn plug_epair(&self, net: &mut Net, nodes: &[NodeId]) -> CableId {
        let cable = net.epair(EPAIR);
        (0..2).for_each(|side| self.plug_end(net, nodes, cable, side));
        cable
    }

    fn plug_end(&self, net: &mut Net, nodes: &[NodeId], cable: CableId, side: usize) {
        let config = self.interface("epair0", side);
        let index = net.plug_epair(cable, side, nodes[side], config);
        if side != 0 {
            net.at(nodes[side])
                .add_default_route(index, self.addr(0))
                .expect("a gateway on the link");
        }
    }

    /// Runs until the wires heal; an end of an epair moves meanwhile.
    pub(super) fn run_disturbed(&self, net: &mut Net, nodes: &[NodeId], healing: Time) {
        let moves = self.crowd.iter().flat_map(|crowd| &crowd.moves);
        let mut moves: Vec<_> = moves.collect();
        moves.sort();
        let begin = net.now();
        for (at, side, away) in moves {
            // An epair is the only link then.
            let cable = CableId(0);
            net.run_until((begin + *at).max(net.now()));
            net.unplug_epair(cable, *side);
            net.run_for(*away);
            self.plug_end(net, nodes, cable, *side);
        }
        net.run_until(healing.max(net.now()));
    }

    /// Starts the traffic beside the connections. Returns the number of programs that never end, and the flows.
    pub(super) fn start_crowd(
        &mut self,
        net: &mut Net,
        nodes: &[NodeId],
    ) -> (usize, Vec<SharedFlow>) {
        let (orderly, heal_at) = (self.is_orderly(), self.heal_at);
        let family = self.family;
        let addr = |node| Self::addr_over(family, node);
        let Some(crowd) = &mut self.crowd else {
            return (0, Vec::new());
        };
        let begin = net.now();
        let mut fickle = |net: &Net, i: usize| {
            crowd.fickle[i].then(|| Fickle {
                stack: net.at(nodes[i]).clone(),
                random: crowd.random.fork(),
                until: begin + heal_at,
            })
        };
        for (i, node) in nodes.iter().enumerate() {
            if let Some(app) = fickle(net, i) {
                net.add_app_on(*node, Box::new(app));
            }
        }
        let flows: Vec<_> = (crowd.flows.iter().enumerate())
            .map(|(i, plan)| {
                let fickle = fickle(net, 0);
                let port = FLOW_PORT + i as u16;
                start_flow(addr, net, nodes, port, plan, (orderly, fickle))
            })
            .collect();
        (flows.len(), flows)
    }
}

fn start_flow(
    addr: impl Fn(usize) -> IpAddr,
    net: &mut Net,
    nodes: &[NodeId],
    port: u16,
    plan: &FlowPlan,
    (strict, fickle): (bool, Option<Fickle>),
) -> SharedFlow {
    let flow = SharedFlow::default();
    let bind = |net: &Net, node: usize| {
        let local = SocketAddr::new(addr(node), port);
        net.at(nodes[node])
            .udp_bind(local)
            .expect("the port is free")
    };
    let sink = Sink {
        socket: bind(net, 0),
        strict,
        fickle,
        last: 0,
        flow: SharedFlow::clone(&flow),
    };
    let sequence = Sequence {
        stack: net.at(nodes[plan.client]).clone(),
        socket: bind(net, plan.client),
        peer: SocketAddr::new(addr(0), port),
        datagrams: plan.datagrams,
        burst: plan.burst,
        at: net.now() + plan.at,
        flow: SharedFlow::clone(&flow),
    };
    net.add_app_on(nodes[0], Box::new(sink));
    net.add_app_on(nodes[plan.client], Box::new(sequence));
    flow
}
