//! ICMPv6: answers pings, sends errors, and handles received errors. Neighbour discovery is in
//! [`ether::nd`](crate::ether::nd).
//!
//! Errors go to the sender of a refused packet; errors that arrive go to the tcp or udp socket whose packet they are
//! about. The limit on errors and the echo interceptors are [`icmp`](crate::icmp)'s: a stack has one of each. Messages
//! that the stack does not use go to a program that asked for their type ([`raw`]). Locks: none. Sources: RFC 4443, RFC
//! 8201 section 4.

pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod raw;
pub(crate) mod redirect;

use std::net::Ipv6Addr;

use kern::{Random, Time};

use crate::config::Config;
use crate::icmp::limit::KeyedLimits;
use crate::ifnet::IfIndex;
use raw::Icmp6Sockets;

/// The fraction of an interface's errors that may go to one host. By default that is 250 a second, 25 of them at once:
/// the answers to traceroute's 16 probes.
const HOST_PART: u32 = 4;
/// Limits for hosts, and for interfaces: those with the same hash share one. 14 KiB.
const HOSTS: usize = 512;
const INTERFACES: usize = 64;

/// ICMPv6's part of a stack.
#[derive(Debug)]
pub(crate) struct Icmp6State {
    /// The sockets for messages that the stack does not use.
    pub(crate) sockets: Icmp6Sockets,
    /// The rate limits of errors, for each host and for each interface.
    by_host: KeyedLimits,
    by_interface: KeyedLimits,
}

impl Icmp6State {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        Self {
            sockets: Icmp6Sockets::new(),
            by_host: KeyedLimits::new(config.icmp_errors_per_s.div_ceil(HOST_PART), HOSTS, random),
            by_interface: KeyedLimits::new(config.icmp_errors_per_s, INTERFACES, random),
        }
    }

    /// Whether one more error, or redirect, may go out now to this host by this interface.
    fn admit_error(&self, to: Ipv6Addr, by: IfIndex, now: Time) -> bool {
        let interface = by.0.to_be_bytes();
        self.by_host.admit(&to.octets(), now) && self.by_interface.admit(&interface, now)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
