//! Interfaces and routes of the network namespace the caller is in, by the classic ioctls and by netlink.
//!
//! Invariants: a [`NetdevSocket`] socket acts on the namespace it was opened in, for as long as it lives.
//! Locks: none.

use std::ffi::c_char;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use kern::sys::tap::request;

use super::{cvt, netlink};

/// The ioctl for a request of ethtool's, and the request for the state of the link (linux/sockios.h, linux/ethtool.h).
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GLINK: u32 = 0x0a;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// A socket to hand interface requests to.
pub(crate) struct NetdevSocket(OwnedFd);

impl NetdevSocket {
    /// Opens one in the namespace that the caller is in.
    pub(crate) fn open() -> io::Result<NetdevSocket> {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map(|s| NetdevSocket(s.into()))
    }

    /// Turns an interface on.
    pub(crate) fn up(&self, name: &str) -> io::Result<()> {
        let mut req = request(name)?;
        self.ioctl(libc::SIOCGIFFLAGS, &mut req)?;
        // SAFETY: SIOCGIFFLAGS succeeded, so the kernel wrote this member of the union.
        let flags = unsafe { req.ifr_ifru.ifru_flags };
        req.ifr_ifru.ifru_flags = flags | (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        self.ioctl(libc::SIOCSIFFLAGS, &mut req)
    }

    /// Sets the largest IP packet.
    pub(crate) fn set_mtu(&self, name: &str, mtu: u16) -> io::Result<()> {
        let mut req = request(name)?;
        req.ifr_ifru.ifru_mtu = mtu.into();
        self.ioctl(libc::SIOCSIFMTU, &mut req)
    }

    /// Sets how many packets may wait in each of the interface's transmit queues. By netlink, because the ioctl for it
    /// asks for privileges in the host's user namespace.
    pub(crate) fn set_tx_queue_len(&self, name: &str, packets: u32) -> io::Result<()> {
        let attribute = netlink::attribute(libc::IFLA_TXQLEN, &packets.to_ne_bytes());
        netlink::set_link(self.index(name)?, &attribute)
    }

    /// Lets the kernel take packets for 127/8 from this interface, and answer them (route_localnet). By netlink,
    /// because /proc/sys may be read-only.
    pub(crate) fn route_localnet(&self, name: &str) -> io::Result<()> {
        netlink::set_link(self.index(name)?, &netlink::route_localnet())
    }

    /// Lets the kernel give an interface, which is down, no link-local address by itself.
    pub(crate) fn no_link_local_of_its_own(&self, name: &str) -> io::Result<()> {
        netlink::set_link(self.index(name)?, &netlink::no_link_local())
    }

    /// Adds an IPv6 address, which is good at once.
    pub(crate) fn add_addr6(&self, name: &str, addr: Ipv6Addr, prefix_len: u8) -> io::Result<()> {
        netlink::add_addr6(self.index(name)?, addr, prefix_len)
    }

    /// Sends packets for a network by the interface: to `gateway` on its link, or to the destination itself.
    pub(crate) fn add_route(
        &self,
        name: &str,
        to: (IpAddr, u8),
        gateway: Option<IpAddr>,
        metric: u32,
    ) -> io::Result<()> {
        netlink::add_route(&netlink::RouteMessage {
            index: self.index(name)?,
            to,
            gateway,
            metric,
        })
    }

    fn index(&self, name: &str) -> io::Result<i32> {
        let mut req = request(name)?;
        self.ioctl(libc::SIOCGIFINDEX, &mut req)?;
        // SAFETY: SIOCGIFINDEX succeeded, so the kernel wrote this member of the union.
        Ok(unsafe { req.ifr_ifru.ifru_ifindex })
    }

    /// Gives an interface its address and prefix. One that is alone in its network has no address for a broadcast: the
    /// kernel chooses that by the address's class, and it may be another host's.
    pub(crate) fn set_addr(&self, name: &str, addr: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(prefix_len.min(32)))
            .unwrap_or(0);
        let mut req = request(name)?;
        req.ifr_ifru.ifru_addr = sockaddr(addr);
        self.ioctl(libc::SIOCSIFADDR, &mut req)?;
        req.ifr_ifru.ifru_netmask = sockaddr(Ipv4Addr::from_bits(mask));
        self.ioctl(libc::SIOCSIFNETMASK, &mut req)?;
        if prefix_len < 31 {
            return Ok(());
        }
        req.ifr_ifru.ifru_broadaddr = sockaddr(Ipv4Addr::UNSPECIFIED);
        self.ioctl(libc::SIOCSIFBRDADDR, &mut req)
    }

    /// The interface's address.
    pub(crate) fn addr(&self, name: &str) -> io::Result<Ipv4Addr> {
        let mut req = request(name)?;
        self.ioctl(libc::SIOCGIFADDR, &mut req)?;
        // SAFETY: SIOCGIFADDR succeeded, so the kernel wrote this member of the union.
        let addr = unsafe { req.ifr_ifru.ifru_addr };
        Ok(ipv4(&addr))
    }

    /// Gives an interface, which is down, its Ethernet address.
    pub(crate) fn set_mac(&self, name: &str, mac: [u8; 6]) -> io::Result<()> {
        let mut req = request(name)?;
        let mut sa_data = [0; 14];
        for (to, from) in sa_data.iter_mut().zip(mac) {
            *to = from as c_char;
        }
        req.ifr_ifru.ifru_hwaddr = libc::sockaddr {
            sa_family: libc::ARPHRD_ETHER,
            sa_data,
        };
        self.ioctl(libc::SIOCSIFHWADDR, &mut req)
    }

    /// The interface's Ethernet address.
    pub(crate) fn mac(&self, name: &str) -> io::Result<[u8; 6]> {
        let mut req = request(name)?;
        self.ioctl(libc::SIOCGIFHWADDR, &mut req)?;
        // SAFETY: SIOCGIFHWADDR succeeded, so the kernel wrote this member of the union.
        let hwaddr = unsafe { req.ifr_ifru.ifru_hwaddr };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(hwaddr.sa_data) {
            // A signed number on some architectures.
            [*to] = from.to_ne_bytes();
        }
        Ok(mac)
    }

    /// The length of the prefix of the interface's network.
    pub(crate) fn prefix_len(&self, name: &str) -> io::Result<u8> {
        let mut req = request(name)?;
        self.ioctl(libc::SIOCGIFNETMASK, &mut req)?;
        // SAFETY: SIOCGIFNETMASK succeeded, so the kernel wrote this member of the union.
        let mask = unsafe { req.ifr_ifru.ifru_netmask };
        Ok(ipv4(&mask).to_bits().leading_ones() as u8)
    }

    /// Whether the interface has a carrier: a TAP that is up has one while a program holds its other end.
    pub(crate) fn has_carrier(&self, name: &str) -> io::Result<bool> {
        let mut value = EthtoolValue {
            cmd: ETHTOOL_GLINK,
            data: 0,
        };
        let mut req = request(name)?;
        req.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: ETHTOOL_GLINK reads and writes one ethtool_value, to which the request points, and the request
        // itself.
        cvt(unsafe { libc::ioctl(self.0.as_raw_fd(), SIOCETHTOOL as libc::Ioctl, &raw mut req) })?;
        Ok(value.data != 0)
    }

    fn ioctl(&self, number: libc::c_ulong, req: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: private to this type, which passes SIOC[GS]IF* numbers only: each reads and
        // writes one ifreq and nothing else.
        cvt(unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                number as libc::Ioctl,
                ptr::from_mut(req),
            )
        })?;
        Ok(())
    }
}

/// The IPv4 address in a `sockaddr_in` under the name of `sockaddr`.
fn ipv4(addr: &libc::sockaddr) -> Ipv4Addr {
    let mut octets = [0; 4];
    // The first two bytes are the port, which interfaces do not have.
    for (to, from) in octets.iter_mut().zip(addr.sa_data.iter().skip(2)) {
        // A signed number on some architectures.
        [*to] = from.to_ne_bytes();
    }
    octets.into()
}

/// An IPv4 address as the old calls want it: `sockaddr_in` under the name of `sockaddr`.
fn sockaddr(addr: Ipv4Addr) -> libc::sockaddr {
    let mut sa_data = [0; 14];
    // The first two bytes are the port, which interfaces and routes do not have.
    for (to, from) in sa_data.iter_mut().skip(2).zip(addr.octets()) {
        *to = from as c_char;
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data,
    }
}
