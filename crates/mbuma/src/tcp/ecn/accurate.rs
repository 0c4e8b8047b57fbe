//! AccECN: both ends count marked packets, and each reports its count to the other.
//!
//! ```text
//!   field ACE    AE CWR ECE: packets that arrived marked CE, modulo 8, from 5 on        in each segment
//!   option       bytes that arrived with each mark, modulo 2^24                         if one of them has changed, and there is room
//! ```
//!
//! Instead of the counter, the SYN-ACK has the mark of the SYN's IP header, and the first acknowledgement has that of
//! the SYN-ACK:
//!
//! | mark | AE CWR ECE |
//! |---|---|
//! | none | 010 |
//! | ECT(1) | 011 |
//! | ECT(0) | 100 |
//! | CE | 110 |
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

use super::{ACCURATE_TRIES, ACE, AccEcnChoices, CAPABLE, CE};
use crate::config::AccEcnOptionUse;

/// ECN-capable transport of a sender of another kind (RFC 9331).
const ECT_1: u8 = 0b01;

/// The first value of the counters of packets, and of those of bytes.
const PACKETS_FIRST: u32 = 5;
const BYTES_FIRST: u64 = 1;

/// Bytes of an option with all counts, aligned.
const OPTION_LEN: u32 = 12;

/// CE marks since the last acknowledgement that make another one due: with data, and without (RFC 9768 3.2.2.5.1).
const UNTOLD_WITH_DATA: u32 = 2;
const UNTOLD_WITHOUT: u32 = 3;

/// Rounds in which each packet was marked, after which the path counts as broken (RFC 9768 3.2.2.3).
const ROUNDS_MARKED_MAX: u8 = 4;

/// The code of a mark that arrived with a SYN or a SYN-ACK.
const fn code(mark: u8) -> TcpFlags {
    match mark {
        ECT_1 => TcpFlags::CWR.union(TcpFlags::ECE),
        CAPABLE => TcpFlags::AE,
        CE => TcpFlags::AE.union(TcpFlags::CWR),
        _ => TcpFlags::CWR,
    }
}

/// A count as the field ACE.
fn ace_of(packets: u32) -> TcpFlags {
    [TcpFlags::ECE, TcpFlags::CWR, TcpFlags::AE]
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| packets >> bit & 1 == 1)
        .map(|(_, flag)| flag)
        .collect()
}

/// The field ACE as a number.
fn ace_in(flags: TcpFlags) -> u32 {
    u32::from(flags.contains(TcpFlags::ECE))
        | u32::from(flags.contains(TcpFlags::CWR)) << 1
        | u32::from(flags.contains(TcpFlags::AE)) << 2
}

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
    /// Packets and bytes that arrived marked: CE; ECT(0), CE and ECT(1).
    received: u32,
    bytes: [u64; 3],
    /// The mark of the peer's latest SYN or SYN-ACK, as a code; and whether the next acknowledgement must report it.
    syn_code: TcpFlags,
    tells_code: bool,
    /// `received` has a SYN-ACK that was marked CE.
    counted_syn_ack: bool,
    /// The last packet was marked CE; and the number of such packets that are not reported yet.
    last_was_ce: bool,
    untold: u32,
    /// Segments that still must carry the option; none if the path drops it.
    options_due: u8,
    sends_options: bool,
    /// Our SYN-ACK is sent again: it was lost, perhaps because of the option.
    doubts_options: bool,
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
    choices: AccEcnChoices,
}

impl AccurateEcn {
    /// The state after the peer's SYN or SYN-ACK with these flags, which arrived with this mark.
    pub(super) fn new(syn: TcpFlags, mark: u8, choices: AccEcnChoices) -> Self {
        let is_client = syn.contains(TcpFlags::ACK);
        let marked = is_client && mark == CE;
        Self {
            received: PACKETS_FIRST + u32::from(marked),
            bytes: [BYTES_FIRST, 0, BYTES_FIRST],
            syn_code: code(mark),
            tells_code: is_client,
            counted_syn_ack: marked,
            last_was_ce: false,
            untold: 0,
            // The SYN-ACK or the first acknowledgement, and the segment after it (RFC 9768 3.2.3.2.1).
            options_due: 2,
            sends_options: choices.option != AccEcnOptionUse::Off,
            doubts_options: false,
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
            choices,
        }
    }

    /// The bits of ECN in the IP header of new data.
    pub(super) fn capable(&self) -> u8 {
        if self.is_capable { CAPABLE } else { 0 }
    }

    /// The same of a segment without new data.
    pub(super) fn control_capable(&self) -> u8 {
        match self.choices.control_packets {
            true => self.capable(),
            false => 0,
        }
    }

    /// Bytes of the option that each segment has, aligned, or 0: they are reserved once the connection begins.
    pub(super) fn each_option_len(&self) -> u32 {
        match self.choices.option {
            AccEcnOptionUse::Always => OPTION_LEN,
            AccEcnOptionUse::Off | AccEcnOptionUse::Changed => 0,
        }
    }

    /// Whether our data is ECN-capable; false if the path changes the bits.
    pub(crate) fn is_capable(&self) -> bool {
        self.is_capable
    }

    /// Packets that arrived marked with congestion experienced.
    pub(crate) fn received_ce(&self) -> u32 {
        self.received.wrapping_sub(PACKETS_FIRST)
    }

    /// The same count of our packets, according to the peer.
    pub(crate) fn delivered_ce(&self) -> u32 {
        self.delivered_ce
    }

    /// Bytes of ours that arrived marked ECT(0), CE and ECT(1), according to the peer's options.
    pub(crate) fn delivered_bytes(&self) -> [u64; 3] {
        self.delivered
    }

    /// Bytes that arrived here with these marks.
    pub(crate) fn received_bytes(&self) -> [u64; 3] {
        let [ect_0, ce, ect_1] = self.bytes;
        [ect_0 - BYTES_FIRST, ce, ect_1 - BYTES_FIRST]
    }

    /// The field of the next segment.
    pub(super) fn ace(&self) -> TcpFlags {
        ace_of(self.received)
    }

    /// Whether the field differs from the last count.
    pub(super) fn is_news(&self, flags: TcpFlags) -> bool {
        ace_in(flags) != self.reported
    }

    /// The SYN of the peer arrived once more, with these bits of ACE and this mark. A server's data must not be
    /// ECN-capable if one of the SYNs had no bits (RFC 9768 3.1.5): the client may not know that we count.
    pub(super) fn on_syn_again(&mut self, bits: TcpFlags, mark: u8) {
        self.syn_code = code(mark);
        self.is_capable &= !bits.is_empty();
        self.doubts_options = true;
    }

    /// The SYN-ACK of the peer arrived once more, which may have lost our acknowledgement: the next one has the code
    /// again, with or without bits in the SYN-ACK, because its sender reads a code until it is established. One CE mark
    /// of SYN-ACKs counts (RFC 9768 3.2.2.1, 3.2.2.2).
    pub(super) fn on_syn_ack_again(&mut self, mark: u8) {
        self.syn_code = code(mark);
        self.tells_code = true;
        if mark == CE && !std::mem::replace(&mut self.counted_syn_ack, true) {
            self.received = self.received.wrapping_add(1);
        }
    }

    /// The bits of our SYN-ACK, which was sent `tries` times before. The path may drop SYN-ACKs for their bits, so a
    /// later one has none: the client may take us for a host without ECN, but our feedback continues (RFC 9768 3.1.5,
    /// 3.2.3.2.2).
    pub(super) fn answer(&mut self, tries: u8) -> TcpFlags {
        self.doubts_options |= tries > 0;
        if tries > ACCURATE_TRIES {
            self.is_capable = false;
            return TcpFlags::empty();
        }
        self.syn_code
    }

    /// The bits of another segment; `is_pure`: it has neither data nor SACK blocks.
    pub(super) fn on_send(&mut self, is_pure: bool) -> TcpFlags {
        self.untold = 0;
        match std::mem::take(&mut self.tells_code) && is_pure {
            true => self.syn_code,
            false => self.ace(),
        }
    }

    /// The option of a SYN-ACK with so much room; a repeated one has none (RFC 9768 3.2.3.2.2).
    pub(super) fn syn_ack_option(&mut self, room: usize) -> Option<AccEcnOption> {
        match self.doubts_options {
            true => None,
            false => self.option(room),
        }
    }

    /// The option of a segment with so much room, if it is due.
    pub(super) fn option(&mut self, room: usize) -> Option<AccEcnOption> {
        if !self.is_option_due() {
            return None;
        }
        let option = match self.sends_always() && room >= OPTION_LEN as usize {
            true => AccEcnOption::new(self.bytes.map(|count| count as u32), 3, false),
            false => self.changed_counts(),
        };
        let fits = option.emitted_len() <= room;
        self.options_due = self.options_due.saturating_sub(u8::from(fits));
        fits.then_some(option)
    }

    /// Bytes that the next segment's option needs at least, or 0.
    pub(super) fn option_due_len(&self) -> usize {
        match self.is_option_due() {
            true => self.changed_counts().emitted_len(),
            false => 0,
        }
    }

    fn sends_always(&self) -> bool {
        self.choices.option == AccEcnOptionUse::Always
    }

    fn is_option_due(&self) -> bool {
        self.sends_options && (self.options_due > 0 || self.sends_always())
    }

    /// The option with the counts that have ever changed, as far as they are first.
    fn changed_counts(&self) -> AccEcnOption {
        let [ect_0, ce, ect_1] = self.bytes.map(|count| count as u32);
        let [was_ect_0, _, was_ect_1] = self.received_bytes().map(|bytes| bytes > 0);
        match (was_ect_0, was_ect_1) {
            (true, false) => AccEcnOption::new([ect_0, ce, 0], 2, false),
            (false, true) => AccEcnOption::new([ect_1, ce, 0], 2, true),
            _ => AccEcnOption::new([ect_0, ce, ect_1], 3, false),
        }
    }

    /// A segment seems to have been dropped because of the option.
    pub(super) fn leave_option_out(&mut self) {
        self.sends_options = false;
    }

    /// The peer sent data again. If a SYN-ACK was lost before, the path seems to drop our segments with the option
    /// (RFC 9768 3.2.3.2.2).
    pub(super) fn on_repeated_data(&mut self) {
        self.sends_options &= !self.doubts_options;
    }

    /// Packets arrived. True if an acknowledgement must report their marks at once.
    pub(super) fn on_packets(&mut self, mark: u8, packets: u32, len: u32) -> bool {
        let [ect_0, ce, ect_1] = &mut self.bytes;
        let count = match mark {
            CAPABLE => Some(ect_0),
            CE => Some(ce),
            ECT_1 => Some(ect_1),
            _ => None,
        };
        if let (Some(count), true) = (count, len > 0) {
            *count += u64::from(len);
            self.options_due = self.options_due.max(1);
        }
        let was_ce = std::mem::replace(&mut self.last_was_ce, mark == CE);
        let began = mark == CE && !was_ce;
        if mark == CE {
            self.received = self.received.wrapping_add(packets);
            self.untold = self.untold.saturating_add(packets);
        }
        let untold_max = if len > 0 {
            UNTOLD_WITH_DATA
        } else {
            UNTOLD_WITHOUT
        };
        (began && len > 0) || (mark == CE && self.untold >= untold_max)
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
        let mangled = [0, ECT_1, CAPABLE, CE]
            .into_iter()
            .any(|mark| mark != 0 && code(mark) == code_in);
        self.is_capable &= !mangled && !code_in.is_empty();
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

/// Whether the code of a SYN-ACK shows that our SYN arrived unchanged, or has no information (RFC 9768 3.1.3).
fn is_unmarked(syn_ack: TcpFlags) -> bool {
    let code_in = syn_ack & ACE;
    ![ECT_1, CAPABLE, CE]
        .iter()
        .any(|mark| code(*mark) == code_in)
}

/// The number that is `least` modulo 8 and nearest to `about`, and not less than `least`.
fn nearest_turn(least: u32, about: u32) -> u32 {
    let turns = (about + 4).saturating_sub(least) / 8;
    least + turns * 8
}

#[cfg(all(test, not(shuttle)))]
mod tests;
