//! Packets that a script expects.

use super::{Runner, SentPacket, Stop};
use crate::script::dialect::Dialect;
use crate::script::expect::{Leeway, Meeting, compare};
use crate::script::flow::{RST, SYN};
use crate::script::options::{OptionsSpec, TcpOption};
use crate::script::packet::SeenBody;
use crate::script::show;
use crate::script::syntax::{Body, Micros, PacketChange, PacketSpec, TIME_MAX, TcpSpec};

impl Runner<'_> {
    /// Waits for the packet. `is_wildcard`: at any time.
    pub(super) fn expect(
        &mut self,
        packet: &PacketSpec,
        from: Micros,
        to: Micros,
        is_wildcard: bool,
    ) -> Result<(), Stop> {
        self.note_changes(packet)?;
        let until = to + self.settings.tolerance;
        let mut want = packet.clone();
        loop {
            let Some(sent) = self.next_sent(&want, until)? else {
                let got = format!("no packet until {}", self.clock(until));
                let message = "the stack did not send this";
                return Err(Stop::failed(self.line, message, want.to_string(), got));
            };
            match self.meet(&want, &sent)? {
                None => return self.is_in_time(packet, &sent, from, to, is_wildcard),
                Some(rest) => want.body = Body::Tcp(rest),
            }
        }
    }

    /// Random changes are for packets that come in, and so have no effect here. A change of one field is not compared.
    fn note_changes(&mut self, packet: &PacketSpec) -> Result<(), Stop> {
        for change in &packet.changes {
            let PacketChange::Other(text) = change else {
                let message = "fields of a packet that the stack sends".to_owned();
                return Err(Stop::Unsupported(self.line, message));
            };
            let line = self.line;
            self.notes.push(format!(
                "line {line}: `{text}` has no effect on a packet that the stack sends"
            ));
        }
        Ok(())
    }

    /// The oldest packet of the script's connection that no line has met.
    fn next_sent(&mut self, want: &PacketSpec, until: Micros) -> Result<Option<SentPacket>, Stop> {
        loop {
            self.collect()?;
            while let Some(sent) = self.sent.pop_front() {
                if self.counts(want, &sent) {
                    return Ok(Some(sent));
                }
            }
            if !self.step(until)? {
                // The step may have sent the packets of the call before.
                self.collect()?;
                if self.sent.is_empty() {
                    self.host.run_until(until);
                    return Ok(None);
                }
            }
        }
    }

    /// Whether a packet is one of the connection that the line is about.
    fn counts(&mut self, want: &PacketSpec, sent: &SentPacket) -> bool {
        match (want.ports, sent.flow) {
            (Some(ports), Some(flow)) => {
                let found = sent.seen.ports() == Some(ports);
                if found {
                    self.current = flow;
                }
                found
            }
            (_, Some(flow)) => flow == self.current,
            (_, None) => false,
        }
    }

    /// The packet is the line's, or its beginning: then returns the rest.
    fn meet(&mut self, want: &PacketSpec, sent: &SentPacket) -> Result<Option<TcpSpec>, Stop> {
        self.is_timestamp(want, sent)?;
        let want = &self.with_relative_ack(want, sent);
        let leeway = Leeway {
            number: sent.begins,
            push: sent.more_waits && self.dialect == Dialect::Linux,
            order: !self.settings.strict_options,
            window: self.held_window(sent),
            crossed_fin: self.sockets.tunables.rounds_buffers,
        };
        match compare(want, &sent.seen, sent.segment.as_ref(), leeway) {
            Meeting::Whole => Ok(None),
            Meeting::Part(rest) => Ok(Some(rest)),
            Meeting::Differs(wrong) => {
                let message = format!("the stack sent something else: {}", wrong.join("; "));
                let got = show::seen(&sent.seen, sent.segment.as_ref());
                Err(Stop::failed(self.line, &message, want.to_string(), got))
            }
        }
    }

    /// How much less than FreeBSD the stack may announce, in the units of the window field: less than a segment, if it
    /// holds its right edge; else one, because FreeBSD rounds a scaled window up.
    fn held_window(&self, sent: &SentPacket) -> u16 {
        match sent.held_edge {
            _ if !self.sockets.tunables.rounds_buffers => 0,
            Some(shift) => {
                let less = self.settings.mss().saturating_sub(1) >> shift;
                u16::try_from(less).unwrap_or(0).max(1)
            }
            None => 1,
        }
    }

    /// FreeBSD's dialect counts the acknowledgement number of a SYN-ACK and of a reset from 0, not from the peer's
    /// initial number.
    fn with_relative_ack(&self, want: &PacketSpec, sent: &SentPacket) -> PacketSpec {
        let mut want = want.clone();
        if let (Body::Tcp(spec), SeenBody::Tcp(tcp), Some(segment)) =
            (&mut want.body, &sent.seen.body, &sent.segment)
            && self.dialect == Dialect::Bsd
            && tcp.flags & (SYN | RST) != 0
            && spec.ack.is_some()
            && spec.ack == Some(tcp.ack)
        {
            spec.ack = segment.ack;
        }
        want
    }

    /// Takes note of which of the script's timestamps stands for which of the stack's; checks how far they are apart,
    /// if the script says how long a tick is.
    fn is_timestamp(&mut self, want: &PacketSpec, sent: &SentPacket) -> Result<(), Stop> {
        let (Body::Tcp(spec), SeenBody::Tcp(tcp), Some(flow)) =
            (&want.body, &sent.seen.body, sent.flow)
        else {
            return Ok(());
        };
        let OptionsSpec::These(options) = &spec.options else {
            return Ok(());
        };
        let value = |all: &[TcpOption]| {
            all.iter().find_map(|option| match option {
                TcpOption::Timestamps(val, _) => *val,
                _ => None,
            })
        };
        let (Some(script), Some(wire)) = (value(options), value(&tcp.options)) else {
            return Ok(());
        };
        let flow = &mut self.flows[flow];
        let ticks = flow.timestamp_error(script, wire);
        flow.timestamp_is(script, wire);
        let Some(tick) = self.settings.timestamp_tick else {
            return Ok(());
        };
        let error = Micros::from(ticks).abs().saturating_mul(tick);
        if error <= self.settings.tolerance + tick {
            return Ok(());
        }
        let got = format!("TS val {}", i64::from(script) - i64::from(ticks));
        let message = "the timestamp is another";
        Err(Stop::failed(
            self.line,
            message,
            format!("TS val {script}"),
            got,
        ))
    }

    fn is_in_time(
        &self,
        packet: &PacketSpec,
        sent: &SentPacket,
        from: Micros,
        to: Micros,
        is_wildcard: bool,
    ) -> Result<(), Stop> {
        let tolerance = self.settings.tolerance;
        let slop = self.slop.saturating_mul(sent.repeats.into()).min(TIME_MAX);
        let early = tolerance + slop;
        if is_wildcard || (from - early..=to + tolerance).contains(&sent.at) {
            return Ok(());
        }
        let wanted = match from == to {
            true => format!("{packet} at {}", self.clock(from)),
            false => format!("{packet} at {} to {}", self.clock(from), self.clock(to)),
        };
        let got = format!("it at {}", self.clock(sent.at));
        Err(Stop::failed(
            self.line,
            "the packet came at another time",
            wanted,
            got,
        ))
    }
}
