//! Limits of this process.
//!
//! Invariants: set after the fork that leads to COMMAND, which keeps the limits that mbuma was given.
//! Locks: none.

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Allows as many descriptors as the hard limit does: each connection takes one.
pub(crate) fn raise_descriptors() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// The limit on descriptors.
pub(crate) fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX))
}
