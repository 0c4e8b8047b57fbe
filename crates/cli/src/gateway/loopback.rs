//! The host's loopback, and a client of the guest's loopback that is led there.
//!
//! Locks: none.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mbuma::runtime::Poller;

use super::client_quota::ClientSlot;
use super::host::Host;
use super::table::Token;
use crate::sys::socket::LocalEnd;

/// The loopback of the host: that of the client's version of IP first.
pub(super) fn loopbacks(client: SocketAddr, port: u16) -> [SocketAddr; 2] {
    let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    let both: [IpAddr; 2] = match client {
        SocketAddr::V4(_) => [v4, v6],
        SocketAddr::V6(_) => [v6, v4],
    };
    both.map(|ip| SocketAddr::new(ip, port))
}

/// The two sockets of a connection that begins.
pub(super) struct OutwardClient {
    pub(super) guest: Host,
    pub(super) host: Host,
    pub(super) slot: ClientSlot,
}

impl OutwardClient {
    /// Begins the host's end of a client's connection.
    ///
    /// # Errors
    /// No program of the host listens there.
    pub(super) fn begin(
        guest: Host,
        client: SocketAddr,
        port: u16,
        slot: ClientSlot,
    ) -> Result<OutwardClient, (Host, io::Error)> {
        let [first, second] = loopbacks(client, port);
        let connect = |peer| Host::connect(peer, LocalEnd::default());
        match connect(first).or_else(|e| connect(second).map_err(|_| e)) {
            Ok((host, _)) => Ok(OutwardClient { guest, host, slot }),
            Err(e) => Err((guest, e)),
        }
    }

    /// Watches both ends.
    pub(super) fn watch(&self, poller: &Poller, token: Token) -> io::Result<()> {
        self.guest.watch(poller, token)?;
        self.host.watch(poller, token)
    }
}
