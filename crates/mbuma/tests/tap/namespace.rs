//! A network namespace of a test's own, with a TAP device in it whose other end is the test's.
//!
//! Needs /dev/net/tun and the right to make namespaces; if either is missing, a test reports that it was skipped, and
//! the file that MBUMA_SKIPS names counts it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use mbuma::device::tap::TapOptions;

/// Our address; the kernel's is 10.0.2.100.
pub(crate) const US: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// The same of IPv6; the kernel's is fd00::100.
pub(crate) const US6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
/// Set in the process that is inside of the namespace.
const INSIDE: &str = "MBUMA_TEST_INSIDE_NAMESPACE";

/// Runs the test `name` again, inside of a fresh network namespace, and there `body`.
pub(crate) fn in_namespace(name: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let ways: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    let works = |way: &&&[&str]| {
        let probe = Command::new("unshare")
            .args(**way)
            .args(["test", "-w", "/dev/net/tun"])
            .output();
        probe.is_ok_and(|out| out.status.success())
    };
    let Some(way) = ways.iter().find(works) else {
        return skipped(name, "no /dev/net/tun, or no right to make a namespace");
    };
    let exe = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command
        .args(*way)
        .arg(exe)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1");
    assert!(
        command.status().unwrap().success(),
        "{name}, inside of its namespace"
    );
}

/// Counts a test that this machine cannot run.
pub(crate) fn skipped(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    let Some(path) = std::env::var_os("MBUMA_SKIPS").filter(|path| !path.is_empty()) else {
        return;
    };
    let file = OpenOptions::new().create(true).append(true).open(path);
    // In one piece, because tests run side by side.
    file.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()))
        .expect("MBUMA_SKIPS can be appended to");
}

/// A TAP device of as many queues, each a descriptor, with or without offloads. The other end, the kernel's, has an
/// address.
pub(crate) fn make_taps(options: TapOptions, queues: usize) -> Vec<OwnedFd> {
    let taps: Vec<_> = (0..queues).map(|_| open(options, queues > 1)).collect();
    let mtu = options.mtu.to_string();
    ip(&["link", "set", "tap0", "mtu", &mtu]);
    ip(&["addr", "add", "10.0.2.100/24", "dev", "tap0"]);
    ip(&["link", "set", "tap0", "up"]);
    if std::path::Path::new("/proc/sys/net/ipv6").exists() {
        ip(&["addr", "add", "fd00::100/64", "dev", "tap0", "nodad"]);
    }
    taps
}

/// Runs ip(8).
pub(crate) fn ip(args: &[&str]) {
    let status = Command::new("ip").args(args).status().unwrap();
    assert!(status.success(), "ip {args:?}");
}

/// A descriptor of tap0, which the first of them makes.
fn open(options: TapOptions, one_of_many: bool) -> OwnedFd {
    let mut open = File::options();
    let file = open
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .unwrap();
    let flag = |wanted, flag| if wanted { flag } else { 0 };
    let mut request = [0_u8; 40]; // struct ifreq: name, then the flags
    request[..4].copy_from_slice(b"tap0");
    let flags = libc::IFF_TAP
        | libc::IFF_NO_PI
        | flag(options.offloads.vnet_hdr, libc::IFF_VNET_HDR)
        | flag(one_of_many, libc::IFF_MULTI_QUEUE);
    request[16..18].copy_from_slice(&(flags as u16).to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes one ifreq, which is 40 bytes long on 64-bit Linux.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, request.as_mut_ptr()) };
    assert_eq!(made, 0, "{}", io::Error::last_os_error());
    let mut offloads = 0;
    if options.offloads.csum {
        offloads |= libc::TUN_F_CSUM;
    }
    if options.offloads.tso4 {
        offloads |= libc::TUN_F_TSO4;
    }
    if options.offloads.tso6 {
        offloads |= libc::TUN_F_TSO6;
    }
    if options.offloads.uso {
        offloads |= libc::TUN_F_USO4 | libc::TUN_F_USO6;
    }
    // SAFETY: TUNSETOFFLOAD takes its bits by value and touches no memory.
    let set = unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(offloads),
        )
    };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
    file.into()
}
