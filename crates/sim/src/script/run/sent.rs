//! Takes the packets that the stack sent: finds the connection of each, and checks the bytes of its data.

use std::net::SocketAddrV4;

use super::super::FROM_STACK;
use super::super::flow::{SYN, ScriptFlow, stream_offset};
use super::super::packet::{SeenBody, SeenPacket};
use super::super::show;
use super::super::syntax::{Micros, TcpSpec};
use super::{Runner, Stop};

/// A packet that the stack sent and that no line has met.
pub(super) struct SentPacket {
    pub(super) at: Micros,
    pub(super) seen: SeenPacket,
    /// In the script's numbers, if it is a segment.
    pub(super) segment: Option<TcpSpec>,
    /// Its connection.
    pub(super) flow: Option<usize>,
    /// It is a SYN that begins a connection.
    pub(super) begins: bool,
    /// The socket has bytes that were never sent when the segment leaves.
    pub(super) more_waits: bool,
    /// Retransmissions in a row, this one included.
    pub(super) repeats: u32,
    /// It announces the right edge that was announced before: the window scale.
    pub(super) held_edge: Option<u8>,
}

impl Runner<'_> {
    /// Takes the packets that the stack sent.
    pub(super) fn collect(&mut self) -> Result<(), Stop> {
        self.count_written();
        for (at, packet) in self.host.take_sent() {
            let seen = packet.and_then(|packet| Ok((SeenPacket::parse(&packet)?, packet)));
            let (seen, packet) = seen.map_err(|why| {
                Stop::failed(
                    self.line,
                    "the stack sent a malformed packet",
                    "a good one".into(),
                    why,
                )
            })?;
            let flow = self.flow_of(&seen);
            let mut sent = SentPacket {
                at,
                seen,
                segment: None,
                flow,
                begins: false,
                more_waits: false,
                repeats: 0,
                held_edge: None,
            };
            if let (SeenBody::Tcp(tcp), Some(flow)) = (&sent.seen.body, flow) {
                sent.begins = tcp.flags & SYN != 0 && self.flows[flow].begins();
                sent.segment = Some(self.flows[flow].outgoing(tcp));
                sent.more_waits = self.flows[flow].has_unsent();
                sent.repeats = self.flows[flow].repeats();
                sent.held_edge = self.flows[flow].held_edge();
            }
            let text = show::seen(&sent.seen, sent.segment.as_ref());
            self.trace.push(format!("{} > {text}", self.clock(at)));
            self.is_written_data(&sent)?;
            self.note_sent(&sent);
            if flow == Some(self.current) {
                self.last_sent = Some(packet);
            }
            self.sent.push_back(sent);
        }
        Ok(())
    }

    /// Tells the sockets which bytes have left.
    fn note_sent(&mut self, sent: &SentPacket) {
        if let (Some(segment), Some(flow)) = (&sent.segment, sent.flow)
            && segment.len > 0
        {
            let flow = &self.flows[flow];
            let end = stream_offset(segment.flags, segment.seq) + u64::from(segment.len);
            let (local, remote) = (flow.local.port(), flow.remote.port());
            self.sockets.on_sent(local, remote, end, sent.at);
        }
    }

    /// Tells the connections how much their programs wrote.
    pub(super) fn count_written(&mut self) {
        for flow in &mut self.flows {
            let written = self.sockets.written(flow.local.port(), flow.remote.port());
            flow.written = written.unwrap_or(flow.written);
        }
    }

    /// The connection of a packet that the stack sent. It may be the first packet of a connection whose port the stack
    /// has chosen.
    fn flow_of(&mut self, seen: &SeenPacket) -> Option<usize> {
        let Some((local, remote)) = seen.ports() else {
            return Some(self.current);
        };
        let is_to =
            |flow: &ScriptFlow| *flow.remote.ip() == seen.dst && flow.remote.port() == remote;
        let known = |flow: &ScriptFlow| is_to(flow) && flow.local.port() == local;
        let open = |flow: &ScriptFlow| is_to(flow) && flow.local.port() == 0;
        let found = self.flows.iter().rposition(known);
        let found = found.or_else(|| self.flows.iter().rposition(open));
        if let Some(flow) = found {
            self.flows[flow].local = SocketAddrV4::new(seen.src, local);
        }
        found
    }

    /// The bytes of a segment are those that the program wrote.
    fn is_written_data(&self, sent: &SentPacket) -> Result<(), Stop> {
        let (SeenBody::Tcp(tcp), Some(segment)) = (&sent.seen.body, &sent.segment) else {
            return Ok(());
        };
        let offset = stream_offset(segment.flags, segment.seq);
        // A keepalive probe may carry a byte from before the stream.
        if offset > u64::from(u32::MAX >> 1) {
            return Ok(());
        }
        match FROM_STACK.mismatch(offset, &tcp.data) {
            None => Ok(()),
            Some(at) => Err(Stop::failed(
                self.line,
                "the stack sent other bytes than the program wrote",
                format!("the bytes from {offset} of the stream"),
                format!("another byte at {at} of the stream, in {segment}"),
            )),
        }
    }
}
