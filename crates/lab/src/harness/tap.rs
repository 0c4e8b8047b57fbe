//! Making a TAP device, which no crate does without a system call of one's own.
//!
//! Invariant: the device belongs to the network namespace of the caller until it is moved, and lives as long as the
//! descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Makes a device called `name`; reads of it block.
pub(crate) fn make(name: &str) -> io::Result<OwnedFd> {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    // struct ifreq: the name, then the flags.
    let mut request = [0_u8; 40];
    let room = &mut request[..libc::IFNAMSIZ - 1];
    let bytes = name.as_bytes().get(..room.len()).unwrap_or(name.as_bytes());
    room[..bytes.len()].copy_from_slice(bytes);
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as u16;
    request[libc::IFNAMSIZ..libc::IFNAMSIZ + 2].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes one ifreq, which is 40 bytes.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) } {
        0 => Ok(file.into()),
        _ => Err(io::Error::last_os_error()),
    }
}
