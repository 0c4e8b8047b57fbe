//! Published TCP ports: listeners on the host whose clients are connected to the guest.
//!
//! ```text
//!   client --> Listener --> 1. the guest's address      a server that listens there, or on 0.0.0.0
//!                           2. the guest's 127.0.0.1    if the guest refused 1: most development servers
//!                           3. a reset, and a line that says so
//! ```
//! The host's kernel accepts a client before the guest is asked, so a client that no server takes is connected, then
//! reset.
//!
//! Invariants: bound before COMMAND starts, so that a port in use is an error and not a surprise.
//! Locks: none.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use mbuma::{SocketError, TcpStream};

use super::host::Host;
use super::policy;
use super::ready::Wake;
use super::shared::Shared;
use super::table::{Kind, Token};
use crate::args::Publish;
use crate::errors::Error;
use crate::sys::socket;

/// How long to wait for a descriptor when there is none left. Clients wait in the kernel's queue.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(100);

/// One published port.
pub(super) struct Listener {
    listener: TcpListener,
    guest: SocketAddrV4,
    /// Where the server may listen in the place of there.
    loopback: Option<SocketAddrV4>,
    token: Token,
    wake: Arc<Wake>,
}

/// A client that was accepted, and the connection into the guest that was begun for it.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    pub(super) host: Host,
    /// Where the server is to be looked for if it is not at the other end of `stream`.
    pub(super) second: Option<SocketAddrV4>,
}

impl Listener {
    /// Listens for `publish`, the `index`th; its clients are connected to `guest`, or to its 127.0.0.1 if `loopback`.
    pub(super) fn bind(
        shared: &Shared,
        publish: &Publish,
        guest: SocketAddrV4,
        loopback: bool,
        index: u32,
    ) -> Result<Listener, Error> {
        let token = Token::nth(Kind::Listener, index);
        let bound = TcpListener::bind(publish.host).and_then(|listener| {
            // The standard library asks for 128, and the kernel drops the SYNs of further clients.
            socket::listen_max(listener.as_fd())?;
            listener.set_nonblocking(true)?;
            shared.poller.add_alarm(&listener, token)?;
            Ok(listener)
        });
        let listener = bound.map_err(|source| Error::Publish {
            publish: *publish,
            source,
        })?;
        let wake = shared.wake_for(token);
        Ok(Listener {
            listener,
            guest,
            loopback: loopback.then(|| SocketAddrV4::new(Ipv4Addr::LOCALHOST, guest.port())),
            token,
            wake,
        })
    }

    /// Clients have come.
    pub(super) fn wake(&self) {
        self.wake.wake();
    }

    /// The next client. `None` when none is waiting, or none can be accepted now.
    pub(super) fn accept(&self, shared: &mut Shared) -> Option<Client> {
        loop {
            match self.listener.accept() {
                Ok((socket, client)) => {
                    let Ok(host) = Host::accepted(socket) else {
                        continue;
                    };
                    match self.connect(shared, client) {
                        Ok(stream) => {
                            let second = self.loopback;
                            return Some(Client {
                                stream,
                                host,
                                second,
                            });
                        }
                        Err(_) => host.reset(),
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return None,
                Err(e) if policy::is_out_of_descriptors(&e) => {
                    shared.out_of_descriptors();
                    shared.after(DESCRIPTOR_WAIT, self.token);
                    return None;
                }
                // The client went away while it waited: accept(2) tells of such errors.
                Err(_) => {}
            }
        }
    }

    /// Begins the connection into the guest, from the client's own address where possible.
    fn connect(&self, shared: &mut Shared, client: SocketAddr) -> Result<TcpStream, SocketError> {
        let anyone = SocketAddrV4::new(shared.policy.gateway(), 0);
        let shown = shared.policy.shown_address(client).unwrap_or(anyone);
        let stream = match shared.stack.tcp_connect(shown, self.guest) {
            // An old connection from this port lingers; another port serves as well.
            Err(SocketError::AddrInUse) if shown.port() != 0 => {
                let other = SocketAddrV4::new(*shown.ip(), 0);
                shared.stack.tcp_connect(other, self.guest)
            }
            begun => begun,
        };
        let counter = match stream {
            Ok(_) => &mut shared.counters.connections_in,
            Err(_) => &mut shared.counters.connections_refused,
        };
        *counter += 1;
        stream
    }
}
