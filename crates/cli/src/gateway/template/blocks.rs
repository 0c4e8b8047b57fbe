//! Blocks of a template: lines of text or rows of HTML, as many as there are things to show.

use std::fmt::Write;

use super::size;
use crate::gateway::figures::{Drop, Figures, Interface, LinkFigures, ZoneFigures};

/// The block of that name; `None` for an unknown name.
pub(super) fn named(figures: &Figures, name: &str) -> Option<String> {
    Some(match name {
        "giant" => giant_words(figures),
        "drop_rows" => drop_rows(figures),
        "zone_rows" => figures.zones.iter().map(zone_row).collect(),
        "published_lines" => published_lines(figures),
        "link_lines" => figures.links.iter().map(link_line).collect(),
        "worker_lines" => worker_lines(figures),
        "exhausted_line" => exhausted_line(figures),
        "giant_line" => giant_line(figures),
        "interface_lines" => figures.interfaces.iter().map(interface_lines).collect(),
        "drop_lines" => figures.drops.iter().map(drop_line).collect(),
        "pool_lines" => figures.pool.to_string(),
        _ => return None,
    })
}

fn giant_words(figures: &Figures) -> String {
    let components = figures.giant.components.iter();
    let under = components.filter(|c| !c.mp_safe).count();
    match (figures.giant.over_all, under) {
        (true, _) => "the whole stack".to_owned(),
        (false, 0) => "nothing".to_owned(),
        (false, n) => format!("{n} components"),
    }
}

fn drop_rows(figures: &Figures) -> String {
    let row = |d: &Drop| {
        let reason = d.reason.replace('_', " ");
        format!("<tr><th>{reason}</th><td>{}</td></tr>\n", d.packets)
    };
    match figures.drops.is_empty() {
        true => "<tr><th>none</th><td>0</td></tr>\n".to_owned(),
        false => figures.drops.iter().map(row).collect(),
    }
}

fn zone_row(z: &ZoneFigures) -> String {
    let memory = size(z.bytes as u64);
    format!(
        "<tr><th>{}</th><td>{}</td><td>{}</td><td>{memory}</td><td>{}</td></tr>\n",
        z.name, z.used, z.free, z.failures
    )
}

fn published_lines(figures: &Figures) -> String {
    let ports = figures.published.iter();
    let published = ports.map(|port| format!("published: {port}\n"));
    let outward = figures.outward.iter();
    let outward = outward.map(|port| format!("outward: {port}\n"));
    published.chain(outward).collect()
}

/// The settings of the bad link before the guest, and its figures.
fn link_line(link: &LinkFigures) -> String {
    let faults = link.faults().filter(|(_, n)| *n > 0);
    let faults = faults.map(|(event, n)| format!(", {n} {}", event.replace('_', " ")));
    format!(
        "link {}: {}: {} packets{}\n",
        link.direction,
        link.config,
        link.counts.sent,
        faults.collect::<String>()
    )
}

/// The traffic of each worker, if there are several or fewer than asked for.
fn worker_lines(figures: &Figures) -> String {
    let (workers, asked) = (&figures.workers, figures.workers_asked);
    let mut out = String::new();
    // Writing to a string cannot fail.
    if workers.len() < asked {
        let n = workers.len();
        let _ = writeln!(
            out,
            "workers: {n} of {asked}: the kernel gave the interface no more queues"
        );
    }
    if workers.len() < 2 {
        return out;
    }
    let moved = figures.counters.connections_moved;
    if moved > 0 {
        let _ = writeln!(out, "moved on to a worker with less to do: {moved} times");
    }
    for (n, load) in workers.iter().enumerate() {
        let (up, down) = (size(load.bytes_up), size(load.bytes_down));
        let connections = load.connections;
        let _ = writeln!(
            out,
            "worker {n}: {connections} connections, {up} guest to host, {down} host to guest"
        );
    }
    out
}

fn exhausted_line(figures: &Figures) -> String {
    match figures.counters.descriptors_exhausted {
        0 => String::new(),
        n => format!("out of descriptors: {n} times (`ulimit -Hn` is the limit)\n"),
    }
}

fn giant_line(figures: &Figures) -> String {
    match figures.giant.is_used() {
        true => format!("Giant: {}\n", figures.giant),
        false => String::new(),
    }
}

fn interface_lines(i: &Interface) -> String {
    let (bytes_in, bytes_out) = (size(i.bytes_in), size(i.bytes_out));
    format!(
        "{}: {} frames ({bytes_in}) in, {} ({bytes_out}) out\n\
         bytes of a frame in:\n{}bytes of a frame out:\n{}",
        i.name, i.frames_in, i.frames_out, i.sizes_in, i.sizes_out
    )
}

fn drop_line(drop: &Drop) -> String {
    format!("dropped: {} {}\n", drop.packets, drop.reason)
}
