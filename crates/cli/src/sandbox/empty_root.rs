//! A mount namespace whose root is an empty, read-only file system.
//!
//! Invariants: descriptors stay open; no name leads anywhere any more.
//! Locks: none.

use std::io;
use std::path::Path;

use rustix::mount::MountFlags;
use rustix::process::{chdir, pivot_root};
use rustix::thread::CapabilitySet;

use crate::sys::mount;
use crate::sys::namespace::{self, NamespaceKind};

/// Directories that the file system may cover: one that is there is enough.
const COVERED: [&str; 4] = ["/tmp", "/proc", "/dev", "/"];
/// One inode, the root's.
const OPTIONS: &str = "mode=0555,size=4k,nr_inodes=1";

/// Moves the process there. Without the right to do so it gets it from a user namespace of its own, which maps no user.
pub(super) fn enter() -> io::Result<()> {
    let may_mount = super::credentials::has(CapabilitySet::SYS_ADMIN);
    if !may_mount {
        namespace::unshare(NamespaceKind::User)?;
    }
    namespace::unshare(NamespaceKind::Mount)?;
    mount::make_all_private()?;
    cover()?;
    // The old root lies over the new one then; a detached mount ends with its last descriptor.
    pivot_root(".", ".")?;
    mount::detach(Path::new("."))?;
    Ok(chdir("/")?)
}

/// Mounts the file system somewhere, and makes that the working directory.
fn cover() -> io::Result<()> {
    let flags = mount::DATA_ONLY | MountFlags::RDONLY;
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for place in COVERED {
        match mount::mount_new("tmpfs", Path::new(place), flags, OPTIONS) {
            Ok(()) => return Ok(chdir(place)?),
            Err(e) => failed = e,
        }
    }
    Err(failed)
}
