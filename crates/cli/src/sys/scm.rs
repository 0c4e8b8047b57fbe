//! A pair of connected sockets that keep message bounds and carry descriptors.
//!
//! Invariants: at most [`FDS_MAX`] descriptors a message; all arrive close-on-exec, in the order in which they were
//! sent, and descriptors that were not asked for are closed.
//! Locks: none.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

/// Descriptors that go with a message at most: a TAP has as many queues. The kernel's bound is 253.
pub(crate) const FDS_MAX: usize = 64;

/// Room for a control message with as many descriptors.
const CONTROL_LEN: usize = cmsg_space!(ScmRights(FDS_MAX));

/// Makes the pair. SOCK_SEQPACKET, because a datagram pair does not tell when its peer is gone.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let made = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    Ok(made?)
}

/// Sends one message, and hands over descriptors with it.
///
/// # Errors
/// EINVAL for more than [`FDS_MAX`] descriptors.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); CONTROL_LEN];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = fds.len() <= FDS_MAX;
    if !fits || !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL.into());
    }
    // NOSIGNAL makes a lost peer an error instead of a signal.
    let pieces = [IoSlice::new(bytes)];
    sendmsg(socket, &pieces, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message into `bytes`, with the descriptors that came along; length 0 is the end.
///
/// # Errors
/// EMFILE if a descriptor came along for which this process has no number left. The message is lost.
pub(crate) fn recv(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); CONTROL_LEN];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = retry_on_intr(|| recvmsg(socket, &mut pieces, &mut control, flags))?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    // The room is that of the longest list, so the limit on open files has cut it.
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into());
    }
    Ok((got.bytes, fds))
}

#[cfg(test)]
mod tests;
