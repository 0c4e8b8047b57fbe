//! Changes of the host's resolv.conf.
//!
//! Invariants: nothing is read until the kernel reports a change. Locks: none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use crate::file_watch::FileWatch;
use crate::resolv_conf::{self, PATH};

/// The name servers as they were last read.
pub(super) struct ResolvConfWatch {
    watch: FileWatch,
    known: Vec<SocketAddr>,
}

impl ResolvConfWatch {
    /// Watches from now on.
    pub(super) fn begin() -> io::Result<ResolvConfWatch> {
        Ok(ResolvConfWatch {
            watch: FileWatch::begin(vec![PathBuf::from(PATH)])?,
            known: resolv_conf::name_servers(),
        })
    }

    /// The new list, if it has changed since the last call. A file without name servers changes nothing, because a
    /// program may be writing it at this moment.
    pub(super) fn take_change(&mut self) -> Option<Vec<SocketAddr>> {
        if !self.watch.take_events() {
            return None;
        }
        let now = resolv_conf::name_servers();
        if now.is_empty() || now == self.known {
            return None;
        }
        self.known.clone_from(&now);
        Some(now)
    }
}

impl AsFd for ResolvConfWatch {
    /// Readable when the file, or its directory, has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
