//! Mounting and unmounting, inside the child's private mount namespace.
//!
//! Invariants: only [`crate::guest`] calls these, after unshare(CLONE_NEWNS), so the host sees nothing.
//! Locks: none.

use std::ffi::CString;
use std::io;
use std::path::Path;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

/// Flags of a file system that holds data only: no devices, no set-user-id, no programs.
pub(crate) const DATA_ONLY: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);

/// Keeps mounts made from here on out of every other mount namespace, and theirs out of ours.
pub(crate) fn make_all_private() -> io::Result<()> {
    let flags = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    Ok(mount_change("/", flags)?)
}

/// Mounts a fresh file system of kind `fstype`.
pub(crate) fn mount_new(
    fstype: &str,
    on: &Path,
    flags: MountFlags,
    options: &str,
) -> io::Result<()> {
    let options = CString::new(options)?;
    Ok(mount(fstype, on, fstype, flags, options.as_c_str())?)
}

/// Makes `on` another name of `what`.
pub(crate) fn bind(what: &Path, on: &Path) -> io::Result<()> {
    Ok(mount_bind(what, on)?)
}

/// Takes away the topmost mount at `path`; mounts bound out of it stay.
pub(crate) fn detach(path: &Path) -> io::Result<()> {
    Ok(unmount(path, UnmountFlags::DETACH)?)
}
