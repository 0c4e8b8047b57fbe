//! The socket of a network's process, in its user's own directory, which other users can't enter.
//!
//! Invariants: at most one process listens for a network: a process that begins one, or ends, holds the network's lock.
//! Locks: a file's (flock), between processes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::netstat::instances;
use crate::sys::unix;

/// The prefix and suffix of the names of a network's files.
const PREFIX: &str = "network-";
const SOCKET: &str = ".sock";
const LOCK: &str = ".lock";

/// The files of one network.
#[derive(Clone, Debug)]
pub(super) struct NetworkPlace {
    socket: PathBuf,
    lock: PathBuf,
}

impl NetworkPlace {
    /// The files of the network called `name`.
    pub(super) fn of(name: &str) -> io::Result<NetworkPlace> {
        let dir = instances::own_dir()?;
        Ok(NetworkPlace {
            socket: dir.join(format!("{PREFIX}{name}{SOCKET}")),
            lock: dir.join(format!("{PREFIX}{name}{LOCK}")),
        })
    }

    /// The names of existing networks.
    pub(super) fn names() -> io::Result<Vec<String>> {
        let dir = instances::own_dir()?;
        let names = fs::read_dir(dir)?.flatten().filter_map(|entry| {
            let file = entry.file_name();
            let name = file.to_str()?.strip_prefix(PREFIX)?;
            Some(name.strip_suffix(SOCKET)?.to_owned())
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Keeps other processes from beginning or ending this network, as long as the file is open.
    pub(super) fn lock(&self) -> io::Result<File> {
        loop {
            let file = File::options().create(true).append(true).open(&self.lock)?;
            file.lock()?;
            // The last owner may have removed it meanwhile: then another process may have a new one.
            if inode(&self.lock).is_ok_and(|now| file.metadata().is_ok_and(|own| own.ino() == now))
            {
                return Ok(file);
            }
        }
    }

    /// A connection to the network's process, if there is one.
    pub(super) fn connect(&self) -> io::Result<Option<UnixStream>> {
        match unix::connect(&self.socket) {
            Ok(stream) => Ok(Some(stream)),
            Err(e) if instances::is_gone(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Listens, and replaces the socket of a process that was killed. The caller holds the lock.
    ///
    /// The name is dropped before the listener: while that is open, no other file has its inode.
    pub(super) fn listen(&self) -> io::Result<(NetworkName, UnixListener)> {
        let _ = fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket)?;
        listener.set_nonblocking(true)?;
        let name = NetworkName {
            inode: inode(&self.socket)?,
            place: self.clone(),
        };
        Ok((name, listener))
    }

    /// Removes the files of a process that was killed. Returns false if there are none. The caller holds the lock.
    pub(super) fn tidy(&self) -> bool {
        let was_there = fs::remove_file(&self.socket).is_ok();
        let _ = fs::remove_file(&self.lock);
        was_there
    }
}

/// The name of a network's socket, which the drop of this removes.
#[derive(Debug)]
pub(super) struct NetworkName {
    place: NetworkPlace,
    inode: u64,
}

impl Drop for NetworkName {
    fn drop(&mut self) {
        // Another process may have begun the network anew: then the name is that one's.
        let _lock = self.place.lock();
        if inode(&self.place.socket).is_ok_and(|now| now == self.inode) {
            self.place.tidy();
        }
    }
}

fn inode(path: &Path) -> io::Result<u64> {
    Ok(fs::symlink_metadata(path)?.ino())
}
