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
//! For received packets, [`protosw`](crate::protosw) calls this layer, and this layer calls `protosw`. A stack is an
//! IPv6 host, and a router if it forwards. The path MTUs that routers report are kept for all senders
//! ([`path_mtu`](crate::ip::path_mtu)). Locks: reassembly's table (REASS). Sources: RFC 8200, RFC 4291, RFC 6724, RFC
//! 6437.

use std::time::Duration;

use kern::{KeyedHash, Random, Time};

use crate::batch::Batch;
use crate::config::Config;
use crate::inet::Ends;
use crate::ip::reassemble::Reassembler;
use reassemble::Fragment6;
use sent_long::SentLong;

mod chain;
mod forward;
mod fragment;
pub(crate) mod input;
pub(crate) mod output;
mod reassemble;
mod sent_long;

/// How long an incomplete datagram is kept (RFC 8200 section 4.5).
const REASS_TIMEOUT: Duration = Duration::from_secs(60);

/// IPv6's part of a stack.
#[derive(Debug)]
pub(crate) struct Ip6State {
    flow_labels: KeyedHash,
    reassembly: Reassembler<Fragment6>,
    pub(crate) sent_long: SentLong,
}

impl Ip6State {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        Self {
            flow_labels: KeyedHash::new(random),
            sent_long: SentLong::new(random),
            reassembly: Reassembler::new(config, REASS_TIMEOUT, random),
        }
    }

    /// Drops incomplete datagrams whose time is over.
    pub(crate) fn run_timers(&self, batch: &mut Batch<'_>) {
        self.reassembly.run_timers(batch);
    }

    /// When [`Ip6State::run_timers`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.reassembly.deadline()
    }

    /// The label of a flow: the same for all its packets, retransmissions included, and not predictable for other hosts
    /// (RFC 6437 section 3). 20 bits, not 0.
    pub(crate) fn flow_label(&self, ends: &Ends) -> u32 {
        let hash = ends.with_bytes(|bytes| self.flow_labels.hash(bytes));
        ((hash as u32) & 0x000f_ffff).max(1)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
