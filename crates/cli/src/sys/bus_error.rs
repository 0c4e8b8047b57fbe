//! SIGBUS, where memory that a virtual machine shares was taken away: the process ends by it, and says so first.
//!
//! Invariants: the handler calls nothing but write(2), and runs once: the access that it returns to fails again.
//! Locks: none.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::cvt;

const MESSAGE: &[u8] = b"mbuma: a machine shared memory, and it was taken away (SIGBUS)\n";

/// Has the process say why it ends.
///
/// # Errors
/// None is known.
pub(crate) fn report() -> io::Result<()> {
    // SAFETY: zero is a value for each of its fields.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(libc::c_int) = say;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESETHAND;
    // SAFETY: the action is whole, and its handler is safe at any time: it calls write(2) alone.
    cvt(unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) })?;
    Ok(())
}

extern "C" fn say(_: libc::c_int) {
    // SAFETY: the bytes are a constant, and descriptor 2 may be anything.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
}
