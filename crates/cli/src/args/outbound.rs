//! Where outgoing connections come from: `--outbound-addr`.
//!
//! Called by: args, gateway::start. Calls: sys::netdev.
//! Locks: none.

use std::io;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::sys::netdev::NetdevSocket;

/// The value of `--outbound-addr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outbound {
    /// An address of the host.
    Addr(Ipv4Addr),
    /// The address that an interface of the host has when mbuma starts.
    Interface(String),
}

impl Outbound {
    /// The address.
    ///
    /// # Errors
    /// There is no such interface, or it has no IPv4 address.
    pub(crate) fn addr(&self) -> io::Result<Ipv4Addr> {
        match self {
            Outbound::Addr(addr) => Ok(*addr),
            Outbound::Interface(name) => NetdevSocket::open()?.addr(name),
        }
    }
}

impl FromStr for Outbound {
    type Err = String;

    fn from_str(text: &str) -> Result<Outbound, String> {
        match text.parse() {
            Ok(addr) => Ok(Outbound::Addr(addr)),
            Err(_) => super::ifname(text).map(Outbound::Interface),
        }
    }
}
