//! Adapts a namespace of our own for programs: names, resolv.conf, sysctls, /sys/class/net.
//!
//! Locks: none.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::MountFlags;

use super::covered::Covered;
use super::files;
use super::own_files::OwnFile;
use crate::args::RunArgs;
use crate::errors::{Failure, SetupStep};
use crate::idmap;
use crate::sys::mount;
use crate::sys::namespace::{self, NamespaceKind};

/// The kernel's bound for ping_group_range (GID_T_MAX in net/ipv4/ping.h).
const PING_GID_MAX: u32 = u32::MAX >> 1;

/// Gives the guest the requested names. Returns the file that has them.
///
/// # Errors
/// It can't have them, and they were asked for.
pub(crate) fn name(args: &RunArgs) -> Result<Option<OwnFile>, Failure> {
    if let Some(name) = &args.hostname {
        let named = namespace::unshare(NamespaceKind::Hostname);
        let named = named.and_then(|()| namespace::set_hostname(name));
        named.map_err(Failure::at(SetupStep::Hostname))?;
    }
    files::own_hosts(args).map_err(Failure::at(SetupStep::Hosts))
}

/// Adapts a namespace of our own for programs. Returns its resolv.conf, and each failure.
pub(crate) fn furnish(args: &RunArgs) -> (Option<OwnFile>, Vec<Failure>) {
    let mut warnings = Vec::new();
    warnings.extend(
        loosen_sysctls()
            .map_err(Failure::at(SetupStep::Sysctls))
            .err(),
    );
    let resolves = files::own_resolv_conf(args);
    let resolves = resolves.map_err(Failure::at(SetupStep::ResolvConf));
    let resolv_conf = resolves.unwrap_or_else(|failure| {
        warnings.push(failure);
        None
    });
    // A container's /sys may be read-only or masked. Then it still shows the host's interfaces, as with most similar
    // tools; important programs ask the kernel instead.
    let _ = own_sys_class_net();
    (resolv_conf, warnings)
}

/// Lets programs without privileges ping, and listen on ports below 1024: the network is theirs.
fn loosen_sysctls() -> io::Result<()> {
    if let Some(gids) = idmap::own_range()? {
        let (first, last) = (
            gids.start().min(&PING_GID_MAX),
            gids.end().min(&PING_GID_MAX),
        );
        fs::write(
            "/proc/sys/net/ipv4/ping_group_range",
            format!("{first} {last}"),
        )?;
    }
    fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
}

/// Shows the guest's interfaces in /sys/class/net: sysfs shows those of the namespace of the process that mounted it.
///
/// Only the two directories concerned are replaced, because a whole new /sys would lack what is
/// mounted below the old one, cgroups above all.
fn own_sys_class_net() -> io::Result<()> {
    let sys = Path::new("/sys");
    let covered = Covered::hold(&[
        Path::new("/sys/class/net"),
        Path::new("/sys/devices/virtual/net"),
    ])?;
    // The kernel refuses a mount that is more writable than the one that it covers.
    mount::mount_new("sysfs", sys, mount::DATA_ONLY, "")
        .or_else(|_| mount::mount_new("sysfs", sys, mount::DATA_ONLY | MountFlags::RDONLY, ""))?;
    let placed = covered.rebind();
    mount::detach(sys).and(placed)
}
