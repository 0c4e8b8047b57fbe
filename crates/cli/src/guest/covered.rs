//! Files below a mount of ours.
//!
//! Locks: none.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::sys::mount;

/// Files about to be covered by a mount, still reachable by descriptor.
pub(super) struct Covered(Vec<(PathBuf, File)>);

impl Covered {
    /// Opens the mounts that are at `paths` now.
    pub(super) fn hold(paths: &[&Path]) -> io::Result<Covered> {
        let open = |path: &&Path| {
            let file = File::options()
                .read(true)
                .custom_flags(libc::O_PATH)
                .open(path)?;
            Ok((path.to_path_buf(), file))
        };
        paths
            .iter()
            .map(open)
            .collect::<io::Result<_>>()
            .map(Covered)
    }

    /// Binds the files that are at the same paths now, in the covering mount, over the earlier ones.
    pub(super) fn rebind(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|(path, below)| {
            mount::bind(
                path,
                &PathBuf::from(format!("/proc/self/fd/{}", below.as_raw_fd())),
            )
        })
    }
}
