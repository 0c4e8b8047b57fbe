//! Sockets of UNIX's own family by name, as the standard library does not offer them: connecting without
//! waiting, and knowing which user is at the other end.
//!
//! Invariants: every socket made here is close-on-exec.
//! Locks: none.
//! Sources: unix(7).

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;

use super::cvt;

/// Connects to the listener at `path`. If its backlog is full the error is `WouldBlock`. Later reads and writes may
/// block.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let name = name(path)?;
    let style = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes three numbers and touches no memory.
    let fd = cvt(unsafe { libc::socket(libc::AF_UNIX, style, 0) })?;
    // SAFETY: the kernel just made this descriptor, and no other owner has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let (at, len) = (ptr::from_ref(&name).cast(), mem::size_of_val(&name));
    // SAFETY: `at` points at `len` bytes of an initialized socket address, whose path ends with a NUL.
    cvt(unsafe { libc::connect(fd.as_raw_fd(), at, len as libc::socklen_t) })?;
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The user at the other end: of the process that connected, or that listened.
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

/// The address of `path`, which has to fit, with the NUL behind it.
fn name(path: &Path) -> io::Result<libc::sockaddr_un> {
    // SAFETY: integers, for which zero is a value.
    let mut name: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= name.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in name.sun_path.iter_mut().zip(bytes) {
        *to = from.cast_signed() as libc::c_char;
    }
    Ok(name)
}
