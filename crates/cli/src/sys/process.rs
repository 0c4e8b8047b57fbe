//! Processes: fork, exec, wait, and signals to exactly one process.
//!
//! Invariants: a process is signalled through a [`Pidfd`] only, never by a number that may have come to mean another
//! process.
//! Locks: none.

use std::ffi::{CStr, CString, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};
use serde::{Deserialize, Serialize};

use super::{cvt, cvt_long};

/// The exit code of a forked process whose code panicked: mbuma itself failed.
pub(crate) const EXIT_PANICKED: u8 = 125;

/// The number of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Pid(pub(crate) i32);

impl Pid {
    /// This process.
    pub(crate) fn own() -> Pid {
        Pid(std::process::id().cast_signed())
    }

    /// The parent of this process.
    pub(crate) fn parent() -> Pid {
        Pid(std::os::unix::process::parent_id().cast_signed())
    }

    /// The process group of this process, which the terminal signals as one.
    pub(crate) fn group(self) -> io::Result<i32> {
        // SAFETY: takes and gives numbers.
        cvt(unsafe { libc::getpgid(self.0) })
    }

    /// Whether this process leads a session.
    pub(crate) fn leads_session(self) -> bool {
        // SAFETY: takes and gives numbers.
        unsafe { libc::getsid(self.0) == self.0 }
    }
}

/// A reference to one process: a process number may be reused, this may not.
#[derive(Debug)]
pub(crate) struct Pidfd(OwnedFd);

impl Pidfd {
    /// Makes a reference to the process that has this number now.
    pub(crate) fn open(pid: Pid) -> io::Result<Pidfd> {
        let pid = rustix::process::Pid::from_raw(pid.0).ok_or(Errno::INVAL)?;
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Pidfd(fd))
    }

    /// Takes the status of the child, if it has ended, so that no zombie is left for the parent of this process.
    pub(crate) fn reap(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // Another wait may have taken it.
        let _ = rustix::process::waitid(WaitId::PidFd(self.0.as_fd()), options);
    }

    /// Sends it a signal; a process that has ended is no error.
    pub(crate) fn signal(&self, signo: i32) -> io::Result<()> {
        let no_info = ptr::null::<libc::siginfo_t>();
        // SAFETY: a null siginfo makes the kernel fill it as for kill(2); the rest are numbers.
        let sent = cvt_long(unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signo,
                no_info,
                0,
            )
        });
        match sent {
            Err(e) if e.raw_os_error() != Some(libc::ESRCH) => Err(e),
            _ => Ok(()),
        }
    }
}

impl From<OwnedFd> for Pidfd {
    /// Takes over a reference that another process made and handed on.
    fn from(fd: OwnedFd) -> Pidfd {
        Pidfd(fd)
    }
}

impl AsFd for Pidfd {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Forks; the child runs `f` and exits with its result, never coming back to the caller's code.
///
/// # Errors
/// Besides those of fork(2): when this process has a second thread.
pub(crate) fn fork_into(f: impl FnOnce() -> u8) -> io::Result<Pid> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("fork with more than one thread"));
    }
    // SAFETY: with one thread there is no other whose locks or half-done work the child could
    // inherit, so that it may run any code, as after an ordinary call.
    match cvt(unsafe { libc::fork() })? {
        0 => exit_now(panic::catch_unwind(AssertUnwindSafe(f)).unwrap_or(EXIT_PANICKED)),
        pid => Ok(Pid(pid)),
    }
}

/// Ends this process without running the program's exit handlers.
fn exit_now(code: u8) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code.into()) }
}

/// Becomes the program `command`, looked up in PATH; comes back only with the reason why not.
pub(crate) fn exec(command: &[OsString]) -> io::Error {
    let Ok(words) = command
        .iter()
        .map(|w| CString::new(w.as_bytes()))
        .collect::<Result<Vec<_>, _>>()
    else {
        return io::Error::from_raw_os_error(libc::EINVAL);
    };
    let Some(program) = words.first() else {
        return io::Error::from_raw_os_error(libc::ENOENT);
    };
    let mut argv: Vec<_> = words.iter().map(|w| w.as_ptr()).collect();
    argv.push(ptr::null());
    // SAFETY: `argv` is a null-terminated array of NUL-terminated strings, all alive; on success
    // nothing of this program is left, on failure nothing has changed.
    unsafe { libc::execvp(program.as_ptr(), argv.as_ptr()) };
    io::Error::last_os_error()
}

/// A child's change of state, from [`wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// It ended with this status.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// This signal stopped it; it may go on later.
    Stopped(i32),
}

/// The next child that ended or stopped, without waiting. Ended ones are reaped by this.
///
/// # Errors
/// ECHILD when there is no child at all.
pub(crate) fn wait() -> io::Result<Option<(Pid, Change)>> {
    let changed = rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED)?;
    Ok(changed.and_then(|(pid, status)| {
        let exited = status.exit_status().map(Change::Exited);
        let stopped = || status.stopping_signal().map(Change::Stopped);
        let killed = || status.terminating_signal().map(Change::Killed);
        let change = exited.or_else(stopped).or_else(killed)?;
        Some((Pid(pid.as_raw_pid()), change))
    }))
}

/// Lets the kernel kill this process when its parent ends.
///
/// A program that changes its credentials loses this, so it is asked for again before exec.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(
        Signal::KILL,
    ))?)
}

/// Makes this process the parent of every descendant whose own parent ends.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    // A flag to the kernel: each number but 0 sets it.
    let on = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(on))?)
}

/// The children of this process by the kernel's own list, zombies included.
///
/// Far quicker than reading all of /proc. While children end, another child may be missed.
///
/// # Errors
/// Where the kernel was built without such lists.
pub(crate) fn listed_children() -> io::Result<Vec<Pid>> {
    let list = fs::read_to_string("/proc/thread-self/children")?;
    let numbers = list.split_ascii_whitespace();
    Ok(numbers.filter_map(|n| n.parse().ok()).map(Pid).collect())
}

/// Moves this process into a process group of its own.
pub(crate) fn lead_own_group() -> io::Result<()> {
    Ok(rustix::process::setpgid(None, None)?)
}

/// Moves this process, which leads no process group, into a session of its own: no terminal reaches it.
pub(crate) fn lead_own_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Keeps other processes, except those with CAP_SYS_PTRACE in the user namespace that this process was started in, from
/// tracing this process and from opening its descriptors and memory by /proc (ptrace(2), PR_SET_DUMPABLE(2const)).
pub(crate) fn refuse_tracing() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(
        DumpableBehavior::NotDumpable,
    )?)
}

/// The name of this process for `ps` and `killall`; the kernel keeps 15 bytes.
pub(crate) fn set_name(name: &CStr) -> io::Result<()> {
    Ok(rustix::thread::set_name(name)?)
}

/// The effective user and group of this process.
pub(crate) fn ids() -> (u32, u32) {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    (uid.as_raw(), gid.as_raw())
}
