//! The settings of an interface that configures itself.
//!
//! Locks: none. Sources: RFC 4862 section 5.4, RFC 4429, RFC 7217, RFC 8981.

use std::time::Duration;

/// The settings of an interface that configures itself as a host of IPv6
/// ([`IfConfig::autoconf`](crate::IfConfig::autoconf)) (RFC 4862).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Autoconf {
    /// Probes that are sent before an address is used, to find another station that has it (RFC 4862 section 5.4); 0:
    /// none, addresses are used at once. Default 1.
    pub dad_transmits: u8,
    /// Uses its own addresses, the one of the link and those that routers' prefixes make, while they are probed for: no
    /// connection waits for the probes, and no other station learns an address from us that may be its own (RFC 4429).
    /// Default false.
    pub optimistic: bool,
    /// Solicits routers, and takes addresses, prefixes and routes from their advertisements. Default true.
    pub accept_routers: bool,
    /// The secret from which stable addresses are made (RFC 7217): a prefix always gives the same one, and other hosts
    /// can't guess it. Keep it over restarts, and keep it secret. Default all zero: the stack draws one.
    pub secret: [u8; 16],
    /// Makes temporary addresses as well, so that peers can't follow the host by its address (RFC 8981). Default: none,
    /// since programs that serve others need an address that stays.
    pub temporary: Option<TemporaryPolicy>,
}

/// Temporary addresses of an interface ([`Autoconf::temporary`]) (RFC 8981).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemporaryPolicy {
    /// How long an address is used for new connections: up to two fifths less, at random. If that is not longer than
    /// the probes for duplicates take, there are none. Default: a day (RFC 8981 section 3.8, TEMP_PREFERRED_LIFETIME).
    pub preferred: Duration,
    /// How long it stays valid for connections that began from it. Default: two days (TEMP_VALID_LIFETIME).
    pub valid: Duration,
    /// Connections begin from temporary addresses rather than from stable ones. If false, they begin from stable ones,
    /// and a program must bind to a temporary one to use it (RFC 6724 section 5, rule 7). Default true.
    pub prefer: bool,
}

impl Default for TemporaryPolicy {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            preferred: DAY,
            valid: DAY * 2,
            prefer: true,
        }
    }
}

// Hides the secret.
kern::impl_debug!(Autoconf |this|
    dad_transmits: this.dad_transmits,
    optimistic: this.optimistic,
    accept_routers: this.accept_routers,
    temporary: this.temporary,
);

impl Default for Autoconf {
    fn default() -> Self {
        Self {
            dad_transmits: 1,
            optimistic: false,
            accept_routers: true,
            secret: [0; 16],
            temporary: None,
        }
    }
}
