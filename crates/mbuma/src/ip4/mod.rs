//! IPv4.
//!
//! ```text
//!   inward                                     outward
//!   input        check, is it for us?          output       route, header
//!     reassemble   fragments into datagrams      fragment     too large for the link
//!     -> icmp, udp, tcp                          loopback     to ourselves
//!     forward      for other hosts, to ether/output
//! ```
//!
//! For received packets, [`protosw`](crate::protosw) calls this layer, and this layer calls `protosw`. Sources: RFC
//! 791, RFC 1122 section 3, RFC 815, RFC 6864 (ids), RFC 3168 (ECN).

use std::sync::atomic::{AtomicBool, Ordering};

use kern::{Random, Time};

use crate::batch::Batch;
use crate::config::Config;
use crate::ip::reassemble::Reassembler;
use input::Ipv4Info;

mod forward;
mod fragment;
mod ident;
pub(crate) mod input;
pub(crate) mod loopback;
pub(crate) mod output;
mod reassemble;

/// IPv4's part of a stack.
#[derive(Debug)]
pub(crate) struct Ip4State {
    idents: ident::Idents,
    reassembly: Reassembler<Ipv4Info>,
    /// Relaxed: a switch, and packets in flight may see either position.
    pub(crate) forwarding: AtomicBool,
}

impl Ip4State {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        Self {
            idents: ident::Idents::new(random),
            reassembly: Reassembler::new(config, config.reass_timeout, random),
            forwarding: AtomicBool::new(config.forwarding),
        }
    }

    pub(crate) fn forwards(&self) -> bool {
        self.forwarding.load(Ordering::Relaxed)
    }

    /// Drops incomplete datagrams whose time is over.
    #[doc(alias = "frag_slowtimo")]
    pub(crate) fn run_timers(&self, batch: &mut Batch<'_>) {
        self.reassembly.run_timers(batch);
    }

    /// When [`Ip4State::run_timers`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.reassembly.deadline()
    }
}
