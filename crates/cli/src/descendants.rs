//! The processes that COMMAND left behind, and their end.
//!
//! mbuma is the subreaper of all it starts: a process whose parent has ended becomes mbuma's child,
//! so that each descendant stays below mbuma in /proc until it ends.
//!
//! Called by: child. Calls: sys::process, /proc.
//! Invariants: children that mbuma had before it forked (a shell may exec into mbuma) are not touched.
//! Locks: none.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::sys::process::{self, Change, Pid, Pidfd};

/// Between SIGTERM and SIGKILL: time to remove a pid file, not to finish work.
const GRACE: Duration = Duration::from_millis(200);
/// How long SIGKILL may take to show before mbuma stops waiting: a process in the kernel's
/// uninterruptible sleep ends when its device lets it.
const KILL_WAIT_MAX: Duration = Duration::from_secs(2);
/// How often to look whether they have gone.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The children of this process.
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
    for (signo, patience) in [(libc::SIGTERM, GRACE), (libc::SIGKILL, KILL_WAIT_MAX)] {
        let until = Instant::now() + patience;
        let mut told = HashSet::new();
        loop {
            if !reap(&mut reaped) {
                return;
            }
            // Again each time: a process forks while it is told.
            let left = below(Pid::own(), spared, &parents());
            if left.is_empty() {
                return;
            }
            left.iter()
                .filter(|pid| told.insert(**pid))
                .for_each(|pid| signal(*pid, signo));
            if Instant::now() >= until {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
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

/// Signals the process that was below us a moment ago, if its number still means such a one.
fn signal(pid: Pid, signo: i32) {
    let Ok(pidfd) = Pidfd::open(pid) else { return };
    if below(Pid::own(), &[], &parents()).contains(&pid) {
        // A process that may not be signalled runs as somebody we cannot be; nothing is to be done.
        let _ = pidfd.signal(signo);
    }
}

/// The processes below `top`, without `spared` and what is below them.
fn below(top: Pid, spared: &[Pid], parents: &HashMap<Pid, Pid>) -> HashSet<Pid> {
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for (pid, parent) in parents {
            if (*parent == top || found.contains(parent)) && !spared.contains(pid) {
                found.insert(*pid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Every living process and its parent. Zombies are left out: they need reaping, not ending.
fn parents() -> HashMap<Pid, Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = Pid(entry.file_name().to_str()?.parse().ok()?);
            parent_in_stat(&fs::read_to_string(entry.path().join("stat")).ok()?)
                .map(|parent| (pid, parent))
        })
        .collect()
}

/// The parent's number in a /proc/PID/stat (proc_pid_stat(5)), unless it is a zombie's.
fn parent_in_stat(stat: &str) -> Option<Pid> {
    // The program's name comes second, in parentheses, and may itself hold spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut columns = after_name.split_ascii_whitespace();
    let state = columns.next()?;
    let parent = columns.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(Pid(parent))
}

#[cfg(test)]
mod tests;
