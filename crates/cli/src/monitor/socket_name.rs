//! A socket's name in the file system.
//!
//! Invariants: the name is removed with its owner; the name of a socket at which another process listens is not
//! removed; other users may not connect, whatever the umask is.
//! Locks: none.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::netstat::instances::is_gone;
use crate::sys::unix;

/// The name of a socket, which the drop of this removes.
pub(crate) struct SocketName(PathBuf);

impl SocketName {
    /// Removes the name at the end of this.
    pub(super) fn of(path: PathBuf) -> SocketName {
        SocketName(path)
    }

    /// Listens at `path`, and replaces a socket that an ended process left there.
    ///
    /// # Errors
    /// As bind(2): another file has the name, or another process listens.
    pub(crate) fn listen(path: &Path) -> io::Result<(UnixListener, SocketName)> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        if is_socket && unix::connect(path).is_err_and(|e| is_gone(&e)) {
            fs::remove_file(path)?;
        }
        let listener = unix::listen(path).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => io::Error::new(
                e.kind(),
                "another process or user has that name, or a file of that name is no socket",
            ),
            _ => e,
        })?;
        Ok((listener, SocketName(path.to_owned())))
    }
}

impl Drop for SocketName {
    fn drop(&mut self) {
        // It fails if the name is removed already.
        let _ = fs::remove_file(&self.0);
    }
}
