//! Sockets that need only an address: the simple case of most programs.
//!
//! An address may be text. Names are not looked up, because the host's resolver would bypass the stack.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use super::{TcpListener, TcpStream};
use crate::error::Error;
use crate::stack::Stack;

/// The backlog if the program gives none.
#[doc(alias = "SOMAXCONN")]
const BACKLOG: usize = 4096;

/// An address and a port, or their text.
pub trait IntoEndpoint {
    /// The address and the port.
    ///
    /// # Errors
    /// [`Error::Address`]: the text is no address.
    fn into_endpoint(self) -> Result<SocketAddr, Error>;
}

impl IntoEndpoint for SocketAddr {
    fn into_endpoint(self) -> Result<SocketAddr, Error> {
        Ok(self)
    }
}

impl IntoEndpoint for SocketAddrV4 {
    fn into_endpoint(self) -> Result<SocketAddr, Error> {
        Ok(self.into())
    }
}

impl IntoEndpoint for SocketAddrV6 {
    fn into_endpoint(self) -> Result<SocketAddr, Error> {
        Ok(self.into())
    }
}

impl<A: Into<IpAddr>> IntoEndpoint for (A, u16) {
    fn into_endpoint(self) -> Result<SocketAddr, Error> {
        Ok(self.into())
    }
}

impl IntoEndpoint for &str {
    fn into_endpoint(self) -> Result<SocketAddr, Error> {
        self.parse().map_err(|_| Error::Address(self.to_owned()))
    }
}

impl Stack {
    /// Listens on `addr`. Port 0 selects a free port, which [`TcpListener::local_addr`] returns.
    ///
    /// # Errors
    /// [`Error::Address`], or why the stack can't listen there.
    pub fn listen(&self, addr: impl IntoEndpoint) -> Result<TcpListener, Error> {
        Ok(self.tcp_listen(addr.into_endpoint()?, BACKLOG)?)
    }

    /// Connects to `addr`, and waits until the connection is established or has failed, at most for `timeout`.
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
        Ok(self.tcp_connect(SocketAddr::new(any, 0), peer)?)
    }
}
