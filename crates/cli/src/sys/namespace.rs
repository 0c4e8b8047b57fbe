//! Leaving and entering namespaces.
//!
//! Invariants: the caller has one thread, which CLONE_NEWUSER demands and the kernel checks.
//! Locks: none.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::cvt;

/// The kinds of namespace that mbuma makes or enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceKind {
    /// User and group ids, and the namespaces over which its capabilities count.
    User,
    /// Interfaces, addresses, routes, ports.
    Net,
    /// Mounted file systems.
    Mount,
    /// The host's name.
    Hostname,
}

impl NamespaceKind {
    const fn flag(self) -> libc::c_int {
        match self {
            NamespaceKind::User => libc::CLONE_NEWUSER,
            NamespaceKind::Net => libc::CLONE_NEWNET,
            NamespaceKind::Mount => libc::CLONE_NEWNS,
            NamespaceKind::Hostname => libc::CLONE_NEWUTS,
        }
    }
}

/// Moves the calling process into a new namespace of `kind`.
pub(crate) fn unshare(kind: NamespaceKind) -> io::Result<()> {
    // SAFETY: takes flags only. None of our kinds changes descriptors or memory that Rust
    // code relies on; the file-system context that CLONE_NEWNS also unshares has one user here.
    cvt(unsafe { libc::unshare(kind.flag()) })?;
    Ok(())
}

/// Names the host, in the namespace that the calling process has for that.
pub(crate) fn set_hostname(name: &str) -> io::Result<()> {
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

/// Moves the calling process into the namespace of `kind` that `ns` refers to.
pub(crate) fn enter(ns: &impl AsFd, kind: NamespaceKind) -> io::Result<()> {
    // The kernel refuses a namespace of another kind.
    let kind = match kind {
        NamespaceKind::User => LinkNameSpaceType::User,
        NamespaceKind::Net => LinkNameSpaceType::Network,
        NamespaceKind::Mount => LinkNameSpaceType::Mount,
        NamespaceKind::Hostname => LinkNameSpaceType::HostNameAndNISDomainName,
    };
    Ok(move_into_link_name_space(ns.as_fd(), Some(kind))?)
}

/// The user namespace that owns `ns`: the one whose capabilities count there.
///
/// # Errors
/// EPERM when the owner is neither the caller's user namespace nor below it.
pub(crate) fn owner(ns: &impl AsFd) -> io::Result<File> {
    // SAFETY: NS_GET_USERNS takes no argument; on another kind of file it is ENOTTY.
    let fd = cvt(unsafe { libc::ioctl(ns.as_fd().as_raw_fd(), libc::NS_GET_USERNS) })?;
    // SAFETY: the kernel just made this descriptor for us, close-on-exec, and no other owner has it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}
