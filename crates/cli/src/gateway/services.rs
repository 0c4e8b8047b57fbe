//! The services that worker 0 runs for all workers: datagrams, pings, DHCP, router advertisements, published ports, the
//! control socket, and giving memory back.
//!
//! Each has one table, and seldom more traffic than one worker carries. Sharing the tables among workers would cost
//! locks.
//!
//! The matches over [`SourceKind`] name every kind, so that a new one does not compile until each of them decides about
//! it.
//!
//! Locks: none.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kern::Time;

use super::client_quota::ClientQuota;
use super::config_servers::ConfigServers;
use super::connections::Connections;
use super::control::Control;
use super::echo::Pings;
use super::figures::{Figures, Gauges, Share};
use super::local_names::LocalNames;
use super::name_connections::NameConnections;
use super::network_guests::NetworkGuests;
use super::network_link::NetworkLink;
use super::publish::{GuestServer, Listener, ListenerTarget};
use super::reclaim::PoolReclaim;
use super::report::View;
use super::shared::Shared;
use super::table::{SourceKind, Token};
use super::tcp_trace::TcpTrace;
use super::udp::{GuestFlows, InletTarget};
use super::web::SharedFixed;
use crate::args::Proto;
use crate::errors::Error;
use crate::lifecycle::ServiceChange;
use crate::ports::{OutwardPort, PortChange, PortSpec, PublishedId, PublishedPort};

/// The pattern of the kinds that the event loop handles itself.
macro_rules! of_the_loop {
    () => {
        SourceKind::Lifecycle
            | SourceKind::Connection
            | SourceKind::Interceptor
            | SourceKind::Inbox
            | SourceKind::HttpListener
            | SourceKind::HttpConnection
            | SourceKind::TlsHandshake
            | SourceKind::FileSweep
    };
}

/// All of it.
pub(super) struct Services {
    pub(super) flows: GuestFlows,
    pub(super) pings: Pings,
    /// Where there are several guests.
    pub(super) network: Option<NetworkGuests>,
    /// There too: the guests' questions over TCP.
    pub(super) name_connections: Option<NameConnections>,
    /// For guests that configure themselves.
    pub(super) config: ConfigServers,
    /// By the index in their tokens; `None` for a port that is no longer published.
    pub(super) listeners: Vec<Option<Listener>>,
    /// For clients of published ports, and of outward ones.
    pub(super) client_quotas: [ClientQuota; 2],
    pub(super) control: Control,
    pub(super) reclaim: PoolReclaim,
    /// The file of `--tcp-trace`.
    pub(super) trace: Option<TcpTrace>,
    pub(super) fixed: SharedFixed,
}

impl Services {
    /// Notes the readiness, or handles the event at once if that takes bounded time.
    pub(super) fn event(
        &mut self,
        shared: &mut Shared,
        gauges: Gauges,
        kind: SourceKind,
        token: Token,
    ) {
        match kind {
            SourceKind::Flow | SourceKind::SharedSocket => self.flows.readable(shared, token),
            SourceKind::Inlet => self.flows.inlet_readable(shared, token.index()),
            SourceKind::PingSocket => self.pings.readable(shared, token),
            SourceKind::Listener => self.wake_listener(token),
            SourceKind::Control => self.control.wake(),
            SourceKind::Asker => {
                let view = View {
                    fixed: &self.fixed.get(),
                    shared,
                    gauges,
                    flows: &self.flows,
                    reclaim: self.reclaim.figures(shared),
                };
                self.control.turn(token, &view);
            }
            of_the_loop!() => {}
            // Without a descriptor.
            SourceKind::Datagrams
            | SourceKind::Echoes
            | SourceKind::Dhcp4
            | SourceKind::Dhcp6
            | SourceKind::RouterAdverts
            | SourceKind::TcpTrace
            | SourceKind::NameListener
            | SourceKind::NameConnection
            | SourceKind::Guest
            | SourceKind::Ping => {}
        }
    }

    fn wake_listener(&self, token: Token) {
        if let Some(Some(listener)) = self.listeners.get(token.index()) {
            listener.wake();
        }
    }

    /// A timer came.
    pub(super) fn timer(&mut self, shared: &mut Shared, kind: SourceKind, token: Token) {
        match kind {
            SourceKind::Flow => self.flows.timer(shared, token),
            SourceKind::Ping => self.pings.timer(token),
            SourceKind::Asker => self.control.timer(token),
            SourceKind::Listener => self.wake_listener(token),
            SourceKind::TcpTrace => self.look(shared),
            SourceKind::RouterAdverts => self.config.timer(shared),
            SourceKind::NameConnection => {
                if let Some(names) = &mut self.name_connections {
                    names.timer(shared, token);
                }
            }
            // It needs the list of connections.
            SourceKind::Guest => shared.wake_for(token).wake(),
            SourceKind::Control => self.control.wake(),
            of_the_loop!() => {}
            // Without timers.
            SourceKind::Datagrams
            | SourceKind::SharedSocket
            | SourceKind::Inlet
            | SourceKind::Echoes
            | SourceKind::Dhcp4
            | SourceKind::Dhcp6
            | SourceKind::PingSocket
            | SourceKind::NameListener => {}
        }
    }

    /// A turn of a service from the ready list.
    pub(super) fn turn(
        &mut self,
        shared: &mut Shared,
        connections: &mut Connections,
        kind: SourceKind,
        token: Token,
    ) {
        match kind {
            SourceKind::Listener => {
                if let Some(Some(listener)) = self.listeners.get(token.index()) {
                    connections.accept(shared, listener);
                }
            }
            SourceKind::Datagrams => self.flows.forward(shared),
            SourceKind::Echoes => self.pings.forward(shared),
            SourceKind::Dhcp4 | SourceKind::Dhcp6 | SourceKind::RouterAdverts => {
                self.config.turn(shared, kind)
            }
            SourceKind::Control => self.control.accept(shared),
            SourceKind::TcpTrace => self.look(shared),
            SourceKind::NameListener => {
                if let Some(names) = &mut self.name_connections {
                    names.accept(shared);
                }
            }
            SourceKind::NameConnection => {
                if let (Some(all), Some(names)) = (&mut self.name_connections, &self.flows.names) {
                    all.turn(shared, names, token);
                }
            }
            SourceKind::Guest => {
                if let Some(network) = &mut self.network
                    && let Some(addrs) = network.addrs(token)
                    && network.timer(shared, token, connections.has_data_of(&addrs))
                {
                    connections.end_guest(&addrs);
                    self.flows.end_guest(shared, &addrs);
                    if let Some(names) = &mut self.name_connections {
                        names.end_guest(shared, &addrs);
                    }
                }
            }
            of_the_loop!() => {}
            // Never on the ready list.
            SourceKind::Flow
            | SourceKind::SharedSocket
            | SourceKind::Inlet
            | SourceKind::Ping
            | SourceKind::PingSocket
            | SourceKind::Asker => {}
        }
    }

    fn look(&mut self, shared: &mut Shared) {
        if let Some(trace) = &mut self.trace {
            trace.look(shared);
        }
    }

    /// Makes a change. If it fails, the monitor has it undone.
    pub(super) fn change(&mut self, shared: &mut Shared, change: ServiceChange) -> io::Result<()> {
        match change {
            ServiceChange::Port(PortChange::Add(ports)) => {
                let mut ports = ports.into_iter();
                return ports.try_for_each(|port| self.publish(shared, port));
            }
            ServiceChange::Port(PortChange::AddOutward(port)) => {
                return self.open_outward(shared, port);
            }
            ServiceChange::Port(PortChange::Remove(id)) => self.unpublish(shared, id),
            ServiceChange::Guest(change) => {
                if let (Some(network), Some(names)) = (&mut self.network, &mut self.flows.names) {
                    return network.change(shared, names, change);
                }
            }
            ServiceChange::NameServers(servers) => shared.resolvers.replace_all(servers),
            ServiceChange::Lost(e) => return Err(e),
        }
        Ok(())
    }

    /// The guests are those of a network.
    ///
    /// # Errors
    /// The port for questions is in use.
    pub(super) fn make_network(
        &mut self,
        shared: &Shared,
        link: Arc<NetworkLink>,
    ) -> Result<(), Error> {
        let fixed = self.fixed.get();
        if fixed.answers_names {
            self.name_connections = Some(NameConnections::listen(shared, &fixed.guest)?);
        }
        self.flows.share_by_guest();
        self.flows.names = Some(LocalNames::new(&fixed.guest));
        self.network = Some(NetworkGuests::new(link));
        Ok(())
    }

    /// Publishes a port.
    pub(super) fn publish(&mut self, shared: &Shared, port: PublishedPort) -> io::Result<()> {
        let spec = port.spec;
        let server = self.server(&spec);
        let server = server.ok_or(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))?;
        let socket = (spec.id, port.socket);
        match spec.publish.proto {
            Proto::Tcp => self.listen(shared, socket, ListenerTarget::Guest(server))?,
            Proto::Udp => {
                let target = InletTarget::Guest(server.first);
                self.flows.publish(shared, socket, target)?
            }
        }
        self.fixed.change(|fixed| fixed.published.push(spec));
        Ok(())
    }

    /// Opens a port of the guest's loopback.
    fn open_outward(&mut self, shared: &Shared, port: OutwardPort) -> io::Result<()> {
        let OutwardPort { spec, sockets } = port;
        let to = spec.port.host_port;
        for socket in sockets {
            let socket = (spec.id, socket);
            match spec.port.proto {
                Proto::Tcp => self.listen(shared, socket, ListenerTarget::HostLoopback(to))?,
                Proto::Udp => {
                    let target = InletTarget::HostLoopback(to);
                    self.flows.publish(shared, socket, target)?
                }
            }
        }
        self.fixed.change(|fixed| fixed.outward.push(spec));
        Ok(())
    }

    /// The possible addresses of a port's server: the given one, else the guest's own, those of the client's family
    /// first. The guest's loopback is behind the guest's own address of IPv4. In a network the address of IPv4 names
    /// the guest.
    fn server(&self, spec: &PortSpec) -> Option<GuestServer> {
        let fixed = self.fixed.get();
        let v4 = fixed.guest.v4.map(|v4| IpAddr::from(v4.guest));
        let v6 = fixed.guest.v6.map(|v6| IpAddr::from(v6.guest));
        let loopback = Some(IpAddr::from(Ipv4Addr::LOCALHOST)).filter(|_| fixed.loopback);
        let (named, v4, v6) = match (spec.publish.guest_addr, &self.network) {
            (Some(IpAddr::V4(addr)), Some(network)) => {
                (None, Some(addr.into()), network.v6_of(addr))
            }
            (named, _) => (named, v4, v6),
        };
        let places = match (named, spec.publish.host) {
            (Some(addr), _) if Some(addr) == v4 => [v4, loopback, None],
            (Some(addr), _) => [Some(addr), None, None],
            (None, SocketAddr::V4(_)) => [v4, loopback, v6],
            (None, SocketAddr::V6(_)) => [v6, v4, loopback],
        };
        let at = |addr| SocketAddr::new(addr, spec.publish.guest_port);
        let mut places = places.into_iter().flatten().map(at);
        let first = places.next()?;
        let mut others: Vec<_> = places.collect();
        others.reverse();
        Some(GuestServer { first, others })
    }

    fn listen(
        &mut self,
        shared: &Shared,
        socket: (PublishedId, OwnedFd),
        leads_to: ListenerTarget,
    ) -> io::Result<()> {
        let free = self.listeners.iter().position(Option::is_none);
        let index = free.unwrap_or(self.listeners.len());
        let token = Token::nth(SourceKind::Listener, index as u32);
        let [published, outward] = &self.client_quotas;
        let quota = match leads_to {
            ListenerTarget::Guest(_) => published,
            ListenerTarget::HostLoopback(_) => outward,
        };
        let listener = Listener::new(shared, socket, leads_to, quota, token)?;
        match self.listeners.get_mut(index) {
            Some(place) => *place = Some(listener),
            None => self.listeners.push(Some(listener)),
        }
        Ok(())
    }

    /// Stops publishing a port. Its connections continue.
    fn unpublish(&mut self, shared: &mut Shared, id: PublishedId) {
        self.flows.unpublish(shared, id);
        let is_it = |place: &Option<Listener>| place.as_ref().is_some_and(|l| l.id() == id);
        let found = self.listeners.iter_mut().filter(|place| is_it(place));
        found.for_each(|place| *place = None);
        self.fixed.change(|fixed| {
            fixed.published.retain(|port| port.id != id);
            fixed.outward.retain(|port| port.id != id);
        });
    }

    /// The number of UDP flows.
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// The traffic of all workers, at the end.
    pub(super) fn figures(&self, shared: &Shared, shares: Vec<Share>) -> Figures {
        let uptime = shared.now() - Time::ZERO;
        Figures::new(&self.fixed.get(), uptime, shares, shared.stack.stats())
    }

    /// Writes the last figures of the connections that are there.
    pub(super) fn end_trace(&mut self, shared: &Shared) {
        if let Some(trace) = &mut self.trace {
            trace.close(shared);
        }
    }

    /// Ends whatever is open.
    pub(super) fn close(&mut self) {
        self.flows.close();
        self.pings.close();
        self.control.close();
        self.config.close();
        if let Some(names) = &mut self.name_connections {
            names.close();
        }
    }
}
