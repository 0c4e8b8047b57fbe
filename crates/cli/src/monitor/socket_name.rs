//! A socket's name in the file system.
//!
//! Invariants: the name is removed with its owner; the name of a socket at which another process listens is not
//! removed; other users may not connect, whatever the umask is.
//! Locks: none.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::netstat::instances::is_gone;
use crate::sys::unix;

/// The name of a socket, which the drop of this removes.
pub(crate) struct SocketName {
    path: PathBuf,
    /// Its file: the name may be another socket's by then.
    file: Option<NamedFile>,
}

impl SocketName {
    /// Removes the name at the end of this.
    pub(super) fn of(path: PathBuf) -> SocketName {
        let file = file_of(&path);
        SocketName { path, file }
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
        Ok((listener, SocketName::of(path.to_owned())))
    }
}

impl Drop for SocketName {
    fn drop(&mut self) {
        if self.file.is_some() && file_of(&self.path) == self.file {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The device, the number, which a later file may have again, and the time of birth, where the file system has it. That
/// of a change would be another after chmod(1).
type NamedFile = (u64, u64, Option<SystemTime>);

fn file_of(path: &Path) -> Option<NamedFile> {
    let file = fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.created().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_successor_stays() {
        // Breaks when an mbuma that ends removes the socket of the one that took its place.
        let dir = std::env::temp_dir().join(format!("mbuma-name-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("n.sock");
        let first = SocketName::listen(&path).expect("a free name");
        fs::remove_file(&path).expect("it is there");
        let second = SocketName::listen(&path).expect("a free name");
        drop(first);
        assert!(unix::connect(&path).is_ok());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o660);
        fs::set_permissions(&path, mode).expect("it is ours");
        drop(second);
        assert!(!path.exists(), "with other rights it is the same");
        fs::remove_dir(&dir).expect("it is empty");
    }
}
