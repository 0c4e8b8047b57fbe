//! SIGBUS, after a virtual machine took back memory that it shared: the process ends by it, and reports that first.
//!
//! The signal has a cause: the kernel says `BUS_ADRERR` for an access to memory that a mapping no longer has. With any
//! other one, a program that sent the signal among them, nothing is said, and the process ends as it would without a
//! handler.
//!
//! Invariants: the handler calls nothing but write(2) and tgkill(2), and runs once: the access that it returns to fails
//! again.
//! Locks: none.
//! Sources: sigaction(2).

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::cvt;

const MESSAGE: &[u8] = b"mbuma: a machine shared memory, and it was taken away (SIGBUS)\n";

/// Lets the process report why it ends.
///
/// # Errors
/// None is known.
pub(crate) fn report() -> io::Result<()> {
    // SAFETY: zero is a value for each of its fields.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(_, _, _) = say;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESETHAND | libc::SA_SIGINFO;
    // SAFETY: the action is whole, and its handler is safe at any time: see `say`.
    cvt(unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) })?;
    Ok(())
}

extern "C" fn say(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes one siginfo, which stays as long as the handler runs.
    let code = unsafe { (*info).si_code };
    if code == libc::BUS_ADRERR {
        // SAFETY: the bytes are a constant, and descriptor 2 may be anything.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
        return;
    }
    // No access fails again that the process would end by. The signal is held back until the handler returns, and then
    // has its default action. SAFETY: raise is safe in a handler (signal-safety(7)).
    let _ = unsafe { libc::raise(signal) };
}
