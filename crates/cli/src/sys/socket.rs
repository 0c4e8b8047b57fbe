//! Sockets of the host, as the standard library does not make them: non-blocking from the start, read
//! and written in several pieces.
//!
//! Invariants: every socket made here is non-blocking and close-on-exec; no call raises SIGPIPE.
//! Locks: none.
//! Sources: ip(7), ipv6(7), icmp(7), raw(7), linux/errqueue.h, linux/icmpv6.h.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags,
    SocketFlags, SocketType, ipproto, netdevice, sockopt,
};
use serde::{Deserialize, Serialize};

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
    let (family, icmp) = match peer {
        SocketAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        SocketAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let (style, protocol) = match kind {
        Kind::Tcp => (SocketType::STREAM, ipproto::TCP),
        Kind::Udp => (SocketType::DGRAM, ipproto::UDP),
        Kind::Ping => (SocketType::DGRAM, icmp),
        Kind::RawIcmp => (SocketType::RAW, icmp),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, style, flags, Some(protocol))?)
}

/// The local end of a socket, unless that is the kernel's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalEnd {
    /// The source address, of the peer's family.
    pub(crate) addr: Option<IpAddr>,
    /// The interface by which packets leave.
    pub(crate) interface: Option<InterfaceName>,
    /// The port of a socket that [`share_port`] was called for; 0 for one of the kernel's choice, once the peer is
    /// known.
    pub(crate) port: u16,
}

/// The name of an interface, as the kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        f.write_str(&String::from_utf8_lossy(name))
    }
}

/// The same, with a local end.
pub(crate) fn open_from(kind: Kind, peer: SocketAddr, local: LocalEnd) -> io::Result<OwnedFd> {
    let fd = open(kind, peer)?;
    if let Some(interface) = local.interface {
        bind_to_device(fd.as_fd(), interface)?;
    }
    if local.port != 0 {
        let any = match peer {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        sockopt::set_socket_reuseport(&fd, true)?;
        if peer.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        let at = SocketAddr::from((local.addr.unwrap_or(any), local.port));
        net::bind(&fd, &at)?;
    } else if let Some(source) = local.addr {
        set(
            fd.as_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            &1_i32,
        )?;
        net::bind(&fd, &SocketAddr::from((source, 0)))?;
    }
    Ok(fd)
}

/// Lets further sockets of this user have the port of one that is connected, and returns the port. Only now: the kernel
/// may give a socket without a port one that others share, if it may share.
pub(crate) fn share_port(fd: BorrowedFd<'_>) -> io::Result<u16> {
    // Not SO_REUSEADDR, with which any user may bind the port, connect to the same peer, and take its answers.
    sockopt::set_socket_reuseport(fd, true)?;
    let local = SocketAddr::try_from(net::getsockname(fd)?)?;
    Ok(local.port())
}

/// Lets packets come and go by this interface alone.
fn bind_to_device(fd: BorrowedFd<'_>, InterfaceName(name): InterfaceName) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)
}

/// Makes a socket that is bound to an address of its family alone, and to an interface if one is named, and may follow
/// one that has just ended.
pub(crate) fn bound(
    kind: Kind,
    at: SocketAddr,
    interface: Option<InterfaceName>,
) -> io::Result<OwnedFd> {
    let fd = open(kind, at)?;
    if let Some(interface) = interface {
        bind_to_device(fd.as_fd(), interface)?;
    }
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    if kind == Kind::Tcp {
        sockopt::set_socket_reuseaddr(&fd, true)?;
    }
    net::bind(&fd, &at)?;
    Ok(fd)
}

/// Connects. Returns false while the attempt is under way; a second call returns the result.
pub(crate) fn connect(fd: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<bool> {
    match net::connect(fd, &peer) {
        Ok(()) | Err(Errno::ISCONN) => Ok(true),
        Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Whether an interface of this network namespace has the address: a socket sends to it from it. A bind(2) would not
/// tell, where net.ipv4.ip_nonlocal_bind is set.
pub(crate) fn is_local(addr: IpAddr) -> bool {
    let peer = SocketAddr::new(addr, 9);
    open(Kind::Udp, peer)
        .and_then(|socket| {
            connect(socket.as_fd(), peer)?;
            local_ip(socket.as_fd())
        })
        .is_ok_and(|from| from == addr)
}

/// The address from which a socket sends.
pub(crate) fn local_ip(fd: BorrowedFd<'_>) -> io::Result<IpAddr> {
    let local = SocketAddr::try_from(net::getsockname(fd)?)?;
    Ok(local.ip())
}

/// Lets as many clients wait to be accepted as the system allows (net.core.somaxconn). The socket may be listening.
pub(crate) fn listen_max(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(net::listen(fd, i32::MAX)?)
}

/// Makes closing a TCP socket a reset.
pub(crate) fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(fd, Some(Duration::ZERO))?)
}

/// Leaves urgent data in the stream (RFC 6093 section 6).
pub(crate) fn urgent_inline(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_oobinline(fd, true)?)
}

/// Probes a peer that has been silent for long (`net.ipv4.tcp_keepalive_time`, two hours), and ends the connection if
/// there is no answer. The connections that a listener accepts inherit it.
pub(crate) fn keep_alive(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_keepalive(fd, true)?)
}

/// Sends small segments at once.
pub(crate) fn no_delay(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(fd, true)?)
}

/// Lets a TCP socket's receive window be `bytes` from the beginning; it may still grow by itself. A sender limits its
/// segments to half of the largest window that it has seen, so that with the default window (64 KiB) a sender on this
/// host makes segments of 32 KiB.
///
/// SO_RCVBUF would stop the kernel's own tuning. Where SO_RCVLOWAT asks for more than the buffer holds, the kernel
/// makes the buffer larger (tcp(7) does not say so; `tcp_set_rcvlowat`).
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
    let set = match family {
        Family::V4 => sockopt::set_ip_ttl(fd, ttl.into()),
        Family::V6 => sockopt::set_ipv6_unicast_hops(fd, Some(ttl)),
    };
    Ok(set?)
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

/// Sets an option that rustix does not have, whose value is a `T`.
pub(super) fn set<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let (at, len) = (
        ptr::from_ref(value).cast(),
        mem::size_of::<T>() as libc::socklen_t,
    );
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
    let (mut control, flags) = (SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
    let sent = match &peer {
        Some(peer) => net::sendmsg_addr(fd, peer, pieces, &mut control, flags),
        None => net::sendmsg(fd, pieces, &mut control, flags),
    };
    Ok(sent?)
}

/// Receives into `pieces`; 0 from a stream is its end.
pub(crate) fn recv(fd: BorrowedFd<'_>, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let mut control = RecvAncillaryBuffer::default();
    Ok(net::recvmsg(fd, pieces, &mut control, RecvFlags::empty())?.bytes)
}

/// Receives one datagram into `pieces`, and its sender.
pub(crate) fn recv_from(
    fd: BorrowedFd<'_>,
    pieces: &mut [IoSliceMut<'_>],
) -> io::Result<(usize, SocketAddr)> {
    let mut control = RecvAncillaryBuffer::default();
    let got = net::recvmsg(fd, pieces, &mut control, RecvFlags::empty())?;
    let sender = got.address.and_then(|addr| addr.try_into().ok());
    Ok((got.bytes, sender.ok_or(io::ErrorKind::InvalidData)?))
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

/// Takes the next of the kept errors, with the first bytes of the packet, without waiting. (rustix does not know this
/// kind of control message.)
pub(crate) fn take_error(
    fd: BorrowedFd<'_>,
    quoted: &mut [u8],
) -> io::Result<(usize, Option<SocketSendError>)> {
    let mut control = SocketControl {
        bytes: [0; CONTROL_LEN],
    };
    let mut pieces = [IoSliceMut::new(quoted)];
    // SAFETY: msghdr is integers and pointers, for which zero is a value: no name, parts or control.
    let mut msg: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    msg.msg_iov = pieces.as_mut_ptr().cast();
    msg.msg_iovlen = 1;
    msg.msg_control = (&raw mut control).cast();
    msg.msg_controllen = CONTROL_LEN as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: `msg` points at `pieces` and `control`, which are ours alone and outlive the call, with their true
    // lengths. An IoSliceMut has the layout of an iovec.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut msg, flags) };
    let n = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
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

/// The index of an interface, as the scope of a link-local address needs it; 0 if there is none.
pub(crate) fn interface_index(name: &str) -> u32 {
    let flags = SocketFlags::CLOEXEC;
    let any = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    any.and_then(|any| netdevice::name_to_index(any, name))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_port_is_shared_with_sockets_of_this_user_alone() {
        // Breaks when any user of the host may bind the port of a guest's socket, connect to the same peer, and take
        // its answers: SO_REUSEADDR does not compare users.
        let peers = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
        let [a, b] = peers
            .each_ref()
            .map(|peer| peer.local_addr().expect("bound"));
        let first = open_from(Kind::Udp, a, LocalEnd::default()).expect("a socket");
        connect(first.as_fd(), a).expect("loopback");
        let port = share_port(first.as_fd()).expect("it has one");

        let anyone = open(Kind::Udp, b).expect("a socket");
        sockopt::set_socket_reuseaddr(&anyone, true).expect("an option");
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        assert_eq!(net::bind(&anyone, &at), Err(Errno::ADDRINUSE));

        let local = LocalEnd {
            port,
            ..LocalEnd::default()
        };
        let second = open_from(Kind::Udp, b, local).expect("the port is shared");
        connect(second.as_fd(), b).expect("loopback");
        for (socket, peer) in [(&first, &peers[0]), (&second, &peers[1])] {
            peer.send_to(b"!", at).expect("loopback");
            let mut byte = [0; 1];
            let got = recv_from(socket.as_fd(), &mut [IoSliceMut::new(&mut byte)]);
            assert_eq!(
                got.expect("its own"),
                (1, peer.local_addr().expect("bound"))
            );
        }
    }
}
