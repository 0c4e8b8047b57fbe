//! Incoming connections: a listener on an address of ours, an interceptor for every address behind an interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wire::{SeqNum, TcpFlags, TcpOptions};

use super::attempt::{blocking, polled};
use super::endpoint::{IntoEndpoint, endpoint};
use super::tcp_stream::abort;
use super::{SocketError, TcpStream};
use crate::ifnet::IfIndex;
use crate::inet::dynamic_ports;
use crate::ip::IcmpError;
use crate::network;
use crate::stack::Stack;
use crate::state::StackState;
use crate::tcp::accept::{AcceptQueue, SHARERS_MAX};
use crate::tcp::pcb::Inpcb;
use crate::tcp::reset::{self, EndReset};
use crate::tcp::visit;
use crate::tcp::{State, TcpSocketOptions};
use crate::waiters::{FutureId, WaitBy};

/// Listens on an address. Dropping it refuses new connections, and resets those that were not accepted.
///
/// ```
/// use std::time::Duration;
/// use mbuma::{Config, SocketError, Stack, TcpSocketOptions};
///
/// let stack = Stack::new(Config::from_system())?;
/// let listener = stack.tcp_listen("127.0.0.1:0", 128)?; // port 0: a free one
/// listener.set_options(&TcpSocketOptions {
///     user_timeout: Some(Duration::from_secs(60)), // of each connection that begins from now on
///     ..TcpSocketOptions::default()
/// });
/// assert_eq!(listener.accept().unwrap_err(), SocketError::WouldBlock);
/// let client = stack.tcp_connect_blocking(listener.local_addr(), None)?;
/// let accepted = listener.accept()?;
/// assert_eq!(accepted.peer_addr(), client.local_addr());
/// assert_eq!(accepted.options().user_timeout, Some(Duration::from_secs(60)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TcpListener {
    pub(super) stack: Arc<StackState>,
    addr: SocketAddr,
    queue: Arc<AcceptQueue>,
}

impl TcpListener {
    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sets the options of all connections that begin from now on. They apply to the SYN-ACK already: its announced
    /// segment size, its TTL, ECN.
    #[doc(alias = "setsockopt")]
    pub fn set_options(&self, options: &TcpSocketOptions) {
        self.queue.set_inherited(self.stack.giant(), *options);
    }

    /// The options of new connections.
    pub fn options(&self) -> TcpSocketOptions {
        let _giant = self.stack.enter_giant();
        self.queue.inherited().unwrap_or_default()
    }

    /// The next established connection.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is none now; [`SocketError::AddrNotAvailable`] if there will be none,
    /// because the [interface](Stack::tcp_listen_on) that it listens on was detached.
    pub fn accept(&self) -> Result<TcpStream, SocketError> {
        self.attempt(None)
    }

    /// The next established connection, waiting for one.
    ///
    /// # Errors
    /// [`SocketError::TimedOut`] when the time is over; [`SocketError::AddrNotAvailable`], as [`accept`](Self::accept).
    pub fn accept_blocking(&self, timeout: Option<Duration>) -> Result<TcpStream, SocketError> {
        let timeout = || timeout.or_else(|| self.options().recv_timeout);
        blocking(Some(&self.stack), timeout, |waiting| self.attempt(waiting))
    }

    /// The next established connection, for one task: if several poll, the one that polled last is woken.
    ///
    /// # Errors
    /// [`SocketError::AddrNotAvailable`], as [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<TcpStream, SocketError>> {
        polled(Some(&self.stack), cx, |waiting| self.attempt(waiting))
    }

    /// The next connection; without one, the waiting call is woken when there is one.
    pub(super) fn attempt(&self, waiting: Option<WaitBy<'_>>) -> Result<TcpStream, SocketError> {
        let pcb = self.queue.pop(self.stack.giant(), waiting);
        pcb.map(|pcb| TcpStream::from_pcb(Arc::clone(&self.stack), pcb))
    }

    /// Removes the waker of a future.
    pub(super) fn forget(&self, id: FutureId) {
        self.queue.forget(self.stack.giant(), id);
    }

    /// Sets the waker for a connection.
    pub fn set_waker(&self, waker: Option<Waker>) {
        self.queue.set_waker(self.stack.giant(), waker);
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        close(&self.stack, &self.queue);
    }
}

kern::impl_debug!(TcpListener |this| addr: this.addr);

fn close(stack: &Arc<StackState>, queue: &Arc<AcceptQueue>) {
    let giant = stack.enter_giant();
    stack.tcp.listeners.remove(queue);
    drop(giant);
    let orphans = queue.close(stack.giant());
    stack.enter(|batch| orphans.iter().for_each(|pcb| abort(batch, pcb)));
}

/// Decides about connections to any address behind an interface, before they are answered.
pub struct Interceptor {
    pub(super) stack: Arc<StackState>,
    queue: Arc<AcceptQueue>,
    /// How many queues its interface has.
    queues: usize,
}

impl Interceptor {
    /// The next client that asks for a connection, if there is one now.
    pub fn next(&self) -> Option<Incoming> {
        self.attempt(None).ok()
    }

    /// The next client that asks for a connection, for one task: if several poll, the one that polled last is woken.
    ///
    /// # Errors
    /// [`SocketError::AddrNotAvailable`]: its interface was detached; [`SocketError::NotDriven`]: the runtime of its
    /// stack has ended. No client will come.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Incoming, SocketError>> {
        polled(Some(&self.stack), cx, |waiting| self.attempt(waiting))
    }

    /// The next connection; without one, the waiting call is woken when there is one.
    pub(super) fn attempt(&self, waiting: Option<WaitBy<'_>>) -> Result<Incoming, SocketError> {
        let pcb = self.queue.pop(self.stack.giant(), waiting);
        pcb.map(|pcb| self.incoming(pcb))
    }

    /// Removes the waker of a future.
    pub(super) fn forget(&self, id: FutureId) {
        self.queue.forget(self.stack.giant(), id);
    }

    fn incoming(&self, pcb: Arc<Inpcb>) -> Incoming {
        Incoming {
            stack: Arc::clone(&self.stack),
            pcb: Some(pcb),
            queues: self.queues,
        }
    }

    /// Sets the waker for a connection.
    pub fn set_waker(&self, waker: Option<Waker>) {
        self.queue.set_waker(self.stack.giant(), waker);
    }
}

impl Drop for Interceptor {
    fn drop(&mut self) {
        close(&self.stack, &self.queue);
    }
}

kern::impl_debug!(Interceptor);

/// How a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// With a reset: there is no listener.
    Reset,
    /// With an ICMP error: the destination is unreachable.
    Unreachable(IcmpError),
    /// With silence.
    Ignore,
}

/// A connection that waits for a decision. Meanwhile its peer gets no answer. Dropping this refuses the connection with
/// a reset.
pub struct Incoming {
    stack: Arc<StackState>,
    pcb: Option<Arc<Inpcb>>,
    /// How many queues its interface has.
    queues: usize,
}

impl Incoming {
    fn pcb(&self) -> &Arc<Inpcb> {
        // Only the two methods that consume `self` take `pcb`.
        self.pcb
            .as_ref()
            .unwrap_or_else(|| unreachable!("taken once, by value"))
    }

    /// The address to which the peer connects.
    pub fn local_addr(&self) -> SocketAddr {
        self.pcb().ends().local()
    }

    /// The client.
    pub fn peer_addr(&self) -> SocketAddr {
        self.pcb().ends().peer()
    }

    /// Whether the peer has given up meanwhile.
    pub fn is_gone(&self) -> bool {
        self.pcb().lock(self.stack.giant()).conn.state == State::Closed
    }

    /// Sets the waker for a client that gives up.
    pub fn set_waker(&self, waker: Option<Waker>) {
        let mut t = visit::begin_outside(self.stack.giant(), self.pcb());
        let old = t.conn.set_wakers(waker.clone(), waker);
        drop(t);
        drop(old);
    }

    /// Answers the SYN. The stream can be written to at once.
    ///
    /// If the interface has several queues, all segments of the connection leave from now on by the queue of the
    /// calling CPU. If the device receives a flow by the queue by which it is sent, the CPU that accepts a connection
    /// also takes its packets in.
    ///
    /// # Errors
    /// The peer has given up meanwhile.
    pub fn accept(mut self) -> Result<TcpStream, SocketError> {
        let Some(pcb) = self.pcb.take() else {
            return Err(SocketError::Closed);
        };
        pcb.keep_to(self.queues, self.stack.cpus.current());
        let mut t = visit::begin_outside(self.stack.giant(), &pcb);
        let result = match t.conn.state {
            State::SynHeld => {
                t.conn.state = State::SynReceived;
                Ok(())
            }
            _ => Err(t.conn.error.unwrap_or(SocketError::Reset)),
        };
        drop(t);
        let stream = TcpStream::from_pcb(Arc::clone(&self.stack), Arc::clone(&pcb));
        self.stack.enter(|batch| visit::schedule(batch, &pcb));
        result.map(|()| stream)
    }

    /// Refuses the connection.
    pub fn refuse(mut self, how: Refusal) {
        if let Some(pcb) = self.pcb.take() {
            refuse(&self.stack, &pcb, how);
        }
    }
}

fn refuse(stack: &Arc<StackState>, pcb: &Arc<Inpcb>, how: Refusal) {
    stack.enter(|batch| {
        let mut t = visit::begin(pcb);
        let held = t.conn.state == State::SynHeld;
        let irs = t.recv.irs;
        // It answers a SYN that offers options.
        let reset = EndReset {
            seq: SeqNum(0),
            ack: t.recv.nxt,
            ts: None,
        };
        t.conn.become_orphan();
        t.close(Some(SocketError::Refused));
        visit::end_later(batch, pcb, t);
        if !held {
            return;
        }
        stack.tcp.counters.refused.inc();
        match how {
            Refusal::Reset => reset::send(batch, pcb.ends(), reset),
            Refusal::Unreachable(kind) => unreachable_for(batch, pcb, irs, kind),
            Refusal::Ignore => {}
        }
    });
}

/// The ICMP error quotes the SYN, whose fields are known from the connection.
fn unreachable_for(batch: &mut crate::batch::Batch<'_>, pcb: &Inpcb, irs: SeqNum, kind: IcmpError) {
    let fields = wire::TcpFields {
        src_port: pcb.ends().peer_port(),
        dst_port: pcb.ends().local_port(),
        seq: irs,
        ack: SeqNum(0),
        flags: TcpFlags::SYN,
        window: 0,
        urgent: 0,
        options: TcpOptions::default(),
    };
    let mut header = [0; wire::TcpHeader::LEN];
    fields.emit(&mut header);
    crate::icmp::output::error_about(batch, pcb.ends(), wire::IpProto::TCP, &header, kind);
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(pcb) = self.pcb.take() {
            refuse(&self.stack, &pcb, Refusal::Reset);
        }
    }
}

kern::impl_debug!(Incoming |this| local: this.local_addr(), peer: this.peer_addr());

impl Stack {
    /// Listens on `addr` (an unspecified address means all of ours; port 0 any free port), with at most `backlog`
    /// connections that are not accepted yet. Those that are half open do not count: see
    /// [`TcpConfig::half_open_max`](crate::TcpConfig::half_open_max).
    ///
    /// # Errors
    /// The address is not of this stack, or is in use, or no port is free.
    #[doc(alias = "listen")]
    pub fn tcp_listen(
        &self,
        addr: impl IntoEndpoint,
        backlog: usize,
    ) -> Result<TcpListener, SocketError> {
        self.tcp_listen_as(addr, None, backlog, false)
    }

    /// The same for clients that come in by the interface `index` alone. They go to such a listener, and not to one on
    /// the same address that has clients of all interfaces, which Linux refuses beside it. Answers leave by the route
    /// to the client. A program of this stack that connects to an address of the interface counts as one of its
    /// clients.
    ///
    /// # Errors
    /// As [`tcp_listen`](Self::tcp_listen); [`SocketError::AddrNotAvailable`] also if there is no such interface.
    #[doc(alias = "SO_BINDTODEVICE")]
    pub fn tcp_listen_on(
        &self,
        addr: impl IntoEndpoint,
        index: IfIndex,
        backlog: usize,
    ) -> Result<TcpListener, SocketError> {
        let listener = self.tcp_listen_as(addr, Some(index), backlog, false)?;
        // Afterwards, because the interface may be detached meanwhile.
        let is_there = self.0.interface(index).is_some();
        is_there
            .then_some(listener)
            .ok_or(SocketError::AddrNotAvailable)
    }

    /// The same for a listener whose address and port other listeners may have too, up to 256, if they are made in this
    /// way. Each client goes to one of them, by the hash of both addresses and ports: to the same one again, as long as
    /// no listener comes or goes. Each has a backlog and half-open connections of its own, and should have the same
    /// options as the others. The drop of one resets the connections that it has not accepted. Port 0 selects a port
    /// that none listens on.
    ///
    /// ```
    /// use mbuma::{Config, Stack};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let listeners = [stack.tcp_listen_shared("127.0.0.1:80", 64)?, stack.tcp_listen_shared("127.0.0.1:80", 64)?];
    /// let clients: Vec<_> = (0..64).map(|_| stack.tcp_connect("127.0.0.1:0", "127.0.0.1:80")).collect();
    /// let accepted = listeners.map(|listener| std::iter::from_fn(|| listener.accept().ok()).count());
    /// assert_eq!(accepted.iter().sum::<usize>(), clients.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`tcp_listen`](Self::tcp_listen).
    #[doc(alias = "SO_REUSEPORT")]
    pub fn tcp_listen_shared(
        &self,
        addr: impl IntoEndpoint,
        backlog: usize,
    ) -> Result<TcpListener, SocketError> {
        self.tcp_listen_as(addr, None, backlog, true)
    }

    fn tcp_listen_as(
        &self,
        addr: impl IntoEndpoint,
        link: Option<IfIndex>,
        backlog: usize,
        shared: bool,
    ) -> Result<TcpListener, SocketError> {
        let addr = endpoint(addr)?;
        let queue = AcceptQueue::new(backlog, self.0.tcp.config.half_open_max);
        let _giant = self.0.enter_giant();
        if !addr.ip().is_unspecified() && !network::is_local(&self.0, addr.ip()) {
            return Err(SocketError::AddrNotAvailable);
        }
        let listeners = &self.0.tcp.listeners;
        let others = match addr.port() {
            0 => 0,
            _ => SHARERS_MAX - 1,
        };
        let add = |addr: &SocketAddr| listeners.add((*addr, link), &queue, shared, others);
        let added = match addr.port() {
            0 => {
                let ports = dynamic_ports(self.0.random(|r| r.next_u32()) as usize);
                let mut addrs = ports.map(|port| SocketAddr::new(addr.ip(), port));
                addrs.find(add)
            }
            _ => Some(addr).filter(add),
        };
        let addr = added.ok_or(SocketError::AddrInUse)?;
        Ok(TcpListener {
            stack: Arc::clone(&self.0),
            addr,
            queue,
        })
    }

    /// An interceptor for every connection that comes in by an `accept_any` interface and that no listener takes, with
    /// at most `backlog` undecided ones.
    ///
    /// # Errors
    /// [`SocketError::AddrInUse`]: the interface has an interceptor already. [`SocketError::AddrNotAvailable`]: there
    /// is no such interface.
    pub fn tcp_intercept(
        &self,
        index: IfIndex,
        backlog: usize,
    ) -> Result<Interceptor, SocketError> {
        let queue = AcceptQueue::new(backlog, self.0.tcp.config.half_open_max);
        let giant = self.0.enter_giant();
        if !self.0.tcp.listeners.add_interceptor(index, &queue) {
            return Err(SocketError::AddrInUse);
        }
        drop(giant);
        let mut interceptor = Interceptor {
            stack: Arc::clone(&self.0),
            queue,
            queues: 1,
        };
        // Afterwards, because the interface may be detached meanwhile.
        let ifp = self.0.interface(index);
        interceptor.queues = ifp.ok_or(SocketError::AddrNotAvailable)?.queues.len();
        Ok(interceptor)
    }
}
