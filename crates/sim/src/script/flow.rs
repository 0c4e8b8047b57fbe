//! A connection as a script sees it: its addresses, and how the script's numbers become those on the wire.
//!
//! 1. Sequence numbers of a script are relative to the initial ones: the first byte of data is 1.
//! 2. A SYN's own number is the script's, unchanged. The script's SYN sets the remote initial number; the stack's SYN
//!    sets the local one, again after each new SYN that comes in, and for each new call of `connect`.
//! 3. A SYN in the middle of a connection sets no number, unless the stack answers with a SYN.
//! 4. A reset with sequence number 0 answers a segment without ACK (RFC 9293 3.10.7.1): that 0 is not relative.
//! 5. Before a number is known, the script's is the wire's.
//! 6. Timestamps: the script's value of a timestamp that the stack sent stands for the one on the wire.

use std::net::SocketAddrV4;

use super::options::{OptionsSpec, TcpOption};
use super::packet::TcpSeen;
use super::syntax::TcpSpec;

pub(super) const FIN: u16 = 0x01;
pub(super) const SYN: u16 = 0x02;
pub(super) const RST: u16 = 0x04;
pub(super) const PSH: u16 = 0x08;
pub(super) const ACK: u16 = 0x10;
pub(super) const URG: u16 = 0x20;

/// One connection, or the packets of one pair of ports.
#[derive(Debug, Clone)]
pub(super) struct ScriptFlow {
    /// The stack's end; port 0 until the stack has chosen one.
    pub(super) local: SocketAddrV4,
    /// The script's end.
    pub(super) remote: SocketAddrV4,
    local_isn: Option<u32>,
    remote_isn: Option<u32>,
    /// The number of a SYN that came while there was one already.
    newer_remote_isn: Option<u32>,
    /// The next SYN of the stack begins a connection.
    learns: bool,
    /// Timestamps of the stack: the script's and the wire's.
    timestamps: Vec<(u32, u32)>,
    /// Bytes that the program wrote.
    pub(super) written: u64,
    /// Bytes that the stack sent at least once.
    sent: u64,
    /// The sequence number behind all segments that the stack sent; the segment that it repeated last, and how often.
    sent_to: Option<u32>,
    repeated: Option<(u32, u32)>,
    /// The window scale that the stack offered, and whether the script's SYN has one.
    scale: u8,
    peer_scales: bool,
    /// The right edge that the stack announced last, and whether the segment before announced the same.
    edge: Option<u32>,
    holds_edge: bool,
}

impl ScriptFlow {
    pub(super) fn new(local: SocketAddrV4, remote: SocketAddrV4) -> Self {
        Self {
            local,
            remote,
            local_isn: None,
            remote_isn: None,
            newer_remote_isn: None,
            learns: true,
            timestamps: Vec::new(),
            written: 0,
            sent: 0,
            sent_to: None,
            repeated: None,
            scale: 0,
            peer_scales: false,
            edge: None,
            holds_edge: false,
        }
    }

    /// A segment of the script with the wire's numbers.
    pub(super) fn incoming(&mut self, spec: &TcpSpec) -> TcpSpec {
        let mut live = spec.clone();
        let local = self.local_isn.unwrap_or(0);
        if spec.flags & SYN != 0 {
            self.syn_comes(spec);
        } else {
            let remote = self.remote_isn.unwrap_or(0);
            live.seq = spec.seq.wrapping_add(remote);
        }
        // A segment whose acknowledgement number is left out acknowledges the initial one.
        if spec.flags & ACK != 0 {
            live.ack = Some(spec.ack.unwrap_or(0).wrapping_add(local));
        }
        if let OptionsSpec::These(options) = &mut live.options {
            for option in options {
                self.wire_option(option, local);
            }
        }
        live
    }

    fn syn_comes(&mut self, spec: &TcpSpec) {
        match self.remote_isn {
            None => self.remote_isn = Some(spec.seq),
            Some(_) => self.newer_remote_isn = Some(spec.seq),
        }
        if spec.flags & ACK == 0 {
            self.learns = true;
        }
        self.peer_scales = matches!(&spec.options, OptionsSpec::These(all) if scale(all).is_some());
    }

    fn wire_option(&self, option: &mut TcpOption, local: u32) {
        match option {
            TcpOption::Sack(blocks) => {
                for (left, right) in blocks {
                    *left = left.wrapping_add(local);
                    *right = right.wrapping_add(local);
                }
            }
            TcpOption::Timestamps(_, Some(ecr)) => *ecr = self.wire_timestamp(*ecr),
            _ => {}
        }
    }

    /// The wire's timestamp for the script's: the one that the stack sent, or, if it sent none with this value, one
    /// that is as far from the first as in the script.
    fn wire_timestamp(&self, script: u32) -> u32 {
        let known = self.timestamps.iter().rev().find(|(s, _)| *s == script);
        match (known, self.timestamps.first()) {
            (Some((_, wire)), _) => *wire,
            (None, Some((s, wire))) if script != 0 => wire.wrapping_add(script.wrapping_sub(*s)),
            _ => script,
        }
    }

    /// Takes note of a segment that the stack sends, and returns it with the script's numbers. Timestamp values are
    /// the script's as far as they can be known before the segment meets an expectation.
    pub(super) fn outgoing(&mut self, seen: &TcpSeen) -> TcpSpec {
        let is_syn = seen.flags & SYN != 0;
        if is_syn && std::mem::take(&mut self.learns) {
            self.local_isn = Some(seen.seq);
            self.timestamps.clear();
            self.sent = 0;
            (self.sent_to, self.repeated) = (None, None);
        }
        if is_syn && let Some(newer) = self.newer_remote_isn.take() {
            self.remote_isn = Some(newer);
        }
        let is_plain_reset = seen.flags & RST != 0 && seen.seq == 0;
        let local = match is_plain_reset {
            true => 0,
            false => self.local_isn.unwrap_or(0),
        };
        let remote = match self.newer_remote_isn {
            Some(newer) if seen.flags & RST != 0 => newer,
            _ => self.remote_isn.unwrap_or(0),
        };
        let mut options = seen.options.clone();
        for option in &mut options {
            match option {
                TcpOption::Sack(blocks) => {
                    for (left, right) in blocks {
                        *left = left.wrapping_sub(remote);
                        *right = right.wrapping_sub(remote);
                    }
                }
                TcpOption::Timestamps(Some(val), _) => *val = self.script_timestamp(*val),
                _ => {}
            }
        }
        let seq = seen.seq.wrapping_sub(local);
        let len = seen.data.len() as u32;
        // A keepalive probe may carry a byte from before the stream.
        let offset = stream_offset(seen.flags, seq);
        if len > 0 && offset <= u64::from(u32::MAX >> 1) {
            self.sent = self.sent.max(offset + u64::from(len));
        }
        self.note_edge(seen);
        self.count_repeats(seq, len + u32::from(seen.flags & (SYN | FIN) != 0));
        TcpSpec {
            flags: seen.flags,
            seq,
            any_seq: false,
            len,
            ack: (seen.flags & ACK != 0).then(|| seen.ack.wrapping_sub(remote)),
            win: Some(seen.win),
            urg: (seen.flags & URG != 0).then_some(seen.urg),
            options: OptionsSpec::These(options),
        }
    }

    fn note_edge(&mut self, seen: &TcpSeen) {
        let is_syn = seen.flags & SYN != 0;
        if is_syn {
            self.scale = scale(&seen.options).unwrap_or(0);
        }
        if seen.flags & (ACK | RST) == ACK {
            let shift = if is_syn { 0 } else { self.shift() };
            let edge = seen.ack.wrapping_add(u32::from(seen.win) << shift);
            self.holds_edge = self.edge.replace(edge) == Some(edge);
        }
    }

    /// How far the stack's windows are shifted (RFC 7323 2.2: if both ends offered it).
    fn shift(&self) -> u8 {
        if self.peer_scales { self.scale } else { 0 }
    }

    /// The window scale, if the last segment announces the same right edge as the one before.
    pub(super) fn held_edge(&self) -> Option<u8> {
        self.holds_edge.then(|| self.shift())
    }

    /// Notes whether the segment that the stack sends, of `len` sequence numbers, repeats an earlier one.
    fn count_repeats(&mut self, seq: u32, len: u32) {
        if len == 0 {
            return;
        }
        let end = seq.wrapping_add(len);
        let is_new = |to: u32| end.wrapping_sub(to).cast_signed() > 0;
        if self.sent_to.is_none_or(is_new) {
            (self.sent_to, self.repeated) = (Some(end), None);
            return;
        }
        let before = self.repeated.filter(|(again, _)| *again == seq);
        self.repeated = Some((seq, before.map_or(1, |(_, times)| times + 1)));
    }

    /// How often in a row the stack has repeated the segment that it sent last.
    pub(super) fn repeats(&self) -> u32 {
        self.repeated.map_or(0, |(_, times)| times)
    }

    /// Whether the program wrote more than the stack has sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.written
    }

    /// The next SYN that the stack sends begins a connection.
    pub(super) fn begins(&self) -> bool {
        self.learns
    }

    /// A segment that the stack has sent with this number, as an ICMP error quotes it.
    pub(super) fn sent_by_stack(&self, seq: u32) -> TcpSpec {
        TcpSpec {
            flags: ACK,
            seq: seq.wrapping_add(self.local_isn.unwrap_or(0)),
            any_seq: false,
            len: 0,
            ack: Some(self.remote_isn.unwrap_or(0)),
            win: None,
            urg: None,
            options: OptionsSpec::These(Vec::new()),
        }
    }

    fn script_timestamp(&self, wire: u32) -> u32 {
        match self.timestamps.first() {
            Some((s, w)) => s.wrapping_add(wire.wrapping_sub(*w)),
            None => wire,
        }
    }

    /// A segment with this timestamp met an expectation that calls it `script`.
    pub(super) fn timestamp_is(&mut self, script: u32, wire: u32) {
        self.timestamps.push((script, wire));
    }

    /// The difference in ticks between the script's timestamp and the one that the first timestamp makes expected.
    pub(super) fn timestamp_error(&self, script: u32, wire: u32) -> i32 {
        match self.timestamps.first() {
            Some((s, w)) => script
                .wrapping_sub(*s)
                .wrapping_sub(wire.wrapping_sub(*w))
                .cast_signed(),
            None => 0,
        }
    }
}

/// The window scale among the options.
fn scale(options: &[TcpOption]) -> Option<u8> {
    options.iter().find_map(|option| match option {
        TcpOption::WindowScale(shift) => Some(shift.unwrap_or(0).min(14)),
        _ => None,
    })
}

/// Where the data of a segment lies in its stream: the first byte is 0. A SYN takes one number before its data.
pub(super) fn stream_offset(flags: u16, seq: u32) -> u64 {
    let syn = u32::from(flags & SYN != 0);
    u64::from(seq.wrapping_add(syn).wrapping_sub(1))
}
