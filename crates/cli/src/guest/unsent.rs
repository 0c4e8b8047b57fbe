//! The bytes that a socket of the guest takes from its program before they can be sent.
//!
//! The kernel sizes a send buffer by the segment size: with the segments of a TAP it has 2.6 MiB or more from the
//! start. It wakes the program when a third of that is free, while at most 256 KiB are under way to the stack
//! (`RECV_BUFFER` in `gateway/allowance.rs`). So a program that uploads writes more than a megabyte at once, and the
//! other programs of its CPU wait meanwhile. Measured on two CPUs: the p99 of a small request beside an upload was 219
//! us, and is 89 us with this bound; with twice as much it was 142 us, with half as much 94 us. Uploads move as many
//! bytes with it as without it, for up to 14 per cent more CPU time of the gateway, whose acknowledgements wake the
//! program more often.
//!
//! Locks: none.
//! Sources: tcp_notsent_lowat in ip-sysctl.rst of the kernel; TCP_NOTSENT_LOWAT in tcp(7).

use std::fs;
use std::io;

/// Unsent bytes from which on a socket takes no more. It wakes its program when half of them are left, with a whole
/// window of the stack under way before them.
const UNSENT_MAX: u32 = 256 << 10;
/// The kernel's default: no bound.
const UNBOUNDED: u32 = u32::MAX;
const PATH: &str = "/proc/sys/net/ipv4/tcp_notsent_lowat";

/// Bounds the unsent bytes of the namespace's sockets, of both versions of IP, unless its owner has chosen a bound. A
/// program may choose another for its socket.
///
/// The setting saves time, and is not required: /proc/sys may be read-only.
pub(super) fn bound() {
    let _ = try_bound();
}

fn try_bound() -> io::Result<()> {
    let present = fs::read_to_string(PATH)?;
    match present.trim().parse() {
        Ok(UNBOUNDED) => fs::write(PATH, UNSENT_MAX.to_string()),
        _ => Ok(()),
    }
}
