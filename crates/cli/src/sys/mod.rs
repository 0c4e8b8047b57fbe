//! Every system call that the standard library does not offer, each behind a function that is safe to call.
//!
//! Invariants: this is the only module of the crate with `unsafe`; every descriptor made here is close-on-exec, which
//! [`fd::inherit`] and [`fd::close_left_open`] rely on and which keeps COMMAND free of ours.
//! Locks: none. mbuma has one thread whenever it forks, and [`process::fork_into`] checks that.
//! Sources: the Linux manual pages named at each function.

pub(crate) mod bus_error;
#[cfg(debug_assertions)]
pub(crate) mod exploit;
pub(crate) mod fd;
pub(crate) mod heap;
pub(crate) mod if_inet6;
pub(crate) mod limits;
pub(crate) mod mount;
pub(crate) mod namespace;
pub(crate) mod netdev;
mod netlink;
pub(crate) mod pktinfo;
pub(crate) mod process;
pub(crate) mod routes;
pub(crate) mod scm;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) use kern::sys::tap;
pub(crate) mod timerfd;
pub(crate) mod train_socket;
pub(crate) mod unix;

use std::io;

/// Turns C's "-1 and errno" into a Result.
fn cvt(ret: libc::c_int) -> io::Result<libc::c_int> {
    if ret == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}

/// The same for calls made by number, whose results are descriptors or zero.
fn cvt_long(ret: libc::c_long) -> io::Result<libc::c_int> {
    cvt(libc::c_int::try_from(ret).unwrap_or(-1))
}
