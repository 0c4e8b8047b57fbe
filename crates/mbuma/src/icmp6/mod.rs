//! ICMPv6: pings answered, errors told and heard. Neighbour discovery is in [`ether::nd`](crate::ether::nd).
//!
//! Errors go to the sender of a refused packet; errors that arrive go to the tcp or udp socket whose packet they are
//! about. The limit on errors and the echo interceptors are [`icmp`](crate::icmp)'s: a stack has one of each.
//! Messages that the stack has no use for go to a program that asked for their type ([`raw`]).
//! Locks: none. Sources: RFC 4443, RFC 8201 section 4.

pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod raw;

use kern::Random;

use crate::config::Config;
use crate::icmp::limit::DestinationLimits;
use raw::Icmp6Sockets;

/// ICMPv6's part of a stack.
#[derive(Debug)]
pub(crate) struct Icmp6State {
    /// The sockets for messages that the stack has no use for.
    pub(crate) sockets: Icmp6Sockets,
    /// How many errors each host gets, beside the limit on all.
    limits: DestinationLimits,
}

impl Icmp6State {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        Self {
            sockets: Icmp6Sockets::new(),
            limits: DestinationLimits::new(config.icmp_errors_per_s, random),
        }
    }
}
