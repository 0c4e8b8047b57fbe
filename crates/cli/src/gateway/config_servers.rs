//! The servers for guests that configure themselves: virtual machines, and namespaces whose owner runs a client.
//!
//! All send the values that [`crate::guest`] would configure, so that no two of them contradict each other.
//! `mbuma serve`, which is no gateway, runs none of them. A guest with an address of the host finds none either,
//! because the host's network may have its own servers. The guests of a network get their addresses from
//! [`crate::network`]; they receive router advertisements, and DHCP tells them only the name servers.
//!
//! Locks: none.

use mbuma::IfIndex;

use super::dhcp4::{Dhcp4Server, LeaseTerms};
use super::dhcp6::{Dhcp6Server, Dhcp6Terms};
use super::figures::Fixed;
use super::router_adverts::{AdvertTerms, RouterAdverts};
use super::shared::Shared;
use super::table::SourceKind;
use crate::addressing::{Addressing, Addressing6};
use crate::args::NetOpts;
use crate::errors::Error;

/// The servers that run.
pub(super) struct ConfigServers {
    dhcp4: Option<Dhcp4Server>,
    dhcp6: Option<Dhcp6Server>,
    adverts: Option<RouterAdverts>,
}

impl ConfigServers {
    /// Opens the servers that the guest may ask.
    ///
    /// # Errors
    /// A port or a type of message has another owner.
    pub(super) fn open(
        shared: &Shared,
        index: IfIndex,
        fixed: &Fixed,
        opts: &NetOpts,
    ) -> Result<ConfigServers, Error> {
        let is_gateway = opts.serve.alone.is_none();
        let v4 = fixed.guest.v4.filter(|v4| is_gateway && !v4.routed);
        let v6 = fixed.guest.v6.filter(|v6| is_gateway && !v6.routed);
        let dhcp4 = v4.filter(|_| !opts.network && !opts.no_dhcp).map(|v4| {
            let server = Dhcp4Server::new(shared, lease_terms(&v4, fixed.mtu, opts));
            server.map_err(|e| Error::stack("binding the port of DHCP", e))
        });
        let dhcp6 = v6.map(|v6| {
            let server = Dhcp6Server::new(shared, index, dhcp6_terms(&v6, opts));
            server.map_err(|e| Error::stack("binding the port of DHCPv6", e))
        });
        let adverts = v6.map(|v6| {
            let server = RouterAdverts::new(shared, index, advert_terms(&v6, fixed.mtu, opts));
            server.map_err(|e| Error::stack("taking over router solicitations", e))
        });
        Ok(ConfigServers {
            dhcp4: dhcp4.transpose()?,
            dhcp6: dhcp6.transpose()?,
            adverts: adverts.transpose()?,
        })
    }

    /// A turn of the server of this kind.
    pub(super) fn turn(&mut self, shared: &mut Shared, kind: SourceKind) {
        match kind {
            SourceKind::Dhcp4 => self.dhcp4.iter().for_each(|server| server.answer(shared)),
            SourceKind::Dhcp6 => self.dhcp6.iter().for_each(|server| server.answer(shared)),
            _ => self.adverts.iter_mut().for_each(|all| all.answer(shared)),
        }
    }

    /// Sends the advertisement that is due.
    pub(super) fn timer(&mut self, shared: &mut Shared) {
        self.adverts.iter_mut().for_each(|all| all.timer(shared));
    }

    /// Advertises that the gateway is no longer a router.
    pub(super) fn close(&mut self) {
        self.adverts.iter_mut().for_each(RouterAdverts::close);
    }
}

fn lease_terms(v4: &Addressing, mtu: u16, opts: &NetOpts) -> LeaseTerms {
    LeaseTerms {
        addr: v4.guest,
        prefix_len: v4.prefix_len,
        server: v4.gateway,
        dns: (!opts.no_dns).then_some(v4.dns),
        mtu,
        hostname: opts.dhcp.hostname.clone(),
        search: opts.dhcp.search.clone(),
    }
}

fn dhcp6_terms(v6: &Addressing6, opts: &NetOpts) -> Dhcp6Terms {
    Dhcp6Terms {
        addr: (!opts.network).then_some(v6.guest),
        network: (v6.gateway, v6.prefix_len),
        server: v6.link_gateway,
        server_id: wire::duid_of(opts.stack_mac()),
        dns: v6.dns.filter(|_| !opts.no_dns),
        search: opts.dhcp.search.clone(),
    }
}

fn advert_terms(v6: &Addressing6, mtu: u16, opts: &NetOpts) -> AdvertTerms {
    AdvertTerms {
        router: v6.link_gateway,
        mac: opts.stack_mac(),
        network: (v6.gateway, v6.prefix_len),
        mtu,
        dns: v6.dns.filter(|_| !opts.no_dns),
        search: opts.dhcp.search.clone(),
    }
}
