//! The address and port at which a socket is opened, in the forms in which programs have it.
//!
//! An address may be text. Names are not looked up, because the host's resolver would bypass the stack.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::error::{Error, SocketError};

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
