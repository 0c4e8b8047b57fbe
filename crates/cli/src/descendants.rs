//! The processes that COMMAND left behind, and their end.
//!
//! The calling process must be the subreaper of all that it started: a process whose parent has ended becomes the
//! caller's child, so each descendant stays below the caller in /proc until it ends.
//!
//! 1. SIGTERM to all of them, parents before their children, then a grace period. A parent that sees its child end
//!    first may take that for the end of its work, or start another child.
//! 2. SIGKILL from the top down: to every child, then to the processes that become children by that, until there is
//!    none. A child that has not been reaped keeps its process number, so no other process can be hit; and a parent
//!    that ends before its children cannot start them again.
//!
//! Invariants: children that mbuma had before it forked (a shell may exec into mbuma) are not touched.
//! Locks: none.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::iter;
use std::thread;
use std::time::{Duration, Instant};

use crate::sys::process::{self, Change, Pid, Pidfd};

/// The time between SIGTERM and SIGKILL: enough to remove a pid file, not to finish work.
const GRACE: Duration = Duration::from_millis(200);
/// The interval at which to check, meanwhile, whether they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The first interval at which to check for processes that remain after SIGKILL. It is short, because each generation
/// takes one check.
const LOOK_SOON: Duration = Duration::from_micros(100);
/// The last, longest interval: a process in the kernel's uninterruptible sleep ends only when its device responds.
const LOOK_SELDOM: Duration = Duration::from_millis(50);
/// How long the caller waits for SIGKILL to take effect.
const KILL_WAIT_MAX: Duration = Duration::from_secs(2);
/// The longest time that [`end_all`] takes, but for reading /proc once.
pub(crate) const END_MAX: Duration = GRACE.saturating_add(KILL_WAIT_MAX);

/// The children of this process, as /proc lists them: none that lives throughout is missed.
pub(crate) fn children() -> Vec<Pid> {
    let own = Pid::own();
    parents()
        .into_iter()
        .filter(|(_, parent)| *parent == own)
        .map(|(pid, _)| pid)
        .collect()
}

/// Ends all descendants but `spared` and theirs, and hands each reaped child to `reaped`.
pub(crate) fn end_all(spared: &[Pid], mut reaped: impl FnMut(Pid, Change)) {
    if ask_all(spared, &mut reaped) {
        kill_all(spared, Some(KILL_WAIT_MAX), &mut reaped);
    }
}

/// Sends SIGTERM to all descendants but `spared` and theirs. Returns true if some are left after the grace period.
fn ask_all(spared: &[Pid], reaped: &mut impl FnMut(Pid, Change)) -> bool {
    let mut told = HashSet::new();
    let mut until = None;
    while reap(reaped) {
        // Read again each time, because processes fork meanwhile.
        let left = below(Pid::own(), spared, &parents());
        if left.is_empty() {
            return false;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return true;
        }
        left.iter()
            .filter(|pid| told.insert(**pid))
            .for_each(|pid| ask(*pid));
        // The time counts from here: on a busy machine, reading /proc once may take longer than the grace period.
        until.get_or_insert_with(|| Instant::now() + GRACE);
        thread::sleep(LOOK_EVERY);
    }
    false
}

/// Kills all descendants but `spared` and theirs, until none is left or `patience` is over.
pub(crate) fn kill_all(
    spared: &[Pid],
    patience: Option<Duration>,
    mut reaped: impl FnMut(Pid, Change),
) {
    let begun = Instant::now();
    let mut pause = LOOK_SOON;
    loop {
        let mut news = false;
        let some_left = reap(&mut |pid, change| {
            news = true;
            reaped(pid, change);
        });
        // If some are spared there are always children, and /proc shows whether there are others.
        let left =
            some_left && (spared.is_empty() || children().iter().any(|c| !spared.contains(c)));
        if !left || patience.is_some_and(|max| begun.elapsed() >= max) {
            return;
        }
        kill_children(spared);
        pause = if news {
            LOOK_SOON
        } else {
            LOOK_SELDOM.min(pause * 2)
        };
        thread::sleep(pause);
    }
}

/// Kills every child but `spared`.
fn kill_children(spared: &[Pid]) {
    // The kernel's own list is by far the quicker one, and may miss a child while others end: the caller calls this
    // again.
    let listed = process::listed_children().unwrap_or_else(|_| children());
    for pid in listed.into_iter().filter(|pid| !spared.contains(pid)) {
        // It is our child until we reap it, so the number is its own. A child to which this process must not send
        // signals, because it runs as another user, is not ended.
        let _ = Pidfd::open(pid).and_then(|child| child.signal(libc::SIGKILL));
    }
}

/// Reaps every child that has ended; false when no child is left at all.
fn reap(reaped: &mut impl FnMut(Pid, Change)) -> bool {
    loop {
        match process::wait() {
            Ok(Some((pid, change))) => reaped(pid, change),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Sends SIGTERM to a process that was a descendant when /proc was read, if its number still belongs to a descendant.
fn ask(pid: Pid) {
    let Ok(pidfd) = Pidfd::open(pid) else { return };
    let own = Pid::own();
    let mut above = iter::successors(parent(pid), |pid| parent(*pid));
    if above.any(|pid| pid == own) {
        let _ = pidfd.signal(libc::SIGTERM);
    }
}

/// The processes below `top`, without `spared` and their descendants; each comes behind its parent.
fn below(top: Pid, spared: &[Pid], parents: &HashMap<Pid, Pid>) -> Vec<Pid> {
    let (mut found, mut generation) = (Vec::new(), HashSet::from([top]));
    while !generation.is_empty() {
        let next = parents.iter().filter(|(pid, parent)| {
            // The numbers were read one after the other: one that was reused meanwhile may make a circle.
            generation.contains(parent) && !spared.contains(pid) && !found.contains(*pid)
        });
        generation = next.map(|(pid, _)| *pid).collect();
        found.extend(&generation);
    }
    found
}

/// Every living process and its parent. Zombies are left out: they need reaping, not ending.
fn parents() -> HashMap<Pid, Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = Pid(entry.file_name().to_str()?.parse().ok()?);
            Some((pid, parent(pid)?))
        })
        .collect()
}

/// Whether a process is stopped right now.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    let stat = stat(pid);
    let columns = stat.as_deref().and_then(state_and_parent);
    columns.is_some_and(|(state, _)| state == "T")
}

/// The parent of a living process.
fn parent(pid: Pid) -> Option<Pid> {
    living_parent(&stat(pid)?)
}

/// A process's line in /proc/PID/stat.
fn stat(pid: Pid) -> Option<String> {
    fs::read_to_string(format!("/proc/{}/stat", pid.0)).ok()
}

/// The parent's number in a /proc/PID/stat, unless it is a zombie's.
fn living_parent(stat: &str) -> Option<Pid> {
    let (state, parent) = state_and_parent(stat)?;
    (state != "Z" && state != "X").then_some(parent)
}

/// The third and fourth column of a /proc/PID/stat (proc_pid_stat(5)).
fn state_and_parent(stat: &str) -> Option<(&str, Pid)> {
    // The program's name comes second, in parentheses, and may itself hold spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut columns = after_name.split_ascii_whitespace();
    Some((columns.next()?, Pid(columns.next()?.parse().ok()?)))
}

#[cfg(test)]
mod tests;
