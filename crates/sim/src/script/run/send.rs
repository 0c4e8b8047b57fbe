//! Packets that a script injects.

use std::net::SocketAddrV4;

use super::{Runner, Stop};
use crate::family::IpFamily;
use crate::script::flow::{ACK, SYN, ScriptFlow, stream_offset};
use crate::script::packet::{build_icmp, build_tcp, build_udp, zeros};
use crate::script::syntax::{Body, IcmpSpec, IpSpec, PacketChange, PacketSpec, Quoted, TcpSpec};
use crate::script::{FROM_SCRIPT, FROM_STACK};

impl Runner<'_> {
    /// The packet comes in, and its immediate consequences run.
    pub(super) fn inject(&mut self, packet: &PacketSpec) -> Result<(), Stop> {
        self.choose_flow(packet);
        self.note(&format!("< {packet}"));
        let flow = &self.flows[self.current];
        let (src, dst) = (flow.remote, flow.local);
        let bytes = match &packet.body {
            Body::Tcp(spec) => self.segment(packet.ip, spec),
            Body::Udp(len) => zeros(*len).and_then(|data| build_udp(packet.ip, src, dst, &data)),
            Body::Icmp(spec) => self.icmp(packet.ip, spec),
        };
        let bytes = bytes.map_err(|message| Stop::Unsupported(self.line, message))?;
        let bytes = self.changed(packet, bytes)?;
        self.host.inject(&bytes);
        let now = self.host.now();
        while self.step(now)? {}
        Ok(())
    }

    /// The packet with the changes that the script makes to its bytes.
    fn changed(&self, packet: &PacketSpec, mut bytes: Vec<u8>) -> Result<Vec<u8>, Stop> {
        let is_tcp = matches!(packet.body, Body::Tcp(_));
        for change in &packet.changes {
            match change {
                PacketChange::Replace { field, value }
                    if is_tcp && (field.is_of_tcp() || self.settings.family == IpFamily::V4) =>
                {
                    field.set(&mut bytes, *value);
                }
                PacketChange::Replace { .. } => {
                    let message = "changes are for TCP over IPv4".to_owned();
                    return Err(Stop::Unsupported(self.line, message));
                }
                PacketChange::Other(text) => {
                    let message = format!("the change `{text}` of a packet");
                    return Err(Stop::Unsupported(self.line, message));
                }
            }
        }
        Ok(bytes)
    }

    /// A SYN begins a connection if a listener was made last, or if the script names other ports.
    fn choose_flow(&mut self, packet: &PacketSpec) {
        if let Some((src, dst)) = packet.ports {
            let addresses = self.settings.addresses;
            let local = SocketAddrV4::new(addresses.local, dst);
            let remote = SocketAddrV4::new(addresses.remote, src);
            let same = |flow: &ScriptFlow| (flow.local, flow.remote) == (local, remote);
            match self.flows.iter().rposition(same) {
                Some(known) => self.current = known,
                None => self.begin_flow(local, remote),
            }
            return;
        }
        let is_syn = matches!(&packet.body, Body::Tcp(spec) if spec.flags & (SYN | ACK) == SYN);
        if is_syn && self.listens {
            let addresses = self.settings.addresses;
            let local = SocketAddrV4::new(addresses.local, self.settings.bind_port);
            let remote = SocketAddrV4::new(addresses.remote, self.take_port());
            self.begin_flow(local, remote);
        }
    }

    fn segment(&mut self, ip: IpSpec, spec: &TcpSpec) -> Result<Vec<u8>, String> {
        let mut data = zeros(spec.len as usize)?;
        FROM_SCRIPT.fill(stream_offset(spec.flags, spec.seq), &mut data);
        let flow = &mut self.flows[self.current];
        let live = flow.incoming(spec);
        build_tcp(ip, flow.remote, flow.local, &live, &data)
    }

    /// An ICMP error from the router about a packet of the stack: the packet that the script names, or the last one.
    fn icmp(&mut self, ip: IpSpec, spec: &IcmpSpec) -> Result<Vec<u8>, String> {
        let flow = &self.flows[self.current];
        let (local, remote) = (flow.local, flow.remote);
        let quoted = match spec.about {
            Some(Quoted::Tcp { seq, len }) => {
                let live = flow.sent_by_stack(seq);
                let mut data = zeros(len as usize)?;
                FROM_STACK.fill(stream_offset(0, seq), &mut data);
                Some(build_tcp(IpSpec::default(), local, remote, &live, &data)?)
            }
            Some(Quoted::Udp(len)) => {
                let data = zeros(len)?;
                Some(build_udp(IpSpec::default(), local, remote, &data)?)
            }
            None => self.last_sent.clone(),
        };
        let Some(quoted) = quoted else {
            let message = "this ICMP message needs a packet to quote: the stack has sent none";
            return Err(message.into());
        };
        let src = *remote.ip();
        let mtu = self.settings.as_ipv4_mtu(spec.mtu.unwrap_or(0));
        build_icmp(ip, src, *local.ip(), spec.kind, mtu, &quoted)
    }
}
