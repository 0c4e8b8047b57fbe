//! Changes of the host's resolv.conf, of which the kernel tells.
//!
//! The file may be replaced by renaming another one over it, be written in place, or be a link that is turned to another
//! file. So this watches the directory of the name, the directory of the file behind it, and the file itself, which may be
//! mounted over the name from a third directory.
//!
//! Invariants: the descriptor does not block; nothing is read until the kernel tells of a change.
//! Locks: none. Sources: inotify(7).

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::resolv_conf::{self, PATH};

/// Room for the events of one read.
const EVENTS_LEN: usize = 4096;

/// The name servers as they were last read.
pub(super) struct ResolvConfWatch {
    inotify: OwnedFd,
    known: Vec<SocketAddr>,
}

impl ResolvConfWatch {
    /// Watches from now on.
    pub(super) fn begin() -> io::Result<ResolvConfWatch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        watch(&inotify);
        Ok(ResolvConfWatch {
            inotify,
            known: resolv_conf::name_servers(),
        })
    }

    /// The new list, if it has changed since the last call. A file without name servers changes nothing: it may be written
    /// just now.
    pub(super) fn take_change(&mut self) -> Option<Vec<SocketAddr>> {
        if !self.take_events() {
            return None;
        }
        // First: a change from now on is told of.
        watch(&self.inotify);
        let now = resolv_conf::name_servers();
        if now.is_empty() || now == self.known {
            return None;
        }
        self.known.clone_from(&now);
        Some(now)
    }

    /// Whether there were events.
    fn take_events(&self) -> bool {
        let mut events = [0_u8; EVENTS_LEN];
        let mut some = false;
        while rustix::io::read(&self.inotify, &mut events).is_ok_and(|n| n > 0) {
            some = true;
        }
        some
    }
}

impl AsFd for ResolvConfWatch {
    /// Readable when something happened to the file, or beside it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Watches what the name means now. Of a part that is not there, nothing is heard.
fn watch(inotify: &OwnedFd) {
    let replaced = WatchFlags::CLOSE_WRITE | WatchFlags::CREATE | WatchFlags::MOVED_TO;
    let name = Path::new(PATH);
    let file = fs::canonicalize(name).ok();
    let directories = [name.parent(), file.as_deref().and_then(Path::parent)];
    for directory in directories.into_iter().flatten() {
        let _ = inotify::add_watch(inotify, directory, replaced);
    }
    let _ = inotify::add_watch(inotify, name, WatchFlags::CLOSE_WRITE);
}
