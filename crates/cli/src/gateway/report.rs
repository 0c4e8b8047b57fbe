//! The answers to `mbuma netstat`: sections in words, or as one JSON document.
//!
//! Invariants: an answer is bounded, because the rows of a listing are, and nothing else grows. Locks: those of the
//! parts, one after the other.

mod listing;
mod zones;

use std::fmt::Write;

use mbuf::PoolStats;
use mbuma::{StackStats, TcpStats, WorkStats};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::figures::{Counters, Figures, Fixed, Gauges};
use super::reclaim::ReclaimFigures;
use super::shared::Shared;
use super::template::size;
use super::udp::GuestFlows;
use super::watch;
use crate::netstat::instances;
use crate::netstat::request::{Request, Section};
use listing::Listing;
use zones::ZoneReport;

/// The parts with figures.
pub(super) struct View<'a> {
    pub(super) fixed: &'a Fixed,
    pub(super) shared: &'a Shared,
    /// The first worker's.
    pub(super) gauges: Gauges,
    pub(super) flows: &'a GuestFlows,
    pub(super) reclaim: ReclaimFigures,
}

/// The answer to a request.
pub(super) fn answer(view: &View<'_>, request: &Request) -> String {
    let sections = &request.sections;
    if request.json {
        let said = sections.iter().map(|s| (name(*s), view.json(*s)));
        let mut document = Map::from_iter([("pid".to_owned(), json!(instances::own_pid()))]);
        document.extend(said);
        if sections.contains(&Section::Zones) {
            document.insert("reclaim".to_owned(), value(&view.reclaim));
        }
        return Value::Object(document).to_string() + "\n";
    }
    let said: Vec<_> = sections.iter().map(|s| view.text(*s)).collect();
    said.join("\n")
}

impl View<'_> {
    fn text(&self, section: Section) -> String {
        match section {
            Section::Overview => overview(&self.figures()),
            Section::Connections => self.listing().to_string(),
            Section::Mbufs => self.stack().pool.to_string(),
            Section::Protocols => protocols(&self.stack(), &self.figures().counters),
            Section::Zones => self.zones().to_string(),
            Section::Interfaces => interfaces(&self.figures()),
            Section::Locks => watch::locks_text(),
        }
    }

    fn json(&self, section: Section) -> Value {
        match section {
            Section::Overview => value(&self.figures()),
            Section::Connections => value(&self.listing()),
            Section::Mbufs => mbufs_json(&self.stack().pool),
            Section::Protocols => protocols_json(&self.stack(), &self.figures().counters),
            Section::Zones => self.zones().to_json(),
            Section::Interfaces => value(&self.figures().interfaces),
            Section::Locks => locks_json(),
        }
    }

    fn figures(&self) -> Figures {
        self.shared.figures(self.fixed, self.gauges)
    }

    fn stack(&self) -> StackStats {
        self.shared.stack.stats()
    }

    fn zones(&self) -> ZoneReport {
        ZoneReport::of(self.shared.stack.pool(), self.reclaim)
    }

    fn listing(&self) -> Listing {
        Listing::of(&self.shared.stack, self.flows, self.shared.now())
    }
}

/// A few lines about everything.
fn overview(figures: &Figures) -> String {
    figures.fill(include_str!("templates/overview.txt"))
}

/// `netstat -s`.
fn protocols(stack: &StackStats, counters: &Counters) -> String {
    let TcpStats { connections, .. } = stack.tcp;
    let mut out = String::new();
    let mut group = |name: &str, lines: Vec<(String, u64)>| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name}:");
        for (what, n) in lines {
            let _ = writeln!(out, "{n:>16} {what}");
        }
    };
    let words = |name: &str| name.replace('_', " ");
    let mut tcp = vec![("connections now".to_owned(), connections as u64)];
    tcp.extend(
        stack
            .tcp
            .figures()
            .map(|(figure, n)| (words(figure.name), n)),
    );
    group(
        "packets",
        vec![
            ("received".to_owned(), stack.received),
            ("delivered".to_owned(), stack.delivered),
            (
                "dropped".to_owned(),
                stack.dropped.iter().map(|d| d.1).sum(),
            ),
        ],
    );
    group("tcp", tcp);
    let own = counters.samples().into_iter();
    let own = own.map(|sample| (words(&sample.name), sample.value as u64));
    group("gateway", own.collect());
    let drops = stack.dropped.iter();
    group(
        "dropped",
        drops.map(|(r, n)| (words(r.name()), *n)).collect(),
    );
    // One line a CPU and protocol that has had packets.
    for work in &stack.netisr {
        if work.direct + work.hybrid + work.queued > 0 {
            let _ = writeln!(out, "netisr {work}");
        }
    }
    out
}

fn protocols_json(stack: &StackStats, counters: &Counters) -> Value {
    let mut tcp: Map<_, _> = (stack.tcp.figures())
        .map(|(figure, n)| (figure.name.to_owned(), json!(n)))
        .collect();
    tcp.insert("connections".to_owned(), json!(stack.tcp.connections));
    let drops: Map<_, _> = (stack.dropped.iter())
        .map(|(reason, n)| (reason.name().to_owned(), json!(n)))
        .collect();
    json!({
        "packets": {"received": stack.received, "delivered": stack.delivered},
        "tcp": tcp,
        "gateway": counters,
        "drops": drops,
        "netisr": stack.netisr.iter().map(netisr_json).collect::<Vec<_>>(),
    })
}

fn netisr_json(work: &WorkStats) -> Value {
    json!({
        "cpu": work.cpu,
        "protocol": work.protocol.name(),
        "direct": work.direct,
        "hybrid": work.hybrid,
        "queued": work.queued,
        "moved": work.moved,
        "handled": work.handled,
        "dropped": work.dropped,
        "kicks": work.kicks,
        "waiting": work.waiting,
        "high_water": work.high_water,
    })
}

/// `netstat -i`.
fn interfaces(figures: &Figures) -> String {
    let mut out = format!(
        "{:<16} {:>6} {:>14} {:>10} {:>14} {:>14} {:>10}\n",
        "INTERFACE", "MTU", "FRAMES IN", "BYTES IN", "MERGED", "FRAMES OUT", "BYTES OUT"
    );
    for i in &figures.interfaces {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{:<16} {:>6} {:>14} {:>10} {:>14} {:>14} {:>10}",
            i.name,
            i.mtu,
            i.frames_in,
            size(i.bytes_in),
            i.frames_merged,
            i.frames_out,
            size(i.bytes_out)
        );
    }
    out
}

fn mbufs_json(pool: &PoolStats) -> Value {
    json!({
        "zones": pool.zones().collect::<Vec<_>>(),
        "clusters_cached_in_packets": pool.clusters_cached_in_packets,
        "bytes_used": pool.bytes_used(),
        "bytes_total": pool.bytes_total(),
        "calls": {
            "get": pool.calls.get,
            "getcl": pool.calls.getcl,
            "clget": pool.calls.clget,
            "pullup_copied": pool.calls.pullup_copied,
        },
        "bytes_copied": pool.bytes_copied,
        "pages_mapped": pool.pages_mapped,
        "pages_read": pool.pages_read,
    })
}

fn locks_json() -> Value {
    json!({
        "classes": kern::lock_stats(),
        "threads": kern::show_locks(),
        // Holders that no thread waits for, and exact acquisitions.
        "witness": kern::witness::ENABLED,
    })
}

/// A section's name in a document.
fn name(section: Section) -> String {
    value(&section).as_str().unwrap_or_default().to_owned()
}

/// Plain data as JSON.
fn value(data: &impl Serialize) -> Value {
    serde_json::to_value(data).unwrap_or_default()
}

#[cfg(test)]
mod tests;
