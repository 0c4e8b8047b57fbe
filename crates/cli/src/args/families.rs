//! The versions of IP that the guest has: `-4`, `-6`, `--ipv6-prefix`.
//!
//! Locks: none.

use std::net::Ipv6Addr;

use crate::addressing::Addressing6;
use crate::sys::routes;

/// The smallest MTU of a link that carries IPv6 (RFC 8200 section 5).
pub(super) const MTU_MIN_V6: u16 = 1280;

/// The options.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct FamilyOpts {
    /// Give the guest IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6_only")]
    ipv4_only: bool,

    /// Give the guest IPv6 only
    #[arg(short = '6', long)]
    ipv6_only: bool,

    /// The guest's IPv6 network: its hosts ::2, ::3 and ::100 are the gateway, the name server and the guest; or `host`
    ///
    /// With `host` the guest has the address of the host: its programs then prefer IPv6 for a name that has both
    /// versions, as those of the host do. The first address of the network, fd00::, is that of any of its routers (the
    /// subnet-router anycast address): the gateway answers pings there too.
    #[arg(long, value_name = "NETWORK/64|host", default_value = "fd00::/64", value_parser = prefix,
          conflicts_with = "ipv4_only")]
    ipv6_prefix: Addressing6,
}

impl FamilyOpts {
    /// IPv4 alone.
    pub(crate) const V4: FamilyOpts = FamilyOpts {
        ipv4_only: true,
        ..FamilyOpts::BOTH
    };

    /// Both.
    pub(super) const BOTH: FamilyOpts = FamilyOpts {
        ipv4_only: false,
        ipv6_only: false,
        ipv6_prefix: Addressing6::DEFAULT,
    };

    /// With IPv4 if `v4` is set, and with IPv6 of these addresses if there are any.
    pub(crate) fn of(v4: bool, v6: Option<Addressing6>) -> FamilyOpts {
        FamilyOpts {
            ipv4_only: v6.is_none(),
            ipv6_only: !v4,
            ipv6_prefix: v6.unwrap_or(Addressing6::DEFAULT),
        }
    }

    /// Gives the guest and the gateway these addresses of their IPv6 network; `None` changes nothing.
    pub(super) fn place(
        &mut self,
        guest: Option<Ipv6Addr>,
        gateway: Option<Ipv6Addr>,
    ) -> Result<(), String> {
        if self.ipv4_only {
            return Err("--ipv4-only: there is no address of IPv6 to choose".to_owned());
        }
        self.ipv6_prefix = self.ipv6_prefix.placed(guest, gateway)?;
        Ok(())
    }

    /// Whether there is a version of IP for an interface with this MTU.
    ///
    /// # Errors
    /// Its MTU is too small for the only one.
    pub(super) fn check(&self, mtu: u16) -> Result<(), String> {
        match self.ipv6_only && mtu < MTU_MIN_V6 {
            true => Err(format!(
                "--ipv6-only: IPv6 needs an MTU of at least {MTU_MIN_V6}, not {mtu}"
            )),
            false => Ok(()),
        }
    }

    /// Whether the guest has IPv4.
    pub(super) fn has_v4(&self) -> bool {
        !self.ipv6_only
    }

    /// The guest's IPv6 network, if it is to have one, behind an interface with this MTU.
    pub(super) fn v6(&self, mtu: u16) -> Option<&Addressing6> {
        (!self.ipv4_only && mtu >= MTU_MIN_V6).then_some(&self.ipv6_prefix)
    }
}

/// A network, or the host's.
fn prefix(text: &str) -> Result<Addressing6, String> {
    if text != "host" {
        return text.parse();
    }
    let host = routes::default_route6(None).ok_or("the host has no default route of IPv6")?;
    let gateway = host.link_gateway().unwrap_or(Addressing6::LINK_GATEWAY);
    let dns = Addressing6::DEFAULT.dns;
    Ok(Addressing6::shared(host.addr, gateway, dns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_too_narrow_for_ipv6_carries_none() {
        // Breaks when a guest with an MTU of 576 gets addresses that its kernel takes away again, or -4 gives it some.
        assert!(FamilyOpts::BOTH.v6(MTU_MIN_V6).is_some() && FamilyOpts::BOTH.has_v4());
        assert!(FamilyOpts::BOTH.v6(MTU_MIN_V6 - 1).is_none());
        assert!(FamilyOpts::V4.v6(1500).is_none() && FamilyOpts::V4.has_v4());
    }
}
