//! The cost of locks, class by class.
//!
//! ```text
//! class   rank  acquisitions  contended   sleeps  handed overtaken     waited    longest  held waiting
//! conn     400       1843200         12        3       0         1     41.2µs     17.0µs     0       0
//! ```
//!
//! Contended acquisitions are counted one by one; they are slow anyway. Uncontended ones must not
//! write to memory that threads share, so one in about 64 is counted, for 64. The distance is drawn
//! each time: a path that takes its locks always in the same order would otherwise show always the
//! same one. Builds with WITNESS count all.
//!
//! Locks: those of the registries, one after the other.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use serde::Serialize;

use super::{ShowLocks, show_locks};
use crate::json;
use crate::lock::{LockClass, Registry};

/// The statistics of all classes that were ever counted, in the order of their ranks.
#[doc(alias = "lockstat")]
#[doc(alias = "lock_profiling")]
#[must_use]
pub fn lock_stats() -> LockStats {
    let shown = show_locks();
    let mut classes: Vec<_> = Registry::classes()
        .into_iter()
        .map(|class| ClassStats::of(class, &shown))
        .collect();
    classes.sort_by_key(|class| (class.rank.unwrap_or(u16::MAX), class.name));
    LockStats { classes }
}

/// The cost of the locks of one class. Counted since the process began; they wrap with 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class.
    #[serde(rename = "class")]
    pub name: &'static str,
    /// Its place in [`order`](crate::order), if that is declared.
    pub rank: Option<u16>,
    /// How often one was taken or tried: an estimate, but exact with WITNESS.
    pub acquisitions: u64,
    /// How often one was not free. Exact, as is the rest.
    pub contended: u64,
    /// How often a thread slept for one.
    pub sleeps: u64,
    /// How often one was handed to a thread that had been overtaken too often.
    pub handoffs: u64,
    /// How often a thread was woken and found the lock taken again, in the worst wait.
    pub overtaken_max: u64,
    /// Time waited, spinning and asleep.
    #[serde(rename = "waited_ns", serialize_with = "json::nanos")]
    pub waited: Duration,
    /// The longest wait.
    #[serde(rename = "waited_max_ns", serialize_with = "json::nanos")]
    pub waited_max: Duration,
    /// Locks held now; without WITNESS, only the locks that threads wait for.
    pub holders: usize,
    /// How many threads sleep for one right now.
    pub waiters: usize,
}

impl ClassStats {
    fn of(class: &'static LockClass, shown: &ShowLocks) -> Self {
        let counters = &class.counters;
        let threads = || shown.threads.iter();
        let this = |other: &LockClass| core::ptr::eq(class, other);
        Self {
            name: class.name,
            rank: class.is_ranked().then_some(class.rank),
            acquisitions: counters.acquisitions.get(),
            contended: counters.contended.load(Relaxed),
            sleeps: counters.sleeps.load(Relaxed),
            handoffs: counters.handoffs.load(Relaxed),
            overtaken_max: counters.overtaken_max.load(Relaxed),
            waited: Duration::from_nanos(counters.waited.load(Relaxed)),
            waited_max: Duration::from_nanos(counters.waited_max.load(Relaxed)),
            holders: threads()
                .flat_map(|thread| &thread.holds)
                .filter(|held| this(held.class))
                .count(),
            waiters: threads()
                .filter_map(|thread| thread.waits.as_ref())
                .filter(|waits| this(waits.class))
                .count(),
        }
    }
}

/// A table of classes; its text is the table above, one line a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
#[non_exhaustive]
pub struct LockStats {
    /// In the order of their ranks; those without come last.
    pub classes: Vec<ClassStats>,
}

impl LockStats {
    /// The class called `name`.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&ClassStats> {
        self.classes.iter().find(|class| class.name == name)
    }
}

/// A duration as a table shows it, such as `1.5ms`.
pub fn duration_text(duration: Duration) -> String {
    match duration {
        Duration::ZERO => "0s".to_owned(),
        some => format!("{some:.1?}"),
    }
}

impl fmt::Display for LockStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.classes.iter().map(|class| class.name.chars().count());
        let width = names.max().unwrap_or(0).max(5);
        writeln!(
            f,
            "{:width$} {:>5} {:>13} {:>10} {:>8} {:>7} {:>9} {:>10} {:>10} {:>5} {:>7}",
            "class",
            "rank",
            "acquisitions",
            "contended",
            "sleeps",
            "handed",
            "overtaken",
            "waited",
            "longest",
            "held",
            "waiting"
        )?;
        for class in &self.classes {
            let rank = class
                .rank
                .map_or_else(|| "-".into(), |rank| rank.to_string());
            writeln!(
                f,
                "{:width$} {:>5} {:>13} {:>10} {:>8} {:>7} {:>9} {:>10} {:>10} {:>5} {:>7}",
                class.name,
                rank,
                class.acquisitions,
                class.contended,
                class.sleeps,
                class.handoffs,
                class.overtaken_max,
                duration_text(class.waited),
                duration_text(class.waited_max),
                class.holders,
                class.waiters
            )?;
        }
        Ok(())
    }
}
