//! How an interface is set up.
//!
//! Locks: none.

use std::net::IpAddr;

use wire::{Ipv6Header, MacAddr};

use super::host6::Autoconf;
use super::if_addr::IfAddr;

/// How an interface is set up.
#[derive(Debug, Clone)]
pub struct IfConfig {
    /// A name to show, such as `tap0`.
    pub name: String,
    /// Its Ethernet address. Without one here or in the device, the stack draws one at random.
    pub mac: Option<MacAddr>,
    /// Its addresses. Without any of IPv6, it takes in no IPv6. With some, it also has a link-local one, which is made
    /// of its Ethernet address unless the list has one. The interface uses them at once, without probes for duplicates,
    /// unless `autoconf` is set.
    pub addrs: Vec<IfAddr>,
    /// The interface configures itself as an IPv6 host: it probes for duplicates of its addresses before it uses them,
    /// takes more addresses from routers, always has a link-local one, and reports its groups (RFC 9777). None: it has
    /// only the configured addresses, and sends no probes or solicitations to routers.
    pub autoconf: Option<Autoconf>,
    /// Answer for every address and not only for our own, as a gateway does that terminates connections.
    pub accept_any: bool,
    /// Routes may lead through this interface to addresses of 127/8, and packets from such addresses may come in: they
    /// are the neighbour's own. The program must know that there is one neighbour on the link. (RFC 1122 3.2.1.3
    /// forbids it elsewhere.)
    pub route_localnet: bool,
    /// A router forwards a packet that comes by this interface only if the route to its source leads through it (strict
    /// reverse path forwarding, RFC 3704 section 2.2), so that the link's stations can't use the addresses of others. A
    /// sender over IPv6 gets an error (RFC 4443 section 3.1, code 5), one over IPv4 none.
    ///
    /// This costs one more look-up of a route for each forwarded packet. Over IPv4 between two links, with a datagram
    /// of 64 bytes, these are 377 instructions beside 3,926 for all else, and 565 beside 4,112 with 50 more routes
    /// (callgrind, release build for x86-64).
    #[doc(alias = "rp_filter")]
    #[doc(alias = "verrevpath")]
    pub verify_source: bool,
    /// Several threads may call the device at once. If false, it receives and transmits under the stack's Giant, one
    /// thread at a time, which also excludes all other components that need Giant.
    #[doc(alias = "IFF_NEEDSGIANT")]
    #[doc(alias = "INTR_MPSAFE")]
    pub mp_safe: bool,
}

impl IfConfig {
    /// An interface called `name`, with an MP-safe device, without addresses.
    ///
    /// ```
    /// use mbuma::IfConfig;
    ///
    /// let config = IfConfig::new("tap0").with_addr([192, 0, 2, 1], 24);
    /// assert!(config.mp_safe && config.mac.is_none() && !config.accept_any);
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            mac: None,
            addrs: Vec::new(),
            autoconf: None,
            accept_any: false,
            route_localnet: false,
            verify_source: false,
            mp_safe: true,
        }
    }

    /// This configuration with one more address. Call it on the whole configuration: an expression that names `addrs`
    /// and takes its other fields from this one (`..`) has no address of this one.
    #[must_use]
    pub fn with_addr(mut self, addr: impl Into<IpAddr>, prefix_len: u8) -> Self {
        self.addrs.push(IfAddr::new(addr, prefix_len));
        self
    }

    /// Whether an interface that is configured so can have a device of this MTU.
    pub(crate) fn takes_mtu(&self, mtu: u16) -> bool {
        let min = match self.has_ip6() {
            true => Ipv6Header::MTU_MIN,
            false => MTU_MIN,
        };
        mtu >= min
    }

    /// Whether the interface takes in IPv6.
    pub(crate) fn has_ip6(&self) -> bool {
        self.autoconf.is_some() || self.addrs.iter().any(|net| net.addr.is_ipv6())
    }
}

/// Bytes of a packet that each link of IPv4 carries whole (RFC 791 section 3.2).
const MTU_MIN: u16 = 68;
