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
//! A SYN that goes again goes without ECN: a middlebox may have dropped it for its bits (RFC 3168 6.1.1.1). A SYN-ACK with
//! both bits is that of a host that reflects what it does not know.
//!
//! The sender answers an echo once a window: its window shrinks, the next new data has CWR, and until something behind the
//! begin of that data is acknowledged, further echoes are of the same window. [`recovery`](super::recovery) shrinks the
//! window, and by how much [`cc`](super::cc) says (RFC 8511). A loss shrinks it too, and is told to the receiver likewise
//! (RFC 3168 6.1.2).
//!
//! Only new data is ECN-capable: neither a SYN, nor what is sent again, nor a probe, nor a segment without data
//! (RFC 3168 6.1.1, 6.1.4 to 6.1.6).
//!
//! Locks: none; part of the connection. Source: RFC 3168 section 6.1.

use wire::{SeqNum, TcpFlags};

use crate::config::EcnMode;

/// The bits that offer ECN.
const OFFER: TcpFlags = TcpFlags::ECE.union(TcpFlags::CWR);

/// The part of it that a connection keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ecn {
    /// Offered, or to be accepted, until the handshake is over; then agreed on.
    on: bool,
    /// Congestion was experienced, and the sender has not answered that it knows.
    echo: bool,
    /// Where our own answer to an echo is.
    answer: EcnAnswer,
}

/// Whether we, as the sender, have told of a smaller window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EcnAnswer {
    /// There is nothing to tell.
    None,
    /// The window is smaller; the next new data will say so.
    Due,
    /// The data that begins here has said so.
    Sent(SeqNum),
}

/// ECN-capable transport: the two low bits of an IP header's traffic class (RFC 3168 5).
#[doc(alias = "ECT(0)")]
pub(crate) const CAPABLE: u8 = 0b10;

impl Ecn {
    /// Of a connection that this side begins, or of one that it answers.
    pub(crate) fn new(mode: EcnMode, active: bool) -> Self {
        let on = match mode {
            EcnMode::Off => false,
            EcnMode::Accept => !active,
            EcnMode::Offer => true,
        };
        Self {
            on,
            echo: false,
            answer: EcnAnswer::None,
        }
    }

    /// Whether both ends have agreed on it; during the handshake, whether this one wants it.
    pub(crate) const fn is_on(self) -> bool {
        self.on
    }

    /// An acknowledgement arrived, with these flags, of all before `ack`. True if it tells of congestion that the window
    /// did not shrink for yet.
    pub(crate) fn on_ack(&mut self, flags: TcpFlags, ack: SeqNum) -> bool {
        if let EcnAnswer::Sent(at) = self.answer
            && ack.after(at)
        {
            self.answer = EcnAnswer::None;
        }
        let echoed = flags & (TcpFlags::ECE | TcpFlags::SYN) == TcpFlags::ECE;
        self.on && echoed && self.answer == EcnAnswer::None
    }

    /// The window has shrunk, for whatever reason.
    pub(crate) fn reduced(&mut self) {
        if self.on {
            self.answer = EcnAnswer::Due;
        }
    }

    /// Whether the next new data has CWR. Of a segment that a device cuts only the first piece may have it.
    pub(crate) fn is_answer_due(self) -> bool {
        self.answer == EcnAnswer::Due
    }

    /// New data is sent that begins at `seq`: the bits of its TCP header and of its IP header.
    pub(crate) fn on_new_data(&mut self, seq: SeqNum) -> (TcpFlags, u8) {
        if !self.on {
            return (TcpFlags::empty(), 0);
        }
        if self.answer == EcnAnswer::Due {
            self.answer = EcnAnswer::Sent(seq);
            return (TcpFlags::CWR, CAPABLE);
        }
        (TcpFlags::empty(), CAPABLE)
    }

    /// Takes what the peer's SYN or SYN-ACK offers or answers.
    pub(crate) fn begin(&mut self, syn: TcpFlags) {
        let agreed = match syn.contains(TcpFlags::ACK) {
            true => syn & OFFER == TcpFlags::ECE,
            false => syn.contains(OFFER),
        };
        self.on &= agreed;
    }

    /// The bits of a segment that is sent with these flags; `again`: its SYN was sent before.
    pub(crate) fn bits_of(&mut self, flags: TcpFlags, again: bool) -> TcpFlags {
        let offers = flags & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN;
        self.on &= !(offers && again);
        match () {
            () if !self.on => TcpFlags::empty(),
            () if offers => OFFER,
            () if flags.contains(TcpFlags::SYN) || self.echo => TcpFlags::ECE,
            () => TcpFlags::empty(),
        }
    }

    /// New data arrived, marked or not. True if the sender should learn of it at once.
    pub(crate) fn on_data(&mut self, ce: bool, cwr: bool) -> bool {
        let before = self.echo;
        // A mark on the very segment that has CWR is a new one.
        self.echo = self.on && (ce || (self.echo && !cwr));
        self.echo && !before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: TcpFlags = TcpFlags::ACK;
    const SYN: TcpFlags = TcpFlags::SYN;
    const ECE: TcpFlags = TcpFlags::ECE;

    #[test]
    fn ecn_is_on_if_both_ends_say_so() {
        // RFC 3168 6.1.1: breaks if a host that does not know ECN, or reflects what it does not know, is taken for one
        // that does; or if ECN is used that was switched off.
        for (mode, theirs, on) in [
            (EcnMode::Off, OFFER, false),
            (EcnMode::Accept, OFFER, true),
            (EcnMode::Offer, OFFER, true),
            (EcnMode::Accept, ECE, false),
            (EcnMode::Accept, TcpFlags::empty(), false),
        ] {
            let mut passive = Ecn::new(mode, false);
            passive.begin(SYN | theirs);
            assert_eq!(passive.is_on(), on, "{mode:?} {theirs:?}");
            let answer = if on { ECE } else { TcpFlags::empty() };
            assert_eq!(passive.bits_of(SYN | ACK, true), answer);
        }
        for (mode, answer, on) in [
            (EcnMode::Offer, ECE, true),
            (EcnMode::Offer, OFFER, false),
            (EcnMode::Offer, TcpFlags::empty(), false),
            (EcnMode::Accept, ECE, false),
        ] {
            let mut active = Ecn::new(mode, true);
            let offered = active.bits_of(SYN, false);
            assert_eq!(offered == OFFER, mode == EcnMode::Offer);
            active.begin(SYN | ACK | answer);
            assert_eq!(active.is_on(), on, "{mode:?} {answer:?}");
        }
    }

    #[test]
    fn marks_are_echoed_until_the_sender_knows() {
        // RFC 3168 6.1.3: breaks if a lost acknowledgement loses the mark, or the echo has no end; or if a mark on the segment
        // that ends the echo is lost.
        let mut ecn = Ecn::new(EcnMode::Accept, false);
        ecn.begin(SYN | OFFER);
        assert_eq!(ecn.bits_of(ACK, false), TcpFlags::empty());
        assert!(ecn.on_data(true, false));
        for _ in 0..3 {
            assert!(!ecn.on_data(false, false));
            assert_eq!(ecn.bits_of(ACK, false), ECE);
        }
        assert!(!ecn.on_data(true, true));
        assert_eq!(ecn.bits_of(ACK, false), ECE);
        assert!(!ecn.on_data(false, true));
        assert_eq!(ecn.bits_of(ACK, false), TcpFlags::empty());
        let mut off = Ecn::new(EcnMode::Off, false);
        assert!(!off.on_data(true, false));
    }

    #[test]
    fn an_echo_is_answered_once_a_window() {
        // RFC 3168 6.1.2: breaks if the window shrinks for each acknowledgement of a window, or a second time for the one
        // that is just before the answer; or if a mark of the next window is not heard.
        let mut ecn = Ecn::new(EcnMode::Accept, false);
        ecn.begin(SYN | OFFER);
        let una = SeqNum(1000);
        assert!(!ecn.on_ack(ACK, una));
        assert!(ecn.on_ack(ACK | ECE, una));
        ecn.reduced();
        assert!(!ecn.on_ack(ACK | ECE, una));
        assert_eq!(ecn.on_new_data(una + 500), (TcpFlags::CWR, CAPABLE));
        assert_eq!(ecn.on_new_data(una + 600), (TcpFlags::empty(), CAPABLE));
        assert!(!ecn.on_ack(ACK | ECE, una + 500), "of before the answer");
        assert!(ecn.on_ack(ACK | ECE, una + 600));
        let mut off = Ecn::new(EcnMode::Off, false);
        off.reduced();
        assert!(!off.on_ack(ACK | ECE, una));
        assert_eq!(off.on_new_data(una), (TcpFlags::empty(), 0));
    }
}
