//! Sockets that need only an address: the simple case of most programs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::endpoint::IntoEndpoint;
use super::{TcpListener, TcpStream};
use crate::error::Error;
use crate::stack::Stack;

/// The backlog if the program gives none.
#[doc(alias = "SOMAXCONN")]
const BACKLOG: usize = 4096;

impl Stack {
    /// Listens on `addr`. Port 0 selects a free port, which [`TcpListener::local_addr`] returns. At most 4096
    /// connections wait to be accepted; [`tcp_listen`](Self::tcp_listen) takes another number.
    ///
    /// # Errors
    /// [`Error::Address`], or an error of [`tcp_listen`](Self::tcp_listen).
    pub fn listen(&self, addr: impl IntoEndpoint) -> Result<TcpListener, Error> {
        Ok(self.tcp_listen(addr.into_endpoint()?, BACKLOG)?)
    }

    /// Connects to `addr`, and waits until the connection is established or has failed, at most for `timeout`. Another
    /// thread must drive the stack, such as a worker of a [`Runtime`](crate::Runtime), unless the peer is at the end of
    /// an epair with [`Input::Direct`](crate::device::epair::Input).
    ///
    /// # Errors
    /// [`Error::Address`], or why there is no connection.
    #[doc(alias = "connect_timeout")]
    pub fn connect_blocking(
        &self,
        addr: impl IntoEndpoint,
        timeout: Option<Duration>,
    ) -> Result<TcpStream, Error> {
        let stream = self.begin_connection(addr)?;
        stream.connected_blocking(timeout)?;
        Ok(stream)
    }

    pub(super) fn begin_connection(&self, addr: impl IntoEndpoint) -> Result<TcpStream, Error> {
        let peer = addr.into_endpoint()?;
        let any = match peer {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        Ok(self.connect_between(SocketAddr::new(any, 0), peer, None)?)
    }
}
