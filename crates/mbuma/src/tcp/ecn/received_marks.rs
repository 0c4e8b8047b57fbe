//! The receiver's half of AccECN: counts the marks that arrive, and reports them in the field ACE and in the option.
//!
//! Locks: none; part of the connection. Source: RFC 9768 section 3.2.

use wire::{AccEcnOption, TcpFlags};

use super::ace::{ECT_1, ace_of, code};
use super::{CAPABLE, CE};
use crate::config::AccEcnOptionUse;

/// The first value of the counters of packets, and of those of bytes.
pub(super) const PACKETS_FIRST: u32 = 5;
pub(super) const BYTES_FIRST: u64 = 1;

/// Bytes of an option with all counts, aligned.
const OPTION_LEN: u32 = 12;

/// CE marks since the last acknowledgement that make another one due: with data, and without (RFC 9768 3.2.2.5.1).
const UNTOLD_WITH_DATA: u32 = 2;
const UNTOLD_WITHOUT: u32 = 3;

/// The marks that arrived, and their reports.
#[derive(Debug)]
pub(crate) struct ReceivedMarks {
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
    option_use: AccEcnOptionUse,
}

impl ReceivedMarks {
    /// The state after the peer's SYN or SYN-ACK, which arrived with this mark.
    pub(super) fn new(is_client: bool, mark: u8, option_use: AccEcnOptionUse) -> Self {
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
            sends_options: option_use != AccEcnOptionUse::Off,
            doubts_options: false,
            option_use,
        }
    }

    /// Packets that arrived marked with congestion experienced.
    pub(crate) fn packets_ce(&self) -> u32 {
        self.received.wrapping_sub(PACKETS_FIRST)
    }

    /// Bytes that arrived here with these marks.
    pub(crate) fn bytes(&self) -> [u64; 3] {
        let [ect_0, ce, ect_1] = self.bytes;
        [ect_0 - BYTES_FIRST, ce, ect_1 - BYTES_FIRST]
    }

    /// The field of the next segment.
    pub(super) fn ace(&self) -> TcpFlags {
        ace_of(self.received)
    }

    /// The SYN of the peer arrived once more, with this mark.
    pub(super) fn on_syn_again(&mut self, mark: u8) {
        self.syn_code = code(mark);
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

    /// The bits of our SYN-ACK, which was sent `tries` times before.
    pub(super) fn syn_ack_code(&mut self, tries: u8) -> TcpFlags {
        self.doubts_options |= tries > 0;
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

    /// Bytes of the option that each segment has, aligned, or 0: they are reserved once the connection begins.
    pub(super) fn each_option_len(&self) -> u32 {
        match self.option_use {
            AccEcnOptionUse::Always => OPTION_LEN,
            AccEcnOptionUse::Off | AccEcnOptionUse::Changed => 0,
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
        self.option_use == AccEcnOptionUse::Always
    }

    fn is_option_due(&self) -> bool {
        self.sends_options && (self.options_due > 0 || self.sends_always())
    }

    /// The option with the counts that have ever changed, as far as they are first.
    fn changed_counts(&self) -> AccEcnOption {
        let [ect_0, ce, ect_1] = self.bytes.map(|count| count as u32);
        let [was_ect_0, _, was_ect_1] = self.bytes().map(|bytes| bytes > 0);
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
}
