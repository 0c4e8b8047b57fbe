//! Beginning a connection: its addresses, its port, its first SYN.
//!
//! Called by: programs. Calls: routes, the connection table, and, inside of a batch, the connection's output.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use super::SocketError;
use super::tcp_stream::TcpStream;
use crate::ifnet::Ifnet;
use crate::stack::Stack;
use crate::state::StackState;
use crate::tcp::State;
use crate::tcp::pcb::{Inpcb, Key, Tcb};
use crate::tcp::visit;

impl Stack {
    /// Begins a connection from `local` to `peer`; the waker (or [`TcpStream::state`]) says when it is
    /// established. A port of 0 means any free one; an unspecified address the one of the interface
    /// that the route uses. On an `accept_any` interface the address may be anyone's.
    ///
    /// # Errors
    /// No route, no free port, or the address pair is in use.
    pub fn tcp_connect(
        &self,
        local: SocketAddrV4,
        peer: SocketAddrV4,
    ) -> Result<TcpStream, SocketError> {
        let stack = &self.0;
        let giant = stack.look();
        let route = stack
            .routes
            .lookup(*peer.ip())
            .ok_or(SocketError::Unreachable)?;
        let addr = if local.ip().is_unspecified() {
            route.src
        } else {
            *local.ip()
        };
        if !stack.owns(addr) && !route.ifp.accept_any {
            return Err(SocketError::AddrNotAvailable);
        }
        let key = Key {
            local: SocketAddrV4::new(addr, local.port()),
            peer,
        };
        let pcb = open(stack, key, &route.ifp)?;
        drop(giant);
        stack.enter(|batch| visit::schedule(batch, &pcb));
        Ok(TcpStream::from_pcb(Arc::clone(stack), pcb))
    }
}

fn open(stack: &Arc<StackState>, key: Key, ifp: &Ifnet) -> Result<Arc<Inpcb>, SocketError> {
    let tcp = &stack.tcp;
    let now = stack.clock.now();
    let fixed = key.local.port() != 0;
    // Another thread may take the port between the search and the insertion: search again.
    for _ in 0..16 {
        let ip: Ipv4Addr = *key.local.ip();
        let port = if fixed {
            Some(key.local.port())
        } else {
            tcp.free_port(ip, key.peer)
        };
        let port = port.ok_or(SocketError::AddrInUse)?;
        let key = Key {
            local: SocketAddrV4::new(ip, port),
            peer: key.peer,
        };
        let iss = tcp.initial_sequence(&key, now);
        let mss = (ifp.mtu() as u32).saturating_sub(40);
        let mut tcb = Tcb::new(&tcp.config, State::SynSent, iss, mss, now);
        tcb.conn.ts = tcp.timestamps(&key);
        let (flows, cpu) = (stack.netisr.flows(), stack.cpus.current());
        let flow = flows.of_connection(key.local, key.peer, ifp, cpu);
        let pcb = Inpcb::new(key, flow, tcb);
        if tcp.table.insert(&pcb, tcp.config.connections_max) {
            tcp.counters.opened_active.inc();
            return Ok(pcb);
        }
        if fixed {
            break;
        }
    }
    Err(SocketError::AddrInUse)
}
