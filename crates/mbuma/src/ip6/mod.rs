//! IPv6.
//!
//! ```text
//!   inward                                     outward
//!   input        check, is it for us?          output       route, source, header
//!     chain        extension headers             fragment     too large for the link
//!     reassemble   fragments into datagrams      ip4/loopback to ourselves
//!     -> icmp6, udp, tcp
//!     forward      for other hosts, to ether/output
//! ```
//!
//! Inward, [`protosw`](crate::protosw) calls it and is called by it. A stack is an IPv6 host, and a router if it
//! forwards. What routers report of paths is kept for all senders ([`path_mtu`]).
//! Locks: reassembly's table (REASS). Sources: RFC 8200, RFC 4291, RFC 6724, RFC 6437.

use std::time::Duration;

use kern::{KeyedHash, Random, Time};

use crate::batch::Batch;
use crate::config::Config;
use crate::inet::Ends;
use crate::ip::reassemble::Reassembler;
use path_mtu::PathMtus;
use reassemble::Fragment6;

mod chain;
mod forward;
mod fragment;
pub(crate) mod input;
pub(crate) mod output;
mod path_mtu;
mod reassemble;

/// How long a datagram waits for its fragments (RFC 8200 section 4.5).
const REASS_TIMEOUT: Duration = Duration::from_secs(60);

/// IPv6's part of a stack.
#[derive(Debug)]
pub(crate) struct Ip6State {
    flow_labels: KeyedHash,
    reassembly: Reassembler<Fragment6>,
    pub(crate) path_mtus: PathMtus,
}

impl Ip6State {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        Self {
            flow_labels: KeyedHash::new(random),
            path_mtus: PathMtus::new(),
            reassembly: Reassembler::new(config, REASS_TIMEOUT, random),
        }
    }

    /// Gives up datagrams whose fragments did not all come in time.
    pub(crate) fn run_timers(&self, batch: &mut Batch<'_>) {
        self.reassembly.run_timers(batch);
    }

    /// When [`Ip6State::run_timers`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.reassembly.deadline()
    }

    /// The label of a flow: the same for all its packets, also those sent again, and not to be guessed outside
    /// (RFC 6437 section 3). 20 bits, not 0.
    fn flow_label(&self, ends: &Ends) -> u32 {
        let hash = ends.with_bytes(|bytes| self.flow_labels.hash(bytes));
        ((hash as u32) & 0x000f_ffff).max(1)
    }
}

#[cfg(test)]
mod tests;
