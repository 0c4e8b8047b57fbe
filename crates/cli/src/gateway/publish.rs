//! Published TCP ports: listeners on the host whose clients are connected to the guest.
//!
//! A client is accepted by the host's kernel before the guest is asked, so a port where nobody
//! listens in the guest shows as a connection that is reset at once.
//!
//! Called by: the gateway's start and turns. Calls: the stack, host.
//! Invariants: bound before COMMAND starts, so that a port in use is an error and not a surprise.
//! Locks: none.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
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
    token: Token,
    wake: Arc<Wake>,
}

impl Listener {
    /// Listens for `publish`, the `index`th; its clients are connected to `guest`.
    pub(super) fn bind(
        shared: &Shared,
        publish: &Publish,
        guest: SocketAddrV4,
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
            token,
            wake,
        })
    }

    /// Clients have come.
    pub(super) fn wake(&self) {
        self.wake.wake();
    }

    /// The next client, and the connection into the guest that was begun for it. `None` when nobody
    /// is waiting, or nobody can be accepted now.
    pub(super) fn accept(&self, shared: &mut Shared) -> Option<(TcpStream, Host)> {
        loop {
            match self.listener.accept() {
                Ok((socket, client)) => {
                    let Ok(host) = Host::accepted(socket) else {
                        continue;
                    };
                    match self.connect(shared, client) {
                        Ok(stream) => return Some((stream, host)),
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
