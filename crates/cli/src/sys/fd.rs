//! Descriptors: those a caller handed us by number, and waiting on several.
//!
//! Invariants: descriptors 0, 1 and 2 are always open and never owned.
//! Locks: none.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::cvt;

/// Takes over descriptor `number`, which the process that started mbuma left open for it.
///
/// # Errors
/// EBADF when it is not open, is one of the standard three, or is one of mbuma's own.
pub(crate) fn inherit(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD takes no argument and touches no memory; a closed number gives EBADF.
    let flags = cvt(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    if number <= libc::STDERR_FILENO || flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: F_SETFD takes an int and touches no memory.
    cvt(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the number is open, and no value in this program owns it: all that we open is
    // close-on-exec, and this one was not, so it came by exec. Marking it so above makes a second
    // call fail, so that there is one owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes the descriptors that the process that started mbuma left open, but those that [`inherit`] took over. One that
/// [`left_open`] gave must not be in use: as there, a descriptor that is not close-on-exec has no owner in this
/// program.
pub(crate) fn close_left_open() {
    // Without /proc they stay open.
    let numbers = own_numbers().unwrap_or_default();
    let left = numbers.into_iter().map(u32::cast_signed);
    left.filter_map(|number| inherit(number).ok())
        .for_each(drop);
}

/// The descriptor that `path` names by its number, as /dev/fd/63 does, if the process that started mbuma left it open.
/// [`close_left_open`] must not be called while it is used.
pub(crate) fn left_open(path: &Path) -> Option<BorrowedFd<'static>> {
    let number = path.strip_prefix("/dev/fd").ok()?.to_str()?;
    let number: RawFd = number.parse().ok()?;
    // SAFETY: as in `inherit`.
    let flags = cvt(unsafe { libc::fcntl(number, libc::F_GETFD) }).ok()?;
    let theirs = number > libc::STDERR_FILENO && flags & libc::FD_CLOEXEC == 0;
    // SAFETY: it is open, and as in `inherit` no value in this program owns it, so none closes it but
    // `close_left_open`.
    theirs.then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

/// Closes every descriptor but the standard three and `kept`.
///
/// For a process that was just forked, and whose code owns no descriptor but `kept`: the values that own the others
/// belong to code of the parent, which never runs there.
pub(crate) fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut numbers: Vec<_> = kept
        .iter()
        .map(|fd| fd.as_raw_fd().cast_unsigned())
        .collect();
    numbers.sort_unstable();
    let mut first = libc::STDERR_FILENO.cast_unsigned() + 1;
    for number in numbers {
        if first < number {
            close_range(first, number - 1)?;
        }
        first = first.max(number + 1);
    }
    close_range(first, u32::MAX)
}

/// Closes the descriptors from `first` to `last` (close_range(2), Linux 5.9).
fn close_range(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: private to this module, whose caller names no descriptor that code of this process owns.
    let closed = super::cvt_long(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) });
    match closed {
        // Some lists of allowed calls refuse one that they do not know by EPERM.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            close_each(first, last)
        }
        other => other.map(|_| ()),
    }
}

/// The same, one by one.
fn close_each(first: u32, last: u32) -> io::Result<()> {
    let numbers = own_numbers()?.into_iter();
    for number in numbers.filter(|n| (first..=last).contains(n)) {
        // SAFETY: as in the caller. The directory's own descriptor is closed by now: that is EBADF.
        unsafe { libc::close(number.cast_signed()) };
    }
    Ok(())
}

/// The numbers of all descriptors of this process.
fn own_numbers() -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// Reads and writes of `file` block from now on. Its other status flags are cleared.
pub(crate) fn set_blocking(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fcntl_setfl(file, OFlags::empty())?)
}

/// Waits until one of `fds` is readable, hung up or in error. Returns which are.
///
/// `None` waits for ever. A signal that interrupts counts as "none yet".
pub(crate) fn poll(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut set: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    // A timeout beyond the range of the clock is none.
    let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
    match event::poll(&mut set, timeout.as_ref()) {
        Ok(_) => Ok(set.iter().map(|p| !p.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; fds.len()]),
        Err(e) => Err(e.into()),
    }
}

/// Whether `fd` is readable, hung up or in error right now.
pub(crate) fn is_ready(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(poll(&[fd], Some(Duration::ZERO))?.contains(&true))
}

/// Whether `fd` is hung up or in error right now, as a TAP is whose interface was deleted.
pub(crate) fn has_failed(fd: &impl AsFd) -> io::Result<bool> {
    let mut set = [PollFd::new(fd, PollFlags::empty())];
    event::poll(&mut set, Some(&Timespec::default()))?;
    Ok(!set[0].revents().is_empty())
}

/// Whether a write of up to PIPE_BUF bytes (4 KiB) to `fd` does not wait (pipe(7)).
pub(crate) fn may_write(fd: &impl AsFd) -> bool {
    let mut set = [PollFd::new(fd, PollFlags::OUT)];
    let ready = event::poll(&mut set, Some(&Timespec::default()));
    ready == Ok(1) && set[0].revents().contains(PollFlags::OUT)
}

/// Points standard input and output at /dev/null.
///
/// mbuma needs neither, and holding COMMAND's pipes open would hide from its neighbours that
/// COMMAND closed them.
pub(crate) fn let_go_of_stdio() -> io::Result<()> {
    rustix::stdio::dup2_stdin(null()?)?;
    Ok(rustix::stdio::dup2_stdout(null()?)?)
}

/// The things of its caller that a process in the background gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetGo {
    /// Standard input, output and error, the working directory, whose file system could not be unmounted, and the
    /// descriptors that were left open.
    All,
    /// The same, but standard error is a log.
    AllButStderr,
}

/// Gives that up.
pub(crate) fn let_go(what: LetGo) -> io::Result<()> {
    let_go_of_stdio()?;
    if what == LetGo::All {
        lead_stderr_to(&null()?)?;
    }
    rustix::process::chdir("/")?;
    close_left_open();
    Ok(())
}

/// Makes `file` standard error.
pub(crate) fn lead_stderr_to(file: &File) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(file)?)
}

fn null() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

/// The process group that has the terminal of `tty`.
pub(crate) fn foreground_group(tty: &impl AsFd) -> io::Result<i32> {
    Ok(rustix::termios::tcgetpgrp(tty)?.as_raw_pid())
}
