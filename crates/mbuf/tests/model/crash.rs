//! If a broken list kills the process, it prints the seed of the sequence first.
//!
//! A panic is caught and has its hook; an access to memory that is not there, or a panic in a drop,
//! ends the process, and what the test had printed is lost with it. So the last word goes straight to
//! the standard error.
//!
//! Source: signal-safety(7).

use std::ffi::c_int;
use std::io::{self, Write};
use std::{mem, ptr};

use crate::run::running;

/// Makes the signals by which a bug ends a process print the seed first.
pub(crate) fn tell_seed() {
    if cfg!(miri) {
        return; // which has no signals, and tells more
    }
    // SAFETY: zeros are a valid value: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = last_word as extern "C" fn(c_int) as usize;
    // On the stack that the runtime keeps for this; and the second time it is not caught.
    action.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND;
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGABRT] {
        // SAFETY: the handler does what a handler may: it allocates nothing and takes no lock.
        let set = unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }
}

/// Returns to the code that raised the signal, which then ends the process.
extern "C" fn last_word(signal: c_int) {
    let mut text = [0; 200];
    let mut rest = &mut text[..];
    let room = rest.len();
    // No allocation: numbers are formatted on the stack. Text that does not fit is cut off.
    let _ = match running() {
        Some(seed) => writeln!(
            rest,
            "model: signal {signal} in sequence {seed}; to replay it: MBUF_MODEL_SEED={seed} cargo \
             test -p mbuma-mbuf --test model -- --nocapture"
        ),
        None => writeln!(rest, "model: signal {signal} outside of a sequence"),
    };
    let len = room - rest.len();
    // SAFETY: `len` bytes of the buffer are there.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), len) };
}
