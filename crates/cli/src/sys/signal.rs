//! Signals as something to read instead of something that interrupts.
//!
//! Invariants: no handler of ours ever runs: a signal is blocked and read, or has its default action. The exception is
//! [`bus_error`](super::bus_error).
//! Locks: none. The mask is that of the calling thread, and threads started later inherit it.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cvt;

/// Whether SIGPIPE was ignored when this program was started. Relaxed: there is one thread until it is known.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// The C library calls it before the standard library ignores SIGPIPE.
#[used]
// SAFETY: an entry of this section is a function without arguments, which may call the C library.
#[unsafe(link_section = ".init_array")]
static NOTE_PIPE: extern "C" fn() = note_pipe;

extern "C" fn note_pipe() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, the call writes the present one.
    unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: numbers and a null pointer, if the call has not written it.
    let handler = unsafe { action.assume_init() }.sa_sigaction;
    PIPE_WAS_IGNORED.store(handler == libc::SIG_IGN, Ordering::Relaxed);
}

/// Undoes what the standard library did to SIGPIPE.
pub(crate) fn restore_pipe() -> io::Result<()> {
    match PIPE_WAS_IGNORED.load(Ordering::Relaxed) {
        true => Ok(()),
        false => set_default(libc::SIGPIPE).map(drop),
    }
}

/// A set of signals.
#[derive(Clone, Copy)]
pub(crate) struct SigSet(libc::sigset_t);

impl SigSet {
    /// The set of exactly these.
    pub(crate) fn of(signals: &[i32]) -> SigSet {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initializes the set it is given, and cannot fail.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: initialized by the call above.
        let mut set = unsafe { set.assume_init() };
        for signo in signals {
            // SAFETY: an initialized set; a number that is no signal is refused with EINVAL.
            unsafe { libc::sigaddset(&raw mut set, *signo) };
        }
        SigSet(set)
    }

    /// Blocks these besides those already blocked, and gives back the mask as it was.
    pub(crate) fn block(&self) -> io::Result<SigSet> {
        let mut old = SigSet::of(&[]);
        // SAFETY: two initialized sets, the second ours to write.
        cvt(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const self.0, &raw mut old.0) })?;
        Ok(old)
    }

    /// Blocks exactly these.
    pub(crate) fn set_as_mask(&self) -> io::Result<()> {
        // SAFETY: an initialized set, and null where the old mask is not wanted.
        cvt(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) })?;
        Ok(())
    }

    /// A descriptor to read these from, without blocking. They must be blocked to arrive there.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        // SAFETY: -1 asks for a new descriptor; the set is initialized and only read.
        let fd = cvt(unsafe {
            libc::signalfd(
                -1,
                &raw const self.0,
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            )
        })?;
        // SAFETY: the kernel just made this descriptor, and no other owner has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Reads the next pending signal: its number and how it came about (`si_code`).
pub(crate) fn read(mut fd: &File) -> io::Result<Option<(i32, i32)>> {
    const LEN: usize = size_of::<libc::signalfd_siginfo>();
    let mut bytes = [0; LEN];
    match fd.read(&mut bytes) {
        Ok(LEN) => {}
        Ok(_) => return Ok(None),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            return Ok(None);
        }
        Err(e) => return Err(e),
    }
    // SAFETY: a full record of plain integers, for which every bit pattern is a value; read
    // unaligned, because a byte array promises no alignment.
    let info = unsafe {
        bytes
            .as_ptr()
            .cast::<libc::signalfd_siginfo>()
            .read_unaligned()
    };
    Ok(Some((info.ssi_signo.cast_signed(), info.ssi_code)))
}

/// Gives a signal its default action, and says whether it was ignored before.
pub(crate) fn set_default(signo: i32) -> io::Result<bool> {
    Ok(set_action(signo, libc::SIG_DFL)? == libc::SIG_IGN)
}

/// Ignores a signal; says whether it was ignored before.
pub(crate) fn ignore(signo: i32) -> io::Result<bool> {
    Ok(set_action(signo, libc::SIG_IGN)? == libc::SIG_IGN)
}

/// Sends a signal to this very process.
pub(crate) fn raise(signo: i32) -> io::Result<()> {
    // SAFETY: takes a number; no handler of ours exists that it could enter.
    if unsafe { libc::raise(signo) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sets SIG_DFL or SIG_IGN, and returns the earlier setting.
fn set_action(signo: i32, action: libc::sighandler_t) -> io::Result<libc::sighandler_t> {
    // SAFETY: private to this module, which passes SIG_DFL and SIG_IGN only: no code is installed.
    let old = unsafe { libc::signal(signo, action) };
    if old == libc::SIG_ERR {
        Err(io::Error::last_os_error())
    } else {
        Ok(old)
    }
}
