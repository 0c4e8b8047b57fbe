//! The users and groups of the host that exist inside, written by the parent (user_namespaces(7)).
//!
//! Invariants: no process inside gains a user or group of the host that mbuma itself does not have.
//! Locks: none.

use std::fs;
use std::io;
use std::ops::RangeInclusive;

use crate::sys::process::{self, Pid};

/// The bits of CAP_SETGID and CAP_SETUID in /proc/self/status (linux/capability.h).
const CAP_SET_IDS: u64 = 1 << 6 | 1 << 7;

/// Gives the user namespace of `child` its ids.
///
/// With the capabilities for it everything maps to itself, so that files keep their owners inside.
/// Otherwise one user and one group do: the caller's own, under their own numbers or as 0.
pub(crate) fn write(child: Pid, map_root: bool) -> io::Result<()> {
    let (uid, gid) = process::ids();
    let [uid_map, gid_map] = if may_map_all()? && (uid == 0 || !map_root) {
        [
            identity(&fs::read_to_string("/proc/self/uid_map")?),
            identity(&fs::read_to_string("/proc/self/gid_map")?),
        ]
    } else {
        // The kernel lets an ordinary user map a group only after setgroups(2) is denied inside.
        fs::write(format!("/proc/{}/setgroups", child.0), "deny")?;
        [single(uid, map_root), single(gid, map_root)]
    };
    fs::write(format!("/proc/{}/uid_map", child.0), uid_map)?;
    fs::write(format!("/proc/{}/gid_map", child.0), gid_map)
}

/// The range of groups around the caller's own that its user namespace knows, for sysctls that take one.
pub(crate) fn own_range() -> io::Result<Option<RangeInclusive<u32>>> {
    let (_, gid) = process::ids();
    Ok(range_around(
        &fs::read_to_string("/proc/self/gid_map")?,
        gid,
    ))
}

/// The number of `uid` of this process's user namespace in the namespace above; `uid` itself if that is not known.
pub(crate) fn outer_uid(uid: u32) -> u32 {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    outer(&map, uid).unwrap_or(uid)
}

/// The middle column's number for `id`.
fn outer(map: &str, id: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut columns = line.split_ascii_whitespace().map(str::parse::<u32>);
        let mut next = || columns.next()?.ok();
        let (inside, outside, count) = (next()?, next()?, next()?);
        let offset = id.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    })
}

/// Whether this process may map ids other than its own.
fn may_map_all() -> io::Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    Ok(effective.is_some_and(|caps| caps & CAP_SET_IDS == CAP_SET_IDS))
}

/// One id, under its own number or as root.
fn single(id: u32, map_root: bool) -> String {
    format!("{} {id} 1\n", if map_root { 0 } else { id })
}

/// A map of every id in `own_map` to itself. The middle column of ours is about our parent's ids,
/// which do not concern a namespace below.
fn identity(own_map: &str) -> String {
    extents(own_map)
        .map(|(start, count)| format!("{start} {start} {count}\n"))
        .collect()
}

/// The extent of `map` that has `id`.
fn range_around(map: &str, id: u32) -> Option<RangeInclusive<u32>> {
    extents(map)
        .map(|(start, count)| start..=start.saturating_add(count.saturating_sub(1)))
        .find(|range| range.contains(&id))
}

/// The inside of each line of a map: first id, and how many.
fn extents(map: &str) -> impl Iterator<Item = (u32, u32)> {
    map.lines().filter_map(|line| {
        let mut columns = line.split_ascii_whitespace().map(str::parse::<u32>);
        match (columns.next(), columns.next(), columns.next()) {
            (Some(Ok(inside)), Some(Ok(_)), Some(Ok(count))) => Some((inside, count)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests;
