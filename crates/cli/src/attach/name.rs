//! The name of a namespace in the file system, and whether it still names that namespace.
//!
//! `ip netns del` unmounts and removes the name. The kernel keeps the namespace for as long as a process or a TAP
//! descriptor uses it, so mbuma must close its descriptor. inotify reports no unmount of one name, so mbuma looks once
//! a second.
//!
//! Locks: none.

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use crate::sys::timerfd::Ticks;

/// How often mbuma looks at the name.
const PERIOD: Duration = Duration::from_secs(1);

/// A path that names a namespace.
pub(super) struct NamedNetwork {
    path: PathBuf,
    /// The namespace: its device and its inode.
    namespace: (u64, u64),
    ticks: Ticks,
}

impl NamedNetwork {
    /// `path` is the name of the namespace `file`.
    pub(super) fn of(path: &Path, file: &Metadata) -> io::Result<NamedNetwork> {
        Ok(NamedNetwork {
            // The working directory may change.
            path: path::absolute(path)?,
            namespace: (file.dev(), file.ino()),
            ticks: Ticks::every(PERIOD)?,
        })
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks again if it is time to: true if the path is gone or names another file. A path that this process may no
    /// longer access counts as unchanged.
    pub(super) fn is_gone(&self) -> bool {
        if !self.ticks.take() {
            return false;
        }
        match fs::metadata(&self.path) {
            Ok(file) => (file.dev(), file.ino()) != self.namespace,
            Err(e) => matches!(
                e.raw_os_error(),
                Some(libc::ENOENT | libc::ENOTDIR | libc::ESRCH)
            ),
        }
    }
}

impl AsFd for NamedNetwork {
    /// Readable when it is time to look.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ticks.as_fd()
    }
}
