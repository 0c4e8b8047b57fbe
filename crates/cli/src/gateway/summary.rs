//! What `--stats` prints at the end.
//!
//! Called by: launch, attach. Calls: figures, page.
//! Locks: none.

use std::fmt;
use std::io::{self, Write};

use mbuf::Live;
use serde::Serialize;

use super::figures::Figures;
use super::page::{size, span};
use crate::args::StatsFormat;

/// What went through, and what is left of it.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    #[serde(flatten)]
    pub(super) figures: Figures,
    /// Buffers that nobody gave back: zero, unless something is wrong.
    pub(super) leaked: Leaked,
}

/// Buffers in use after everything was closed.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Leaked {
    mbufs: usize,
    clusters: usize,
}

impl From<Live> for Leaked {
    fn from(live: Live) -> Leaked {
        Leaked {
            mbufs: live.mbufs,
            clusters: live.clusters,
        }
    }
}

impl Summary {
    /// Prints what `--stats` asked for, on standard error.
    pub(crate) fn report(&self, format: Option<StatsFormat>) {
        let text = match format {
            None => return,
            Some(StatsFormat::Text) => self.to_string(),
            Some(StatsFormat::Json) => serde_json::to_string(self).unwrap_or_default(),
        };
        // A closed standard error is no reason to fail.
        let _ = writeln!(io::stderr(), "{}", text.trim_end());
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures {
            counters: c,
            gauges: g,
            ..
        } = &self.figures;
        let lasted = span(self.figures.uptime_s);
        writeln!(f, "mbuma: {lasted}, MTU {}", self.figures.mtu)?;
        writeln!(
            f,
            "connections: {} from the guest, {} from clients, {} refused, {} open at the end",
            c.connections_out, c.connections_in, c.connections_refused, g.connections_active
        )?;
        self.workers(f)?;
        let (up, down) = (size(c.bytes_up), size(c.bytes_down));
        writeln!(f, "TCP: {up} guest to host, {down} host to guest")?;
        let t = &self.figures.tcp;
        writeln!(
            f,
            "     {} segments in, {} out, {} sent again, {} timeouts",
            t.segments_in, t.segments_out, t.retransmitted_segments, t.timeouts
        )?;
        writeln!(
            f,
            "UDP: {} flows, {} datagrams ({}) guest to host, {} ({}) host to guest, {} refused, {} lost",
            c.flows,
            c.datagrams_up,
            size(c.datagram_bytes_up),
            c.datagrams_down,
            size(c.datagram_bytes_down),
            c.datagrams_refused,
            c.datagrams_lost
        )?;
        writeln!(
            f,
            "pings: {}, {} answered, {} refused",
            c.pings, c.pings_answered, c.pings_refused
        )?;
        if c.descriptors_exhausted > 0 {
            let times = c.descriptors_exhausted;
            writeln!(
                f,
                "out of descriptors: {times} times (`ulimit -Hn` is the limit)"
            )?;
        }
        if self.figures.giant.is_used() {
            writeln!(f, "Giant: {}", self.figures.giant)?;
        }
        self.packets(f)?;
        write!(f, "{}", self.figures.pool)?;
        let Leaked { mbufs, clusters } = self.leaked;
        writeln!(
            f,
            "in use after the end: {mbufs} mbufs, {clusters} clusters"
        )
    }
}

impl Summary {
    /// Who carried what, where there are several, or should have been.
    fn workers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (there, asked) = (&self.figures.workers, self.figures.workers_asked);
        if there.len() < asked {
            writeln!(
                f,
                "workers: {} of {asked}: the kernel gave the interface no more queues",
                there.len()
            )?;
        }
        if there.len() < 2 {
            return Ok(());
        }
        let moved = self.figures.counters.connections_moved;
        if moved > 0 {
            writeln!(f, "moved on to a worker with less to do: {moved} times")?;
        }
        for (n, load) in there.iter().enumerate() {
            writeln!(
                f,
                "worker {n}: {} connections, {} guest to host, {} host to guest",
                load.connections,
                size(load.bytes_up),
                size(load.bytes_down)
            )?;
        }
        Ok(())
    }

    fn packets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (received, delivered) = (
            self.figures.packets_received,
            self.figures.packets_delivered,
        );
        writeln!(f, "packets: {received} received, {delivered} delivered")?;
        for i in &self.figures.interfaces {
            writeln!(
                f,
                "{}: {} frames ({}) in, {} ({}) out",
                i.name,
                i.frames_in,
                size(i.bytes_in),
                i.frames_out,
                size(i.bytes_out)
            )?;
            write!(f, "bytes of a frame in:\n{}", i.sizes_in)?;
            write!(f, "bytes of a frame out:\n{}", i.sizes_out)?;
        }
        for drop in &self.figures.drops {
            writeln!(f, "dropped: {} {}", drop.packets, drop.reason)?;
        }
        Ok(())
    }
}
