//! The host's address in datagrams: the one to which a datagram was sent, and the source of its answer.
//!
//! A socket that is bound to no address receives at all addresses of the host. The kernel would choose the source of an
//! answer by its routes alone, and a client that sent to another address drops the answer.
//!
//! Locks: none.
//! Sources: ip(7) IP_PKTINFO, RFC 3542 section 6 (IPV6_PKTINFO), cmsg(3).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::RecvFlags;
use rustix::net::addr::SocketAddrArg;

use super::socket::{
    AlignedControl, CONTROL_DATA, CONTROL_LEN, ReceivedControl, recv_with_control, set,
};
use super::train_socket::segment_of;

/// Where a datagram came from, and to which address of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DatagramClient {
    /// Its sender.
    pub(crate) addr: SocketAddr,
    /// The address to which it was sent, if the socket tells it.
    pub(crate) local: Option<IpAddr>,
}

/// Lets a socket tell the address to which each datagram was sent.
pub(crate) fn tell_local_address(fd: BorrowedFd<'_>, bound: SocketAddr) -> io::Result<()> {
    match bound {
        SocketAddr::V4(_) => set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, &1_i32),
        SocketAddr::V6(_) => set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &1_i32),
    }
}

/// Receives a datagram, or a train, into `pieces`: the bytes, the client, and the bytes of each datagram.
pub(crate) fn recv_from(
    fd: BorrowedFd<'_>,
    pieces: &mut [IoSliceMut<'_>],
) -> io::Result<(usize, (DatagramClient, usize))> {
    let (n, addr, control) = recv_with_control(fd, pieces, RecvFlags::empty())?;
    let local = local_address(&control);
    Ok((n, (DatagramClient { addr, local }, segment_of(&control, n))))
}

/// The address among control messages; `None` if it can't be the source of an answer.
fn local_address(control: &ReceivedControl) -> Option<IpAddr> {
    let v4 = control.find(libc::IPPROTO_IP, libc::IP_PKTINFO);
    let v6 = || control.find(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
    let local: IpAddr = match v4 {
        // For a broadcast it is the address of the interface.
        Some(data) => {
            let octets = data.get(offset_of!(libc::in_pktinfo, ipi_spec_dst)..)?;
            Ipv4Addr::from(*octets.first_chunk()?).into()
        }
        None => Ipv6Addr::from(*v6()?.first_chunk()?).into(),
    };
    (!local.is_multicast() && !local.is_unspecified()).then_some(local)
}

/// Sends `pieces` as one datagram to `client`, from the address to which the client sent; from the kernel's choice if
/// the host has that address no more, or may not use it.
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    client: DatagramClient,
) -> io::Result<usize> {
    match client
        .local
        .map(|local| send_from(fd, pieces, client.addr, local))
    {
        Some(Err(e)) if is_source_refused(&e) => {}
        Some(sent) => return sent,
        None => {}
    }
    super::socket::send(fd, pieces, Some(client.addr))
}

fn is_source_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EADDRNOTAVAIL | libc::ENETUNREACH)
    )
}

fn send_from(
    fd: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    peer: SocketAddr,
    local: IpAddr,
) -> io::Result<usize> {
    let (mut control, len) = control_message(local);
    let peer = peer.as_any();
    // SAFETY: msghdr is integers and pointers, for which zero is a value: no name, parts or control.
    let mut msg: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    msg.msg_name = peer.as_ptr().cast_mut().cast();
    msg.msg_namelen = peer.addr_len();
    msg.msg_iov = pieces.as_ptr().cast_mut().cast();
    msg.msg_iovlen = pieces.len() as _;
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = len as _;
    // SAFETY: `msg` points at `peer`, `pieces` and `control`, which outlive the call, with their true lengths, and
    // which the kernel only reads. An IoSlice has the layout of an iovec.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const msg, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// The control message that makes `local` the source, and its length.
fn control_message(local: IpAddr) -> (AlignedControl<u8>, usize) {
    let mut control = AlignedControl([0; CONTROL_LEN]);
    let (level, kind, len) = match local {
        IpAddr::V4(local) => {
            let at = CONTROL_DATA + offset_of!(libc::in_pktinfo, ipi_spec_dst);
            control.0[at..at + 4].copy_from_slice(&local.octets());
            (
                libc::IPPROTO_IP,
                libc::IP_PKTINFO,
                size_of::<libc::in_pktinfo>(),
            )
        }
        IpAddr::V6(local) => {
            control.0[CONTROL_DATA..CONTROL_DATA + 16].copy_from_slice(&local.octets());
            (
                libc::IPPROTO_IPV6,
                libc::IPV6_PKTINFO,
                size_of::<libc::in6_pktinfo>(),
            )
        }
    };
    let mut write =
        |at: usize, bytes: &[u8]| control.0[at..at + bytes.len()].copy_from_slice(bytes);
    write(
        offset_of!(libc::cmsghdr, cmsg_len),
        &(CONTROL_DATA + len).to_ne_bytes(),
    );
    write(offset_of!(libc::cmsghdr, cmsg_level), &level.to_ne_bytes());
    write(offset_of!(libc::cmsghdr, cmsg_type), &kind.to_ne_bytes());
    (control, CONTROL_DATA + len.next_multiple_of(8))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn an_answer_comes_from_the_address_to_which_the_client_sent() {
        // Breaks when the kernel chooses the source: it would be 127.0.0.1, and a client that is connected to another
        // address drops the answer. A socket that tells nothing answers as before.
        for (any, addresses) in [
            ("0.0.0.0", &["127.0.0.1", "127.0.0.2", "127.77.0.3"][..]),
            ("::", &["::1"]),
        ] {
            for tells in [true, false] {
                let server = UdpSocket::bind((any, 0)).expect("a port is free");
                let bound = server.local_addr().expect("bound");
                if tells {
                    tell_local_address(server.as_fd(), bound).expect("a UDP socket");
                }
                for address in addresses.iter().take(if tells { 3 } else { 1 }) {
                    let to: IpAddr = address.parse().expect("an address");
                    let client = UdpSocket::bind((to, 0)).expect("loopback");
                    client.connect((to, bound.port())).expect("loopback");
                    client.send(b"question").expect("room");
                    let mut bytes = [0; 16];
                    let pieces = &mut [IoSliceMut::new(&mut bytes)];
                    let got = recv_from(server.as_fd(), pieces).expect("it has come");
                    let (n, (from, _)) = got;
                    assert_eq!((n, from.local), (8, tells.then_some(to)));
                    let answer = [IoSlice::new(b"ans"), IoSlice::new(b"wer")];
                    assert_eq!(send(server.as_fd(), &answer, from).ok(), Some(6));
                    assert_eq!(client.recv(&mut bytes).ok(), Some(6));
                    // The host has the address no more.
                    let local = Some("192.0.2.255".parse().expect("an address"));
                    let gone = DatagramClient { local, ..from };
                    let sent = send(server.as_fd(), &answer, gone).ok();
                    assert_eq!(sent, Some(6), "{any}");
                }
            }
        }
    }
}
