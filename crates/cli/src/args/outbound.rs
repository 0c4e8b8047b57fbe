//! The source of outgoing connections: `--outbound-addr`, `--interface`.
//!
//! Locks: none.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::str::FromStr;

use crate::sys::if_inet6;
use crate::sys::netdev::NetdevSocket;
use crate::sys::socket::InterfaceName;

/// The options.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct OutboundOpts {
    /// Source address of connections and datagrams to the network: an address, or an interface of the host, whose
    /// addresses of both families count. May be given once for each family.
    #[arg(long, value_name = "ADDR|IF")]
    pub(super) outbound_addr: Vec<OutboundAddr>,

    /// Interface of the host by which connections and datagrams to the network leave, even against the host's routes
    #[arg(long, value_name = "IF", value_parser = super::any_ifname)]
    pub(super) interface: Option<String>,

    /// The same for IPv4, and for IPv6, alone.
    #[arg(skip)]
    pub(super) by_version: [Option<String>; 2],
}

/// A value of `--outbound-addr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutboundAddr {
    /// An address of the host.
    Addr(IpAddr),
    /// The addresses that an interface of the host has when mbuma starts.
    Interface(String),
}

/// The local end of host sockets, unless their peer is the host itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) v4: Option<Ipv4Addr>,
    pub(crate) v6: Option<Ipv6Addr>,
    /// Of IPv4, and of IPv6.
    pub(crate) interfaces: [Option<InterfaceName>; 2],
}

impl OutboundOpts {
    /// Bound to these addresses alone.
    pub(super) fn of(addrs: impl IntoIterator<Item = OutboundAddr>) -> OutboundOpts {
        OutboundOpts {
            outbound_addr: addrs.into_iter().collect(),
            ..OutboundOpts::default()
        }
    }

    /// Those of the values that are addresses.
    pub(super) fn addrs(&self) -> Vec<IpAddr> {
        let addr = |value: &OutboundAddr| match value {
            OutboundAddr::Addr(addr) => Some(*addr),
            OutboundAddr::Interface(_) => None,
        };
        self.outbound_addr.iter().filter_map(addr).collect()
    }

    /// Whether sockets are bound to an address.
    pub(crate) fn binds(&self) -> bool {
        !self.outbound_addr.is_empty()
    }

    /// Whether sockets are bound to an interface.
    pub(crate) fn names_interface(&self) -> bool {
        self.interface.is_some() || self.by_version.iter().any(Option::is_some)
    }

    /// Checks that this host has the addresses, if the user gave addresses and not interfaces.
    ///
    /// # Errors
    /// No interface has one of them.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.outbound_addr.iter().try_for_each(|addr| match addr {
            OutboundAddr::Addr(addr) => check_is_own(*addr),
            OutboundAddr::Interface(_) => Ok(()),
        })
    }

    /// The addresses: the last one of each family.
    ///
    /// # Errors
    /// There is no such interface, or it has no address.
    pub(crate) fn sources(&self) -> io::Result<Sources> {
        let mut sources = Sources::default();
        for addr in &self.outbound_addr {
            match addr {
                OutboundAddr::Addr(IpAddr::V4(addr)) => sources.v4 = Some(*addr),
                OutboundAddr::Addr(IpAddr::V6(addr)) => sources.v6 = Some(*addr),
                OutboundAddr::Interface(name) => {
                    sources
                        .add_all_of(name)
                        .map_err(|e| of_interface(name, &e))?;
                }
            }
        }
        for (version, place) in self.by_version.iter().zip(&mut sources.interfaces) {
            if let Some(name) = version.as_ref().or(self.interface.as_ref()) {
                let found = NetdevSocket::open()?.mac(name);
                found.map_err(|e| of_interface(name, &e))?;
                *place = Some(InterfaceName::new(name)?);
            }
        }
        Ok(sources)
    }
}

impl Sources {
    fn add_all_of(&mut self, name: &str) -> io::Result<()> {
        let v4 = NetdevSocket::open()?.addr(name);
        let v6 = if_inet6::global_addr(name);
        if v6.is_none() {
            // If it has neither, the error is that of the first family.
            self.v4 = Some(v4?);
            return Ok(());
        }
        self.v4 = v4.ok().or(self.v4);
        self.v6 = v6;
        Ok(())
    }
}

impl FromStr for OutboundAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<OutboundAddr, String> {
        match text.parse() {
            Ok(addr) => Ok(OutboundAddr::Addr(addr)),
            Err(_) => super::any_ifname(text).map(OutboundAddr::Interface),
        }
    }
}

/// The error, with the name of the interface.
fn of_interface(name: &str, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("interface {name}: {e}"))
}

/// Whether sockets of the host can be bound to the address: otherwise each connection of the guest would fail.
fn check_is_own(addr: IpAddr) -> io::Result<()> {
    let bound = UdpSocket::bind((addr, 0));
    bound.map(drop).map_err(|e| match e.kind() {
        io::ErrorKind::AddrNotAvailable => {
            io::Error::new(e.kind(), format!("no interface of this host has {addr}"))
        }
        _ => e,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_of_the_host_is_a_source() {
        // Breaks when mbuma accepts a mistyped address, with which no connection of the guest works.
        let check = |addr: &str| OutboundOpts::of(addr.parse::<OutboundAddr>()).check();
        check("127.0.0.1").expect("each host has it");
        let error = check("192.0.2.77").expect_err("it is for documents only");
        assert!(error.to_string().contains("has 192.0.2.77"), "{error}");
        let missing = OutboundOpts {
            interface: Some("nosuch0".to_owned()),
            ..OutboundOpts::default()
        };
        let error = missing.sources().expect_err("no host has it");
        assert!(error.to_string().contains("nosuch0"), "{error}");
    }
}
