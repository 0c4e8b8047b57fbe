//! UDP sockets, as programs hold them.
//!
//! Locks: none held over a call.
//! Sources: RFC 768, RFC 1122 section 4.1.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mbuf::Chain;
use wire::{IpProto, UdpHeader};

use super::endpoint::IntoEndpoint;
use crate::icmp;
use crate::icmp::output::Original;
use crate::ifnet::IfIndex;
use crate::inet::{ANY, Ends};
use crate::ip::{self, IcmpError, QUOTE_MAX};
use crate::network;
use crate::park::{Wait, retry};
use crate::stack::Stack;
use crate::udp;
use crate::udp::pcb::UdpPcb;
use crate::waiters::{FutureId, PollingTask, WaitBy};

mod connect;
mod error;
mod groups;
mod multicast;
mod options;
mod payload;
mod recv_buffer;
mod segmented;

pub use self::error::{BindError, RecvError, SendError};
pub use self::payload::IntoPayload;
pub use crate::ifnet::filter_change::GroupError;
pub use crate::udp::{Datagram, UdpError};

/// A UDP socket (RFC 768, RFC 1122 section 4.1). Clones are handles on the same socket; the drop of the last one
/// unbinds it.
///
/// # Example
/// ```
/// use std::net::Ipv4Addr;
///
/// use mbuma::{Config, Stack};
///
/// let stack = Stack::new(Config::from_system())?;
/// let socket = stack.udp_bind((Ipv4Addr::LOCALHOST, 53))?;
/// assert!(socket.recv().is_err()); // nothing arrived yet
/// socket.send_to(b"to itself", socket.local_addr())?;
/// stack.poll();
/// let mut buf = [0; 1500];
/// assert_eq!(socket.recv_from(&mut buf)?, (9, socket.local_addr()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct UdpSocket(Arc<Bound>);

/// The part that the handles share.
struct Bound {
    stack: Stack,
    pcb: Arc<UdpPcb>,
    /// It may be in a group.
    in_groups: AtomicBool,
}

impl Drop for Bound {
    fn drop(&mut self) {
        let giant = self.stack.0.enter_giant();
        self.stack.0.udp.table.remove(&self.pcb);
        drop(giant);
        self.leave_groups();
        self.pcb.queue.close(self.stack.0.giant());
        self.pcb.errors.close(self.stack.0.giant());
    }
}

impl Stack {
    /// Binds a UDP socket. The address 0.0.0.0 means all addresses of this stack; port 0 selects a free port.
    ///
    /// # Errors
    /// The address is none, or not of this stack, or is taken, or no port is free.
    pub fn udp_bind(&self, local: impl IntoEndpoint) -> Result<UdpSocket, BindError> {
        self.udp_bind_as(local, false)
    }

    /// The same for a socket whose address and port other sockets may have too, if they are bound in this way. Each of
    /// them gets the datagrams to broadcasts and to the groups that it has joined; of the sockets with one address, a
    /// hash of the flow selects the one that gets all datagrams of a sender, and the errors about datagrams to it,
    /// until such a socket is bound or dropped.
    ///
    /// # Errors
    /// As [`Stack::udp_bind`]; also if 256 sockets share the port.
    #[doc(alias = "SO_REUSEPORT")]
    #[doc(alias = "SO_REUSEADDR")]
    pub fn udp_bind_shared(&self, local: impl IntoEndpoint) -> Result<UdpSocket, BindError> {
        self.udp_bind_as(local, true)
    }

    fn udp_bind_as(&self, local: impl IntoEndpoint, shares: bool) -> Result<UdpSocket, BindError> {
        let local = local.into_endpoint();
        let (stack, local) = (&self.0, local.map_err(|_| BindError::NotAnAddress)?);
        let _giant = stack.enter_giant();
        if !local.ip().is_unspecified() && !network::is_local(stack, local.ip()) {
            return Err(BindError::AddrNotAvailable);
        }
        if local.port() != 0 {
            let bound = self.bind_pcb(local, None, shares);
            return bound.ok_or(BindError::AddrInUse);
        }
        // Another thread may take the free port first; then another port is tried.
        for _ in 0..BIND_TRIES {
            let port = stack
                .udp
                .table
                .free_port(local.ip(), stack.random(|r| r.next_u32()));
            let port = port.ok_or(BindError::NoFreePort)?;
            let local = SocketAddr::new(local.ip(), port);
            if let Some(socket) = self.bind_pcb(local, None, shares) {
                return Ok(socket);
            }
        }
        Err(BindError::NoFreePort)
    }

    /// A socket for every datagram that comes in by `index` and that no other socket takes, to any address if the
    /// interface accepts any. Datagrams to broadcasts and groups are not included. When the interface is detached, the
    /// calls that wait return [`RecvError::NoInterface`].
    ///
    /// # Errors
    /// There is no such interface, or it has such a socket already.
    pub fn udp_bind_any(&self, index: IfIndex) -> Result<UdpSocket, BindError> {
        let bound = self.bind_pcb(ANY, Some(index), false);
        // Afterwards, because the interface may be detached meanwhile.
        match self.0.interface(index) {
            Some(_) => bound.ok_or(BindError::AddrInUse),
            None => Err(BindError::NoInterface),
        }
    }

    fn bind_pcb(&self, local: SocketAddr, any: Option<IfIndex>, shares: bool) -> Option<UdpSocket> {
        let mut pcb = self.0.udp.new_pcb(local, any);
        pcb.shares = shares;
        let pcb = Arc::new(pcb);
        let bound = self.0.udp.table.insert(&pcb);
        bound.then(|| {
            UdpSocket(Arc::new(Bound {
                stack: self.clone(),
                pcb,
                in_groups: AtomicBool::new(false),
            }))
        })
    }
}

impl UdpSocket {
    /// The oldest datagram that arrived.
    ///
    /// # Errors
    /// If there is none: of a [connected](Self::connect) socket, the oldest error about a sent datagram, which is
    /// removed; without one, [`RecvError::WouldBlock`]. An unconnected socket reports errors by
    /// [`take_error`](Self::take_error) alone: otherwise any client that is gone would end the server that answers it.
    #[doc(alias = "recvfrom")]
    pub fn recv(&self) -> Result<Datagram, RecvError> {
        self.take(None, None)
    }

    /// Copies the oldest datagram's payload to `buf`; returns its bytes there, and its sender. The rest of a longer
    /// payload is lost.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`].
    pub fn recv_from(&self, buf: &mut [u8]) -> Result<(usize, SocketAddr), RecvError> {
        self.recv().map(|datagram| datagram.copy_to(buf))
    }

    /// As [`UdpSocket::recv_from`], waiting for a datagram.
    ///
    /// # Errors
    /// As there; [`RecvError::TimedOut`] when the time is over.
    pub fn recv_from_blocking(
        &self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<(usize, SocketAddr), RecvError> {
        self.recv_blocking(timeout)
            .map(|datagram| datagram.copy_to(buf))
    }

    /// The oldest datagram, waiting for one.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`]; [`RecvError::TimedOut`] when the time is over.
    #[doc(alias = "recvfrom")]
    pub fn recv_blocking(&self, timeout: Option<Duration>) -> Result<Datagram, RecvError> {
        let received = retry(Wait::Yes(timeout), |waiter| {
            let waiting = waiter.map(WaitBy::Once);
            self.attempt(waiting, waiting)
        });
        received.unwrap_or(Err(RecvError::TimedOut))
    }

    /// The oldest datagram, for one task: if several poll, the one that polled last is woken.
    ///
    /// # Errors
    /// As [`UdpSocket::recv`], except [`RecvError::WouldBlock`].
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<Datagram, RecvError>> {
        // Two wakers, because each queue may return one, to be dropped when no lock is held.
        let (for_data, for_errors) = (PollingTask::new(cx), PollingTask::new(cx));
        let (for_data, for_errors) = (WaitBy::Polled(&for_data), WaitBy::Polled(&for_errors));
        self.attempt(Some(for_data), Some(for_errors))
    }

    pub(super) fn attempt(
        &self,
        for_data: Option<WaitBy<'_>>,
        for_errors: Option<WaitBy<'_>>,
    ) -> Poll<Result<Datagram, RecvError>> {
        match self.take(for_data, for_errors) {
            // Asked after the attempt has left its waker: see `StackState::abandon`.
            Err(RecvError::WouldBlock) => match self.0.stack.0.is_abandoned() {
                true => Poll::Ready(Err(RecvError::NotDriven)),
                false => Poll::Pending,
            },
            other => Poll::Ready(other),
        }
    }

    /// Removes the waker of a future.
    pub(super) fn forget(&self, id: FutureId) {
        let Bound { stack, pcb, .. } = &*self.0;
        pcb.queue.forget(stack.0.giant(), id);
        pcb.errors.forget(stack.0.giant(), id);
    }

    /// A datagram or an error; if there is neither, the waiting call is woken for the first of both.
    fn take(
        &self,
        for_data: Option<WaitBy<'_>>,
        for_errors: Option<WaitBy<'_>>,
    ) -> Result<Datagram, RecvError> {
        let Bound { stack, pcb, .. } = &*self.0;
        let giant = stack.0.giant();
        match pcb.queue.pop(giant, for_data) {
            Some(record) => Ok(record.into()),
            None => Err(self.oldest_error(for_errors)),
        }
    }

    /// The oldest error of a connected socket, or that there is none.
    fn oldest_error(&self, waiting: Option<WaitBy<'_>>) -> RecvError {
        let Bound { stack, pcb, .. } = &*self.0;
        if pcb.flow().is_none() {
            return RecvError::of_empty(&pcb.queue);
        }
        let error = pcb.errors.pop(stack.0.giant(), waiting);
        error.map_or(RecvError::WouldBlock, |record| RecvError::Icmp(record.with))
    }

    /// As [`UdpSocket::send_to`]. It is ready at once: a socket keeps no outgoing datagram. If an interface's queue is
    /// full, the datagram is dropped, as it might be later on its path.
    ///
    /// # Errors
    /// As there.
    pub fn poll_send(
        &self,
        _cx: &mut Context<'_>,
        payload: impl IntoPayload,
        dst: impl IntoEndpoint,
    ) -> Poll<Result<(), SendError>> {
        Poll::Ready(self.send_to(payload, dst))
    }

    /// The oldest error about a datagram that was sent, if there is one.
    #[doc(alias = "SO_ERROR")]
    pub fn take_error(&self) -> Option<UdpError> {
        let Bound { stack, pcb, .. } = &*self.0;
        let oldest = pcb.errors.pop(stack.0.giant(), None);
        oldest.map(|record| record.with)
    }

    /// Sends a datagram from `src`: the bound address, or, for an interface's socket for all datagrams, any address if
    /// the datagram leaves by that interface.
    ///
    /// # Errors
    /// See [`SendError`]; the datagram is dropped.
    #[doc(alias = "sendmsg")]
    pub fn send_from(
        &self,
        payload: impl IntoPayload,
        src: impl IntoEndpoint,
        dst: impl IntoEndpoint,
    ) -> Result<(), SendError> {
        let src = src.into_endpoint().map_err(|_| SendError::BadSource)?;
        let dst = dst.into_endpoint().map_err(|_| SendError::BadDestination)?;
        let payload = payload.into_payload(self.0.stack.pool())?;
        self.send_between(payload, src, dst)
    }

    fn send_between(
        &self,
        payload: Chain,
        src: SocketAddr,
        dst: SocketAddr,
    ) -> Result<(), SendError> {
        let ends = self.checked(&payload, src, dst)?;
        let (stack, pcb, link) = (&self.0.stack.0, &self.0.pcb, self.link_to(dst));
        let sent = stack.enter(|batch| udp::output::run(batch, pcb, payload, &ends, link));
        sent.map_err(SendError::from)
    }

    /// The ends of a datagram that the socket may send.
    fn checked(
        &self,
        payload: &Chain,
        src: SocketAddr,
        dst: SocketAddr,
    ) -> Result<Ends, SendError> {
        let giant = self.0.stack.0.enter_giant();
        if !self.may_send_from(src, dst) {
            return Err(SendError::BadSource);
        }
        drop(giant);
        let ends = Ends::between(src, dst).ok_or(SendError::BadSource)?;
        if dst.port() == 0 || dst.ip().is_unspecified() {
            return Err(SendError::BadDestination);
        }
        match payload.len() > udp::output::payload_max(&ends) {
            true => Err(SendError::TooBig),
            false => Ok(ends),
        }
    }

    /// Sends a datagram from the bound address; if the socket is bound to all addresses, from that of the interface
    /// towards `dst`.
    ///
    /// # Errors
    /// See [`SendError`]; the datagram is dropped.
    #[doc(alias = "sendto")]
    pub fn send_to(
        &self,
        payload: impl IntoPayload,
        dst: impl IntoEndpoint,
    ) -> Result<(), SendError> {
        let dst = dst.into_endpoint().map_err(|_| SendError::BadDestination)?;
        let payload = payload.into_payload(self.0.stack.pool())?;
        let src = self.source_to(dst).ok_or(SendError::NoRoute)?;
        self.send_between(payload, src, dst)
    }

    /// The bound address, or if that is all addresses, the one of the interface towards `dst`; with the port.
    fn source_to(&self, dst: SocketAddr) -> Option<SocketAddr> {
        let local = self.0.pcb.local;
        if !local.ip().is_unspecified() {
            return Some(local);
        }
        let _giant = self.0.stack.0.enter_giant();
        let ip = network::source_to(&self.0.stack.0, dst, self.link_to(dst))?;
        Some(SocketAddr::new(ip, local.port()))
    }

    fn may_send_from(&self, src: SocketAddr, dst: SocketAddr) -> bool {
        let (pcb, stack) = (&self.0.pcb, &self.0.stack.0);
        if let Some(index) = pcb.any {
            return src.port() != 0 && network::leads_through(stack, index, dst);
        }
        let ip_fits = match pcb.local.ip() {
            // Answers to another version of IP would not reach the socket.
            ip if ip.is_unspecified() => {
                ip.is_ipv4() == src.is_ipv4() && network::is_local(stack, src.ip())
            }
            ip => ip == src.ip(),
        };
        ip_fits && src.port() == pcb.local.port()
    }

    /// Sends the sender of `datagram` an error that quotes it (RFC 792). A datagram that can't have arrived, because it
    /// is too large or has addresses of two versions, causes no error.
    pub fn refuse(&self, datagram: &Datagram, kind: IcmpError) {
        let Some(ends) = Ends::between(datagram.dst, datagram.src) else {
            return;
        };
        let Some((front, len)) = quote(datagram, &ends) else {
            return;
        };
        let original = Original {
            ends,
            proto: IpProto::UDP,
            ttl: datagram.ttl,
            len,
            front: &front,
        };
        let stack = &self.0.stack.0;
        stack.enter(|batch| icmp::output::error_about_original(batch, &original, kind));
    }

    /// Sets the waker for a datagram or an error that arrives at an empty queue; it is called at once if one is
    /// waiting now. It stays until another takes its place.
    pub fn set_waker(&self, waker: Option<Waker>) {
        let Bound { stack, pcb, .. } = &*self.0;
        let giant = stack.0.giant();
        let now = [
            pcb.queue.set_waker(giant, waker.clone()),
            pcb.errors.set_waker(giant, waker),
        ];
        if let Some(waker) = now.into_iter().flatten().next() {
            waker.wake();
        }
    }

    /// The bound address; of a connected socket, the one that its peer knows. A socket for all datagrams has none:
    /// 0.0.0.0:0.
    #[doc(alias = "getsockname")]
    pub fn local_addr(&self) -> SocketAddr {
        let flow = self.0.pcb.flow();
        flow.map_or(self.0.pcb.local, |flow| flow.local())
    }
}

kern::impl_debug!(UdpSocket |this| local: this.local_addr());

/// The part of the received datagram that an error quotes, and the datagram's length with its header. The header is
/// rebuilt and the data copied, because errors are rare. `None` if it is larger than any packet.
fn quote(datagram: &Datagram, ends: &Ends) -> Option<(Vec<u8>, u16)> {
    let len = Original::len_of(ends, UdpHeader::LEN + datagram.payload.len())?;
    let mut header = UdpHeader::new(ends.peer_port(), ends.local_port(), len);
    let mut bytes = vec![0; usize::from(len).min(QUOTE_MAX)];
    let mut sum = ip::pseudo_header(ends, IpProto::UDP, usize::from(len));
    let (header_bytes, data) = bytes.split_at_mut(UdpHeader::LEN);
    header.emit(header_bytes);
    sum.add_bytes(header_bytes);
    datagram.payload.segments().for_each(|s| sum.add_bytes(s));
    header.set_checksum(sum.finish_nonzero());
    header.emit(header_bytes);
    datagram.payload.copy_to(0, data);
    Some((bytes, len))
}

/// How often one bind may lose a race for a free port.
const BIND_TRIES: usize = 16;
