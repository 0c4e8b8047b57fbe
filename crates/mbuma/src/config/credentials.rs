//! The maker of a socket, as its peer may know it.
//!
//! The embedder of the stack says which credentials its programs have.
//! Source: LOCAL_PEERCRED of unix(4), SO_PEERCRED of unix(7).

/// A process and its user and group, as the embedder calls them (SO_PEERCRED of unix(7)). The stack only carries them.
#[doc(alias = "ucred")]
#[doc(alias = "xucred")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Credentials {
    /// The process.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}
