//! A pair of connected sockets that keep message bounds and carry descriptors.
//!
//! Called by: channel. Calls: socketpair(2), sendmsg(2), recvmsg(2) with SCM_RIGHTS (unix(7)).
//! Invariants: one descriptor at most per message; all arrive close-on-exec.
//! Locks: none.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::cvt;

/// Room for one descriptor in a control message, aligned as cmsghdr wants it.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; CONTROL_LEN],
}

/// What CMSG_SPACE gives for one descriptor, with room to spare on every platform.
const CONTROL_LEN: usize = 64;

/// Makes the pair. SOCK_SEQPACKET, because a datagram pair does not tell when its peer is gone.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the call writes two ints, for which there is room.
    cvt(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    let [a, b] = fds;
    // SAFETY: the kernel just made this descriptor, and nobody else has it.
    let a = unsafe { OwnedFd::from_raw_fd(a) };
    // SAFETY: as above; the two numbers differ.
    let b = unsafe { OwnedFd::from_raw_fd(b) };
    Ok((a, b))
}

/// Sends one message, with a descriptor if there is one.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fd: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    // sendmsg takes pointers to mutable bytes and reads them only.
    let mut iov = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control {
        bytes: [0; CONTROL_LEN],
    };
    let mut msg = message(&mut iov);
    if let Some(fd) = fd {
        attach(&mut msg, &mut control, fd.as_raw_fd());
    }
    // SAFETY: `msg` points at `iov` and `control`, which live to the end of this function, with
    // their true lengths. MSG_NOSIGNAL makes a lost peer an error instead of a signal.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const msg, libc::MSG_NOSIGNAL) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Receives one message into `bytes`, with the descriptor that came along; length 0 is the end.
pub(crate) fn recv(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut iov = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = Control {
        bytes: [0; CONTROL_LEN],
    };
    let mut msg = message(&mut iov);
    msg.msg_control = (&raw mut control).cast();
    msg.msg_controllen = CONTROL_LEN as _;
    let got = loop {
        // SAFETY: `msg` points at `iov`, hence `bytes`, and `control`, all ours alone and alive to
        // the end of this function, with their true lengths.
        let got =
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut msg, libc::MSG_CMSG_CLOEXEC) };
        match usize::try_from(got) {
            Ok(got) => break got,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(io::Error::last_os_error()),
        }
    };
    Ok((got, detach(&msg)))
}

/// A message of one part and no control data.
fn message(iov: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: msghdr is integers and pointers, for which zero is a value: no name, no control data.
    let mut msg: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    msg.msg_iov = ptr::from_mut(iov);
    msg.msg_iovlen = 1;
    msg
}

/// Writes `fd` into `control` as SCM_RIGHTS, and points `msg` at it.
fn attach(msg: &mut libc::msghdr, control: &mut Control, fd: RawFd) {
    // SAFETY: plain arithmetic on a length.
    let space = unsafe { libc::CMSG_SPACE(mem::size_of::<RawFd>() as libc::c_uint) };
    assert!(space as usize <= CONTROL_LEN);
    msg.msg_control = ptr::from_mut(control).cast();
    msg.msg_controllen = space as _;
    // SAFETY: `msg` points at `space` bytes, aligned for cmsghdr by the union.
    let header = unsafe { libc::CMSG_FIRSTHDR(ptr::from_mut(msg)) };
    // SAFETY: plain arithmetic on a length.
    let len = unsafe { libc::CMSG_LEN(mem::size_of::<RawFd>() as libc::c_uint) };
    // SAFETY: `header` is null or the start of `control`: large enough, aligned, initialized to
    // zero, and reached by nobody else while this reference lives.
    if let Some(header) = unsafe { header.as_mut() } {
        header.cmsg_len = len as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
    }
    // SAFETY: `header` is a control message whose data follow it inside `control`.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: CMSG_LEN left room for one descriptor at `data`; no alignment is assumed.
    unsafe { data.cast::<RawFd>().write_unaligned(fd) };
}

/// Takes the descriptor out of a received message.
fn detach(msg: &libc::msghdr) -> Option<OwnedFd> {
    // SAFETY: `msg` comes from recvmsg, whose control data are still alive in our caller.
    let header = unsafe { libc::CMSG_FIRSTHDR(ptr::from_ref(msg)) };
    // SAFETY: CMSG_FIRSTHDR gives null or a whole header inside the control data.
    let first = unsafe { header.as_ref() }?;
    if (first.cmsg_level, first.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
        return None;
    }
    // SAFETY: as above, the data follow the header.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: SCM_RIGHTS holds at least one descriptor, since our peer sends exactly one.
    let fd = unsafe { data.cast::<RawFd>().read_unaligned() };
    // SAFETY: the kernel made this descriptor for us with the message, and nobody else has it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
