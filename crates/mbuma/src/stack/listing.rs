//! Lists of what a stack has at the moment: connections, listeners, UDP sockets, neighbours.

use std::net::{IpAddr, SocketAddr};

use wire::MacAddr;

use crate::ifnet::IfIndex;
use crate::stack::Stack;
use crate::tcp::{TcpInfo, TcpListenerInfo};
use crate::udp::UdpSocketInfo;

impl Stack {
    /// Every present TCP connection, as `netstat -a` lists them.
    ///
    /// ```
    /// # let stack = mbuma::Stack::new(mbuma::Config::from_system())?;
    /// let listener = stack.tcp_listen("127.0.0.1:80", 128)?;
    /// let stream = stack.tcp_connect_blocking("127.0.0.1:80", None)?;
    /// for connection in stack.connections() {
    ///     println!("{} {} {}", connection.local, connection.peer, connection.info.state);
    /// }
    /// # assert_eq!(stack.connections().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connections(&self) -> Vec<TcpConnection> {
        let _giant = self.0.enter_giant();
        let all = self.0.tcp.table.all();
        let now = self.now();
        all.iter()
            .map(|pcb| TcpConnection {
                local: pcb.ends().local(),
                peer: pcb.ends().peer(),
                info: TcpInfo::of(&pcb.lock_inside(), &self.0.tcp.config, now),
            })
            .collect()
    }

    /// Every TCP listener, as `netstat -a` and `ss -l` list them, by address.
    ///
    /// ```
    /// # let stack = mbuma::Stack::new(mbuma::Config::from_system())?;
    /// let listener = stack.tcp_listen("127.0.0.1:80", 16)?;
    /// let all = stack.tcp_listeners();
    /// assert_eq!((all[0].local, all[0].waiting, all[0].backlog), (listener.local_addr(), 0, 16));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tcp_listeners(&self) -> Vec<TcpListenerInfo> {
        let _giant = self.0.enter_giant();
        let mut all = self.0.tcp.listeners.list();
        all.sort_by_key(|listener| listener.local);
        all
    }

    /// Every UDP socket, as `netstat -a` lists them, by address.
    pub fn udp_sockets(&self) -> Vec<UdpSocketInfo> {
        let _giant = self.0.enter_giant();
        let mut all = self.0.udp.table.list();
        all.sort_by_key(|socket| (socket.local, socket.peer));
        all
    }

    /// The stations on the links of this stack, by interface and address, as `arp -a` and `ndp -a` list them.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        let _giant = self.0.enter_giant();
        let interfaces = self.0.interfaces.read().clone();
        let mut all = Vec::new();
        for ifp in &*interfaces {
            let of = |(addr, mac)| Neighbour {
                interface: ifp.index,
                addr,
                mac,
            };
            all.extend(
                ifp.neighbours
                    .list()
                    .into_iter()
                    .map(|(addr, mac)| (addr.into(), mac))
                    .map(of),
            );
            all.extend(
                ifp.neighbours6
                    .list()
                    .into_iter()
                    .map(|(addr, mac)| (addr.into(), mac))
                    .map(of),
            );
        }
        all
    }
}

/// A TCP connection of a stack.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TcpConnection {
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end.
    pub peer: SocketAddr,
    /// Its state and figures.
    pub info: TcpInfo,
}

/// A station on a link of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbour {
    /// The interface that leads to the link.
    pub interface: IfIndex,
    /// Its address.
    pub addr: IpAddr,
    /// Its Ethernet address; none while the stack asks for it.
    pub mac: Option<MacAddr>,
}
