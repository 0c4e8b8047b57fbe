//! Sockets of the host, as the standard library does not make them: non-blocking from the start, read
//! and written in several pieces.
//!
//! Invariants: every socket made here is non-blocking and close-on-exec; no call raises SIGPIPE.
//! Locks: none.
//! Sources: ip(7), ipv6(7), icmp(7), raw(7), linux/errqueue.h, linux/icmpv6.h.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use super::cvt;

/// The use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A TCP connection.
    Tcp,
    /// Datagrams.
    Udp,
    /// Pings, with an identifier that the kernel chooses (the groups in net.ipv4.ping_group_range may open one).
    Ping,
    /// ICMP as it is on the wire: for those with CAP_NET_RAW.
    RawIcmp,
}

/// Makes a socket that suits `peer`.
pub(crate) fn open(kind: Kind, peer: SocketAddr) -> io::Result<OwnedFd> {
    let family = if peer.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let icmp = match peer {
        SocketAddr::V4(_) => libc::IPPROTO_ICMP,
        SocketAddr::V6(_) => libc::IPPROTO_ICMPV6,
    };
    let (style, protocol) = match kind {
        Kind::Tcp => (libc::SOCK_STREAM, libc::IPPROTO_TCP),
        Kind::Udp => (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
        Kind::Ping => (libc::SOCK_DGRAM, icmp),
        Kind::RawIcmp => (libc::SOCK_RAW, icmp),
    };
    let style = style | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes three numbers and touches no memory.
    let fd = cvt(unsafe { libc::socket(family, style, protocol) })?;
    // SAFETY: the kernel just made this descriptor, and no other owner has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The local end of a socket, unless that is the kernel's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalEnd {
    /// The source address, of the peer's family.
    pub(crate) addr: Option<IpAddr>,
    /// The interface by which packets leave.
    pub(crate) interface: Option<InterfaceName>,
}

/// The name of an interface, as the kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceName([u8; libc::IFNAMSIZ]);

impl InterfaceName {
    /// From text.
    ///
    /// # Errors
    /// EINVAL if it is too long for the kernel, or empty.
    pub(crate) fn new(name: &str) -> io::Result<InterfaceName> {
        let mut bytes = [0; libc::IFNAMSIZ];
        // The last byte stays zero.
        let room = bytes
            .get_mut(..name.len())
            .filter(|_| name.len() < libc::IFNAMSIZ);
        let room = room.filter(|room| !room.is_empty());
        let room = room.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        room.copy_from_slice(name.as_bytes());
        Ok(InterfaceName(bytes))
    }
}

/// The same, with a local end; the port is the kernel's choice, once the peer is known.
pub(crate) fn open_from(kind: Kind, peer: SocketAddr, local: LocalEnd) -> io::Result<OwnedFd> {
    let fd = open(kind, peer)?;
    if let Some(InterfaceName(name)) = local.interface {
        set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)?;
    }
    if let Some(source) = local.addr {
        set(
            fd.as_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            &1_i32,
        )?;
        bind(fd.as_fd(), SocketAddr::from((source, 0)))?;
    }
    Ok(fd)
}

/// Makes a socket that is bound to an address of its family alone, and may follow one that has just ended.
pub(crate) fn bound(kind: Kind, at: SocketAddr) -> io::Result<OwnedFd> {
    let fd = open(kind, at)?;
    if at.is_ipv6() {
        set(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1_i32)?;
    }
    if kind == Kind::Tcp {
        set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32)?;
    }
    bind(fd.as_fd(), at)?;
    Ok(fd)
}

fn bind(fd: BorrowedFd<'_>, at: SocketAddr) -> io::Result<()> {
    let name = SocketAddress::from(at);
    let (at, len) = name.as_ptr();
    // SAFETY: `at` points at `len` bytes of an initialized socket address.
    cvt(unsafe { libc::bind(fd.as_raw_fd(), at, len) })?;
    Ok(())
}

/// Connects. Returns false while the attempt is under way; a second call returns the result.
pub(crate) fn connect(fd: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<bool> {
    let name = SocketAddress::from(peer);
    let (at, len) = name.as_ptr();
    // SAFETY: `at` points at `len` bytes of an initialized socket address.
    match cvt(unsafe { libc::connect(fd.as_raw_fd(), at, len) }) {
        Ok(_) => Ok(true),
        Err(e) => match e.raw_os_error() {
            Some(libc::EISCONN) => Ok(true),
            Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) => Ok(false),
            _ => Err(e),
        },
    }
}

/// Lets as many clients wait to be accepted as the system allows (net.core.somaxconn). The socket may be listening.
pub(crate) fn listen_max(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes two numbers and touches no memory.
    cvt(unsafe { libc::listen(fd.as_raw_fd(), libc::c_int::MAX) })?;
    Ok(())
}

/// Makes closing a TCP socket a reset.
pub(crate) fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

/// Sends small segments at once.
pub(crate) fn no_delay(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32)
}

/// Lets a TCP socket's receive window be `bytes` from the beginning; it may still grow by itself. A sender limits its
/// segments to half of the largest window that it has seen, so that with the default window (64 KiB) a sender on this
/// host makes segments of 32 KiB.
///
/// SO_RCVBUF would stop the kernel's own tuning. Where SO_RCVLOWAT asks for more than the buffer holds, the kernel makes
/// the buffer larger (tcp(7) does not say so; `tcp_set_rcvlowat`).
pub(crate) fn receive_window(fd: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &bytes)?;
    set(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &1_i32)
}

/// The version of IP of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Keeps ICMP errors for [`take_error`].
pub(crate) fn keep_errors(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    match family {
        Family::V4 => set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, &1_i32),
        Family::V6 => set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &1_i32),
    }
}

/// The TTL, or hop limit, of sent packets.
pub(crate) fn set_ttl(fd: BorrowedFd<'_>, family: Family, ttl: u8) -> io::Result<()> {
    let ttl = i32::from(ttl);
    match family {
        Family::V4 => set(fd, libc::IPPROTO_IP, libc::IP_TTL, &ttl),
        Family::V6 => set(fd, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, &ttl),
    }
}

/// Lets only answers to pings into a raw ICMP socket. Errors come by [`take_error`] all the same.
pub(crate) fn only_echo_replies(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    /// `ICMP_FILTER` of linux/icmp.h, for `SOL_RAW`: a bit for each type to leave out.
    const ICMP_FILTER: libc::c_int = 1;
    /// `ICMPV6_FILTER` of linux/icmpv6.h: the same for all 256 types.
    const ICMPV6_FILTER: libc::c_int = 1;
    /// RFC 4443 section 4.2.
    const ECHO_REPLY6: u32 = 129;
    match family {
        Family::V4 => set(fd, libc::SOL_RAW, ICMP_FILTER, &!1_u32),
        Family::V6 => {
            let mut left_out = [u32::MAX; 8];
            left_out[ECHO_REPLY6 as usize / 32] &= !(1 << (ECHO_REPLY6 % 32));
            set(fd, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &left_out)
        }
    }
}

/// Sets an option whose value is a `T`.
fn set<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (at, len) = (ptr::from_ref(value).cast(), socklen::<T>());
    // SAFETY: the call reads the `len` bytes of `value`, integers without padding.
    cvt(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, at, len) })?;
    Ok(())
}

/// Sends `pieces` as one datagram, or as much of them as a stream takes; to `peer`, or to the peer that the socket is
/// connected to.
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    peer: Option<SocketAddr>,
) -> io::Result<usize> {
    let mut name = peer.map(SocketAddress::from);
    let mut msg = message();
    // An IoSlice has the layout of an iovec, and sendmsg only reads through it.
    msg.msg_iov = pieces.as_ptr().cast_mut().cast();
    msg.msg_iovlen = pieces.len() as _;
    if let Some(name) = &mut name {
        (msg.msg_name, msg.msg_namelen) = name.as_mut_ptr();
    }
    // SAFETY: `msg` points at `pieces` and `name`, which outlive the call, with their true lengths.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const msg, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives into `pieces`; 0 from a stream is its end.
pub(crate) fn recv(fd: BorrowedFd<'_>, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let mut msg = message();
    msg.msg_iov = pieces.as_mut_ptr().cast();
    msg.msg_iovlen = pieces.len() as _;
    recvmsg(fd, &mut msg, 0)
}

/// Receives one datagram into `pieces`, and its sender.
pub(crate) fn recv_from(
    fd: BorrowedFd<'_>,
    pieces: &mut [IoSliceMut<'_>],
) -> io::Result<(usize, SocketAddr)> {
    let mut name = SocketAddress::empty();
    let mut msg = message();
    msg.msg_iov = pieces.as_mut_ptr().cast();
    msg.msg_iovlen = pieces.len() as _;
    (msg.msg_name, msg.msg_namelen) = name.as_mut_ptr();
    let n = recvmsg(fd, &mut msg, 0)?;
    let sender = name.addr().ok_or(io::ErrorKind::InvalidData)?;
    Ok((n, sender))
}

fn recvmsg(fd: BorrowedFd<'_>, msg: &mut libc::msghdr, flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: private to this module, whose callers point `msg` at buffers that are theirs alone and
    // outlive the call, with their true lengths. An IoSliceMut has the layout of an iovec.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), msg, flags) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// An error of the network, or of the kernel itself, about a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketSendError {
    /// The error as a system call would tell it.
    pub(crate) errno: i32,
    /// ICMP type and code, if it came from the network.
    pub(crate) icmp: Option<(u8, u8)>,
    /// More about it: for "too big", the MTU.
    pub(crate) info: u32,
}

/// Takes the next of the kept errors, with the first bytes of the packet, without waiting.
pub(crate) fn take_error(
    fd: BorrowedFd<'_>,
    quoted: &mut [u8],
) -> io::Result<(usize, Option<SocketSendError>)> {
    let mut control = SocketControl {
        bytes: [0; CONTROL_LEN],
    };
    let mut pieces = [IoSliceMut::new(quoted)];
    let mut msg = message();
    msg.msg_iov = pieces.as_mut_ptr().cast();
    msg.msg_iovlen = 1;
    msg.msg_control = (&raw mut control).cast();
    msg.msg_controllen = CONTROL_LEN as _;
    let n = recvmsg(fd, &mut msg, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)?;
    Ok((n, send_error(&msg)))
}

/// Finds the error among the control messages.
fn send_error(msg: &libc::msghdr) -> Option<SocketSendError> {
    // SAFETY: `msg` comes from recvmsg, whose control data are still alive in our caller.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(ptr::from_ref(msg)) };
    loop {
        // SAFETY: null, or a whole header inside the control data.
        let here = unsafe { header.as_ref() }?;
        let kinds = [
            (libc::IPPROTO_IP, libc::IP_RECVERR),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        ];
        if kinds.contains(&(here.cmsg_level, here.cmsg_type)) {
            break;
        }
        // SAFETY: `header` is a control message of `msg`.
        header = unsafe { libc::CMSG_NXTHDR(ptr::from_ref(msg), header) };
    }
    // SAFETY: the data follow the header.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the data of both kinds begin with a sock_extended_err; no alignment is assumed.
    let e = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
    let origins = [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6];
    Some(SocketSendError {
        errno: e.ee_errno.cast_signed(),
        icmp: origins
            .contains(&e.ee_origin)
            .then_some((e.ee_type, e.ee_code)),
        info: e.ee_info,
    })
}

/// Room for a sock_extended_err with the address behind it, and for the kernel's other control messages.
const CONTROL_LEN: usize = 256;

/// Control messages, aligned as cmsghdr wants it.
#[repr(C)]
union SocketControl {
    header: libc::cmsghdr,
    bytes: [u8; CONTROL_LEN],
}

/// A message of nothing yet.
fn message() -> libc::msghdr {
    // SAFETY: msghdr is integers and pointers, for which zero is a value: no name, parts or control.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// A socket address as the kernel takes and gives it.
#[repr(C)]
union SocketAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl SocketAddress {
    /// Room for any address.
    fn empty() -> SocketAddress {
        SocketAddress {
            // SAFETY: integers, for which zero is a value.
            v6: unsafe { MaybeUninit::zeroed().assume_init() },
        }
    }

    fn family(&self) -> libc::c_int {
        // SAFETY: both variants begin with the family, and all of the union is initialized.
        libc::c_int::from(unsafe { self.v4.sin_family })
    }

    fn len(&self) -> libc::socklen_t {
        match self.family() {
            libc::AF_INET => socklen::<libc::sockaddr_in>(),
            _ => socklen::<libc::sockaddr_in6>(),
        }
    }

    fn as_ptr(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        (ptr::from_ref(self).cast(), self.len())
    }

    fn as_mut_ptr(&mut self) -> (*mut libc::c_void, libc::socklen_t) {
        (ptr::from_mut(self).cast(), self.len())
    }

    /// The address, if the kernel wrote one of a family that we know.
    fn addr(&self) -> Option<SocketAddr> {
        match self.family() {
            libc::AF_INET => {
                // SAFETY: all of the union is initialized, with integers.
                let v4 = unsafe { self.v4 };
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { self.v6 };
                let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), v6.sin6_port);
                let port = u16::from_be(port);
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(addr: SocketAddr) -> SocketAddress {
        let mut name = SocketAddress::empty();
        match addr {
            SocketAddr::V4(a) => {
                name.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: a.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(a.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
            }
            SocketAddr::V6(a) => {
                name.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: a.port().to_be(),
                    sin6_flowinfo: a.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: a.ip().octets(),
                    },
                    sin6_scope_id: a.scope_id(),
                };
            }
        }
        name
    }
}

/// The index of an interface, as the scope of a link-local address needs it; 0 if there is none.
pub(crate) fn interface_index(name: &str) -> u32 {
    let Ok(name) = std::ffi::CString::new(name) else {
        return 0;
    };
    // SAFETY: a NUL-terminated string, alive to the end of the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// The size of a `T` as the socket calls count it.
const fn socklen<T>() -> libc::socklen_t {
    mem::size_of::<T>() as libc::socklen_t
}
