//! TAP devices: a descriptor that is the other end of a network interface of the kernel's, for Ethernet frames.
//!
//! Invariants: the device belongs to the network namespace that the caller is in at [`open`], and the
//! descriptor keeps that namespace alive: a guest's last bytes can be delivered after its last process.
//!
//! Locks: none. Sources: open(2) of /dev/net/tun, its ioctls (linux/if_tun.h); netdevice(7).

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use serde::{Deserialize, Serialize};

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The device that makes TAP devices.
pub const DEV_NET_TUN: &str = "/dev/net/tun";

/// Work that the kernel may leave to the program, and the program to the kernel, in the header before each frame
/// (linux/if_tun.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloads {
    /// Each frame starts with a `virtio_net_hdr` of 10 bytes in the machine's byte order.
    pub vnet_hdr: bool,
    /// Checksums may be left to the receiver.
    pub csum: bool,
    /// TCP over IPv4 may come as one large segment.
    pub tso4: bool,
    /// TCP over IPv6 may come as one large segment.
    pub tso6: bool,
    /// A large segment may carry ECN's CWR, which belongs on its first part only.
    pub tso_ecn: bool,
    /// UDP over either may come as one large datagram to cut (Linux 6.2).
    pub uso: bool,
    /// TCP may go to the kernel in packets that are longer than the length in IP's header can say (BIG TCP, Linux 6.3).
    #[serde(default)]
    pub big_tcp: bool,
    /// Such a packet of IPv6 says its length in a jumbo payload option, which Linux asks for before 7.0 and then no
    /// longer needs.
    #[serde(default)]
    pub jumbo_option: bool,
}

impl Offloads {
    /// All that may be left undone in both directions.
    pub const ALL: Self = Self {
        vnet_hdr: true,
        csum: true,
        tso4: true,
        tso6: true,
        tso_ecn: true,
        uso: true,
        big_tcp: false,
        jumbo_option: false,
    };

    /// Bare frames.
    pub const NONE: Self = Self {
        vnet_hdr: false,
        ..Self::from_bits(0)
    };

    /// The names of the bits of TUNSETOFFLOAD.
    const fn from_bits(bits: libc::c_uint) -> Self {
        Self {
            vnet_hdr: true,
            csum: bits & libc::TUN_F_CSUM != 0,
            tso4: bits & libc::TUN_F_TSO4 != 0,
            tso6: bits & libc::TUN_F_TSO6 != 0,
            tso_ecn: bits & libc::TUN_F_TSO_ECN != 0,
            uso: bits & USO != 0,
            big_tcp: false,
            jumbo_option: false,
        }
    }
}

/// UDP segmentation, which the kernel takes for both families or not at all.
const USO: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// TCP segmentation with everything it stands on.
const TSO: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// The first Linux that takes IPv4 packets of more than 64 KiB from a device (`iph_totlen`). It takes those of IPv6 for
/// longer.
const BIG_TCP_SINCE: (u32, u32) = (6, 3);
/// The first Linux that takes such packets of IPv6 without a jumbo payload option (`ipv6_payload_len`). From then on it
/// no longer removes the option when it cuts a packet that it forwards.
const NO_JUMBO_OPTION_SINCE: (u32, u32) = (7, 0);

/// The sets to ask for, best first: a kernel refuses the whole set for one bit that it does not know.
const WISHES: [libc::c_uint; 4] = [
    TSO | USO,
    TSO,
    libc::TUN_F_CSUM | libc::TUN_F_TSO4,
    libc::TUN_F_CSUM,
];

/// Opens the TAP maker, in the caller's network namespace, without blocking reads.
///
/// # Errors
/// Those of open(2): the program may not (EACCES, EPERM), or there is none (ENOENT, ENXIO).
pub fn open() -> io::Result<OwnedFd> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(DEV_NET_TUN)?;
    Ok(file.into())
}

/// Makes a device called `name`, whose other end is `tap`, with `queues` queues, and returns the other end of each
/// queue. There are fewer queues if the kernel or a limit allows no more (Linux has several since 3.8).
///
/// The kernel hashes each flow, the same in both directions, and remembers the queue by which we last wrote a packet of
/// that flow: the kernel sends packets of that flow by the same queue. If we wrote none for three seconds, the hash
/// alone selects the queue (drivers/net/tun.c, `tun_automq_select_queue`).
///
/// # Errors
/// EBUSY when the namespace has an interface of that name, EINVAL for an impossible name.
pub fn create(tap: OwnedFd, name: &str, queues: usize) -> io::Result<Vec<OwnedFd>> {
    if queues > 1 {
        match attach(&tap, name, libc::IFF_MULTI_QUEUE | libc::IFF_TUN_EXCL) {
            Ok(()) => return Ok(add_queues(tap, name, queues)),
            // If the name is wrong, the attempt with one queue fails for the same reason.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
            Err(e) => return Err(e),
        }
    }
    attach(&tap, name, libc::IFF_TUN_EXCL)?;
    Ok(vec![tap])
}

/// Opens the existing device called `name`: with one queue if it was made for one, otherwise with up to `queues`. The
/// kernel shares a device that was made for several queues between all programs that open it, flow by flow.
///
/// # Errors
/// EPERM if the device, or making one, is not the program's; EBUSY if it has one queue and that is taken; EINVAL for an
/// impossible name, or an interface that is not a TAP.
pub fn adopt(tap: OwnedFd, name: &str, queues: usize) -> io::Result<Vec<OwnedFd>> {
    match attach(&tap, name, 0) {
        // The kernel refuses one queue on a device that was made for several.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            attach(&tap, name, libc::IFF_MULTI_QUEUE)?;
            Ok(add_queues(tap, name, queues))
        }
        attached => attached.map(|()| vec![tap]),
    }
}

/// Opens as many queues as there can be: each is a descriptor of its own, attached to the same device by name.
fn add_queues(first: OwnedFd, name: &str, queues: usize) -> Vec<OwnedFd> {
    let mut taps = vec![first];
    while taps.len() < queues {
        let added = open().and_then(|tap| attach(&tap, name, libc::IFF_MULTI_QUEUE).map(|()| tap));
        match added {
            Ok(tap) => taps.push(tap),
            Err(_) => break,
        }
    }
    taps
}

/// Makes `tap` the other end of a device called `name`, with these flags beside the usual ones.
fn attach(tap: &impl AsFd, name: &str, flags: libc::c_int) -> io::Result<()> {
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | flags;
    let mut req = request(name)?;
    // The flags fill sixteen bits and the field is signed: IFF_TUN_EXCL is its sign bit.
    req.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    cvt(unsafe { libc::ioctl(tap.as_fd().as_raw_fd(), libc::TUNSETIFF, &raw mut req) })?;
    Ok(())
}

/// Makes the device live as long as its namespace, and no longer only as long as `tap` and its other queues.
///
/// Taking a device down makes the closing process wait until every CPU has let go of it, some tens
/// of milliseconds; a namespace that ends is taken down by the kernel in its own time.
///
/// # Errors
/// Those of ioctl(2): it is no TAP.
pub fn leave_to_namespace(tap: &impl AsFd) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes a flag by value and touches no memory.
    let ret = unsafe {
        libc::ioctl(
            tap.as_fd().as_raw_fd(),
            libc::TUNSETPERSIST,
            1 as libc::c_ulong,
        )
    };
    cvt(ret).map(|_| ())
}

/// Asks for as many offloads as the kernel knows, or for none if they are not wanted. Returns those that the kernel
/// agreed to, for all queues of the device.
pub fn set_offloads(tap: &impl AsFd, wanted: bool) -> Offloads {
    let wishes = if wanted { &WISHES[..] } else { &[] };
    let agreed = wishes.iter().find(|wish| {
        // SAFETY: TUNSETOFFLOAD takes its bits by value and touches no memory.
        let ret = unsafe {
            libc::ioctl(
                tap.as_fd().as_raw_fd(),
                libc::TUNSETOFFLOAD,
                libc::c_ulong::from(**wish),
            )
        };
        ret == 0
    });
    let agreed = Offloads::from_bits(agreed.copied().unwrap_or(0));
    Offloads {
        big_tcp: agreed.tso4 && takes_big_tcp(),
        jumbo_option: wants_jumbo_option(),
        ..agreed
    }
}

/// Whether the kernel takes packets of TCP from a device that are longer than the length in IP's header can say.
pub fn takes_big_tcp() -> bool {
    release().is_some_and(|release| release >= BIG_TCP_SINCE)
}

/// Whether such a packet of IPv6 must say its length in a jumbo payload option.
pub fn wants_jumbo_option() -> bool {
    release().is_none_or(|release| release < NO_JUMBO_OPTION_SINCE)
}

/// The kernel's version and patch level.
fn release() -> Option<(u32, u32)> {
    // SAFETY: arrays of characters, for which zero is a value.
    let mut name: libc::utsname = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: uname writes one utsname.
    cvt(unsafe { libc::uname(&raw mut name) }).ok()?;
    let bytes = name.release.map(|c| c as u8);
    let text = CStr::from_bytes_until_nul(&bytes).ok()?;
    version_of(text.to_str().ok()?)
}

/// The first two numbers of a release: of `6.18.44-arch1`, 6 and 18.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// The MTU of an interface of the caller's network namespace.
///
/// # Errors
/// ENODEV if there is none called `name`.
pub fn mtu(name: &str) -> io::Result<u32> {
    // SAFETY: takes numbers and touches no memory.
    let fd = cvt(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just made this descriptor, and no other value owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut req = request(name)?;
    // SAFETY: SIOCGIFMTU reads and writes one ifreq.
    cvt(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut req) })?;
    // SAFETY: SIOCGIFMTU has written this member.
    Ok(unsafe { req.ifr_ifru.ifru_mtu } as u32)
}

/// A request about the interface called `name`, all else zero.
///
/// # Errors
/// EINVAL if the name is too long for the kernel, has a NUL, or is empty.
pub fn request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.bytes().any(|b| b == 0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: integers and pointers, for which zero is a value; all of the union, of which no member is as large.
    let mut req: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in req.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(req)
}

fn cvt(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}
