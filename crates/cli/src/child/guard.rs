//! The guard: a process between mbuma and COMMAND, which ends all that is left of COMMAND.
//!
//! ```text
//!   mbuma ------ guard ------ COMMAND ------ whatever COMMAND starts
//!     '--channel--'
//! ```
//!
//! After SIGKILL mbuma can't end processes, and the signal that the kernel sends at a parent's end (PR_SET_PDEATHSIG)
//! reaches direct children only. So another process must notice, and must be an ancestor of all processes that COMMAND
//! starts: the guard is COMMAND's parent, and the subreaper of everything below.
//!
//! | event | the guard's action |
//! |---|---|
//! | mbuma's end of the channel closes | kills until no process is left |
//! | mbuma asks, at COMMAND's own end | SIGTERM first, then the same |
//! | the guard itself is killed | COMMAND is killed too (PR_SET_PDEATHSIG); mbuma becomes the parent of the rest and ends it |
//! | guard and mbuma are killed at once | COMMAND's background processes stay |
//!
//! A PID namespace would do this in the kernel. But COMMAND would see other process numbers than the rest of the
//! system: /proc would have to be mounted again, which containers forbid; a terminal's process groups have no numbers
//! inside; and debuggers, pid files and a socket's peer credentials do not work across it.
//!
//! The guard also holds two of mbuma's descriptors: one that the kernel takes milliseconds to close, and mbuma's end of
//! the channel to the gateway process. So if mbuma is killed, the guard notices at once, and the gateway process only
//! when COMMAND has ended: otherwise COMMAND would see its connections reset, and could print an error.
//!
//! Invariants: the guard outlives all that COMMAND starts, unless it is killed itself; it holds no descriptor of the
//! guest's, and none that COMMAND was started with.
//! Locks: none.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::channel::{self, Channel, ChannelMessage};
use crate::descendants::{self, END_MAX};
use crate::errors::{EXIT_OWN_FAILURE, Failure, SetupStep};
use crate::sandbox::{self, Kept};
use crate::signals::SignalFd;
use crate::sys::fd::{self, LetGo};
use crate::sys::process::{self, Change, Pid, Pidfd};

/// The guard's name in `ps`. `killall mbuma` must not end mbuma and the guard at once, so the name is another.
const NAME: &CStr = c"guest-guard";
/// The time that the guard may take for its work at the end.
const WAIT_MAX: Duration = END_MAX.saturating_add(Duration::from_millis(500));

/// The guard, as mbuma sees it.
pub(crate) struct Guard {
    pid: Pid,
    pidfd: Pidfd,
    channel: Channel,
    /// Its status, once it has ended.
    ended: Option<Change>,
}

/// The process that is to become COMMAND, as the guard introduces it.
pub(crate) struct Introduction {
    /// Its number.
    pub(crate) pid: Pid,
    /// A hold on it.
    pub(crate) pidfd: Pidfd,
    /// The conversation with it.
    pub(crate) channel: Channel,
}

impl Guard {
    /// Forks the guard, which forks a process that calls `f` with the channel to mbuma and the parent's number.
    pub(crate) fn start(
        signals: &SignalFd,
        f: impl FnOnce(&Channel, Pid) -> u8,
    ) -> io::Result<Guard> {
        let (pid, channel) = channel::fork(|mbuma| guard_main(mbuma, signals, f))?;
        Ok(Guard {
            pid,
            pidfd: Pidfd::open(pid)?,
            channel,
            ended: None,
        })
    }

    /// Waits until it has forked; nothing if it ended instead.
    pub(crate) fn introduction(&self) -> Result<Option<Introduction>, Failure> {
        let failed = Failure::at(SetupStep::Child);
        let Some((pid, pidfd)) = self.expect_started()? else {
            return Ok(None);
        };
        Ok(match self.channel.recv().map_err(failed)? {
            Some((ChannelMessage::Conversation, Some(fd))) => Some(Introduction {
                pid,
                pidfd: Pidfd::from(pidfd),
                channel: Channel::from(fd),
            }),
            _ => None,
        })
    }

    /// Waits for the first half of it.
    fn expect_started(&self) -> Result<Option<(Pid, OwnedFd)>, Failure> {
        match self.channel.recv().map_err(Failure::at(SetupStep::Child))? {
            Some((ChannelMessage::Started(pid), Some(pidfd))) => Ok(Some((pid, pidfd))),
            Some((ChannelMessage::Failed(failure), _)) => Err(failure),
            _ => Ok(None),
        }
    }

    /// COMMAND's changes of state, one after the other, without waiting.
    pub(crate) fn hear(&self) -> io::Result<Option<Change>> {
        if !fd::is_ready(self.channel.as_fd())? {
            return Ok(None);
        }
        Ok(match self.channel.recv()? {
            Some((ChannelMessage::Changed(change), _)) => Some(change),
            _ => None,
        })
    }

    /// Has the guard hold this descriptor to its end.
    pub(crate) fn hold(&self, fd: BorrowedFd<'_>) {
        // It is no error if the guard has ended, or its channel is full.
        let _ = self.channel.send(&ChannelMessage::Hold, Some(fd));
    }

    /// Records that process `pid` ended, if it is the guard.
    pub(crate) fn note(&mut self, pid: Pid, change: Change) {
        if pid == self.pid && !matches!(change, Change::Stopped(_)) {
            self.ended = Some(change);
        }
    }

    /// Whether it has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it ended because its work was done.
    pub(crate) fn is_done(&self) -> bool {
        self.ended == Some(Change::Exited(0))
    }

    /// Lets the guard end COMMAND's remaining processes, and waits for that for a bounded time.
    pub(crate) fn end(&self) {
        if self.is_gone() {
            return;
        }
        // If the guard has ended or does not end, the caller does its work.
        let _ = self.channel.send(&ChannelMessage::End, None);
        let _ = fd::poll(&[self.pidfd.as_fd()], Some(WAIT_MAX));
    }
}

impl AsFd for Guard {
    /// Readable when there is a message.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// The guard, from the fork to its exit code.
fn guard_main(mbuma: Channel, signals: &SignalFd, f: impl FnOnce(&Channel, Pid) -> u8) -> u8 {
    let mut mbuma = Some(mbuma);
    let forked = fork_command(&mut mbuma, f);
    let Some(mbuma) = mbuma else {
        return EXIT_OWN_FAILURE;
    };
    match forked.and_then(|(pid, channel)| introduce(&mbuma, pid, channel)) {
        Ok(command) => watch(&mbuma, signals, command),
        Err(e) => {
            // If mbuma has ended, no process receives the message.
            let _ = mbuma.send(
                &ChannelMessage::Failed(Failure::at(SetupStep::Child)(e)),
                None,
            );
            descendants::kill_all(&[], None, |_, _| ());
            EXIT_OWN_FAILURE
        }
    }
}

/// Forks the process that is to become COMMAND.
fn fork_command(
    mbuma: &mut Option<Channel>,
    f: impl FnOnce(&Channel, Pid) -> u8,
) -> io::Result<(Pid, Channel)> {
    process::adopt_orphans()?;
    let own = Pid::own();
    channel::fork(|channel| {
        *mbuma = None;
        f(&channel, own)
    })
}

/// Reports the new process to mbuma, and gives up all that belongs to COMMAND.
fn introduce(mbuma: &Channel, pid: Pid, channel: Channel) -> io::Result<Pid> {
    let pidfd = Pidfd::open(pid)?;
    mbuma.send(&ChannelMessage::Started(pid), Some(pidfd.as_fd()))?;
    mbuma.send(&ChannelMessage::Conversation, Some(channel.as_fd()))?;
    // A signal to mbuma's process group must not reach the guard. The guard stays in the session: that keeps a process
    // group of COMMAND's from being an orphan, which could not be stopped from the terminal.
    process::lead_own_group()?;
    fd::let_go(LetGo::All)?;
    sandbox::keep_only(Kept::Signals);
    // It is no error if the name can't be set.
    let _ = process::set_name(NAME);
    Ok(pid)
}

/// Reports COMMAND's changes to mbuma. When mbuma asks, or ends, it ends the remaining processes.
fn watch(mbuma: &Channel, signals: &SignalFd, command: Pid) -> u8 {
    let tell = |pid, change| {
        if pid == command {
            // The send fails if mbuma has ended, which is noticed below.
            let _ = mbuma.send(&ChannelMessage::Changed(change), None);
        }
    };
    let mut held = Vec::new();
    let asked = loop {
        // Signals other than SIGCHLD were meant for mbuma, which gets them too.
        while let Ok(Some(_)) = signals.read() {}
        while let Ok(Some((pid, change))) = process::wait() {
            tell(pid, change);
        }
        match fd::poll(&[signals.as_fd(), mbuma.as_fd()], None).as_deref() {
            Ok([_, false]) => {}
            Ok(_) => match mbuma.recv() {
                Ok(Some((ChannelMessage::Hold, fd))) => held.extend(fd),
                heard => break matches!(heard, Ok(Some((ChannelMessage::End, _)))),
            },
            Err(_) => break false,
        }
    };
    if asked {
        descendants::end_all(&[], tell);
    } else {
        descendants::kill_all(&[], None, tell);
    }
    drop(held);
    0
}
