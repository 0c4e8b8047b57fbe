//! UNIX-domain sockets by name, with operations that the standard library lacks: to listen for this user alone, to
//! connect without waiting, and to ask which user is at the other end.
//!
//! Invariants: every socket made here is close-on-exec.
//! Locks: none.
//! Sources: unix(7).

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{self, Mode};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::cvt;

/// Connections that wait for `accept`.
const BACKLOG: i32 = 128;

/// Listens at `path`, to which only this user and root may connect.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    let fd = net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Linux gives the file the socket's mode, less the umask: no moment passes in which others may connect.
    fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
    net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    net::listen(&fd, BACKLOG)?;
    Ok(UnixListener::from(fd))
}

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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn other_users_may_not_connect() {
        // Breaks when the socket's file has the mode that the umask allows: the engine's API then takes requests of
        // any user. The tests of this process share its umask, so it stays as it is; that of a shell is 022.
        let name = format!("mbuma-unix-{}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = listen(&path).expect("a directory that can be written");
        let mode = std::fs::metadata(&path)
            .expect("it was made")
            .permissions()
            .mode();
        let stream = connect(&path);
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(mode & 0o777, 0o600);
        drop((listener, stream.expect("it listens")));
    }
}
