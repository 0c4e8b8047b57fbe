//! The states of a connection.
//!
//! Source: RFC 9293 section 3.3.2.

use std::fmt;

/// A connection's state (RFC 9293 3.3.2). LISTEN is a type of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection: the last state of each.
    #[default]
    Closed,
    /// A SYN came for an interceptor's address, and is not answered yet. *Operations:* `Incoming::accept` leads to
    /// SYN-RECEIVED, `refuse` to CLOSED. *Caveats:* segments are ignored meanwhile; the peer retransmits its SYN.
    SynHeld,
    /// We sent a SYN.
    SynSent,
    /// We answered a SYN.
    SynReceived,
    /// Data flows.
    Established,
    /// We closed; the peer has not acknowledged that.
    FinWait1,
    /// We closed, and the peer knows.
    FinWait2,
    /// The peer closed.
    CloseWait,
    /// Both closed at once; ours is not acknowledged.
    Closing,
    /// The peer closed, then we did; ours is not acknowledged.
    LastAck,
    /// Both closed. Old segments may still come.
    TimeWait,
}

/// The name as netstat(1) writes it: `SYN_RECEIVED`.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Closed => "CLOSED",
            Self::SynHeld => "SYN_HELD",
            Self::SynSent => "SYN_SENT",
            Self::SynReceived => "SYN_RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN_WAIT_1",
            Self::FinWait2 => "FIN_WAIT_2",
            Self::CloseWait => "CLOSE_WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST_ACK",
            Self::TimeWait => "TIME_WAIT",
        })
    }
}

impl State {
    /// Whether data of ours may be sent or retransmitted.
    pub(crate) fn sends_data(self) -> bool {
        use State::*;
        matches!(self, Established | CloseWait | FinWait1 | Closing | LastAck)
    }

    /// Whether the peer may still send data.
    pub(crate) fn receives_data(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether the handshake is complete.
    pub(crate) fn is_synchronized(self) -> bool {
        !matches!(
            self,
            Self::Closed | Self::SynHeld | Self::SynSent | Self::SynReceived
        )
    }
}
