//! Landlock: no file by name but below a served directory, and that only to be read; no TCP port to listen on, no
//! signal and no abstract UNIX-domain address outside.
//!
//! Locks: none.
//! Sources: landlock(7); ABI 1 (files) is of Linux 5.13, 4 (ports) of 6.7, 6 (signals) of 6.12.

use std::io;
use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// The newest that the crate's sets are taken from.
const NEWEST: ABI = ABI::V6;

/// Forbids all of it, as far as the kernel can. `binds`: sockets may be bound to an address, with a port of the
/// kernel's choice. `served`: a directory below which files may be read.
///
/// # Errors
/// The kernel has no Landlock, or it is not switched on.
pub(super) fn enter(binds: bool, served: Option<BorrowedFd<'_>>) -> io::Result<()> {
    match restrict(binds, served).map_err(io::Error::other)? {
        RulesetStatus::NotEnforced => Err(io::Error::other("not in this kernel")),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// A handled access is denied, unless a rule follows.
fn restrict(binds: bool, served: Option<BorrowedFd<'_>>) -> Result<RulesetStatus, RulesetError> {
    let rules = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(NEWEST))?;
    let any_port = NetPort::new(0, AccessNet::BindTcp);
    let rules = match binds {
        true => rules.create()?.add_rule(any_port)?,
        false => rules.create()?,
    };
    let to_read = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = match served {
        Some(directory) => rules.add_rule(PathBeneath::new(directory, to_read))?,
        None => rules,
    };
    Ok(rules.restrict_self()?.ruleset)
}
