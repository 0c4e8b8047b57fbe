//! A scenario: a network, its faults and its traffic, all drawn from one seed; and the conditions at
//! its end.
//!
//! It has two phases, as in TigerBeetle's simulator. First the wires have faults. Then they heal, and from then on each
//! connection must end within a bounded time: with every byte once and in order, or with an error for which the
//! scenario has a reason. When all connections are closed and twice the segment lifetime has passed, each stack must be
//! as empty as at the start.
//!
//! ```
//! use sim::scenario::Scenario;
//!
//! let outcome = Scenario::from_seed(7).run();
//! assert!(outcome.violations.is_empty(), "{outcome}");
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use kern::Random;
use mbuf::PoolConfig;
use mbuma::device::impair::LinkConfig;
use mbuma::{Config, IfConfig, TcpConfig};

use crate::app::{Acceptor, Connector, Decision, Gate, Manners, SharedReport};
use crate::event::{NodeId, WireId};
use crate::family::IpFamily;
use crate::net::Net;
use crate::port::PortConfig;

mod crowd;
mod draw;
mod verdict;

pub use crowd::{Crowd, FlowPlan};
pub use verdict::Outcome;

/// How stacks are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Two stacks on one wire.
    Pair,
    /// Two stacks, and two wires joined end to end between them.
    Chain,
    /// Three stacks on one hub.
    Hub,
    /// Two stacks with an epair between them.
    Epair,
}

/// The way in which a connection is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// By a listener.
    Listener,
    /// By neither side.
    Nobody,
    /// By an interceptor, for an address that the server does not have.
    Gate(Decision),
}

/// One connection.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The node that begins it; node 0 is the server.
    pub client: usize,
    /// When, from the start.
    pub at: Duration,
    /// How it is answered.
    pub answer: Answer,
    /// The client's manners.
    pub client_manners: Manners,
    /// The server's manners.
    pub server_manners: Manners,
}

/// A scenario.
#[derive(Debug)]
pub struct Scenario {
    /// Its seed.
    pub seed: u64,
    /// How stacks are joined.
    pub topology: Topology,
    /// Each wire's direction, in the order in which ends are plugged.
    pub links: Vec<LinkConfig>,
    /// Each node's port.
    pub ports: Vec<PortConfig>,
    /// Each node's tunables.
    pub tcp: Vec<TcpConfig>,
    /// Each node's buffers.
    pub pools: Vec<PoolConfig>,
    /// Backlog of the listener and the interceptor.
    pub backlog: usize,
    /// The time that the gate takes to decide.
    pub patience: Duration,
    /// The connections.
    pub connections: Vec<Connection>,
    /// When the wires heal.
    pub heal_at: Duration,
    /// The time that the traffic may take after that.
    pub patience_after: Duration,
    /// The additions if stacks have virtual CPUs.
    pub crowd: Option<Crowd>,
    /// The version of IP.
    family: IpFamily,
    random: Random,
}

/// Where the listener is.
const PORT: u16 = 80;
/// A port without a listener.
const CLOSED_PORT: u16 = 81;
/// The first client port.
const CLIENT_PORT: u16 = 10_000;
/// The addresses for which the gate answers.
const BEYOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// A connection while it runs.
#[derive(Debug)]
struct Running {
    plan: Connection,
    client: SharedReport,
    server: SharedReport,
}

impl Scenario {
    /// Draws a scenario.
    pub fn from_seed(seed: u64) -> Self {
        draw::scenario(seed)
    }

    /// Draws a scenario whose stacks have virtual CPUs: the CPU that runs next is drawn too.
    pub fn on_cpus_from_seed(seed: u64) -> Self {
        crowd::overlay(draw::scenario(seed))
    }

    /// Runs it.
    pub fn run(self) -> Outcome {
        self.run_with(|_| {}, |_| {})
    }

    /// Runs it with stacks that `tune` changes, on a net that `prepare` may set up to be watched.
    pub fn run_with(
        mut self,
        tune: impl Fn(&mut Config),
        prepare: impl FnOnce(&mut Net),
    ) -> Outcome {
        let mut net = Net::from_random(self.random.fork());
        prepare(&mut net);
        let nodes = self.build(&mut net, &tune);
        let running = self.start(&mut net, &nodes);
        let (sinks, flows) = self.start_crowd(&mut net, &nodes);
        let healing = net.now() + self.heal_at;
        self.run_disturbed(&mut net, &nodes, healing);
        net.heal();
        let limit = net.now() + self.patience_after;
        // The acceptor, the gate and the receivers of datagrams never end.
        let servants = 2 + sinks;
        let ended = net.run_until_done(limit, |net| {
            net.apps_running() <= servants && running.iter().all(Running::is_over)
        });
        if ended {
            net.run_until(net.now() + self.quiet_time());
        }
        verdict::judge(&self, &mut net, &nodes, &running, &flows, ended)
    }

    /// After the last user has closed: the time that an orphan may take, a last retransmission after a long back-off,
    /// then TIME-WAIT.
    fn quiet_time(&self) -> Duration {
        let longest = |t: &TcpConfig| t.fin_wait_2_timeout + t.rto_max + 2 * t.msl;
        let slowest = self.tcp.iter().map(longest).max().unwrap_or_default();
        slowest + Duration::from_secs(30)
    }

    fn addr(&self, node: usize) -> IpAddr {
        Self::addr_over(self.family, node)
    }

    fn addr_over(family: IpFamily, node: usize) -> IpAddr {
        family.addr(Ipv4Addr::new(10, 0, 0, 1 + node as u8))
    }

    /// An interface with the node's address.
    fn interface(&self, name: &str, node: usize) -> IfConfig {
        IfConfig {
            accept_any: node == 0,
            ..IfConfig::new(name).with_addr(self.addr(node), self.family.prefix_len(24))
        }
    }

    fn build(&self, net: &mut Net, tune: &impl Fn(&mut Config)) -> Vec<NodeId> {
        let nodes: Vec<_> = (0..self.tcp.len())
            .map(|i| self.stack(net, i, tune))
            .collect();
        if self.topology == Topology::Epair {
            self.plug_epair(net, &nodes);
            return nodes;
        }
        let wire = |net: &mut Net| net.wire(LinkConfig::PERFECT);
        let mut links = self.links.iter();
        let mut set = |net: &mut Net, wire: WireId, end: usize| {
            net.wire_mut(wire)
                .set_link(end, *links.next().unwrap_or(&LinkConfig::PERFECT));
        };
        let first = wire(net);
        let mut last = first;
        if self.topology == Topology::Chain {
            last = wire(net);
            let (a, b) = net.join(first, last);
            set(net, first, a);
            set(net, last, b);
        }
        for (i, node) in nodes.iter().enumerate() {
            let wire = if i == 0 { first } else { last };
            let end = self.plug(net, *node, i, wire);
            set(net, wire, end);
        }
        nodes
    }

    fn stack(&self, net: &mut Net, i: usize, tune: &impl Fn(&mut Config)) -> NodeId {
        let set = |config: &mut Config| {
            config.tcp = self.tcp[i].clone();
            config.pool = self.pools[i];
            if let Some(crowd) = &self.crowd {
                config.netisr.dispatch = crowd.dispatch[i];
            }
            tune(config);
        };
        match &self.crowd {
            Some(crowd) => net.stack_on_cpus(crowd.cpus[i], set),
            None => net.stack_with(set),
        }
    }

    fn plug(&self, net: &mut Net, node: NodeId, i: usize, wire: WireId) -> usize {
        let config = self.interface("sim0", i);
        let (ifindex, end) = net.plug_with(node, wire, &self.ports[i], config);
        if i != 0 {
            net.at(node)
                .add_default_route(ifindex, self.addr(0))
                .expect("a gateway on the link");
        }
        end
    }

    fn start(&self, net: &mut Net, nodes: &[NodeId]) -> Vec<Running> {
        let running: Vec<_> = self.connections.iter().map(Running::new).collect();
        let server = net.at(nodes[0]).clone();
        let any = SocketAddr::new(self.family.addr(Ipv4Addr::UNSPECIFIED), PORT);
        let listener = server
            .tcp_listen(any, self.backlog)
            .expect("nothing listens yet");
        let interceptor = server
            .tcp_intercept(net.interface(nodes[0]), self.backlog)
            .expect("there is no interceptor yet");
        let (mut listened, mut gated) = (BTreeMap::new(), BTreeMap::new());
        for (i, c) in running.iter().enumerate() {
            let port = CLIENT_PORT + i as u16;
            let (manners, report) = (c.plan.server_manners, c.server.clone());
            match c.plan.answer {
                Answer::Listener => drop(listened.insert(port, (manners, report))),
                Answer::Gate(decision) => drop(gated.insert(port, (decision, manners, report))),
                Answer::Nobody => {}
            }
        }
        net.add_app_on(
            nodes[0],
            Box::new(Acceptor::new(server.clone(), listener, listened)),
        );
        let gate = Box::new(Gate::new(server, interceptor, self.patience, gated));
        net.add_app_on(nodes[0], gate);
        for (i, c) in running.iter().enumerate() {
            let connector = self.connector(net, nodes, CLIENT_PORT + i as u16, c);
            net.add_app_on(nodes[c.plan.client], Box::new(connector));
        }
        running
    }

    fn connector(&self, net: &Net, nodes: &[NodeId], port: u16, c: &Running) -> Connector {
        let peer = match c.plan.answer {
            Answer::Listener => SocketAddr::new(self.addr(0), PORT),
            // An address of its own: an interceptor would take any other.
            Answer::Nobody => SocketAddr::new(self.addr(0), CLOSED_PORT),
            Answer::Gate(_) => SocketAddr::new(self.family.addr(BEYOND), PORT),
        };
        Connector {
            stack: net.at(nodes[c.plan.client]).clone(),
            local: SocketAddr::new(self.addr(c.plan.client), port),
            peer,
            at: net.now() + c.plan.at,
            manners: c.plan.client_manners,
            report: c.client.clone(),
        }
    }
}

impl Running {
    fn new(plan: &Connection) -> Self {
        let report = || Rc::new(RefCell::new(crate::app::Report::default()));
        Self {
            plan: plan.clone(),
            client: report(),
            server: report(),
        }
    }

    /// The client ended, and so did the server if it ever began.
    fn is_over(&self) -> bool {
        let server = self.server.borrow();
        self.client.borrow().ending.is_some() && (!server.started || server.ending.is_some())
    }
}
