//! Published TCP ports: listeners on the host whose clients are connected to the guest; and outward ports: listeners at
//! the guest's loopback whose clients are connected to the host's ([`super::outward`]).
//!
//! ```text
//!   client --> Listener --> 1. the guest's address      a server that listens there, or on 0.0.0.0 or ::
//!                           2. the guest's 127.0.0.1    if the guest refused 1: most development servers; by `pasta`
//!                                                       for clients on the host's own loopback alone
//!                           3. the other family         if the guest refused 2; also if a machine has not taken 1
//!                           4. a reset, and a line that says so
//! ```
//! The family is the client's where the guest has it; the guest's ::1 can't be reached from its interface.
//!
//! The host's kernel accepts a client before mbuma connects to the guest, so a client for which there is no server is
//! connected, then reset.
//!
//! Invariants: the monitor has bound it ([`crate::ports`]).
//! Locks: none.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use mbuma::runtime::{Interest, TaskWaker};
use mbuma::{SocketError, TcpStream};

use super::client_quota::{ClientQuota, ClientSlot};
use super::host::Host;
use super::loopback::OutwardClient;
use super::notice;
use super::policy;
use super::retry::{ACCEPT_WAIT, RetryTimer};
use super::shared::Shared;
use super::table::Token;
use crate::ports::PublishedId;

/// One published or outward port.
pub(super) struct Listener {
    id: PublishedId,
    listener: TcpListener,
    leads_to: ListenerTarget,
    quota: ClientQuota,
    token: Token,
    wake: Arc<TaskWaker>,
    /// For the next attempt to accept.
    retry: RetryTimer,
}

/// The destination of the clients of a listener.
pub(super) enum ListenerTarget {
    /// A server of the guest.
    Guest(GuestServer),
    /// This port of the host's loopback.
    HostLoopback(u16),
}

impl ListenerTarget {
    /// The descriptors that a client takes.
    fn descriptors(&self) -> usize {
        match self {
            ListenerTarget::Guest(_) => 1,
            ListenerTarget::HostLoopback(_) => 2,
        }
    }
}

/// The addresses at which the guest's server may listen.
pub(super) struct GuestServer {
    /// The address to try first.
    pub(super) first: SocketAddr,
    /// The other addresses, the next one last.
    pub(super) others: Vec<SocketAddr>,
}

/// A client that was accepted, and the connection into the guest that was begun for it.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    pub(super) host: Host,
    /// The addresses to try if the peer of `stream` refuses, the next one last.
    pub(super) others: Vec<SocketAddr>,
    pub(super) slot: ClientSlot,
}

/// The result of an attempt to accept a client.
pub(super) enum Accepted {
    /// A client whose connection into the guest was begun.
    Client(Client),
    /// A client of the guest's loopback whose connection to the host's was begun.
    Outward(OutwardClient),
    /// A client that has left, or was reset. There may be more.
    Lost,
    /// No client, or none that can be accepted now.
    None,
}

/// The meaning of a failure of accept(2) for the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptFailure {
    /// No client waits.
    NoClient,
    /// The error is that of the first client in the queue, which is removed by it: the next client may be accepted at
    /// once (accept(2), "Error handling").
    OfTheClient,
    /// The process has no descriptor left.
    OutOfDescriptors,
    /// The kernel has no memory, or forbids it: the same call would fail again at once.
    Lasting,
}

impl AcceptFailure {
    fn of(error: &io::Error) -> Self {
        let gone = [
            libc::ECONNABORTED,
            libc::EINTR,
            libc::ENETDOWN,
            libc::EPROTO,
            libc::ENOPROTOOPT,
            libc::EHOSTDOWN,
            libc::ENONET,
            libc::EHOSTUNREACH,
            libc::EOPNOTSUPP,
            libc::ENETUNREACH,
        ];
        match error.raw_os_error() {
            _ if error.kind() == io::ErrorKind::WouldBlock => Self::NoClient,
            _ if policy::is_out_of_descriptors(error) => Self::OutOfDescriptors,
            Some(errno) if gone.contains(&errno) => Self::OfTheClient,
            _ => Self::Lasting,
        }
    }
}

impl Listener {
    /// Serves a TCP port under this token; the socket listens.
    pub(super) fn new(
        shared: &Shared,
        (id, socket): (PublishedId, OwnedFd),
        leads_to: ListenerTarget,
        quota: &ClientQuota,
        token: Token,
    ) -> io::Result<Listener> {
        let listener = TcpListener::from(socket);
        shared.poller().add(&listener, token, Interest::ReadEdge)?;
        let wake = shared.wake_for(token);
        Ok(Listener {
            id,
            listener,
            leads_to,
            quota: quota.for_port(),
            token,
            wake,
            retry: RetryTimer::default(),
        })
    }

    /// Which of the published ports it is.
    pub(super) fn id(&self) -> PublishedId {
        self.id
    }

    /// Clients have come.
    pub(super) fn wake(&self) {
        self.wake.wake();
    }

    /// Accepts the next client of the kernel's queue.
    pub(super) fn accept(&self, shared: &mut Shared) -> Accepted {
        let Some(slot) = self.quota.slot(self.leads_to.descriptors()) else {
            self.note_quota(shared);
            return self.later(shared);
        };
        match self.listener.accept() {
            Ok((socket, client)) => match Host::accepted(socket) {
                Ok(host) => match &self.leads_to {
                    ListenerTarget::Guest(server) => begin(shared, server, host, client, slot),
                    ListenerTarget::HostLoopback(port) => {
                        begin_outward(shared, host, client, *port, slot)
                    }
                },
                Err(_) => Accepted::Lost,
            },
            Err(error) => match AcceptFailure::of(&error) {
                AcceptFailure::NoClient => Accepted::None,
                AcceptFailure::OfTheClient => Accepted::Lost,
                AcceptFailure::OutOfDescriptors => {
                    shared.out_of_descriptors();
                    self.later(shared)
                }
                AcceptFailure::Lasting => self.later(shared),
            },
        }
    }

    /// Sets a timer for the next attempt. Clients wait in the kernel's queue.
    fn later(&self, shared: &mut Shared) -> Accepted {
        self.retry.set(shared, self.token, ACCEPT_WAIT);
        Accepted::None
    }

    fn note_quota(&self, shared: &mut Shared) {
        let now = shared.now();
        shared.notices.say(now, notice::Subject::Clients, || {
            format!(
                "clients of ports have {} descriptors, as many as the limit on open files allows: further clients \
                 wait. Raise the hard limit, which `ulimit -Hn` shows (`LimitNOFILE=` of systemd, `nofile` of \
                 limits.conf)",
                self.quota.max()
            )
        });
    }
}

/// Begins the connection of a client with the guest.
fn begin(
    shared: &mut Shared,
    server: &GuestServer,
    host: Host,
    client: SocketAddr,
    slot: ClientSlot,
) -> Accepted {
    match connect(shared, server.first, client) {
        Ok(stream) => {
            let mut others = server.others.clone();
            others.retain(|other| shared.policy.admits(client, *other));
            Accepted::Client(Client {
                stream,
                host,
                others,
                slot,
            })
        }
        Err(_) => {
            host.reset();
            Accepted::Lost
        }
    }
}

/// Begins the connection into the guest, from the client's own address where possible.
fn connect(
    shared: &mut Shared,
    server: SocketAddr,
    client: SocketAddr,
) -> Result<TcpStream, SocketError> {
    let shown = shared.policy.shown_address(client, server.ip());
    let stream = match shared.stack.tcp_connect(shown, server) {
        // An old connection from this port is in TIME-WAIT; another port works as well.
        Err(SocketError::AddrInUse) if shown.port() != 0 => {
            let mut other = shown;
            other.set_port(0);
            shared.stack.tcp_connect(other, server)
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

/// Begins the connection of a client of the guest's loopback with the host's.
fn begin_outward(
    shared: &mut Shared,
    guest: Host,
    client: SocketAddr,
    port: u16,
    slot: ClientSlot,
) -> Accepted {
    match OutwardClient::begin(guest, client, port, slot) {
        Ok(client) => {
            shared.counters.connections_out += 1;
            Accepted::Outward(client)
        }
        Err((guest, e)) => {
            if policy::is_out_of_descriptors(&e) {
                shared.out_of_descriptors();
            }
            shared.counters.connections_refused += 1;
            guest.reset();
            Accepted::Lost
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addressing::Addressing;
    use crate::gateway::test_gateway;

    #[test]
    fn a_client_that_comes_back_from_the_same_port_is_connected() {
        // Breaks if a client is refused because the guest's side of its last connection is in TIME-WAIT, or still open.
        let (mut shared, _guest) = test_gateway::with_guest();
        let server = SocketAddr::from((Addressing::DEFAULT.guest, 80));
        let client = SocketAddr::from(([198, 51, 100, 9], 5000));
        let first = connect(&mut shared, server, client).expect("a connection");
        assert_eq!(first.local_addr(), client);
        let second = connect(&mut shared, server, client).expect("another");
        assert_eq!(second.local_addr().ip(), client.ip());
    }

    #[test]
    fn only_a_lost_client_lets_accept_be_called_again_at_once() {
        // Breaks if the loop calls accept(2) again and again while it fails, or stops while clients wait.
        let cases = [
            (libc::EAGAIN, AcceptFailure::NoClient),
            (libc::ECONNABORTED, AcceptFailure::OfTheClient),
            (libc::EINTR, AcceptFailure::OfTheClient),
            (libc::ENETDOWN, AcceptFailure::OfTheClient),
            (libc::EMFILE, AcceptFailure::OutOfDescriptors),
            (libc::ENFILE, AcceptFailure::OutOfDescriptors),
            (libc::ENOBUFS, AcceptFailure::Lasting),
            (libc::ENOMEM, AcceptFailure::Lasting),
            (libc::EPERM, AcceptFailure::Lasting),
            (libc::EINVAL, AcceptFailure::Lasting),
        ];
        for (errno, failure) in cases {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(AcceptFailure::of(&error), failure, "{error}");
        }
    }
}
