//! Begins a connection: selects its addresses and its port, and sends the SYN.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::SocketError;
use super::endpoint::{IntoEndpoint, endpoint};
use super::tcp_stream::TcpStream;
use crate::ifnet::Ifnet;
use crate::inet::{ANY, Ends};
use crate::network;
use crate::stack::Stack;
use crate::state::StackState;
use crate::tcp::pcb::{Inpcb, Predecessor, Tcb};
use crate::tcp::table::NotAdded;
use crate::tcp::time_wait;
use crate::tcp::visit;
use crate::tcp::{State, TcpSocketOptions};

impl Stack {
    /// Begins a connection from `local` to `peer`, and waits for nothing: the waker is called when it is established,
    /// and [`TcpStream::state`] shows that. Port 0 selects a free port; an unspecified address selects that of the
    /// route's interface. A link-local address without a scope id is on the link of that interface. On an `accept_any`
    /// interface the address may be another host's.
    /// [`tcp_connect_blocking`](Self::tcp_connect_blocking) and [`tcp_connect_async`](Self::tcp_connect_async) wait.
    ///
    /// ```
    /// use mbuma::{Config, Stack, State};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let _listener = stack.tcp_listen("127.0.0.1:80", 128)?;
    /// let stream = stack.tcp_connect("0.0.0.0:4000", "127.0.0.1:80")?;
    /// assert_eq!(stream.local_addr(), "127.0.0.1:4000".parse()?);
    /// assert_eq!(stream.state(), State::Established); // at once, since the listener is in the same stack
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No route, no free port, too many connections, or the address pair is in use. (A pair that has been in TIME-WAIT
    /// for a second is not, if the connection had timestamps.) [`SocketError::Unreachable`] also for an address that no
    /// host can have (of a group, a broadcast), and for port 0.
    pub fn tcp_connect(
        &self,
        local: impl IntoEndpoint,
        peer: impl IntoEndpoint,
    ) -> Result<TcpStream, SocketError> {
        self.connect_between(endpoint(local)?, endpoint(peer)?, None)
    }

    /// As [`tcp_connect`](Self::tcp_connect), with `options` from the SYN on.
    ///
    /// ```
    /// use mbuma::{Config, Stack, TcpSocketOptions};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let _listener = stack.tcp_listen("127.0.0.1:80", 128)?;
    /// let small = TcpSocketOptions { segment_max: Some(536), ..TcpSocketOptions::default() };
    /// let stream = stack.tcp_connect_with("0.0.0.0:0", "127.0.0.1:80", &small)?;
    /// assert_eq!(stream.options(), small);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`tcp_connect`](Self::tcp_connect).
    pub fn tcp_connect_with(
        &self,
        local: impl IntoEndpoint,
        peer: impl IntoEndpoint,
        options: &TcpSocketOptions,
    ) -> Result<TcpStream, SocketError> {
        self.connect_between(endpoint(local)?, endpoint(peer)?, Some(options))
    }

    /// Connects to `peer`, and waits until the connection is established or has failed, at most for `timeout`. Another
    /// thread must drive the stack, such as a worker of a [`Runtime`](crate::Runtime), unless the peer is at the end of
    /// an epair with [`Input::Direct`](crate::device::epair::Input).
    ///
    /// # Errors
    /// Why there is no connection.
    #[doc(alias = "connect_blocking")]
    #[doc(alias = "connect_timeout")]
    pub fn tcp_connect_blocking(
        &self,
        peer: impl IntoEndpoint,
        timeout: Option<Duration>,
    ) -> Result<TcpStream, SocketError> {
        let stream = self.tcp_connect(ANY, peer)?;
        stream.connected_blocking(timeout)?;
        Ok(stream)
    }

    fn connect_between(
        &self,
        mut local: SocketAddr,
        peer: SocketAddr,
        options: Option<&TcpSocketOptions>,
    ) -> Result<TcpStream, SocketError> {
        let stack = &self.0;
        let giant = stack.enter_giant();
        let egress = network::egress(stack, peer).ok_or(SocketError::Unreachable)?;
        if !is_a_host(peer, &egress.ifp) {
            return Err(SocketError::Unreachable);
        }
        // 0.0.0.0 and :: both mean any address, of the peer's version.
        if local.ip().is_unspecified() {
            local = SocketAddr::new(egress.src, local.port());
        }
        if !stack.owns(local.ip()) && !egress.ifp.accept_any {
            return Err(SocketError::AddrNotAvailable);
        }
        // An address of the other version can't be the source of packets to this peer.
        let ends = Ends::between(local, peer).ok_or(SocketError::AddrNotAvailable)?;
        let ends = match ends.lacks_zone() {
            true => ends.on_link(egress.ifp.index.number()),
            false => ends,
        };
        let mut opened = open(stack, ends, &egress.ifp, options, None);
        drop(giant);
        if local.port() != 0
            && opened.is_err()
            && let Some(old) = stack.enter(|batch| time_wait::reuse(batch, &ends))
        {
            let _giant = stack.enter_giant();
            opened = open(stack, ends, &egress.ifp, options, Some(&old));
        }
        let pcb = opened?;
        stack.enter(|batch| visit::schedule(batch, &pcb));
        Ok(TcpStream::from_pcb(Arc::clone(stack), pcb))
    }
}

/// Whether a connection may have this peer, which is reached through `ifp` (RFC 9293 3.9.2.3).
fn is_a_host(peer: SocketAddr, ifp: &Ifnet) -> bool {
    let ip = peer.ip();
    let to_many = match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ifp.is_broadcast(ip),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    !to_many && !ip.is_unspecified() && peer.port() != 0
}

fn open(
    stack: &Arc<StackState>,
    ends: Ends,
    ifp: &Ifnet,
    options: Option<&TcpSocketOptions>,
    old: Option<&Predecessor>,
) -> Result<Arc<Inpcb>, SocketError> {
    let tcp = &stack.tcp;
    let now = stack.clock.now();
    let fixed = ends.local_port() != 0;
    // Another thread may take the port between the search and the insertion: search again.
    for _ in 0..16 {
        let port = if fixed {
            Some(ends.local_port())
        } else {
            tcp.free_port(ends)
        };
        let port = port.ok_or(SocketError::AddrInUse)?;
        let ends = ends.with_local_port(port);
        let iss = tcp.initial_sequence_after(&ends, now, old);
        let mss = network::tcp_mss(ifp, &ends);
        let mss = options.map_or(mss, |asked| asked.segment_len(mss));
        let mut tcb = Tcb::new(&tcp.config, State::SynSent, iss, mss, now);
        tcb.conn.ts = tcp.timestamps(&ends);
        if let Some(asked) = options {
            tcb.begin_with(&tcp.config, asked);
        }
        if tcp.failed_offers.includes(ends.peer().ip(), now) {
            tcb.conn.ecn.withhold();
        }
        let (flows, cpu) = (stack.netisr.flows(), stack.cpus.current());
        let flow = flows.of_connection(&ends, ifp, cpu);
        let pcb = Inpcb::new(ends, flow, tcb);
        match tcp.table.insert(&pcb, tcp.config.connections_max) {
            Ok(()) => {
                tcp.counters.opened_active.inc();
                return Ok(pcb);
            }
            Err(NotAdded::Full) => return Err(SocketError::TooManyConnections),
            Err(NotAdded::Taken) if fixed => break,
            Err(NotAdded::Taken) => {}
        }
    }
    Err(SocketError::AddrInUse)
}
