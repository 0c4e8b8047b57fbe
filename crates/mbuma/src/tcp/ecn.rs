//! Explicit congestion notification: the agreement, the receiver's half, and the sender's bits, as a value.
//!
//! ```text
//!   client                                   server
//!   SYN  ECE CWR  ----------------------->             offered
//!                 <-----------------------   SYN-ACK ECE   agreed on
//!   data, ECT(0) -- router marks: CE ----->  echo: ECE on all that is sent ...
//!                 <----------------------- ECE
//!   data, CWR  --------------------------->             ... until CWR
//! ```
//!
//! A retransmitted SYN has no ECN bits, because a middlebox may have dropped the first one for them (RFC 3168 6.1.1.1).
//! A SYN-ACK with both bits comes from a host that reflects unknown bits.
//!
//! The sender reacts to an echo once in a window: it reduces its window and sends CWR with the next new data. Until the
//! receiver acknowledges bytes of that data, further echoes belong to the same window. [`recovery`](super::recovery)
//! reduces the window; [`cc`](super::cc) decides by how much (RFC 8511). After a loss the sender also reduces the
//! window and sends CWR (RFC 3168 6.1.2).
//!
//! With AccECN (RFC 9768) the three flags are a counter instead of an echo ([`accurate`]). AE, CWR and ECE together
//! offer it; a server that knows only RFC 3168 answers with ECE, and both ends use that. The first SYN or SYN-ACK that
//! an end receives decides the [feedback mode](FeedbackMode) of that end, and later ones do not change it (RFC 9768
//! 3.1.5).
//!
//! Only new data is ECN-capable: not SYNs, retransmissions, probes or segments without data (RFC 3168 6.1.1, 6.1.4 to
//! 6.1.6). With AccECN, whose counters include packets without data, a program may choose that all but SYNs and
//! resets are ([`TcpConfig::ecn_control_packets`]).
//!
//! Locks: none; part of the connection. Sources: RFC 3168 section 6.1, RFC 9768 section 3.1,
//! draft-ietf-tcpm-generalized-ecn.

use wire::{AccEcnOption, SeqNum, TcpFlags};

pub(crate) use self::accurate::{AccurateEcn, EcnReport, MarkCount};
pub(crate) use self::failed_offers::FailedOffers;
use self::feedback_mode::FeedbackMode;
pub(crate) use self::feedback_mode::offer_of_cookie;
use crate::config::{AccEcnOptionUse, EcnMode, TcpConfig};

mod accurate;
mod ace;
mod failed_offers;
mod feedback_mode;
mod received_marks;

/// The bits that offer ECN.
const OFFER: TcpFlags = TcpFlags::ECE.union(TcpFlags::CWR);

/// The bits that offer AccECN; after the handshake they are the field ACE.
const ACE: TcpFlags = OFFER.union(TcpFlags::AE);

/// Retransmissions of a SYN or SYN-ACK that still have the bits of AccECN (RFC 9768 3.1.4.1, 3.2.3.2.2).
const ACCURATE_TRIES: u8 = 1;

/// The choices of a stack about AccECN.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AccEcnChoices {
    /// When segments carry the option.
    pub(crate) option: AccEcnOptionUse,
    /// Segments without new data are ECN-capable too.
    pub(crate) control_packets: bool,
}

impl AccEcnChoices {
    pub(crate) fn of(config: &TcpConfig) -> Self {
        Self {
            option: config.accecn_option,
            control_packets: config.ecn_control_packets,
        }
    }
}

/// The part of it that a connection keeps.
#[derive(Debug)]
pub(crate) struct Ecn {
    feedback: FeedbackMode,
    /// An offer of AccECN was repeated without its bits.
    sent_bare_syn: bool,
    /// A mark arrived, and the sender has not confirmed it by CWR.
    echo: bool,
    /// The state of our reaction to an echo.
    answer: EcnAnswer,
    /// The sequence number of the data that had CWR.
    answer_at: SeqNum,
    /// The counters of [`FeedbackMode::Accurate`].
    accurate: Option<Box<AccurateEcn>>,
}

const _: () = assert!(size_of::<Ecn>() <= 16, "an idle connection has one");

/// Whether we, as the sender, have announced a smaller window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EcnAnswer {
    /// There is nothing to announce.
    None,
    /// The window is smaller; the next new data will have CWR.
    Due,
    /// The data that begins at `answer_at` had CWR.
    Sent,
}

/// ECN-capable transport: the two low bits of an IP header's traffic class (RFC 3168 5).
#[doc(alias = "ECT(0)")]
pub(crate) const CAPABLE: u8 = 0b10;

/// Congestion experienced, in the same bits.
const CE: u8 = 0b11;

impl Ecn {
    /// The state of a connection that this side begins or answers.
    pub(crate) fn new(offer: EcnMode, active: bool) -> Self {
        let wanted = match offer {
            EcnMode::Off => false,
            EcnMode::Accept => !active,
            EcnMode::Offer | EcnMode::OfferAccurate => true,
        };
        Self {
            feedback: match wanted {
                true => FeedbackMode::Undecided(offer),
                false => FeedbackMode::NotEcn,
            },
            sent_bare_syn: false,
            echo: false,
            answer: EcnAnswer::None,
            answer_at: SeqNum(0),
            accurate: None,
        }
    }

    /// Whether both ends have agreed on it; during the handshake, whether this end wants it.
    pub(crate) const fn is_on(&self) -> bool {
        !matches!(self.feedback, FeedbackMode::NotEcn)
    }

    /// The state of AccECN, if it was agreed on.
    pub(crate) fn accurate(&self) -> Option<&AccurateEcn> {
        self.accurate.as_deref()
    }

    fn accurate_mut(&mut self) -> Option<&mut AccurateEcn> {
        self.accurate.as_deref_mut()
    }

    /// Whether a segment with these flags that acknowledges nothing new may report congestion.
    pub(crate) fn may_tell(&self, flags: TcpFlags) -> bool {
        match self.accurate() {
            Some(accurate) => accurate.is_news(flags),
            None => self.is_on() && flags.contains(TcpFlags::ECE),
        }
    }

    /// An acknowledgement arrived. Its marks are `due` if the window was not reduced for them yet.
    pub(crate) fn on_ack(&mut self, report: &EcnReport) -> MarkCount {
        if !self.is_on() {
            return MarkCount::default();
        }
        if self.answer == EcnAnswer::Sent && report.ack.after(self.answer_at) {
            self.answer = EcnAnswer::None;
        }
        let mut count = match self.accurate_mut() {
            Some(accurate) => accurate.on_ack(report),
            None => MarkCount {
                due: report.flags & (TcpFlags::ECE | TcpFlags::SYN) == TcpFlags::ECE,
                bytes: 0,
            },
        };
        count.due &= self.answer == EcnAnswer::None;
        if let (true, Some(accurate)) = (count.due, self.accurate_mut()) {
            count.due = accurate.on_round_marked();
        }
        count
    }

    /// The window was reduced, for any reason.
    pub(crate) fn reduced(&mut self) {
        if self.is_on() {
            self.answer = EcnAnswer::Due;
        }
    }

    /// The retransmission timer expired; `early`: nothing but the handshake was acknowledged yet.
    pub(crate) fn on_timeout(&mut self, early: bool) {
        self.reduced();
        if let (true, Some(accurate)) = (early, self.accurate_mut()) {
            accurate.received.leave_option_out();
        }
    }

    /// Whether the next segment has CWR, as a flag or as a bit of ACE. A device that cuts a segment leaves it on the
    /// first piece alone.
    pub(crate) fn has_cwr_next(&self) -> bool {
        match self.accurate() {
            Some(accurate) => accurate.received.ace().contains(TcpFlags::CWR),
            None => self.answer == EcnAnswer::Due,
        }
    }

    /// The bits of the TCP header and of the IP header of new data that begins at `seq`.
    pub(crate) fn on_new_data(&mut self, seq: SeqNum) -> (TcpFlags, u8) {
        if !self.is_on() {
            return (TcpFlags::empty(), 0);
        }
        let answers = self.answer == EcnAnswer::Due;
        if answers {
            (self.answer, self.answer_at) = (EcnAnswer::Sent, seq);
        }
        // RFC 3168 6.1.1: after a SYN without the bits no data may be ECN-capable. AccECN allows it to a client (RFC
        // 9768 3.1.4.1).
        let capable = if self.sent_bare_syn { 0 } else { CAPABLE };
        match self.accurate() {
            Some(accurate) => (TcpFlags::empty(), accurate.capable()),
            None if answers => (TcpFlags::CWR, capable),
            None => (TcpFlags::empty(), capable),
        }
    }

    /// The bits of the IP header of a segment that has no new data and is no SYN: an acknowledgement, a retransmission,
    /// a probe, a FIN.
    pub(crate) fn on_control(&self) -> u8 {
        self.accurate().map_or(0, AccurateEcn::control_capable)
    }

    /// Takes the offer or the answer of the peer's first SYN or SYN-ACK, which arrived with these bits of ECN in its IP
    /// header.
    pub(crate) fn begin(&mut self, syn: TcpFlags, mark: u8, choices: AccEcnChoices) {
        if let FeedbackMode::Undecided(offer) = self.feedback {
            self.feedback = match syn.contains(TcpFlags::ACK) {
                true => FeedbackMode::of_syn_ack(offer, syn),
                false => FeedbackMode::of_syn(syn),
            };
            let is_accurate = self.feedback == FeedbackMode::Accurate;
            let new = || Box::new(AccurateEcn::new(syn, mark, choices));
            self.accurate = is_accurate.then(new);
        }
    }

    /// Whether the offers of AccECN did not get through: the peer answered the SYN without one.
    pub(crate) fn has_failed_offer(&self) -> bool {
        self.sent_bare_syn && !self.is_on()
    }

    /// Makes no offer: those of an earlier connection did not get through.
    pub(crate) fn withhold(&mut self) {
        if self.feedback == FeedbackMode::Undecided(EcnMode::OfferAccurate) {
            self.feedback = FeedbackMode::NotEcn;
        }
    }

    /// The SYN of the peer arrived once more during the handshake, with these flags and this mark. False if one SYN
    /// offered AccECN and the other one RFC 3168's form: the peer could not know which of them we received first, so
    /// the connection must be reset (RFC 9768 3.1.5).
    #[must_use = "a connection with offers of both forms must be reset"]
    pub(crate) fn on_syn_again(&mut self, syn: TcpFlags, mark: u8) -> bool {
        let bits = syn & ACE;
        if let Some(accurate) = self.accurate_mut() {
            accurate.on_syn_again(bits, mark);
        }
        match self.feedback {
            FeedbackMode::Undecided(_) | FeedbackMode::NotEcn => true,
            FeedbackMode::Classic => bits.is_empty() || bits == OFFER,
            FeedbackMode::Accurate => bits != OFFER,
        }
    }

    /// The SYN-ACK of the peer arrived once more after the handshake, with this mark. Its flags change nothing: a
    /// server may have left them out because it doubts the path (RFC 9768 3.2.3.2.2).
    pub(crate) fn on_syn_ack_again(&mut self, mark: u8) {
        if let Some(accurate) = self.accurate_mut() {
            accurate.received.on_syn_ack_again(mark);
        }
    }

    /// The peer sent data again that had arrived before.
    pub(crate) fn on_repeated_data(&mut self) {
        if let Some(accurate) = self.accurate_mut() {
            accurate.received.on_repeated_data();
        }
    }

    /// The bits of a segment with these flags. `is_pure`: it has neither data nor SACK blocks; `tries`: how often its
    /// SYN was sent before.
    pub(crate) fn bits_of(&mut self, flags: TcpFlags, is_pure: bool, tries: u8) -> TcpFlags {
        let is_syn = flags.contains(TcpFlags::SYN);
        if let Some(accurate) = self.accurate_mut() {
            return match is_syn {
                true => accurate.answer(tries),
                false => accurate.received.on_send(is_pure),
            };
        }
        match self.feedback {
            FeedbackMode::Undecided(offer) if is_syn => self.offered(offer, tries),
            FeedbackMode::Classic if is_syn || self.echo => TcpFlags::ECE,
            _ => TcpFlags::empty(),
        }
    }

    /// The bits of our SYN, which was sent `tries` times before.
    fn offered(&mut self, offer: EcnMode, tries: u8) -> TcpFlags {
        if offer == EcnMode::OfferAccurate {
            self.sent_bare_syn |= tries > ACCURATE_TRIES;
            return match self.sent_bare_syn {
                true => TcpFlags::empty(),
                false => ACE,
            };
        }
        if tries == 0 {
            return OFFER;
        }
        self.feedback = FeedbackMode::NotEcn;
        TcpFlags::empty()
    }

    /// The AccECN option of a SYN-ACK that has `room` bytes for it.
    pub(crate) fn syn_ack_option(&mut self, room: usize) -> Option<AccEcnOption> {
        self.accurate_mut()?.received.syn_ack_option(room)
    }

    /// The AccECN option of another segment that has `room` bytes for it.
    pub(crate) fn option(&mut self, room: usize) -> Option<AccEcnOption> {
        self.accurate_mut()?.received.option(room)
    }

    /// Bytes that the AccECN option of the next segment needs, or 0.
    pub(crate) fn option_due_len(&self) -> usize {
        self.accurate().map_or(0, |a| a.received.option_due_len())
    }

    /// Bytes of the AccECN option in each segment: 0 if not each segment has one.
    pub(crate) fn option_len(&self) -> u32 {
        self.accurate().map_or(0, |a| a.received.each_option_len())
    }

    /// New data arrived, marked or not. True if an acknowledgement must report it at once.
    pub(crate) fn on_data(&mut self, ce: bool, cwr: bool) -> bool {
        let FeedbackMode::Classic = self.feedback else {
            return false;
        };
        let before = self.echo;
        // A mark on the very segment that has CWR is a new one.
        self.echo = ce || (self.echo && !cwr);
        self.echo && !before
    }

    /// An acceptable segment arrived, of `packets` packets with `len` bytes of data each and this mark. True if an
    /// acknowledgement must report it at once.
    pub(crate) fn on_packets(&mut self, mark: u8, packets: u32, len: u32) -> bool {
        (self.accurate_mut())
            .is_some_and(|accurate| accurate.received.on_packets(mark, packets, len))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
