//! Changes of files, by inotify.
//!
//! A file may be replaced by renaming another one over it, be written in place, or be a link that is turned to another
//! file. So this watches the directory of the name, the directory of the file behind it, and the file itself, which may
//! be mounted over the name from a third directory.
//!
//! Invariants: the descriptor does not block.
//! Locks: none. Sources: inotify(7).

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde::{Deserialize, Serialize};

/// Room for the events of one read.
const EVENTS_LEN: usize = 4096;

/// Watches some files.
pub(crate) struct FileWatch {
    inotify: OwnedFd,
    names: Vec<PathBuf>,
}

impl FileWatch {
    /// Begins to watch the files of these names.
    pub(crate) fn begin(names: Vec<PathBuf>) -> io::Result<FileWatch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let watch = FileWatch { inotify, names };
        watch.renew();
        Ok(watch)
    }

    /// Whether one of the files, or its directory, has changed since the last call.
    pub(crate) fn take_events(&self) -> bool {
        let mut events = [0_u8; EVENTS_LEN];
        let mut some = false;
        while rustix::io::read(&self.inotify, &mut events).is_ok_and(|n| n > 0) {
            some = true;
        }
        if some {
            // Before the caller reads the files: later changes cause an event.
            self.renew();
        }
        some
    }

    fn renew(&self) {
        for name in &self.names {
            add(&self.inotify, name);
        }
    }
}

impl AsFd for FileWatch {
    /// Readable when one of the files, or its directory, has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// A file, and its state when it was checked last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WatchedFile {
    pub(crate) name: PathBuf,
    seen: Option<FileIdentity>,
}

impl WatchedFile {
    /// As it is now.
    pub(crate) fn of(name: &Path) -> WatchedFile {
        WatchedFile {
            name: name.to_path_buf(),
            seen: FileIdentity::of(name),
        }
    }

    /// Checks it again. Returns whether it is another file, or was written to.
    pub(crate) fn take_change(&mut self) -> bool {
        let now = FileIdentity::of(&self.name);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

/// Distinguishes a file from another one that took its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    /// The name, with all links resolved.
    pub(crate) path: PathBuf,
    device: u64,
    inode: u64,
    /// The time of the last change, because the number of a removed file may be used again: seconds and nanoseconds.
    changed: (i64, i64),
}

impl FileIdentity {
    /// The identity of the file that this process finds by a name.
    pub(crate) fn of(name: &Path) -> Option<FileIdentity> {
        let path = fs::canonicalize(name).ok()?;
        let file = fs::metadata(&path).ok()?;
        Some(FileIdentity {
            path,
            device: file.dev(),
            inode: file.ino(),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }

    /// Whether it is the same file, whatever was written to it.
    pub(crate) fn is_same_file(&self, other: &FileIdentity) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Watches the file that the name means now. A part that does not exist is not watched.
fn add(inotify: &OwnedFd, name: &Path) {
    let replaced = WatchFlags::CLOSE_WRITE | WatchFlags::CREATE | WatchFlags::MOVED_TO;
    let file = fs::canonicalize(name).ok();
    let directories = [name.parent(), file.as_deref().and_then(Path::parent)];
    for directory in directories.into_iter().flatten() {
        let _ = inotify::add_watch(inotify, directory, replaced);
    }
    let _ = inotify::add_watch(inotify, name, WatchFlags::CLOSE_WRITE);
}
