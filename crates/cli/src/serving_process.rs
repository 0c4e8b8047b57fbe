//! A process that serves, forked from the one that was started, which it does not outlive.
//!
//! Locks: none.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::channel::{self, Channel, ChannelMessage};
use crate::errors::Error;
use crate::sys::fd;
use crate::sys::process::{Pid, Pidfd};

/// The time that the process may take to end once it has reported that it is done.
const END_MAX: Duration = Duration::from_secs(2);

/// The handle of the process: its drop ends the process.
pub(crate) struct ServingProcess {
    pub(crate) pid: Pid,
    pub(crate) pidfd: Pidfd,
    pub(crate) channel: Channel,
}

impl ServingProcess {
    /// Forks it; it serves by `f`.
    pub(crate) fn start(f: impl FnOnce(Channel) -> u8) -> io::Result<ServingProcess> {
        let (pid, channel) = channel::fork(f)?;
        let pidfd = Pidfd::open(pid)?;
        Ok(ServingProcess {
            pid,
            pidfd,
            channel,
        })
    }

    /// The next message that is there now.
    ///
    /// # Errors
    /// The process was killed while `doing` its work.
    pub(crate) fn hear(&self, doing: &str) -> Result<Option<ChannelMessage>, Error> {
        if !fd::is_ready(self.channel.as_fd()).map_err(Error::io(doing))? {
            return Ok(None);
        }
        let heard = self.channel.recv().map_err(Error::io(doing))?;
        let why = "it was killed; if memory was short, the kernel's log says so (`dmesg`)";
        let killed = || Error::io(doing)(io::Error::other(why));
        heard.map(|(message, _)| Some(message)).ok_or_else(killed)
    }

    /// Waits for the end of a process that is about to end, because the interface is removed with its last descriptor.
    pub(crate) fn wait_for_end(&self) {
        let _ = fd::poll(&[self.pidfd.as_fd()], Some(END_MAX));
    }
}

impl Drop for ServingProcess {
    fn drop(&mut self) {
        // It fails if the process has ended.
        let _ = self.pidfd.signal(libc::SIGKILL);
        self.wait_for_end();
        self.pidfd.reap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn it_leaves_no_zombie() {
        // Breaks when each mbuma leaves a zombie in a container whose first process reaps none.
        let child = std::process::Command::new("sleep").arg("1000").spawn();
        let pid = Pid(child.expect("a child").id().cast_signed());
        let process = ServingProcess {
            pid,
            pidfd: Pidfd::open(pid).expect("it runs"),
            channel: Channel::pair().expect("a socket pair").0,
        };
        let entry = PathBuf::from(format!("/proc/{}", pid.0));
        assert!(entry.exists());
        drop(process);
        assert!(!entry.exists());
    }
}
