//! Attaches and detaches interfaces.
//!
//! Locks: the list of interfaces (INTERFACES). Detaching marks the interface, then removes its routes, then drops the
//! packets that wait for its neighbours. So a thread that finds the interface later finds it marked.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use wire::MacAddr;

use crate::batch::Batch;
use crate::device::{Device, Medium};
use crate::drops::DropReason;
use crate::error::{Error, Result};
use crate::ether::{arp, autoconf, nd};
use crate::faults::{StackFault, planted};
use crate::ifnet::{Cidr, IfAddr, IfConfig, IfIndex, Ifnet, missing_link_local};
use crate::neighbour::{NeighbourLimits, Tables};
use crate::stack::Stack;

impl Stack {
    /// Attaches a device. Its connected networks become routes. The index is never used again for another interface.
    ///
    /// # Errors
    /// [`Error::Mtu`]: the device's MTU is below 68 bytes (RFC 791), or below 1280 and the interface has IPv6 (RFC 8200
    /// section 5). [`Error::NameInUse`]: another interface has the name.
    pub fn attach(&self, device: Arc<dyn Device>, config: IfConfig) -> Result<IfIndex> {
        self.attach_queues(vec![device], config)
    }

    /// Attaches a device with several queues: `devices` are its queues, all with the same capabilities. All frames of a
    /// flow leave through one of them, in order.
    ///
    /// # Errors
    /// As for [`attach`](Self::attach).
    ///
    /// # Panics
    /// If `devices` is empty.
    pub fn attach_queues(
        &self,
        devices: Vec<Arc<dyn Device>>,
        mut config: IfConfig,
    ) -> Result<IfIndex> {
        assert!(!devices.is_empty(), "a device has at least one queue");
        let mtu = devices[0].capabilities().mtu;
        if !config.takes_mtu(mtu) {
            return Err(Error::Mtu(mtu));
        }
        if devices.len() > 1 {
            self.0.netisr.need_flows();
        }
        let mac = config
            .mac
            .or_else(|| devices[0].mac())
            .unwrap_or_else(|| self.random_mac());
        let _giant = self.0.enter_giant();
        let mut interfaces = self.0.interfaces.write();
        let has_name = |ifp: &Arc<Ifnet>| ifp.name == config.name;
        if has_name(&self.0.lo) || interfaces.iter().any(has_name) {
            return Err(Error::NameInUse(config.name));
        }
        let index = self.0.new_index(&interfaces);
        // An interface without IPv6 draws no random number.
        let reachable = match config.has_ip6() {
            true => self.reachable_time(),
            false => Duration::ZERO,
        };
        if let Some(autoconf) = config.autoconf.as_mut().filter(|a| a.secret == [0; 16]) {
            self.0.random(|r| r.fill(&mut autoconf.secret));
        }
        let wanted = IfAddr::of_version(&config.addrs);
        let limits = NeighbourLimits {
            entries: self.0.config.neighbours_max,
            waiting: self.0.config.arp_queue_max,
        };
        let tables = Tables::new(limits, reachable);
        let policy = Arc::clone(&self.0.address_policy);
        let ifp = Arc::new(Ifnet::new(index, config, mac, devices, tables, policy));
        interfaces.push(Arc::clone(&ifp));
        drop(interfaces);
        self.0.quiet.end();
        self.0.routes.add_connected(&ifp, &ifp.addrs.list());
        self.0.routes6.add_connected(&ifp, &ifp.addrs6.list());
        self.begin_host6(&ifp, wanted);
        Ok(index)
    }

    /// An interface that configures itself begins with its link-local address and then these.
    fn begin_host6(&self, ifp: &Arc<Ifnet>, wanted: Vec<Cidr<Ipv6Addr>>) {
        if ifp.host6.is_some() {
            let link_local = missing_link_local(&wanted, ifp.mac);
            let all: Vec<_> = link_local.into_iter().chain(wanted).collect();
            self.0.enter(|batch| autoconf::begin(batch, ifp, &all));
        }
    }

    /// Detaches an interface: removes its routes, and drops and counts the packets that are queued on it in either
    /// direction. A thread that uses the interface at this moment finishes with an error or a drop.
    #[doc(alias = "if_detach")]
    pub fn detach(&self, index: IfIndex) {
        let giant = self.0.enter_giant();
        let mut interfaces = self.0.interfaces.write();
        let Some(at) = interfaces.iter().position(|ifp| ifp.index == index) else {
            return;
        };
        let ifp = interfaces.remove(at);
        drop(interfaces);
        if planted(StackFault::FlushedEarly) {
            self.0.enter(|batch| flush(batch, &ifp));
        }
        if !planted(StackFault::Unmarked) {
            ifp.mark_detached();
        }
        self.0.routes.remove_interface(index);
        self.0.routes6.remove_interface(index);
        // The routes are removed first, so that later look-ups do not find this interface.
        self.0.tcp.forget_interface(index);
        self.0.udp.table.forget_interface(index);
        drop(giant);
        if !planted(StackFault::FlushedEarly) {
            self.0.enter(|batch| flush(batch, &ifp));
        }
        self.0.enter(|batch| {
            self.0.tcp.listeners.interface_gone(batch, index);
            self.0.udp.table.interface_gone(batch, index);
            self.0.icmp.interface_gone(batch, index);
            self.0.icmp6.sockets.interface_gone(batch, index);
        });
        let detached = || ifp.queues.iter().map(|q| q.device.detached() as u64).sum();
        let waited = self.0.outward(&ifp, detached);
        self.0.received.add(waited);
        self.0.drops.add(DropReason::NoInterface, waited);
    }

    /// Announces an interface's addresses to all stations on its link (RFC 5227 2.3, RFC 4861 7.2.6), so that stations
    /// with old entries send here from now on. Attaching an epair's end does this; for other devices the program must
    /// call it when the link is up.
    #[doc(alias = "arp_ifinit")]
    pub fn announce(&self, index: IfIndex) {
        if let Some(ifp) = self.0.interface(index) {
            let (v4, v6) = (ifp.addrs.list(), ifp.addrs6.list());
            let v4 = v4.iter().map(|own| IpAddr::V4(own.addr));
            self.announce_from(&ifp, v4.chain(v6.iter().map(|own| IpAddr::V6(own.addr))));
        }
    }

    /// Announces these addresses of the interface, if its link has neighbours.
    pub(super) fn announce_from(&self, ifp: &Arc<Ifnet>, addrs: impl Iterator<Item = IpAddr>) {
        if ifp.medium != Medium::Ethernet || ifp.is_loopback() {
            return;
        }
        self.0.enter(|batch| {
            addrs.for_each(|addr| match addr {
                IpAddr::V4(addr) => arp::announce(batch, ifp, addr),
                IpAddr::V6(addr) => nd::announce(batch, ifp, addr),
            });
        });
    }

    /// For how long a neighbour's answer is believed: random, so that hosts do not ask all at once (RFC 4861 6.3.2).
    pub(super) fn reachable_time(&self) -> Duration {
        const BASE_MS: u64 = 30_000;
        Duration::from_millis(BASE_MS / 2 + self.0.random(|r| r.below(BASE_MS)))
    }

    /// A locally administered address drawn at random.
    pub(crate) fn random_mac(&self) -> MacAddr {
        let mut bytes = [0; 6];
        self.0.random(|r| r.fill(&mut bytes));
        bytes[0] = (bytes[0] & 0xfc) | 0x02;
        MacAddr(bytes)
    }
}

/// Drops packets that wait for neighbours of either version.
fn flush(batch: &Batch<'_>, ifp: &Ifnet) {
    arp::flush(batch, ifp);
    nd::flush(batch, ifp);
}
