//! Putting a network together: stacks, wires, plugs, stations, and the stations' segments.

use std::net::IpAddr;
use std::sync::Arc;

use ::wire::MacAddr;
use kern::{Clock, Giant, VirtualCpus};
use mbuma::device::impair::LinkConfig;
use mbuma::{Config, IfConfig, IfIndex, Stack};

use super::{End, Net, Node, Slot, Turns};
use crate::event::{NodeId, PeerId, WireId};
use crate::frame::Frame;
use crate::peer::{Peer, Segment, quote};
use crate::port::{Port, PortConfig};
use crate::virtual_cpu_set::VirtualCpuSet;
use crate::wire::Wire;

impl Net {
    /// A stack with default tunables.
    pub fn stack(&mut self) -> NodeId {
        self.stack_with(|_| {})
    }

    /// A stack whose tunables `tune` may change. With `MBUMA_GIANT` in the environment it runs under Giant,
    /// each under its own: a run is the same with and without.
    ///
    /// # Panics
    /// There is no address space for its buffers.
    pub fn stack_with(&mut self, tune: impl FnOnce(&mut Config)) -> NodeId {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let mut config = Config::new(clock, self.random.fork());
        config.giant = Arc::new(Giant::new(std::env::var_os("MBUMA_GIANT").is_some()));
        tune(&mut config);
        let stack = Stack::new(config).expect("address space for buffers");
        self.nodes.push(Node {
            stack,
            cpu_set: None,
        });
        NodeId(self.nodes.len() - 1)
    }

    /// A stack with `cpus` virtual CPUs. From now on, the CPU that runs next is drawn.
    ///
    /// # Panics
    /// There is no address space for its buffers.
    pub fn stack_on_cpus(&mut self, cpus: usize, tune: impl FnOnce(&mut Config)) -> NodeId {
        if self.turns.is_none() {
            self.turns = Some(Turns::new(self.random.fork()));
        }
        let virtuals = Arc::new(VirtualCpus::new(cpus));
        let node = self.stack_with(|config| {
            config.cpus = Arc::clone(&virtuals) as _;
            tune(config);
        });
        let n = &mut self.nodes[node.0];
        n.cpu_set = Some(VirtualCpuSet::new(&n.stack, virtuals, cpus));
        node
    }

    /// A stack's handle.
    pub fn at(&self, node: NodeId) -> &Stack {
        &self.nodes[node.0].stack
    }

    /// The first interface of a stack.
    ///
    /// # Panics
    /// The stack has no interface.
    pub fn interface(&self, node: NodeId) -> IfIndex {
        let slots = self.slots.iter().map(|s| (s.node, s.ifindex));
        let ends = self.cables.iter().flatten().filter_map(|end| end.place);
        let mut all = slots.chain(ends).filter(|(n, _)| *n == node.0);
        all.next().expect("the stack is plugged in").1
    }

    /// A wire whose directions all are `link` until they are changed.
    pub fn wire(&mut self, link: LinkConfig) -> WireId {
        let random = self.random.fork();
        self.wires.push((Wire::new(link, random), Vec::new()));
        WireId(self.wires.len() - 1)
    }

    /// A wire, to look at or to change.
    pub fn wire_mut(&mut self, wire: WireId) -> &mut Wire {
        &mut self.wires[wire.0].0
    }

    /// Packets with more bytes than the length field of IP can say, which all stacks sent, by version: 4, 6; and
    /// jumbograms.
    pub fn large_packets(&self) -> [u64; 3] {
        let ports = self.slots.iter().map(|slot| slot.port.large_packets());
        ports.fold([0; 3], |sum, of| std::array::from_fn(|i| sum[i] + of[i]))
    }

    /// All wires.
    pub fn wires(&self) -> impl Iterator<Item = &Wire> {
        self.wires.iter().map(|(wire, _)| wire)
    }

    /// No faults on any wire from now on.
    pub fn heal(&mut self) {
        self.wires.iter_mut().for_each(|(wire, _)| wire.heal());
    }

    fn add_end(&mut self, wire: usize, end: End) -> usize {
        let (wire, ends) = &mut self.wires[wire];
        ends.push(end);
        wire.add_end()
    }

    /// Plugs a stack into a wire, with an address in a network of 256. Returns the number of the wire's end.
    pub fn plug(
        &mut self,
        node: NodeId,
        wire: WireId,
        addr: impl Into<IpAddr>,
        port: &PortConfig,
    ) -> usize {
        let addr = addr.into();
        let prefix_len = if addr.is_ipv4() { 24 } else { 120 };
        // A stack may have several ends of a wire, each with a name of its own.
        let name = format!("sim{}.{}", wire.0, self.slots.len());
        let config = IfConfig::new(name).with_addr(addr, prefix_len);
        self.plug_with(node, wire, port, config).1
    }

    /// The same with the whole interface configuration from the caller. A MAC address is drawn.
    pub fn plug_with(
        &mut self,
        node: NodeId,
        wire: WireId,
        port: &PortConfig,
        config: IfConfig,
    ) -> (IfIndex, usize) {
        let stack = self.nodes[node.0].stack.clone();
        let port = Arc::new(Port::new(*port, stack.pool()));
        let mac = Some(config.mac.unwrap_or_else(|| self.draw_mac()));
        let ifindex = stack
            .attach(Arc::clone(&port) as _, IfConfig { mac, ..config })
            .expect("the MTU is large enough");
        let end = self.add_end(wire.0, End::Port(self.slots.len()));
        let cpu = self.draw_server(node.0).0;
        self.slots.push(Slot {
            node: node.0,
            ifindex,
            port,
            wire: wire.0,
            end,
            interrupt_planned: false,
            cpu,
        });
        (ifindex, end)
    }

    /// Joins two wires: frames that come out of one go into the other.
    pub fn join(&mut self, a: WireId, b: WireId) -> (usize, usize) {
        let (to_a, to_b) = (
            self.wires[a.0].0.total_ends(),
            self.wires[b.0].0.total_ends(),
        );
        let a_end = self.add_end(
            a.0,
            End::Repeater {
                wire: b.0,
                end: to_b,
            },
        );
        let b_end = self.add_end(
            b.0,
            End::Repeater {
                wire: a.0,
                end: to_a,
            },
        );
        (a_end, b_end)
    }

    /// A station at `ip` that is driven by hand.
    pub fn peer(&mut self, wire: WireId, ip: impl Into<IpAddr>) -> PeerId {
        let mac = self.draw_mac();
        let id = self.peers.len();
        let end = self.add_end(wire.0, End::Peer(id));
        self.peers.push((Peer::new(mac, ip.into()), wire.0, end));
        PeerId(id)
    }

    /// That station.
    pub fn peer_mut(&mut self, peer: PeerId) -> &mut Peer {
        &mut self.peers[peer.0].0
    }

    /// The station tells `to` its Ethernet address.
    pub fn announce(&mut self, peer: PeerId, to: impl Into<IpAddr>) {
        let frame = self.peers[peer.0].0.announcement(to.into());
        self.send_from_peer(peer, frame);
    }

    /// The station sends a segment.
    pub fn say(&mut self, peer: PeerId, segment: &Segment) {
        let frame = self.peers[peer.0].0.segment(segment);
        self.send_from_peer(peer, frame);
    }

    /// The station sends an IP packet as it is.
    pub fn say_packet(&mut self, peer: PeerId, packet: &[u8]) {
        let frame = self.peers[peer.0].0.packet(packet);
        self.send_from_peer(peer, frame);
    }

    /// The station sends a frame as it is.
    pub fn say_frame(&mut self, peer: PeerId, frame: Vec<u8>) {
        self.send_from_peer(peer, frame);
    }

    /// The station sends an ICMP error about a segment that it saw; `rest` is the header's last word. About one of IPv6
    /// it sends the error of ICMPv6 that tells the same ([`icmp6_kind`](crate::icmp6_kind)).
    pub fn complain(&mut self, peer: PeerId, about: &Segment, kind: (u8, u8), rest: [u8; 4]) {
        let frame = self.peers[peer.0]
            .0
            .icmp(about.src.ip(), kind, rest, &quote(about));
        self.send_from_peer(peer, frame);
    }

    fn send_from_peer(&mut self, peer: PeerId, bytes: Vec<u8>) {
        let (_, wire, end) = self.peers[peer.0];
        self.transmit(wire, end, &Frame::new(bytes));
    }

    /// Draws the CPU of a stack that serves an interface, and whether by a task. Without CPUs no number is drawn.
    pub(super) fn draw_server(&mut self, node: usize) -> (usize, bool) {
        match (&mut self.turns, &self.nodes[node].cpu_set) {
            (Some(turns), Some(cpu_set)) => turns.server(cpu_set.members.len()),
            _ => (0, false),
        }
    }

    fn draw_mac(&mut self) -> MacAddr {
        let mut bytes = [0; 6];
        self.random.fill(&mut bytes);
        bytes[0] = (bytes[0] & 0xfc) | 0x02;
        MacAddr(bytes)
    }
}
