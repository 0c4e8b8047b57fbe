//! A pair of connected sockets that keep message bounds and carry descriptors.
//!
//! Invariants: at most [`FDS_MAX`] descriptors a message; all arrive close-on-exec, in the order in which they were
//! sent, and descriptors that were not asked for are closed.
//! Locks: none.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::cvt;

/// Descriptors that go with a message at most: a TAP has as many queues. The kernel's bound is 253.
pub(crate) const FDS_MAX: usize = 64;

/// Room for the descriptors in a control message, aligned as cmsghdr wants it.
#[repr(C)]
union ControlBuffer {
    header: libc::cmsghdr,
    bytes: [u8; CONTROL_LEN],
}

/// CMSG_SPACE for as many descriptors, with room to spare on every platform.
const CONTROL_LEN: usize = 64 + FDS_MAX * size_of::<RawFd>();

/// Makes the pair. SOCK_SEQPACKET, because a datagram pair does not tell when its peer is gone.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the call writes two ints, for which there is room.
    cvt(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    let [a, b] = fds;
    // SAFETY: the kernel just made this descriptor, and no other owner has it.
    let a = unsafe { OwnedFd::from_raw_fd(a) };
    // SAFETY: as above; the two numbers differ.
    let b = unsafe { OwnedFd::from_raw_fd(b) };
    Ok((a, b))
}

/// Sends one message, and hands over descriptors with it.
///
/// # Errors
/// EINVAL for more than [`FDS_MAX`] descriptors.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if fds.len() > FDS_MAX {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // sendmsg takes pointers to mutable bytes and reads them only.
    let mut iov = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = ControlBuffer {
        bytes: [0; CONTROL_LEN],
    };
    let mut msg = message(&mut iov);
    if !fds.is_empty() {
        attach(&mut msg, &mut control, fds);
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

/// Receives one message into `bytes`, with the descriptors that came along; length 0 is the end.
pub(crate) fn recv(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut iov = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = ControlBuffer {
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

/// Writes `fds`, which fit, into `control` as SCM_RIGHTS, and points `msg` at it.
fn attach(msg: &mut libc::msghdr, control: &mut ControlBuffer, fds: &[BorrowedFd<'_>]) {
    let payload = mem::size_of_val(fds) as libc::c_uint;
    // SAFETY: plain arithmetic on a length.
    let space = unsafe { libc::CMSG_SPACE(payload) };
    assert!(space as usize <= CONTROL_LEN);
    msg.msg_control = ptr::from_mut(control).cast();
    msg.msg_controllen = space as _;
    // SAFETY: `msg` points at `space` bytes, aligned for cmsghdr by the union.
    let header = unsafe { libc::CMSG_FIRSTHDR(ptr::from_mut(msg)) };
    // SAFETY: plain arithmetic on a length.
    let len = unsafe { libc::CMSG_LEN(payload) };
    // SAFETY: `header` is null or the start of `control`: large enough, aligned, initialized to
    // zero, and no other reference reaches it while this one lives.
    if let Some(header) = unsafe { header.as_mut() } {
        header.cmsg_len = len as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
    }
    // SAFETY: `header` is a control message whose data follow it inside `control`.
    let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
    for (at, fd) in fds.iter().enumerate() {
        // SAFETY: CMSG_LEN left room for as many descriptors as `fds` has.
        let slot = unsafe { data.add(at) };
        // SAFETY: as above; no alignment is assumed.
        unsafe { slot.write_unaligned(fd.as_raw_fd()) };
    }
}

/// Takes the descriptors out of a received message.
fn detach(msg: &libc::msghdr) -> Vec<OwnedFd> {
    // SAFETY: `msg` comes from recvmsg, whose control data are still alive in our caller.
    let header = unsafe { libc::CMSG_FIRSTHDR(ptr::from_ref(msg)) };
    // SAFETY: CMSG_FIRSTHDR gives null or a whole header inside the control data.
    let Some(first) = (unsafe { header.as_ref() }) else {
        return Vec::new();
    };
    if (first.cmsg_level, first.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
        return Vec::new();
    }
    // SAFETY: plain arithmetic on a length.
    let before = unsafe { libc::CMSG_LEN(0) } as usize;
    #[allow(clippy::unnecessary_cast)] // with other C libraries it is a shorter one
    let len = first.cmsg_len as usize;
    let count = len.saturating_sub(before) / size_of::<RawFd>();
    // SAFETY: as above, the data follow the header.
    let data = unsafe { libc::CMSG_DATA(header) }.cast::<RawFd>();
    let take = |at| {
        // SAFETY: the kernel says by `cmsg_len` that so many descriptors are there, and wrote no more than
        // there was room for.
        let slot = unsafe { data.add(at) };
        // SAFETY: as above; no alignment is assumed.
        let fd = unsafe { slot.read_unaligned() };
        // SAFETY: the kernel made this descriptor for us with the message, and no other owner has it.
        unsafe { OwnedFd::from_raw_fd(fd) }
    };
    (0..count).map(take).collect()
}

#[cfg(test)]
mod tests;
