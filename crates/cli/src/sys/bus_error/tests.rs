use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use super::*;

/// Set in the process that is to end: how.
const END: &str = "MBUMA_TEST_BUS_ERROR";

/// Runs this test once more, in a process that ends.
fn ended(test: &str, how: &str) -> Output {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "--nocapture", test]).env(END, how);
    command.output().expect("this program runs")
}

/// The end of such a process.
fn end(how: &str) {
    report().expect("a handler");
    let length = 4096;
    if how == "sent" {
        // SAFETY: it has no arguments but the signal.
        unsafe { libc::raise(libc::SIGBUS) };
    }
    // SAFETY: the name is a constant.
    let memory = cvt(unsafe { libc::memfd_create(c"gone".as_ptr(), 0) }).expect("a memfd");
    let (prot, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new mapping, which no other code uses.
    let at = unsafe { libc::mmap(ptr::null_mut(), length, prot, flags, memory, 0) };
    // SAFETY: none of the file's bytes is in memory: the access fails, as it is to.
    let _ = unsafe { at.cast::<u8>().read_volatile() };
}

#[test]
fn a_signal_that_was_sent_is_no_memory_that_was_taken() {
    // Breaks when `kill -BUS` is reported as a fault of a machine, or the process stays alive after it.
    let Ok(how) = std::env::var(END) else {
        let test = "sys::bus_error::tests::a_signal_that_was_sent_is_no_memory_that_was_taken";
        for (how, said) in [("sent", false), ("taken", true)] {
            let output = ended(test, how);
            assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(err.contains("it was taken away"), said, "{how}: {err}");
        }
        return;
    };
    end(&how);
}
