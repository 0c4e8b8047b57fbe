//! Sockets that need only an address: the simple case of most programs.
//!
//! An address may be text. Names are not looked up, because the host's resolver would bypass the stack.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use super::{TcpListener, TcpStream};
use crate::error::{Error, SocketError};
use crate::stack::Stack;

/// The backlog if the program gives none.
#[doc(alias = "SOMAXCONN")]
const BACKLOG: usize = 4096;

/// An address and a port, or their text, as each call that opens a socket takes them.
///
/// ```
/// use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
/// use mbuma::socket::IntoEndpoint;
///
/// let addr: SocketAddr = "[2001:db8::1]:80".into_endpoint()?;
/// assert_eq!((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 80).into_endpoint()?, addr);
/// assert_eq!(([192, 0, 2, 1], 80).into_endpoint()?, "192.0.2.1:80".into_endpoint()?);
/// assert!("example.org:80".into_endpoint().is_err()); // names are not looked up
/// # Ok::<(), mbuma::Error>(())
/// ```
pub trait IntoEndpoint {
    /// The address and the port.
    ///
    /// # Errors
    /// [`Error::Address`]: the text is no address.
    fn into_endpoint(self) -> Result<SocketAddr, Error>;
}

/// The address and the port, for calls whose error is that of sockets.
pub(super) fn endpoint(addr: impl IntoEndpoint) -> Result<SocketAddr, SocketError> {
    addr.into_endpoint().map_err(|_| SocketError::NotAnAddress)
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

impl IntoEndpoint for String {
    fn into_endpoint(self) -> Result<SocketAddr, Error> {
        self.as_str().into_endpoint()
    }
}

impl<E: IntoEndpoint + Clone> IntoEndpoint for &E {
    fn into_endpoint(self) -> Result<SocketAddr, Error> {
        self.clone().into_endpoint()
    }
}

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
