//! UDP sockets, and the look-up of a datagram's socket.
//!
//! A datagram goes to the socket that is connected to its sender; else to the socket that is bound to its destination
//! address and port; else, if the address is ours, to the socket that is bound to the port on all our addresses; else,
//! unless it was sent to a group or broadcast, to the interface's socket for all datagrams (`any`), if there is one. So
//! a gateway can relay datagrams to its own address, as it does with connections. Of several sockets that share an
//! address and a port, a hash of the flow selects one, as with SO_REUSEPORT of Linux and SO_REUSEPORT_LB of FreeBSD.
//!
//! A datagram to a group or broadcast goes to each socket that is bound to the port on all addresses, and wants it. A
//! connected socket wants none, because its address is no longer all of them.
//!
//! Invariant: a socket is in one of its port's lists: by its flow if it has a peer, else with those that are only
//! bound.
//!
//! Locks: the table (UDP_TABLE); the queues have their own (UDP), and so have a socket's peer, which changes inside of
//! the table's, and the route that a socket keeps, which is held while a datagram takes it.
//! Sources: RFC 768, RFC 6056 section 3.3.1 (random ports).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kern::prim::{Mutex, RmLock};
use kern::{LockClass, Random, SeededState, order};

use super::send_options::SendOptions;
use super::{Arrived, UdpError};
use crate::batch::Batch;
use crate::ifnet::IfIndex;
use crate::ifnet::groups::SocketId;
use crate::inet::{Ends, dynamic_ports};
use crate::route::RouteCache;
use crate::sockbuf::RecvSide;
use crate::spread::BuildSpread;

static TABLE: LockClass = LockClass::new("udp table", order::UDP_TABLE);
static PEER: LockClass = LockClass::new("udp peer", order::UDP);
static KEPT_ROUTE: LockClass = LockClass::new("udp route", order::UDP);

/// Errors that wait for a socket's owner at most; more would add no information.
const ERRORS_MAX: usize = 16;

/// Sockets that share one port at most: a datagram to a group costs work for each of them.
pub(crate) const SHARERS_MAX: usize = 256;

/// A socket's state.
#[derive(Debug)]
pub(crate) struct UdpPcb {
    /// The bound address and port; the address may be unspecified.
    pub(crate) local: SocketAddr,
    /// Takes the datagrams on this interface that no other socket takes.
    pub(crate) any: Option<IfIndex>,
    /// Other sockets that say the same may have its address and port too.
    pub(crate) shares: bool,
    /// The flow of a connected socket.
    flow: Mutex<Option<Ends>>,
    /// Takes datagrams that came as one packet together.
    pub(crate) takes_merged: AtomicBool,
    pub(crate) queue: RecvSide<Arrived>,
    pub(crate) errors: RecvSide<UdpError>,
    pub(crate) send: SendOptions,
    /// The route of the last datagram, for the next one to the same address.
    pub(super) route: Mutex<(IpAddr, RouteCache)>,
}

impl UdpPcb {
    pub(super) fn new(local: SocketAddr, any: Option<IfIndex>, queue_max: usize) -> Self {
        let (queue, errors) = (RecvSide::new(queue_max), RecvSide::new(ERRORS_MAX));
        let route = (Ipv4Addr::UNSPECIFIED.into(), RouteCache::default());
        Self {
            local,
            any,
            shares: false,
            flow: Mutex::new(&PEER, None),
            takes_merged: AtomicBool::new(false),
            queue,
            errors,
            send: SendOptions::new(),
            route: Mutex::new(&KEPT_ROUTE, route),
        }
    }

    /// Its number as a member of groups.
    pub(crate) fn id(&self) -> SocketId {
        SocketId(std::ptr::from_ref(self).addr())
    }

    /// Its flow, if it is connected.
    pub(crate) fn flow(&self) -> Option<Ends> {
        *self.flow.lock()
    }
}

/// A UDP socket of a stack.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct UdpSocketInfo {
    /// Its address; an unspecified one stands for all addresses.
    pub local: SocketAddr,
    /// The peer of a connected socket.
    pub peer: Option<SocketAddr>,
    /// The interface of a [socket for all datagrams](crate::Stack::udp_bind_any).
    pub interface: Option<IfIndex>,
    /// Bytes of buffers that are charged for datagrams that wait.
    pub queued: usize,
}

/// The sockets.
#[derive(Debug)]
pub(crate) struct UdpTable(RmLock<PortMap>);

#[derive(Debug)]
struct PortMap {
    /// Not keyed: programs choose the ports, and there are 65,536.
    by_port: HashMap<u16, PortSockets, BuildSpread>,
    /// Keyed: peers choose flows.
    flows: SeededState,
    any: Vec<Arc<UdpPcb>>,
}

/// The sockets of one port.
#[derive(Debug)]
struct PortSockets {
    /// Those without a peer, in the order in which they were bound or lost it.
    bound: Vec<Arc<UdpPcb>>,
    connected: HashMap<Ends, Arc<UdpPcb>, SeededState>,
}

impl PortSockets {
    fn all(&self) -> impl Iterator<Item = &Arc<UdpPcb>> {
        self.bound.iter().chain(self.connected.values())
    }

    fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.connected.is_empty()
    }

    /// Removes a socket, which has this flow, from the list that it is in.
    fn remove(&mut self, pcb: &Arc<UdpPcb>, flow: Option<Ends>) {
        match flow {
            Some(flow) => drop(self.connected.remove(&flow)),
            None => self.bound.retain(|p| !Arc::ptr_eq(p, pcb)),
        }
    }
}

/// The kind of a datagram's destination address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A group, a broadcast address, or an anycast address of ours.
    Many,
    /// An address of ours; the datagram came in by this interface.
    Ours(IfIndex),
    /// A foreign address for which this interface answers.
    Foreign(IfIndex),
}

impl UdpTable {
    pub(super) fn new(random: &mut Random) -> Self {
        Self(RmLock::new(
            &TABLE,
            PortMap {
                by_port: HashMap::default(),
                flows: SeededState::new(random),
                any: Vec::new(),
            },
        ))
    }

    /// Binds; false if the address is taken.
    #[doc(alias = "in_pcbbind")]
    pub(crate) fn insert(&self, pcb: &Arc<UdpPcb>) -> bool {
        let mut inner = self.0.write();
        if pcb.any.is_some() {
            let free = inner.any.iter().all(|other| other.any != pcb.any);
            if free {
                inner.any.push(Arc::clone(pcb));
            }
            return free;
        }
        let hash = inner.flows.clone();
        let port = inner.by_port.entry(pcb.local.port());
        let port = port.or_insert_with(|| PortSockets {
            bound: Vec::new(),
            connected: HashMap::with_hasher(hash),
        });
        let is_full = || pcb.shares && port.all().filter(|p| p.shares).count() >= SHARERS_MAX;
        if port.all().any(|other| in_each_others_way(other, pcb)) || is_full() {
            return false;
        }
        port.bound.push(Arc::clone(pcb));
        true
    }

    /// Gives `pcb` the datagrams of one flow, which has its port, and no others; false if another socket has them.
    #[doc(alias = "in_pcbconnect")]
    pub(crate) fn connect(&self, pcb: &Arc<UdpPcb>, flow: Ends) -> bool {
        let mut inner = self.0.write();
        let Some(port) = inner.by_port.get_mut(&pcb.local.port()) else {
            return false;
        };
        let other = port.connected.get(&flow);
        if other.is_some_and(|other| !Arc::ptr_eq(other, pcb)) {
            return false;
        }
        let before = pcb.flow.lock().replace(flow);
        port.remove(pcb, before);
        port.connected.insert(flow, Arc::clone(pcb));
        true
    }

    /// Takes its peer away from a socket.
    #[doc(alias = "in_pcbdisconnect")]
    pub(crate) fn disconnect(&self, pcb: &Arc<UdpPcb>) {
        let mut inner = self.0.write();
        let flow = pcb.flow.lock().take();
        if let Some(port) = inner.by_port.get_mut(&pcb.local.port())
            && flow.is_some()
        {
            port.remove(pcb, flow);
            port.bound.push(Arc::clone(pcb));
        }
    }

    /// Unbinds.
    #[doc(alias = "in_pcbdetach")]
    pub(crate) fn remove(&self, pcb: &Arc<UdpPcb>) {
        let mut inner = self.0.write();
        inner.any.retain(|p| !Arc::ptr_eq(p, pcb));
        let number = pcb.local.port();
        if let Some(port) = inner.by_port.get_mut(&number) {
            port.remove(pcb, pcb.flow.lock().take());
            if port.is_empty() {
                inner.by_port.remove(&number);
            }
        }
    }

    /// A free port on `addr`.
    pub(crate) fn free_port(&self, addr: IpAddr, random: u32) -> Option<u16> {
        let inner = self.0.read();
        dynamic_ports(random as usize).find(|number| {
            let port = inner.by_port.get(number);
            port.is_none_or(|port| !port.all().any(|p| overlap(p.local.ip(), addr)))
        })
    }

    /// All sockets.
    pub(crate) fn list(&self) -> Vec<UdpSocketInfo> {
        let inner = self.0.read();
        let all = inner.by_port.values().flat_map(PortSockets::all);
        let info = |pcb: &Arc<UdpPcb>| UdpSocketInfo {
            local: pcb.local,
            peer: pcb.flow().map(|flow| flow.peer()),
            interface: pcb.any,
            queued: pcb.queue.queued(),
        };
        all.chain(&inner.any).map(info).collect()
    }

    /// Removes the kept routes through this interface from all sockets.
    pub(crate) fn forget_interface(&self, index: IfIndex) {
        let inner = self.0.read();
        let all = inner
            .by_port
            .values()
            .flat_map(PortSockets::all)
            .chain(&inner.any);
        all.for_each(|pcb| pcb.route.lock().1.forget(index));
    }

    /// An interface is gone, and with it the datagrams for its socket.
    pub(crate) fn interface_gone(&self, batch: &mut Batch<'_>, index: IfIndex) {
        let inner = self.0.read();
        let its = inner.any.iter().filter(|pcb| pcb.any == Some(index));
        its.for_each(|pcb| batch.wake(pcb.queue.cut_off()));
    }

    /// Wakes all users.
    pub(crate) fn wake_users(&self, batch: &mut Batch<'_>) {
        let inner = self.0.read();
        let all = inner.by_port.values().flat_map(PortSockets::all);
        all.chain(&inner.any)
            .for_each(|pcb| batch.wake(pcb.queue.take_readers()));
    }

    /// The socket that a datagram between these ends is for.
    #[doc(alias = "in_pcblookup")]
    pub(crate) fn lookup(&self, ends: &Ends, whose: Whose) -> Option<Arc<UdpPcb>> {
        let inner = self.0.read();
        let (dst, port) = (ends.local(), inner.by_port.get(&ends.local_port()));
        if let Some(port) = port.filter(|port| !port.connected.is_empty())
            && let Some(pcb) = port.connected.get(ends)
        {
            return Some(Arc::clone(pcb));
        }
        let list = port.map_or(&[][..], |port| &port.bound);
        let exact = list.iter().rev().find(|p| p.local.ip() == dst.ip());
        let on_all = || list.iter().rev().find(|p| is_on_all(p, dst));
        let any = |iface| inner.any.iter().find(|p| p.any == Some(iface));
        let found = exact.or_else(|| match whose {
            Whose::Many => on_all(),
            Whose::Ours(iface) => on_all().or_else(|| any(iface)),
            Whose::Foreign(iface) => any(iface),
        });
        let found = found?;
        Some(Arc::clone(match found.shares {
            true => one_of(list, found, || {
                ends.with_bytes(|bytes| inner.flows.hash_bytes(bytes))
            }),
            false => found,
        }))
    }

    /// The sockets that a datagram to the group or broadcast `dst` could be for, in the order in which they were bound.
    #[doc(alias = "udp_multi_match")]
    pub(crate) fn lookup_all(&self, dst: SocketAddr) -> Vec<Arc<UdpPcb>> {
        let inner = self.0.read();
        let port = inner.by_port.get(&dst.port());
        let all = port.into_iter().flat_map(|port| &port.bound);
        all.filter(|p| is_on_all(p, dst)).map(Arc::clone).collect()
    }
}

/// Of the sockets that share their address with `found`: the one that takes the flow with this hash.
#[cold]
fn one_of<'a>(
    list: &'a [Arc<UdpPcb>],
    found: &'a Arc<UdpPcb>,
    hash: impl FnOnce() -> u64,
) -> &'a Arc<UdpPcb> {
    let all = || list.iter().filter(|pcb| pcb.local == found.local);
    let place = match all().count() {
        1 => 0,
        count => hash() as usize % count,
    };
    all().nth(place).unwrap_or(found)
}

/// Whether a socket is bound on all addresses, of the version of IP of `dst`.
fn is_on_all(pcb: &UdpPcb, dst: SocketAddr) -> bool {
    pcb.local.ip().is_unspecified() && pcb.local.is_ipv4() == dst.is_ipv4()
}

/// Whether one datagram could match both, and one of them does not share.
fn in_each_others_way(a: &UdpPcb, b: &UdpPcb) -> bool {
    let shared = a.shares && b.shares;
    !shared && overlap(a.local.ip(), b.local.ip())
}

fn overlap(a: IpAddr, b: IpAddr) -> bool {
    let all = a.is_unspecified() || b.is_unspecified();
    a == b || (all && a.is_ipv4() == b.is_ipv4())
}

#[cfg(all(test, not(shuttle)))]
mod tests;
