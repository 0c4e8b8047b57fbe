//! The reasons that ICMP has for a packet that can't be delivered.
//!
//! Sources: RFC 792, RFC 1122 section 3.2.2, RFC 1191, RFC 1812 section 4.3.2.

use wire::{IcmpHeader, IcmpMessage, Ipv4Header, TimeExceeded, Unreachable};

/// Bytes of the offending packet that an error quotes: the whole message fits 576 bytes (RFC 1812
/// 4.3.2.3).
pub(crate) const QUOTE_MAX: usize = 576 - Ipv4Header::LEN - IcmpHeader::LEN;

/// The reasons that ICMP has for a packet that can't be delivered (RFC 792, RFC 1122 section 3.2.2, RFC 4443).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IcmpError {
    /// There is no route to its network.
    Net,
    /// The host does not answer on its own network.
    Host,
    /// No socket has its port.
    Port,
    /// The host does not have its protocol.
    Protocol,
    /// A filter forbids it.
    AdminProhibited,
    /// Its source address is valid only on its own link, and its destination is on another (RFC 4443 section 3.1, code
    /// 2). IPv4 has no such error.
    BeyondScope,
    /// Packets with its source address may not come by the link by which it came (RFC 4443 section 3.1, code 5). IPv4
    /// has no such error.
    SourcePolicy,
    /// The route to its destination rejects all packets (RFC 4443 section 3.1, code 6). IPv4 has no such error.
    RejectRoute,
    /// It is too large for a link, and must not be fragmented (RFC 1191).
    FragNeeded {
        /// MTU of that link; 0 from routers that do not report it.
        mtu: u16,
    },
    /// Its TTL expired, or its fragments did not all come in time.
    TimeExceeded,
    /// A field of its header, or an option, is wrong or unknown (RFC 1122 section 3.2.2.5, RFC 4443 section 3.4).
    Parameter,
}

impl IcmpError {
    /// The ICMP message for this error.
    pub(crate) fn to_message(self) -> IcmpMessage {
        IcmpMessage::DestUnreachable(match self {
            Self::Net => Unreachable::NetUnreachable,
            Self::Host | Self::BeyondScope | Self::RejectRoute => Unreachable::HostUnreachable,
            Self::Port => Unreachable::PortUnreachable,
            Self::Protocol => Unreachable::ProtocolUnreachable,
            Self::AdminProhibited | Self::SourcePolicy => Unreachable::AdminProhibited,
            Self::FragNeeded { mtu } => Unreachable::FragNeeded { mtu },
            Self::TimeExceeded => return IcmpMessage::TimeExceeded(TimeExceeded::Transit),
            Self::Parameter => {
                return IcmpMessage::ParamProblem {
                    code: 0,
                    pointer: 0,
                };
            }
        })
    }

    /// The error that a message reports about a packet of ours; `None` if it is not such a message.
    pub(crate) fn from_message(message: IcmpMessage) -> Option<Self> {
        let why = match message {
            IcmpMessage::DestUnreachable(why) => why,
            IcmpMessage::TimeExceeded(_) => return Some(Self::TimeExceeded),
            IcmpMessage::ParamProblem { .. } => return Some(Self::Parameter),
            _ => return None,
        };
        Some(match why {
            Unreachable::NetUnreachable => Self::Net,
            Unreachable::PortUnreachable => Self::Port,
            Unreachable::ProtocolUnreachable => Self::Protocol,
            Unreachable::FragNeeded { mtu } => Self::FragNeeded { mtu },
            Unreachable::NetProhibited
            | Unreachable::HostProhibited
            | Unreachable::AdminProhibited => Self::AdminProhibited,
            // The remaining codes are special cases of "host unreachable" (RFC 1122 3.2.2.1).
            Unreachable::HostUnreachable
            | Unreachable::SourceRouteFailed
            | Unreachable::Other(_) => Self::Host,
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
