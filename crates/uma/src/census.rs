//! A census: which call sites hold the items of a zone, and since when.
//!
//! It is made from the samples that are live (see `sample.rs`): each stands for the items that
//! refills brought since the sample before it, so the estimate for a site is the sum of the weights
//! of its samples. If these sums exceed the live items (some of the items they stood for have been
//! freed since), all are scaled down alike; if they fall short, the rest is
//! [`unaccounted`](field@Census::unaccounted). With n samples of a site expect an error of about one part
//! in the square root of n.
//!
//! With the feature `invariants` every live item is known, and the census is exact.

use crate::sample::AllocSample;
use crate::zone_inner::ZoneInner;
use core::fmt::{self, Display};
use core::panic::Location;
use core::ptr::NonNull;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Which call sites hold how many items of a zone, from [`RawZone::census`](crate::RawZone::census). `Display` draws
/// a table; as JSON, times are in milliseconds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Census {
    /// The name of the zone.
    pub zone: &'static str,
    /// The sites that live items came from, the largest first.
    pub holders: Vec<Holder>,
    /// Live items with a record.
    pub sampled_live: usize,
    /// Live items.
    pub live: usize,
    /// Live items that no record stands for.
    pub unaccounted: usize,
    /// Whether all live items have a record: the feature `invariants`.
    pub exact: bool,
}

/// One call site, and the items that it took and that have not been freed.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// The call site of the allocations.
    #[serde(serialize_with = "place")]
    pub site: &'static Location<'static>,
    /// Live items from there with a record.
    pub sampled: usize,
    /// Live items from there, as estimated.
    pub items: usize,
    /// Their bytes.
    pub bytes: usize,
    /// For how long the oldest of the recorded ones has been live.
    #[serde(rename = "oldest_ms", serialize_with = "millis")]
    pub oldest: Duration,
    /// And the youngest.
    #[serde(rename = "youngest_ms", serialize_with = "millis")]
    pub youngest: Duration,
    /// The thread that took the oldest: its name, or its number.
    pub thread: String,
}

impl Census {
    pub(crate) fn of(inner: &ZoneInner) -> Self {
        let (records, exact) = inner.records();
        let live = inner.live();
        let mut census = Self {
            zone: inner.name,
            sampled_live: records.len(),
            live,
            unaccounted: 0,
            exact,
            holders: Vec::new(),
        };
        census.holders = census.holders_of(&records, inner.layout.pad_to_align().size());
        let held = census.holders.iter().map(|holder| holder.items).sum();
        census.unaccounted = live.saturating_sub(held);
        census
    }

    fn holders_of(&self, records: &[AllocSample], item_bytes: usize) -> Vec<Holder> {
        let mut by_site: HashMap<_, Vec<&AllocSample>> = HashMap::new();
        for record in records {
            let site = (record.site.file(), record.site.line(), record.site.column());
            by_site.entry(site).or_default().push(record);
        }
        let all: u64 = records.iter().map(|record| record.weight).sum();
        let scale = (self.live as f64 / all.max(1) as f64).min(1.0);
        let now = Instant::now();
        let mut holders: Vec<Holder> = by_site
            .into_values()
            .filter_map(|records| Holder::of(&records, now, scale, item_bytes))
            .collect();
        holders.sort_by_key(|holder| {
            let site = holder.site;
            (
                core::cmp::Reverse(holder.items),
                site.file(),
                site.line(),
                site.column(),
            )
        });
        holders
    }
}

impl Holder {
    /// The records are of one site.
    fn of(records: &[&AllocSample], now: Instant, scale: f64, item_bytes: usize) -> Option<Self> {
        let oldest = records.iter().min_by_key(|record| record.since)?;
        let youngest = records.iter().max_by_key(|record| record.since)?;
        let weight: u64 = records.iter().map(|record| record.weight).sum();
        let items = (weight as f64 * scale).round() as usize;
        Some(Self {
            site: oldest.site,
            sampled: records.len(),
            items,
            bytes: items * item_bytes,
            oldest: now.saturating_duration_since(oldest.since),
            youngest: now.saturating_duration_since(youngest.since),
            thread: match oldest.thread.name() {
                Some(name) => name.to_owned(),
                None => format!("{:?}", oldest.thread.id()),
            },
        })
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.exact { "" } else { ", by estimate" };
        writeln!(
            f,
            "zone '{}': {} live, {} of them recorded",
            self.zone, self.live, self.sampled_live
        )?;
        writeln!(
            f,
            "{:>10} {:>12} {:>8} {:>10} {:>10}  SITE (THREAD)",
            "ITEMS", "BYTES", "RECORDED", "OLDEST", "YOUNGEST"
        )?;
        for holder in &self.holders {
            writeln!(f, "{holder}")?;
        }
        write!(f, "{:>10} unaccounted for{about}", self.unaccounted)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>10} {:>12} {:>8} {:>9.1}s {:>9.1}s  {} ({})",
            self.items,
            self.bytes,
            self.sampled,
            self.oldest.as_secs_f64(),
            self.youngest.as_secs_f64(),
            self.site,
            self.thread
        )
    }
}

impl ZoneInner {
    /// The known live items, and whether that is all of them.
    #[cfg(not(feature = "invariants"))]
    fn records(&self) -> (Vec<AllocSample>, bool) {
        (self.keg.samples.of_zone(NonNull::from(self).cast()), false)
    }

    /// The known live items, and whether that is all of them.
    #[cfg(feature = "invariants")]
    fn records(&self) -> (Vec<AllocSample>, bool) {
        (self.keg.ledger.of_zone(NonNull::from(self)), true)
    }
}

fn place<S: Serializer>(site: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(site)
}

fn millis<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    time.as_millis().serialize(to)
}
