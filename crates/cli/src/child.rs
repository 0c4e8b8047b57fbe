//! COMMAND's process, from the fork to the last of its descendants.
//!
//! Invariants: a dropped Child leaves no process behind, however far it got; nor does one that is killed (see
//! [`guard`]).
//! Locks: none.

pub(crate) mod guard;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::channel::{Channel, ChannelMessage};
use crate::descendants;
use crate::errors::{EXIT_OWN_FAILURE, EXIT_SIGNAL_BASE, Error, Failure, SetupStep};
use crate::signals::Recipient;
use crate::sys::fd;
use crate::sys::process::{self, Change, Pid, Pidfd};
use crate::sys::signal;
use guard::{Guard, Introduction};

/// The process that is to become COMMAND, stopped just before that until [`Child::release`].
pub(crate) struct Child {
    guard: Guard,
    pid: Pid,
    pidfd: Pidfd,
    /// There until COMMAND runs.
    channel: Option<Channel>,
    /// COMMAND's status once it has ended.
    status: Option<u8>,
    /// Children that mbuma had before: it must not end them.
    spared: Vec<Pid>,
}

impl Child {
    /// Watches over the process that `guard` introduced.
    pub(crate) fn new(guard: Guard, introduced: Introduction, spared: Vec<Pid>) -> Child {
        Child {
            guard,
            pid: introduced.pid,
            pidfd: introduced.pidfd,
            channel: Some(introduced.channel),
            status: None,
            spared,
        }
    }

    /// Its number, for /proc.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// The channel to it, until it becomes COMMAND.
    pub(crate) fn channel(&self) -> Result<&Channel, Failure> {
        self.channel.as_ref().ok_or(Failure {
            step: SetupStep::Child,
            errno: libc::EPIPE,
        })
    }

    /// Lets it become COMMAND, and waits until it has.
    ///
    /// # Errors
    /// `command`, which it got at the fork, can't be executed.
    pub(crate) fn release(&mut self, command: &[OsString]) -> Result<(), Error> {
        let Some(channel) = self.channel.take() else {
            return Ok(());
        };
        // If a signal ended the child, that is COMMAND's status.
        let _ = channel.send(&ChannelMessage::Go, None);
        match channel
            .recv()
            .map_err(Error::io("waiting for COMMAND to start"))?
        {
            Some((
                ChannelMessage::Failed(Failure {
                    step: SetupStep::Exec,
                    errno,
                }),
                _,
            )) => {
                let name = command.first().map(OsString::as_os_str).unwrap_or_default();
                Err(Error::exec(name, io::Error::from_raw_os_error(errno)))
            }
            Some((ChannelMessage::Failed(failure), _)) => Err(failure.into()),
            _ => Ok(()),
        }
    }

    /// Has the guard hold a descriptor, so that it does not end with this process.
    pub(crate) fn hold(&self, fd: BorrowedFd<'_>) {
        self.guard.hold(fd);
    }

    /// Sends COMMAND a signal.
    pub(crate) fn forward(&self, signo: i32) -> io::Result<()> {
        self.pidfd.signal(signo)
    }

    /// The terminal's signals that COMMAND gets directly.
    pub(crate) fn recipient(&self) -> Recipient {
        let own = Pid::own();
        let shares_group =
            matches!((self.pid.group(), own.group()), (Ok(theirs), Ok(ours)) if theirs == ours);
        Recipient {
            shares_group,
            leads_session: own.leads_session(),
        }
    }

    /// Handles changes of COMMAND and of mbuma's own children.
    ///
    /// Without the guard COMMAND is mbuma's child, and about to end.
    pub(crate) fn reap(&mut self) -> io::Result<()> {
        for change in self.changes()? {
            self.note(change);
            if matches!(change, Change::Stopped(_)) {
                self.stop_along()?;
            }
        }
        if self.guard.is_gone() && fd::is_ready(self.pidfd.as_fd())? {
            // COMMAND has ended, and is reaped now if it was not before; or the guard was killed before it reported the
            // status.
            self.changes()?.into_iter().for_each(|c| self.note(c));
            self.status.get_or_insert(EXIT_OWN_FAILURE);
        }
        Ok(())
    }

    /// COMMAND's change of state since the last call.
    fn changes(&mut self) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        while let Some(change) = self.guard.hear()? {
            changes.push(change);
        }
        while let Ok(Some((pid, change))) = process::wait() {
            self.guard.note(pid, change);
            changes.extend((pid == self.pid).then_some(change));
        }
        Ok(changes)
    }

    /// The exit code for mbuma, once COMMAND has ended.
    pub(crate) fn status(&self) -> Option<u8> {
        self.status
    }

    /// Ends COMMAND, if it is running, and all its descendants. Returns its status.
    pub(crate) fn end(&mut self) -> u8 {
        self.channel = None;
        if self.status.is_none() {
            let _ = self.pidfd.signal(libc::SIGKILL);
        }
        self.guard.end();
        let changes = self.changes().unwrap_or_default();
        changes.into_iter().for_each(|change| self.note(change));
        if !self.guard.is_done() {
            self.end_without_guard();
        }
        self.status.unwrap_or(EXIT_OWN_FAILURE)
    }

    /// Does the guard's work: the guard was killed, or hangs.
    fn end_without_guard(&mut self) {
        let pid = self.pid;
        let mut own = None;
        descendants::end_all(&self.spared, |reaped, change| {
            own = (reaped == pid).then_some(change).or(own)
        });
        own.into_iter().for_each(|change| self.note(change));
    }

    /// Keeps the status when COMMAND has ended.
    fn note(&mut self, change: Change) {
        // Both are the kernel's: a status has 8 bits, a signal's number 7.
        let code = match change {
            Change::Exited(status) => u8::try_from(status & 0xff).unwrap_or(EXIT_OWN_FAILURE),
            Change::Killed(signo) => EXIT_SIGNAL_BASE | u8::try_from(signo & 0x7f).unwrap_or(0),
            Change::Stopped(_) => return,
        };
        self.status = Some(code);
    }

    /// COMMAND has stopped, and the shell that waits for mbuma in the foreground must learn of it: stop too.
    ///
    /// A shell inside that stops itself is in a process group of its own, so the terminal's signal did
    /// not reach us. Without a terminal, or in the background, the process that stopped COMMAND will continue COMMAND,
    /// and would not continue mbuma.
    ///
    /// Ctrl-Z stops mbuma and COMMAND, and mbuma gets the report of that stop only when both run again.
    fn stop_along(&self) -> io::Result<()> {
        if !descendants::is_stopped(self.pid) {
            return Ok(());
        }
        let Ok(tty) = File::open("/dev/tty") else {
            return Ok(());
        };
        let front = fd::foreground_group(&tty).ok();
        let groups = [Pid::own().group().ok(), self.pid.group().ok()];
        if front.is_some() && groups.contains(&front) {
            // SIGTSTP and not SIGSTOP: the kernel discards SIGTSTP if no shell could continue mbuma.
            signal::raise(libc::SIGTSTP)?;
        }
        Ok(())
    }
}

impl AsFd for Child {
    /// Readable when COMMAND has ended or stopped.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.guard.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}
