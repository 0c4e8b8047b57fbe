//! Interfaces and routes of the network namespace the caller is in, by the classic ioctls.
//!
//! Invariants: a [`NetdevSocket`] socket acts on the namespace it was opened in, for as long as it lives.
//! Locks: none.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use super::{cvt, netlink};

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

    /// Sets how many packets may wait in each of the interface's transmit queues. By netlink, because the ioctl for it asks
    /// for privileges in the host's user namespace.
    pub(crate) fn set_tx_queue_len(&self, name: &str, packets: u32) -> io::Result<()> {
        let attribute = netlink::attribute(libc::IFLA_TXQLEN, &packets.to_ne_bytes());
        netlink::set_link(self.index(name)?, &attribute)
    }

    /// Lets the kernel take packets for 127/8 from this interface, and answer them (route_localnet). By netlink, because
    /// /proc/sys may be read-only.
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

    /// Sends packets for a network of IPv6 to `gateway`, on the link of the interface.
    pub(crate) fn add_route6(
        &self,
        name: &str,
        network: (Ipv6Addr, u8),
        gateway: Ipv6Addr,
        metric: u32,
    ) -> io::Result<()> {
        netlink::add_route6(self.index(name)?, network, gateway, metric)
    }

    fn index(&self, name: &str) -> io::Result<i32> {
        let mut req = request(name)?;
        self.ioctl(libc::SIOCGIFINDEX, &mut req)?;
        // SAFETY: SIOCGIFINDEX succeeded, so the kernel wrote this member of the union.
        Ok(unsafe { req.ifr_ifru.ifru_ifindex })
    }

    /// Gives an interface its address and prefix.
    pub(crate) fn set_addr(&self, name: &str, addr: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(prefix_len.min(32)))
            .unwrap_or(0);
        let mut req = request(name)?;
        req.ifr_ifru.ifru_addr = sockaddr(addr);
        self.ioctl(libc::SIOCSIFADDR, &mut req)?;
        req.ifr_ifru.ifru_netmask = sockaddr(Ipv4Addr::from_bits(mask));
        self.ioctl(libc::SIOCSIFNETMASK, &mut req)
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

    /// Sends everything that has no better route to `gateway`.
    pub(crate) fn add_default_route(&self, gateway: Ipv4Addr) -> io::Result<()> {
        self.add_route(Rtentry::to(gateway))
    }

    /// Sends packets for the one host `to` by the interface itself.
    pub(crate) fn add_host_route(&self, to: Ipv4Addr, name: &str) -> io::Result<()> {
        let name = CString::new(name)?;
        self.add_route(Rtentry::by(to, &name))
    }

    fn add_route(&self, mut route: Rtentry<'_>) -> io::Result<()> {
        // SAFETY: SIOCADDRT reads one rtentry, whose layout ours has (asserted below). Its one pointer, the device's
        // name, is null, which lets the kernel choose by the gateway, or borrowed from a C string.
        cvt(unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SIOCADDRT as libc::Ioctl,
                &raw mut route,
            )
        })?;
        Ok(())
    }

    /// The length of the prefix of the interface's network.
    pub(crate) fn prefix_len(&self, name: &str) -> io::Result<u8> {
        let mut req = request(name)?;
        self.ioctl(libc::SIOCGIFNETMASK, &mut req)?;
        // SAFETY: SIOCGIFNETMASK succeeded, so the kernel wrote this member of the union.
        let mask = unsafe { req.ifr_ifru.ifru_netmask };
        Ok(ipv4(&mask).to_bits().leading_ones() as u8)
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

/// A request about the interface `name`, all else zero.
///
/// # Errors
/// EINVAL when the name is too long for the kernel, holds a NUL, or is empty.
pub(super) fn request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.bytes().any(|b| b == 0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: integers and pointers, for which zero is a value; all of the union, of which no member is as large.
    let mut req: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in req.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    Ok(req)
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

/// `struct rtentry` of linux/route.h, which the libc crate lacks on glibc.
#[repr(C)]
struct Rtentry<'a> {
    pad1: libc::c_ulong,
    dst: libc::sockaddr,
    gateway: libc::sockaddr,
    genmask: libc::sockaddr,
    flags: libc::c_ushort,
    pad2: libc::c_short,
    pad3: libc::c_ulong,
    pad4: *mut libc::c_void,
    metric: libc::c_short,
    dev: *mut c_char,
    mtu: libc::c_ulong,
    window: libc::c_ulong,
    irtt: libc::c_ushort,
    /// Of `dev`.
    name: PhantomData<&'a CStr>,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Rtentry>() == 120);

impl<'a> Rtentry<'a> {
    /// To one host on the link of the interface `name`.
    fn by(host: Ipv4Addr, name: &'a CStr) -> Self {
        Self {
            dst: sockaddr(host),
            gateway: sockaddr(Ipv4Addr::UNSPECIFIED),
            genmask: sockaddr(Ipv4Addr::BROADCAST),
            flags: libc::RTF_UP | libc::RTF_HOST,
            dev: name.as_ptr().cast_mut(),
            ..Self::to(Ipv4Addr::UNSPECIFIED)
        }
    }

    /// The default route by way of `gateway`.
    fn to(gateway: Ipv4Addr) -> Self {
        // SAFETY: integers and pointers, for which zero is a value; between them too.
        let mut route: Self = unsafe { MaybeUninit::zeroed().assume_init() };
        route.dst = sockaddr(Ipv4Addr::UNSPECIFIED);
        route.gateway = sockaddr(gateway);
        route.genmask = sockaddr(Ipv4Addr::UNSPECIFIED);
        route.flags = libc::RTF_UP | libc::RTF_GATEWAY;
        route
    }
}
