//! Signals: read from a descriptor, and passed on to COMMAND by one rule.
//!
//! A terminal signals its whole foreground process group, so COMMAND has got Ctrl-C already when
//! mbuma reads of it, as long as both are in one group. A terminal that hangs up is different: the
//! kernel sends SIGHUP and SIGCONT to the leader of the session alone, and to the foreground group only
//! when the leader ends. If mbuma is that leader, it passes both on, and COMMAND decides whether to end.
//! All other signals were sent to mbuma alone and go on to COMMAND, so that the sender sees one program.
//!
//! SIGTSTP, SIGTTIN and SIGTTOU keep their default action: Ctrl-Z stops mbuma and COMMAND alike, and
//! the shell sees its job stopped. SIGCONT continues a process however it is blocked; reading it too
//! lets COMMAND be continued when it stopped in a group of its own.
//!
//! SIGRTMIN+1 is mbuma's own: the gateway's watch reads it, and prints the locks.
//!
//! Invariants: blocked from before the fork to the end, so that none is lost; the child gives itself the mask and
//! dispositions that mbuma was started with ([`Inherited`]).
//! Locks: none.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::errors::Error;
use crate::sys::process;
use crate::sys::signal::{self, SigSet};

/// The signals that are passed on to COMMAND.
const FORWARDED: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
    libc::SIGCONT,
];

/// The signal at which mbuma prints which thread holds which lock. SIGUSR1, SIGUSR2 and all others that a program may
/// use are passed on to COMMAND; some runtimes use the first real-time signal.
fn show_locks() -> i32 {
    libc::SIGRTMIN() + 1
}

/// A descriptor that is readable when a signal has come.
pub(crate) struct SignalFd {
    file: File,
    /// SIGHUP was ignored when mbuma was started, as under nohup(1). Blocked, it is readable all the same.
    hup_ignored: bool,
}

/// One signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SigInfo {
    /// Which.
    pub(crate) signo: i32,
    /// Whether the kernel sent it, as it does for a terminal's keys, size and hang-up.
    pub(crate) from_terminal: bool,
}

/// The signals of the kernel that COMMAND gets directly when mbuma gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recipient {
    /// COMMAND is in mbuma's process group.
    pub(crate) shares_group: bool,
    /// mbuma leads its session.
    pub(crate) leads_session: bool,
}

/// The signal mask and dispositions with which mbuma was started, and COMMAND must start.
#[derive(Clone, Copy)]
pub(crate) struct Inherited {
    mask: SigSet,
    chld_ignored: bool,
    xfsz_ignored: bool,
}

impl SignalFd {
    /// Blocks the signals and opens the descriptor.
    pub(crate) fn open() -> io::Result<(SignalFd, Inherited)> {
        let mut set = FORWARDED.to_vec();
        set.push(libc::SIGCHLD);
        let set = SigSet::of(&set);
        let mask = set.block()?;
        // Blocked here too, before any thread is made; what comes waits for `of_show_locks`.
        SigSet::of(&[show_locks()]).block()?;
        let hup_ignored = signal::set_default(libc::SIGHUP)?;
        if hup_ignored {
            signal::ignore(libc::SIGHUP)?;
        }
        // If a process ignores SIGCHLD, its children end without a status.
        let chld_ignored = signal::set_default(libc::SIGCHLD)?;
        // A capture that grows beyond `ulimit -f` ends with an error, not with COMMAND's network.
        let xfsz_ignored = signal::ignore(libc::SIGXFSZ)?;
        let inherited = Inherited {
            mask,
            chld_ignored,
            xfsz_ignored,
        };
        let signals = SignalFd {
            file: set.open()?.into(),
            hup_ignored,
        };
        Ok((signals, inherited))
    }

    /// A descriptor for the one that asks for locks, which [`SignalFd::open`] has blocked.
    pub(crate) fn of_show_locks() -> io::Result<SignalFd> {
        Ok(SignalFd {
            file: SigSet::of(&[show_locks()]).open()?.into(),
            hup_ignored: false,
        })
    }

    /// The next signal, without waiting.
    pub(crate) fn read(&self) -> io::Result<Option<SigInfo>> {
        let next = signal::read(&self.file)?;
        Ok(next.map(|(signo, code)| SigInfo {
            signo,
            from_terminal: code == libc::SI_KERNEL,
        }))
    }
}

impl SignalFd {
    /// Reads all pending signals, when there is no COMMAND. Returns whether one of them asks mbuma to end; a SIGHUP
    /// that the caller of mbuma had ignored does not.
    ///
    /// Helpers that have ended are reaped: they have done their work, and nothing depends on their status.
    pub(crate) fn take_in(&self) -> Result<bool, Error> {
        let mut asked = false;
        while let Some(info) = self.read().map_err(Error::io("reading the signals"))? {
            let ignored = self.hup_ignored && info.signo == libc::SIGHUP;
            asked |= info.asks_to_end() && !ignored;
        }
        while let Ok(Some(_)) = process::wait() {}
        Ok(asked)
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl SigInfo {
    /// Whether it goes on to COMMAND: not if the kernel sent it to COMMAND as well.
    pub(crate) fn is_for_command(&self, recipient: Recipient) -> bool {
        let hangs_up = matches!(self.signo, libc::SIGHUP | libc::SIGCONT);
        let command_got_it = recipient.shares_group && !(recipient.leads_session && hangs_up);
        FORWARDED.contains(&self.signo) && !(self.from_terminal && command_got_it)
    }

    /// Whether it asks mbuma itself to end, when there is no COMMAND.
    pub(crate) fn asks_to_end(&self) -> bool {
        matches!(
            self.signo,
            libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM
        )
    }
}

impl Inherited {
    /// Undoes [`SignalFd::open`] and what the standard library does to SIGPIPE, just before exec.
    pub(crate) fn restore(&self) -> io::Result<()> {
        signal::restore_pipe()?;
        if !self.xfsz_ignored {
            signal::set_default(libc::SIGXFSZ)?;
        }
        if self.chld_ignored {
            signal::ignore(libc::SIGCHLD)?;
        }
        self.mask.set_as_mask()
    }
}

#[cfg(test)]
mod tests;
