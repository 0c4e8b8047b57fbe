//! Files of the guest's own, in the place of the host's, for as long as the guest lives.
//!
//! The kernel removes a mount, in every namespace, when another file is renamed over the one below it, or a link in its
//! path changes: programs that configure the host's network do so with resolv.conf. So the monitor keeps a second,
//! detached mount of each file, and watches the host's files. When one of them was replaced, a helper enters the
//! guest's namespaces and moves the second mount to the place of the first.
//!
//! ```text
//!   host    rename(new, /etc/resolv.conf)      the guest's mount goes
//!   monitor inotify; another file; forks
//!   helper  enters; sees the host's file       mounts the second one over it
//!           ReplacedAgain + a third one ->     kept for the next time
//! ```
//!
//! A program that reads the file in the millisecond between gets the host's. The mounts in namespaces that the guest
//! made are lost.
//!
//! Invariants: one helper at a time; it covers no file but the one that the host has by this name; a file that was
//! written to in the guest stays as it is.
//! Locks: none. Sources: mount(2), open_tree(2), setns(2).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::channel::{self, Channel, ChannelMessage};
use crate::errors::{EXIT_OWN_FAILURE, Error, Failure, SetupStep};
use crate::file_watch::{FileIdentity, FileWatch, WatchedFile};
use crate::say;
use crate::sys::fd;
use crate::sys::namespace::{self, NamespaceKind};
use crate::sys::process::{self, Pid, Pidfd};

/// A replaced file, with our second mount.
pub(crate) struct OwnFile {
    /// The host's file that it covers.
    pub(super) host: WatchedFile,
    pub(super) mount: OwnedFd,
}

/// Makes a detached mount of the file at `path`.
pub(super) fn second_mount(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, path, flags)?)
}

/// Hands them over to mbuma.
pub(crate) fn hand_over(files: Vec<OwnFile>, to: &Channel) -> io::Result<()> {
    let mounts: Vec<_> = files.iter().map(|file| file.mount.as_fd()).collect();
    let hosts = files.iter().map(|file| file.host.clone()).collect();
    to.send_all(&ChannelMessage::OwnFiles(hosts), &mounts)
}

/// The files of a guest, as the monitor keeps them.
pub(crate) struct OwnFiles {
    user: File,
    mounts: File,
    files: Vec<OwnFile>,
    watch: FileWatch,
    helper: Option<Helper>,
    /// Something changed since the helper began.
    changed: bool,
}

/// A helper at work. It does not outlive this.
struct Helper {
    pidfd: Pidfd,
    channel: Channel,
}

impl OwnFiles {
    /// Receives the files that the process `pid` replaced in its namespaces; `None` if none has to be kept.
    pub(crate) fn receive(channel: &Channel, pid: Pid) -> Result<Option<OwnFiles>, Error> {
        let heard = channel.recv_all();
        let files = match heard.map_err(Failure::at(SetupStep::Child))? {
            Some((ChannelMessage::OwnFiles(hosts), mounts)) => {
                let files = hosts.into_iter().zip(mounts);
                files.map(|(host, mount)| OwnFile { host, mount }).collect()
            }
            other => return Err(super::not_ready(other.map(|(message, _)| message))),
        };
        // If they can't be watched, they stay as they are.
        Ok(OwnFiles::begin(files, pid).ok().flatten())
    }

    fn begin(files: Vec<OwnFile>, pid: Pid) -> io::Result<Option<OwnFiles>> {
        if files.is_empty() {
            return Ok(None);
        }
        let namespace = |kind| File::open(format!("/proc/{}/ns/{kind}", pid.0));
        let names = files.iter().map(|file| file.host.name.clone()).collect();
        Ok(Some(OwnFiles {
            user: namespace("user")?,
            mounts: namespace("mnt")?,
            files,
            watch: FileWatch::begin(names)?,
            helper: None,
            // They were replaced before they were watched.
            changed: true,
        }))
    }

    /// Lets a helper replace those again that the host replaced.
    pub(crate) fn check(&mut self) {
        self.changed |= self.watch.take_events();
        if let Some(helper) = &self.helper {
            if !fd::is_ready(helper.pidfd.as_fd()).unwrap_or(true) {
                return;
            }
            self.end_helper();
        }
        if std::mem::take(&mut self.changed) && self.note_changes() {
            match self.start_helper() {
                Ok(helper) => self.helper = Some(helper),
                Err(e) => warn(Path::new("a file"), &e),
            }
        }
    }

    /// Checks the host's files. Returns whether one of them was replaced.
    fn note_changes(&mut self) -> bool {
        let mut any = false;
        for file in &mut self.files {
            any |= file.host.take_change();
        }
        any
    }

    fn start_helper(&self) -> io::Result<Helper> {
        let (pid, channel) = channel::fork(|monitor| match self.replace_again(&monitor) {
            Ok(()) => 0,
            Err(e) => {
                warn(Path::new("a file"), &e);
                EXIT_OWN_FAILURE
            }
        })?;
        let pidfd = Pidfd::open(pid)?;
        Ok(Helper { pidfd, channel })
    }

    /// Takes the new second mounts over.
    fn end_helper(&mut self) {
        let Some(helper) = self.helper.take() else {
            return;
        };
        while let Ok(Some((ChannelMessage::ReplacedAgain(at), Some(mount)))) = helper.channel.recv()
        {
            if let Some(file) = self.files.get_mut(at) {
                file.mount = mount;
            }
        }
    }

    /// The helper's work.
    fn replace_again(&self, monitor: &Channel) -> io::Result<()> {
        process::die_with_parent()?;
        let mut kept = vec![self.user.as_fd(), self.mounts.as_fd(), monitor.as_fd()];
        kept.extend(self.files.iter().map(|file| file.mount.as_fd()));
        fd::close_all_but(&kept)?;
        let hosts = self.files.iter();
        let hosts: Vec<_> = hosts
            .map(|file| FileIdentity::of(&file.host.name))
            .collect();
        namespace::enter(&self.user, NamespaceKind::User)?;
        namespace::enter(&self.mounts, NamespaceKind::Mount)?;
        // A change of credentials resets that.
        process::die_with_parent()?;
        for (at, (file, host)) in self.files.iter().zip(&hosts).enumerate() {
            match file.replace(host.as_ref()) {
                Ok(Some(next)) => {
                    monitor.send(&ChannelMessage::ReplacedAgain(at), Some(next.as_fd()))?;
                }
                Ok(None) => {}
                Err(e) => warn(&file.host.name, &e),
            }
        }
        Ok(())
    }
}

impl OwnFile {
    /// Mounts the second mount if the guest sees the host's file. Returns the next one.
    fn replace(&self, host: Option<&FileIdentity>) -> io::Result<Option<OwnedFd>> {
        let Some((host, seen)) = host.zip(FileIdentity::of(&self.host.name)) else {
            return Ok(None);
        };
        if !seen.is_same_file(host) {
            return Ok(None);
        }
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        match move_mount(&self.mount, "", CWD, &seen.path, flags) {
            Ok(()) => second_mount(&seen.path).map(Some),
            // The file is being replaced by another one at this moment; the kernel will report that.
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for OwnFiles {
    /// Readable when one of the host's files, or its directory, has changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It fails if the helper has ended. It kills, because the guest may have stopped the helper.
        let _ = self.pidfd.signal(libc::SIGKILL);
    }
}

fn warn(name: &Path, error: &io::Error) {
    let name = name.display();
    say(&format!(
        "warning: the host replaced {name}, and the guest may see the host's: {error}"
    ));
}
