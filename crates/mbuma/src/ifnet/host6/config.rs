//! How a program wants an interface to configure itself.
//!
//! Locks: none. Sources: RFC 4862 section 5.4, RFC 4429, RFC 7217.

use std::fmt;

/// How an interface configures itself as a host of IPv6 ([`IfConfig::autoconf`](crate::IfConfig::autoconf)).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Autoconf {
    /// Probes that are sent before an address is used, to find another station that has it (RFC 4862 section 5.4); 0: none,
    /// addresses are good at once. Default 1.
    pub dad_transmits: u8,
    /// Uses its own addresses, the one of the link and those that routers' prefixes make, while they are probed for: no
    /// connection waits for that, and no other station learns an address that it might have (RFC 4429). Default false.
    pub optimistic: bool,
    /// Asks for routers, and takes addresses, prefixes and routes from what they tell. Default true.
    pub accept_routers: bool,
    /// Stable addresses are made with it (RFC 7217): the same for the same prefix, and not to be guessed. Keep it over
    /// restarts, and keep it secret. Default all zero: the stack draws one.
    pub secret: [u8; 16],
}

/// Hides the secret.
impl fmt::Debug for Autoconf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Autoconf")
            .field("dad_transmits", &self.dad_transmits)
            .field("optimistic", &self.optimistic)
            .field("accept_routers", &self.accept_routers)
            .finish_non_exhaustive()
    }
}

impl Default for Autoconf {
    fn default() -> Self {
        Self {
            dad_transmits: 1,
            optimistic: false,
            accept_routers: true,
            secret: [0; 16],
        }
    }
}
