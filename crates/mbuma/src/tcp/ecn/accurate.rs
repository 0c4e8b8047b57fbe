//! AccECN: both ends count marked packets, and each reports its count to the other.
//!
//! ```text
//!   field ACE    AE CWR ECE: packets that arrived marked CE, modulo 8, from 5 on        in each segment
//!   option       bytes that arrived with each mark, modulo 2^24                         if one of them has changed, and there is room
//! ```
//!
//! Instead of the counter, the handshake has the [code](super::ace) of a mark.
//!
//! Our SYNs and SYN-ACKs have no mark. If one arrives with a mark, or a counter begins at 0, or the two counts
//! contradict each other, the path changes the bits: from then on our data is not ECN-capable, while we continue the
//! feedback (RFC 9768 3.2.2.3, 3.2.2.4, 3.2.3.2.5).
//!
//! In an acknowledgement of eight packets or more the counter may have wrapped. The option shows that; without it the
//! largest count that fits is assumed if this acknowledgement or the previous one reported marks (RFC 9768 3.2.2.5.2).
//!
//! Locks: none; part of the connection. Source: RFC 9768 section 3.2.

use wire::{AccEcnOption, SeqNum, TcpFlags};

use super::ace::{ace_in, code, is_unmarked};
use super::received_marks::{BYTES_FIRST, PACKETS_FIRST, ReceivedMarks};
use super::{ACCURATE_TRIES, ACE, AccEcnChoices, CAPABLE, CE};

/// Rounds in which each packet was marked, after which the path counts as broken (RFC 9768 3.2.2.3).
const ROUNDS_MARKED_MAX: u8 = 4;

/// The ECN part of an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EcnReport {
    pub(crate) flags: TcpFlags,
    pub(crate) ack: SeqNum,
    /// Packets that it newly acknowledges, approximately.
    pub(crate) packets: u32,
    /// Bytes of a full segment.
    pub(crate) mss: u32,
    /// It has neither data nor SACK blocks.
    pub(crate) is_pure: bool,
    /// It is not older than an acknowledgement that was handled before.
    pub(crate) is_newer: bool,
    pub(crate) option: Option<AccEcnOption>,
}

/// The marks that an acknowledgement newly reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MarkCount {
    /// The window must be reduced for them.
    pub(crate) due: bool,
    /// Payload bytes of the marked packets; 0 if unknown.
    pub(crate) bytes: u32,
}

/// The meaning of ACE in the first acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AceStage {
    /// It has the code of our SYN-ACK's mark, if it is pure.
    SynAckCode,
    /// It has the first value of the counter.
    FirstCount,
    /// It was seen.
    Counting,
}

/// The state of one connection that has agreed on it.
#[derive(Debug)]
pub(crate) struct AccurateEcn {
    /// The peer's packets; the rest is about ours.
    pub(in crate::tcp) received: ReceivedMarks,
    /// Packets of ours that arrived marked CE according to the peer, and the last field ACE that reported them.
    delivered_ce: u32,
    reported: u32,
    /// The same of bytes of each mark, and the last counts.
    delivered: [u64; 3],
    reported_bytes: [u32; 3],
    /// The previous acknowledgement reported marks.
    reported_last: bool,
    /// The peer's options are used.
    trusts_options: bool,
    stage: AceStage,
    /// Our data is ECN-capable.
    is_capable: bool,
    /// Marks are ignored: each packet of the first rounds had one.
    ignores_marks: bool,
    rounds_marked: u8,
    /// Acknowledged packets, counted until it is known whether each is marked.
    acked: u32,
    /// Segments without new data are ECN-capable too.
    control_packets: bool,
}

impl AccurateEcn {
    /// The state after the peer's SYN or SYN-ACK with these flags, which arrived with this mark.
    pub(super) fn new(syn: TcpFlags, mark: u8, choices: AccEcnChoices) -> Self {
        let is_client = syn.contains(TcpFlags::ACK);
        Self {
            received: ReceivedMarks::new(is_client, mark, choices.option),
            delivered_ce: 0,
            reported: PACKETS_FIRST,
            delivered: [0; 3],
            reported_bytes: [BYTES_FIRST as u32, 0, BYTES_FIRST as u32],
            reported_last: false,
            trusts_options: true,
            stage: match is_client {
                true => AceStage::FirstCount,
                false => AceStage::SynAckCode,
            },
            is_capable: !is_client || is_unmarked(syn),
            ignores_marks: false,
            rounds_marked: 0,
            acked: 0,
            control_packets: choices.control_packets,
        }
    }

    /// The bits of ECN in the IP header of new data.
    pub(super) fn capable(&self) -> u8 {
        if self.is_capable { CAPABLE } else { 0 }
    }

    /// The same of a segment without new data.
    pub(super) fn control_capable(&self) -> u8 {
        match self.control_packets {
            true => self.capable(),
            false => 0,
        }
    }

    /// Whether our data is ECN-capable; false if the path changes the bits.
    pub(crate) fn is_capable(&self) -> bool {
        self.is_capable
    }

    /// Packets of ours that arrived marked CE, according to the peer.
    pub(crate) fn delivered_ce(&self) -> u32 {
        self.delivered_ce
    }

    /// Bytes of ours that arrived marked ECT(0), CE and ECT(1), according to the peer's options.
    pub(crate) fn delivered_bytes(&self) -> [u64; 3] {
        self.delivered
    }

    /// Whether the field differs from the last count.
    pub(super) fn is_news(&self, flags: TcpFlags) -> bool {
        ace_in(flags) != self.reported
    }

    /// The SYN of the peer arrived once more, with these bits of ACE and this mark. A server's data must not be
    /// ECN-capable if one of the SYNs had no bits (RFC 9768 3.1.5): the client may not know that we count.
    pub(super) fn on_syn_again(&mut self, bits: TcpFlags, mark: u8) {
        self.received.on_syn_again(mark);
        self.is_capable &= !bits.is_empty();
    }

    /// The bits of our SYN-ACK, which was sent `tries` times before. The path may drop SYN-ACKs for their bits, so a
    /// later one has none: the client may take us for a host without ECN, but our feedback continues (RFC 9768 3.1.5,
    /// 3.2.3.2.2).
    pub(super) fn answer(&mut self, tries: u8) -> TcpFlags {
        let code = self.received.syn_ack_code(tries);
        if tries > ACCURATE_TRIES {
            self.is_capable = false;
            return TcpFlags::empty();
        }
        code
    }

    /// Takes the feedback of an acknowledgement.
    pub(super) fn on_ack(&mut self, report: &EcnReport) -> MarkCount {
        if report.flags.contains(TcpFlags::SYN) {
            // Our SYN arrived marked (RFC 9768 3.2.2.2): it is not counted, and is a sign of congestion.
            return MarkCount {
                due: report.flags & ACE == code(CE),
                bytes: 0,
            };
        }
        if !report.is_newer {
            return MarkCount::default();
        }
        let first = std::mem::replace(&mut self.stage, AceStage::Counting);
        let ace = ace_in(report.flags);
        if first == AceStage::SynAckCode && report.is_pure {
            self.on_syn_ack_code(report.flags & ACE);
        } else if first != AceStage::Counting && ace == 0 {
            // A counter that begins at 5 does not begin at 0 (RFC 9768 3.2.2.4): the marks that it counts are none.
            self.is_capable = false;
            (self.reported, self.ignores_marks) = (0, true);
            return MarkCount::default();
        }
        if let (true, Some(option)) = (first != AceStage::Counting, report.option) {
            // Nor do these (RFC 9768 3.2.3.2.4).
            let zeroed = |count: Option<u32>| count == Some(0);
            self.trusts_options &= !zeroed(option.ect0()) && !zeroed(option.ect1());
        }
        if first == AceStage::SynAckCode && report.is_pure {
            return MarkCount {
                due: self.delivered_ce > 0,
                bytes: 0,
            };
        }
        self.acked = self.acked.saturating_add(report.packets);
        self.count(ace, report)
    }

    fn count(&mut self, ace: u32, report: &EcnReport) -> MarkCount {
        let least = ace.wrapping_sub(self.reported) & 7;
        let told = report.option.filter(|_| self.trusts_options);
        let [_, bytes, _] = told.map_or([None; 3], |option| self.on_option(&option));
        let packets = match bytes {
            Some(bytes) => {
                // Marked bytes without marked packets: the path changes one of the counts (RFC 9768 3.2.3.2.5).
                self.is_capable &= bytes == 0 || least > 0 || report.packets >= 8;
                nearest_turn(least, bytes.div_ceil(report.mss.max(1)))
            }
            None if report.packets >= 8 && (least > 0 || self.reported_last) => {
                report.packets - (report.packets.wrapping_sub(least) & 7)
            }
            None => least,
        };
        self.reported = ace;
        // A counter that was zeroed counts nothing (RFC 9768 table 4).
        let packets = if self.ignores_marks { 0 } else { packets };
        self.delivered_ce = self.delivered_ce.saturating_add(packets);
        self.reported_last = packets > 0;
        let any = packets > 0 || bytes.is_some_and(|bytes| bytes > 0);
        MarkCount {
            due: any && !self.ignores_marks,
            bytes: bytes.unwrap_or(packets.saturating_mul(report.mss)),
        }
    }

    /// Takes the counts of an option. Returns how many bytes of each mark are new, where they are told.
    fn on_option(&mut self, option: &AccEcnOption) -> [Option<u32>; 3] {
        let mut counts = [option.ect0(), option.ce(), option.ect1()];
        let kept = self.reported_bytes.iter_mut().zip(&mut self.delivered);
        for (count, (reported, delivered)) in counts.iter_mut().zip(kept) {
            let Some(count) = count else {
                continue;
            };
            let told = std::mem::replace(reported, *count);
            *count = count.wrapping_sub(told) & (AccEcnOption::MODULUS - 1);
            *delivered += u64::from(*count);
        }
        counts
    }

    /// The first acknowledgement says how our SYN-ACK arrived (RFC 9768 table 4).
    fn on_syn_ack_code(&mut self, code_in: TcpFlags) {
        self.is_capable &= is_unmarked(code_in) && !code_in.is_empty();
        if code_in.is_empty() {
            // The client is in another mode, or the path clears the field: it reports nothing.
            (self.reported, self.ignores_marks) = (0, true);
        } else if code_in == code(CE) {
            (self.reported, self.delivered_ce) = (PACKETS_FIRST + 1, 1);
        }
    }

    /// Whether the window should be reduced for marks. False if each packet was marked since the connection began, for
    /// several rounds.
    pub(super) fn on_round_marked(&mut self) -> bool {
        self.rounds_marked = self.rounds_marked.saturating_add(1);
        let all = self.delivered_ce >= self.acked && self.acked > 0;
        if all && self.rounds_marked >= ROUNDS_MARKED_MAX {
            (self.is_capable, self.ignores_marks) = (false, true);
        }
        !self.ignores_marks
    }
}

/// The number that is `least` modulo 8 and nearest to `about`, and not less than `least`.
fn nearest_turn(least: u32, about: u32) -> u32 {
    let turns = (about + 4).saturating_sub(least) / 8;
    least + turns * 8
}

#[cfg(all(test, not(shuttle)))]
mod tests;
