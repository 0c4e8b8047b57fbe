//! UNIX-domain sockets by name, with operations that the standard library lacks: to connect without waiting, and to ask
//! which user is at the other end.
//!
//! Invariants: every socket made here is close-on-exec.
//! Locks: none.
//! Sources: unix(7).

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::cvt;

/// Connects to the listener at `path`. If its backlog is full the error is `WouldBlock`. Later reads and writes may
/// block.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&fd, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The user at the other end: of the process that connected, or that listened. (rustix's type of the answer has no room
/// for a peer in another namespace of processes, whose number is 0.)
pub(crate) fn peer_uid(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut peer = MaybeUninit::<libc::ucred>::uninit();
    let mut len = mem::size_of::<libc::ucred>() as libc::socklen_t;
    let at = peer.as_mut_ptr().cast();
    // SAFETY: the call writes at most `len` bytes at `at`, which is the size of the object there.
    cvt(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            at,
            &raw mut len,
        )
    })?;
    if len as usize != mem::size_of::<libc::ucred>() {
        return Err(io::Error::from_raw_os_error(libc::EPROTO));
    }
    // SAFETY: the call succeeded and wrote all of it.
    Ok(unsafe { peer.assume_init() }.uid)
}
