//! Sockets of the host, as the standard library does not make them: non-blocking from the start, read
//! and written in several pieces.
//!
//! Invariants: every socket made here is non-blocking and close-on-exec; no call raises SIGPIPE.
//! Locks: none.
//! Sources: ip(7), ipv6(7), icmp(7), raw(7), linux/errqueue.h, linux/icmpv6.h.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit, offset_of};
use std::net::{IpAddr, SocketAddr};
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

/// The same, with a local end; the port is the kernel's choice, once the peer is known.
pub(crate) fn open_from(kind: Kind, peer: SocketAddr, local: LocalEnd) -> io::Result<OwnedFd> {
    let fd = open(kind, peer)?;
    if let Some(interface) = local.interface {
        bind_to_device(fd.as_fd(), interface)?;
    }
    if let Some(source) = local.addr {
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
    source_to(addr) == Some(addr)
}

/// The address from which a socket of this network namespace sends to `addr`; none if there is no route.
pub(crate) fn source_to(addr: IpAddr) -> Option<IpAddr> {
    let peer = SocketAddr::new(addr, 9);
    let socket = open(Kind::Udp, peer).ok()?;
    connect(socket.as_fd(), peer).ok()?;
    let from = SocketAddr::try_from(net::getsockname(&socket).ok()?).ok()?;
    Some(from.ip())
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

/// Ends the connection with ETIMEDOUT once its peer has taken none of the data that waits for it for this long, also if
/// it answers probes of its window (RFC 5482, TCP_USER_TIMEOUT).
pub(crate) fn give_up_after(fd: BorrowedFd<'_>, time: Duration) -> io::Result<()> {
    let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(fd, millis)?)
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

/// Keeps the errors about packets to such a peer for [`take_error`]. While one is kept, a poller reports the socket.
pub(crate) fn keep_errors(fd: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()> {
    match peer {
        SocketAddr::V4(_) => set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, &1_i32),
        SocketAddr::V6(_) => set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &1_i32),
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
    let (n, sender, _) = recv_with_control(fd, pieces, RecvFlags::empty())?;
    Ok((n, sender))
}

/// An error of the network, or of the kernel itself, about a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SocketSendError {
    /// The destination of the packet.
    pub(crate) dst: SocketAddr,
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
    let mut pieces = [IoSliceMut::new(quoted)];
    let (n, dst, control) = recv_with_control(fd, &mut pieces, RecvFlags::ERRQUEUE)?;
    Ok((n, send_error(dst, &control)))
}

fn send_error(dst: SocketAddr, control: &ReceivedControl) -> Option<SocketSendError> {
    let v4 = control.find(libc::IPPROTO_IP, libc::IP_RECVERR);
    let data = v4.or_else(|| control.find(libc::IPPROTO_IPV6, libc::IPV6_RECVERR))?;
    let word = |at: usize| data.get(at..)?.first_chunk().copied();
    let [origin, kind, code, _] = word(offset_of!(libc::sock_extended_err, ee_origin))?;
    let is_icmp = [libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6].contains(&origin);
    let errno = word(offset_of!(libc::sock_extended_err, ee_errno))?;
    let info = word(offset_of!(libc::sock_extended_err, ee_info))?;
    Some(SocketSendError {
        dst,
        errno: i32::from_ne_bytes(errno),
        icmp: is_icmp.then_some((kind, code)),
        info: u32::from_ne_bytes(info),
    })
}

/// Room for the control messages that a socket here asks for: a sock_extended_err with an address of IPv6 behind it, or
/// the length of a train's datagrams and an in6_pktinfo.
pub(super) const CONTROL_LEN: usize = 64;
/// The place of the data in a control message.
pub(super) const CONTROL_DATA: usize = size_of::<libc::cmsghdr>();
const _: () = assert!(CONTROL_DATA.is_multiple_of(8));

/// Control messages, aligned as cmsghdr wants it.
#[repr(C, align(8))]
pub(super) struct AlignedControl<B>(pub(super) [B; CONTROL_LEN]);

/// The control messages of a datagram, and zeros. (rustix knows none of those that are read here.)
pub(super) struct ReceivedControl([u8; CONTROL_LEN]);

impl ReceivedControl {
    /// The data of the message of this level and type.
    pub(super) fn find(&self, level: i32, kind: i32) -> Option<&[u8]> {
        let mut rest = &self.0[..];
        loop {
            let len = usize::from_ne_bytes(*rest.first_chunk()?);
            let (header, data) = rest.get(..len)?.split_at_checked(CONTROL_DATA)?;
            let word = |at: usize| header[at..].first_chunk().copied();
            let its = [
                word(offset_of!(libc::cmsghdr, cmsg_level))?,
                word(offset_of!(libc::cmsghdr, cmsg_type))?,
            ];
            if its.map(i32::from_ne_bytes) == [level, kind] {
                return Some(data);
            }
            rest = rest.get(len.next_multiple_of(8)..)?;
        }
    }
}

/// Receives one datagram into `pieces`, with its address and its control messages.
pub(super) fn recv_with_control(
    fd: BorrowedFd<'_>,
    pieces: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> io::Result<(usize, SocketAddr, ReceivedControl)> {
    let mut control = AlignedControl([MaybeUninit::new(0); CONTROL_LEN]);
    let mut buffer = RecvAncillaryBuffer::new(&mut control.0);
    let got = net::recvmsg(fd, pieces, &mut buffer, flags)?;
    drop(buffer);
    // SAFETY: every byte was initialised above, and the kernel writes whole bytes.
    let control = control.0.map(|byte| unsafe { byte.assume_init() });
    let addr = got.address.and_then(|addr| addr.try_into().ok());
    let addr = addr.ok_or(io::ErrorKind::InvalidData)?;
    Ok((got.bytes, addr, ReceivedControl(control)))
}

/// The index of an interface, as the scope of a link-local address needs it; 0 if there is none.
pub(crate) fn interface_index(name: &str) -> u32 {
    let flags = SocketFlags::CLOEXEC;
    let any = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    any.and_then(|any| netdevice::name_to_index(any, name))
        .unwrap_or(0)
}
