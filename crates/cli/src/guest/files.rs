//! Files about names, for programs in the guest.
//!
//! Invariants: the host's files stay as they are: ours are mounted over them, in the guest's mount namespace, and stay
//! there ([`own_files`](super::own_files)).
//! Locks: none.
//! Sources: resolv.conf(5), hosts(5).

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use super::covered::Covered;
use super::own_files::{OwnFile, second_mount};
use crate::args::RunArgs;
use crate::file_watch::WatchedFile;
use crate::sys::mount;

/// Bytes of a tmpfs beside those of its file.
const ROOM: usize = 1 << 20;

/// Installs our name server, and the requested hosts.
pub(super) fn own_resolv_conf(args: &RunArgs) -> io::Result<Option<OwnFile>> {
    if args.net.no_dns {
        return Ok(None);
    }
    let v6 = args.net.v6().and_then(|v6| v6.dns).map(IpAddr::from);
    let v4 = args.net.v4().map(|v4| v4.dns.into());
    // One server only: of several, some C libraries ask all at once, and others wait for each.
    let Some(dns) = v4.or(v6) else {
        return Ok(None);
    };
    own(Path::new("/etc/resolv.conf"), |host| {
        resolv_conf(dns, &args.search, host)
    })
}

/// Names the requested hosts, and the guest itself if it has a name of its own.
pub(super) fn own_hosts(args: &RunArgs) -> io::Result<Option<OwnFile>> {
    let (v4, v6) = (args.net.v4(), args.net.v6());
    let addrs: [Option<IpAddr>; 2] = [v4.map(|v4| v4.guest.into()), v6.map(|v6| v6.guest.into())];
    let gateway = v4.map(|v4| v4.gateway.into());
    let gateway: Option<IpAddr> = gateway.or(v6.map(|v6| v6.gateway.into()));
    let mut named = Vec::new();
    if let Some(name) = &args.hostname {
        named.extend(
            addrs
                .into_iter()
                .flatten()
                .map(|addr| (addr, name.as_str())),
        );
    }
    for host in &args.add_host {
        named.extend(host.addr(gateway).map(|addr| (addr, host.name.as_str())));
    }
    let path = Path::new("/etc/hosts");
    // A system without that file names nothing.
    match named.is_empty() || !path.exists() {
        true => Ok(None),
        false => own(path, |host| hosts(&named, host)),
    }
}

/// Mounts a text that is made from the host's over the file at `path`, which must exist.
///
/// Covers the directory of the real file with a small tmpfs, writes ours there, binds it over the real
/// file, which is still reachable by descriptor, and takes the tmpfs away again. COMMAND does not run yet.
///
/// Returns the file to be kept there; `None` if the kernel has no detached mounts (before Linux 5.2).
fn own(name: &Path, text: impl FnOnce(&str) -> String) -> io::Result<Option<OwnFile>> {
    let path = fs::canonicalize(name)?;
    let host = WatchedFile::of(name);
    // A comment may be in any encoding.
    let text = text(&String::from_utf8_lossy(&fs::read(&path)?));
    let directory = path.parent().ok_or(io::ErrorKind::NotADirectory)?;
    let covered = Covered::hold(&[&path])?;
    // Lists of addresses to refuse make it long.
    let size = format!("mode=0755,size={}", text.len() + ROOM);
    mount::mount_new("tmpfs", directory, mount::DATA_ONLY, &size)?;
    let placed = fs::write(&path, text).and_then(|()| covered.rebind());
    mount::detach(directory).and(placed)?;
    let kept = second_mount(&path).map(|mount| OwnFile { host, mount });
    Ok(kept.ok())
}

/// Our name server, and the host's options about names; `search` replaces the host's domains.
fn resolv_conf(dns: IpAddr, search: &[String], host: &str) -> String {
    let kept = |line: &&str| match line.split_ascii_whitespace().next() {
        Some("search" | "domain") => search.is_empty(),
        Some("options") => true,
        _ => false,
    };
    let mut text = format!("nameserver {dns}\n");
    if !search.is_empty() {
        text += &format!("search {}\n", search.join(" "));
    }
    host.lines()
        .filter(kept)
        .fold(text, |text, line| text + line + "\n")
}

/// Ours first, since the first line with a name counts.
fn hosts(named: &[(IpAddr, &str)], host: &str) -> String {
    let ours: String = named
        .iter()
        .map(|(addr, name)| format!("{addr}\t{name}\n"))
        .collect();
    ours + host
}

#[cfg(test)]
mod tests;
