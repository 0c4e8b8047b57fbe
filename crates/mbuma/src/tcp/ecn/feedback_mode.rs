//! How an end reports marks, as the flags of the handshake decide.
//!
//! Locks: none. Sources: RFC 3168 section 6.1.1, RFC 9768 sections 3.1 and 5.1.

use wire::TcpFlags;

use super::{ACE, OFFER};
use crate::config::EcnMode;

/// How this end reports marks, and reads the reports of the peer (RFC 9768 table 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedbackMode {
    /// No SYN or SYN-ACK of the peer has arrived yet. This end accepts ECN or, in this form, offers it.
    Undecided(EcnMode),
    /// There is no feedback.
    NotEcn,
    /// The flag ECE until the peer confirms it by CWR (RFC 3168).
    Classic,
    /// The counters of AccECN.
    Accurate,
}

impl FeedbackMode {
    /// The mode of a server, by the client's SYN.
    pub(super) fn of_syn(syn: TcpFlags) -> Self {
        let bits = syn & ACE;
        if bits.is_empty() {
            Self::NotEcn
        } else if bits == OFFER {
            Self::Classic
        } else {
            // RFC 9768 3.1.3: combinations without a meaning of their own are those of a later variant.
            Self::Accurate
        }
    }

    /// The mode of a client that made this offer, by the server's SYN-ACK.
    pub(super) fn of_syn_ack(offer: EcnMode, syn_ack: TcpFlags) -> Self {
        let is_accurate = offer == EcnMode::OfferAccurate;
        if is_accurate && accepts_accurate(syn_ack) {
            return Self::Accurate;
        }
        // A host that knows RFC 3168 alone does not know the flag AE.
        let known = if is_accurate { ACE } else { OFFER };
        match syn_ack & known == TcpFlags::ECE {
            true => Self::Classic,
            false => Self::NotEcn,
        }
    }
}

/// Whether a SYN-ACK with these flags accepts an offer of AccECN (RFC 9768 table 2).
fn accepts_accurate(syn_ack: TcpFlags) -> bool {
    let bits = syn_ack & ACE;
    // A host without ECN; a host that reflects unknown bits; a host that knows RFC 3168 alone.
    !(bits.is_empty() || bits == ACE || bits == TcpFlags::ECE)
}

/// The offer of the SYN that a cookie was sent for, by the acknowledgement that returns it: a client of AccECN tells in
/// ACE how the SYN-ACK arrived, and others leave 0 or 1 in it (RFC 9768 5.1).
pub(crate) fn offer_of_cookie(ack: TcpFlags, is_pure: bool) -> TcpFlags {
    match is_pure && ack.intersects(TcpFlags::AE | TcpFlags::CWR) {
        true => ACE,
        false => TcpFlags::empty(),
    }
}
