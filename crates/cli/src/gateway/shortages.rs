//! Lines on standard error about zones of the pool that come near their limits, reach them, or find no memory.
//!
//! The pool only counts: the thread whose allocation failed may hold locks of the stack. The first worker compares the
//! counts at its reclaim ticks, of which one follows within a window of any use of the pool.
//!
//! Invariants: a line names a zone and its shortage; each kind has the pause of [`notice`](super::notice).
//! Locks: none.

use mbuf::{MbufPool, NEAR_LIMIT_PERCENT, Shortage};
use uma::Holder;

use super::notice::{Lack, Subject};
use super::shared::Shared;
use crate::netstat::instances;

/// The counts at the worker's last check.
#[derive(Debug, Default)]
pub(super) struct ShortageWatch {
    seen: Vec<Shortage>,
}

impl ShortageWatch {
    /// Writes a line for each zone and kind of shortage that came up since the last call.
    pub(super) fn look(&mut self, shared: &mut Shared) {
        let now = shared.now();
        let pool = shared.stack.pool();
        for (zone, lack, times) in self.news(pool) {
            let line = || line(pool, zone, lack, times);
            shared.notices.say(now, Subject::Zone(zone, lack), line);
        }
    }

    /// The shortages since the last call, and how often each came up.
    fn news(&mut self, pool: &MbufPool) -> Vec<(&'static str, Lack, u64)> {
        let mut news = Vec::new();
        for (i, now) in pool.shortages().enumerate() {
            let none = Shortage {
                near_limit: 0,
                at_limit: 0,
                no_memory: 0,
                ..now
            };
            if i == self.seen.len() {
                self.seen.push(none);
            }
            let before = core::mem::replace(&mut self.seen[i], now);
            let grown = [
                (Lack::NearLimit, now.near_limit - before.near_limit),
                (Lack::AtLimit, now.at_limit - before.at_limit),
                (Lack::NoMemory, now.no_memory - before.no_memory),
            ];
            let grown = grown.into_iter().filter(|(_, times)| *times > 0);
            news.extend(grown.map(|(lack, times)| (now.zone, lack, times)));
        }
        news
    }
}

/// Writes the shortage, the amount in use now, and the line of the program that holds most.
fn line(pool: &MbufPool, zone: &str, lack: Lack, times: u64) -> String {
    let stats = pool.stats();
    // Packets are of the mbuf zone's slabs, and under its limit.
    let zones = || stats.zones().filter(|z| shares(z.name, zone));
    let used: usize = zones().map(|z| z.used).sum();
    let limit = zones().find_map(|z| z.limit).unwrap_or(usize::MAX);
    let what = match lack {
        Lack::NearLimit => format!("{NEAR_LIMIT_PERCENT} % of its limit were reached"),
        Lack::AtLimit => format!("its limit was reached, {times} allocations failed"),
        Lack::NoMemory => format!("the system had no memory, {times} allocations failed"),
    };
    let most = match most_of(pool, zone) {
        Some(holder) => format!("; about {} are from {}", holder.items, holder.site),
        None => String::new(),
    };
    let pid = instances::own_pid();
    format!(
        "buffers: zone {zone}: {what}; now {used} of {limit} are in use{most} (see `mbuma netstat -z {pid}`)"
    )
}

/// Whether a zone is under the limit that is named for `limited`.
fn shares(zone: &str, limited: &str) -> bool {
    zone == limited || (zone == "packet" && limited == "mbuf")
}

/// The site that holds most of a zone's items, if known.
fn most_of(pool: &MbufPool, zone: &str) -> Option<Holder> {
    let all = pool.census().into_iter().filter(|c| shares(c.zone, zone));
    let holders = all.flat_map(|census| census.holders);
    holders.max_by_key(|holder| holder.items)
}

#[cfg(test)]
mod tests;
