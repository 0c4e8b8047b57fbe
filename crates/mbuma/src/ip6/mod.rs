//! IPv6.
//!
//! ```text
//!   inward                                     outward
//!   input        check, is it for us?          output       route, source, header
//!     chain        extension headers             ip4/loopback to ourselves
//!     -> icmp6, udp, tcp
//!     forward      for other hosts, to ether/output
//! ```
//!
//! Inward, [`protosw`](crate::protosw) calls it and is called by it. A stack is an IPv6 host, and a router if it
//! forwards. It takes no fragments yet, and drops them with their reason.
//! Locks: none. Sources: RFC 8200, RFC 4291, RFC 6724, RFC 6437.

use kern::{KeyedHash, Random};

use crate::inet::Ends;

mod chain;
mod forward;
pub(crate) mod input;
pub(crate) mod output;

/// IPv6's part of a stack.
#[derive(Debug)]
pub(crate) struct Ip6State {
    flow_labels: KeyedHash,
}

impl Ip6State {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            flow_labels: KeyedHash::new(random),
        }
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
