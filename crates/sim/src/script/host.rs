//! The stack that a script runs on: one interface, a router beside it that answers for every address, virtual time.

use std::net::Ipv4Addr;
use std::time::Duration;

use kern::Time;
use mbuma::{Config, IfConfig, Stack};

use super::syntax::Micros;
use crate::family::IpFamily;
use crate::{Link, Net, NodeId, PeerId, PortConfig, Trace};

/// The stack and its time.
pub(super) struct Host {
    net: Net,
    node: NodeId,
    peer: PeerId,
    family: IpFamily,
    /// The script's time 0.
    zero: Time,
}

impl Host {
    /// A stack at `local`/16 whose default route leads to `gateway`.
    pub(super) fn new(
        local: Ipv4Addr,
        gateway: Ipv4Addr,
        mtu: u16,
        family: IpFamily,
        tune: impl FnOnce(&mut Config),
    ) -> Self {
        let mut net = Net::new(1);
        let wire = net.wire(Link::PERFECT);
        let node = net.stack_with(tune);
        let (local, gateway) = (family.addr(local), family.addr(gateway));
        let config = IfConfig::new("tun0").with_addr(local, family.prefix_len(16));
        let port = PortConfig::plain(family.mtu(mtu));
        let (index, _) = net.plug_with(node, wire, &port, config);
        // A script may name an address that no router can have. It then has no route, and its expectations say so.
        let _added = net.at(node).add_default_route(index, gateway);
        let peer = net.peer(wire, gateway);
        net.peer_mut(peer).accept_any = true;
        net.peer_mut(peer).keep_packets();
        net.announce(peer, local);
        // The router's address is known when the script begins.
        net.run_for(Duration::from_millis(10));
        let zero = net.now();
        Self {
            net,
            node,
            peer,
            family,
            zero,
        }
    }

    pub(super) fn stack(&self) -> &Stack {
        self.net.at(self.node)
    }

    pub(super) fn trace(&mut self) -> &mut Trace {
        self.net.trace()
    }

    /// The time since the script's time 0.
    pub(super) fn now(&self) -> Micros {
        self.since(self.net.now())
    }

    fn since(&self, at: Time) -> Micros {
        (at - self.zero).as_micros() as Micros
    }

    fn at(&self, micros: Micros) -> Time {
        self.zero + Duration::from_micros(micros.max(0).cast_unsigned())
    }

    /// Runs the events of the next instant, if it is not after `until`. False if no event is due.
    pub(super) fn step(&mut self, until: Micros) -> bool {
        let until = self.at(until);
        let mut turns = 0;
        self.net.run_until_done(until, |_| {
            turns += 1;
            turns == 2
        })
    }

    /// Moves the clock to `until`.
    pub(super) fn run_until(&mut self, until: Micros) {
        let until = self.at(until);
        if until > self.net.now() {
            self.net.run_until(until);
        }
    }

    /// Gives the stack a packet.
    pub(super) fn inject(&mut self, packet: &[u8]) {
        self.net
            .say_packet(self.peer, &self.family.incoming(packet));
    }

    /// The packets that the stack sent since the last call; or why one is malformed.
    pub(super) fn take_sent(&mut self) -> Vec<(Micros, Result<Vec<u8>, String>)> {
        let sent = self.net.peer_mut(self.peer).take_packets();
        let in_script = |(at, packet)| (self.since(at), self.family.outgoing(packet));
        sent.into_iter().map(in_script).collect()
    }
}
