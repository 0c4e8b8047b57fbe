//! User, groups, capabilities, and whether the process can gain or show any.
//!
//! Locks: none.
//! Sources: capabilities(7), "Effect of user ID changes on capabilities".

use std::io;

use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use crate::sys::process;

/// The user and group that own nothing on any system.
const NOBODY: u32 = 65534;
/// No capability has a larger number: the kernel's sets have 64 bits.
const CAPABILITIES_MAX: u32 = 64;

/// Whether this process has a capability now.
pub(super) fn has(capability: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}

/// Gives up root's number and every capability, for good: the result of each.
pub(super) fn give_up() -> [io::Result<()>; 2] {
    let nothing = CapabilitySet::empty();
    // This must come before the capability that it needs is given up.
    bound(nothing);
    let user = match process::ids().0 {
        0 => become_nobody(),
        _ => Ok(()),
    };
    // This and the next come after the change of user, which undoes them (prctl(2)).
    [
        user,
        keep_only(nothing).and_then(|()| process::die_with_parent()),
    ]
}

/// Whether user 0 is root of the whole system here, and not an ordinary user's number.
pub(super) fn maps_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Gives up all capabilities but these, and the means to get new ones.
pub(super) fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    bound(kept);
    clear_ambient_capability_set()?;
    let kept = kept & capabilities(None)?.permitted;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    set_no_new_privs(true)?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Leaves `kept` in the set that bounds what an executed program could gain. It takes CAP_SETPCAP; without it, no
/// program can gain anything either once NO_NEW_PRIVS is set.
fn bound(kept: CapabilitySet) {
    for number in 0..CAPABILITIES_MAX {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if !kept.contains(capability) && remove_capability_from_bounding_set(capability).is_err() {
            return;
        }
    }
}

/// Becomes `nobody`, without groups. A user namespace may map no such user, or forbid to change groups: root is an
/// ordinary user there.
fn become_nobody() -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    // Each of them also where another one is refused.
    let groups = set_thread_groups(&[]);
    let group = set_thread_res_gid(gid, gid, gid);
    let user = set_thread_res_uid(uid, uid, uid);
    Ok(groups.and(group).and(user)?)
}
