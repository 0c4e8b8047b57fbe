//! Every figure as a sample, for Prometheus, the templates and the tables.

use kern::Unit;
use mbuma::TcpStats;

use super::sample::{MetricType, Sample, Series};
use super::{Drop, Figures, Interface, LinkFigures, ZoneFigures};

impl Figures {
    /// All samples; those of a series stand side by side.
    pub(in super::super) fn samples(&self) -> Vec<Sample> {
        let mut all = self.scalars();
        all.extend(self.drops.iter().map(dropped));
        all.extend(self.links.iter().flat_map(link_frames));
        all.extend(self.interfaces.iter().flat_map(frames));
        all.extend(self.interfaces.iter().flat_map(frames_merged));
        all.extend(self.interfaces.iter().flat_map(frame_bytes));
        ZONE_FIGURES
            .iter()
            .for_each(|figure| all.extend(self.zones.iter().map(|zone| figure.sample(zone))));
        all
    }

    /// Those that have a name of their own.
    pub(in super::super) fn scalars(&self) -> Vec<Sample> {
        let mut all = vec![Sample::single(
            "uptime",
            series(
                "uptime_seconds",
                MetricType::Gauge,
                Unit::Seconds,
                "Time since the start.",
            ),
            self.uptime_s,
        )];
        all.extend(self.gauges.samples());
        all.extend(self.counters.samples());
        all.extend(packets(self));
        all.extend(tcp(&self.tcp));
        all
    }
}

fn series(name: &'static str, kind: MetricType, unit: Unit, help: &'static str) -> Series {
    Series {
        name: name.into(),
        kind,
        unit,
        help,
    }
}

fn packets(figures: &Figures) -> [Sample; 2] {
    let counter = |name, help| series(name, MetricType::Counter, Unit::Count, help);
    [
        Sample::single(
            "packets_received",
            counter("packets_received_total", "Packets that the stack took in."),
            figures.packets_received as f64,
        ),
        Sample::single(
            "packets_delivered",
            counter(
                "packets_delivered_total",
                "Packets that reached their receiver.",
            ),
            figures.packets_delivered as f64,
        ),
    ]
}

/// TCP's figures, as the stack declares them.
fn tcp(stats: &TcpStats) -> Vec<Sample> {
    let help = "TCP connections of the stack in any state, TIME-WAIT included.";
    let mut all = vec![Sample::single(
        "tcp_connections",
        series("tcp_connections", MetricType::Gauge, Unit::Count, help),
        stats.connections as f64,
    )];
    all.extend(stats.figures().map(|(figure, value)| {
        let series = Series {
            name: format!("tcp_{}_total", figure.name).into(),
            kind: MetricType::Counter,
            unit: figure.unit,
            help: figure.help,
        };
        Sample::single(format!("tcp_{}", figure.name), series, value as f64)
    }));
    all
}

fn dropped(drop: &Drop) -> Sample {
    let help = "Packets that were dropped, by reason.";
    Sample::labelled(
        series("drops_total", MetricType::Counter, Unit::Count, help),
        format!("reason=\"{}\"", drop.reason),
        drop.packets as f64,
    )
}

/// The figures of the bad link before the guest.
fn link_frames(link: &LinkFigures) -> Vec<Sample> {
    let series = series(
        "link_frames_total",
        MetricType::Counter,
        Unit::Count,
        "Frames on the impaired link before the guest, by their fate.",
    );
    let all = [("sent", link.counts.sent)]
        .into_iter()
        .chain(link.faults());
    let sample = |(event, n)| {
        let labels = format!("direction=\"{}\",event=\"{event}\"", link.direction);
        Sample::labelled(series.clone(), labels, n as f64)
    };
    all.map(sample).collect()
}

fn frames(on: &Interface) -> [Sample; 2] {
    let series = series(
        "frames_total",
        MetricType::Counter,
        Unit::Count,
        "Frames on an interface.",
    );
    both_ways(on, &series, on.frames_in, on.frames_out)
}

fn frames_merged(on: &Interface) -> [Sample; 1] {
    let series = series(
        "frames_merged_total",
        MetricType::Counter,
        Unit::Count,
        "Received frames whose data was appended to an earlier segment of their connection.",
    );
    let labels = format!("interface=\"{}\"", on.name);
    [Sample::labelled(series, labels, on.frames_merged as f64)]
}

fn frame_bytes(on: &Interface) -> [Sample; 2] {
    let help = "Bytes of frames on an interface.";
    let series = series("frame_bytes_total", MetricType::Counter, Unit::Bytes, help);
    both_ways(on, &series, on.bytes_in, on.bytes_out)
}

fn both_ways(on: &Interface, series: &Series, inward: u64, outward: u64) -> [Sample; 2] {
    [("in", inward), ("out", outward)].map(|(direction, value)| {
        let labels = format!("interface=\"{}\",direction=\"{direction}\"", on.name);
        Sample::labelled(series.clone(), labels, value as f64)
    })
}

/// A figure that each zone has.
struct ZoneFigure {
    series: &'static str,
    kind: MetricType,
    unit: Unit,
    help: &'static str,
    value: fn(&ZoneFigures) -> u64,
}

const ZONE_FIGURES: [ZoneFigure; 5] = [
    ZoneFigure {
        series: "buffers_used",
        kind: MetricType::Gauge,
        unit: Unit::Count,
        help: "Buffers in use.",
        value: |zone| zone.used as u64,
    },
    ZoneFigure {
        series: "buffers_free",
        kind: MetricType::Gauge,
        unit: Unit::Count,
        help: "Buffers that lie ready.",
        value: |zone| zone.free as u64,
    },
    ZoneFigure {
        series: "buffer_bytes",
        kind: MetricType::Gauge,
        unit: Unit::Bytes,
        help: "Memory behind the buffers.",
        value: |zone| zone.bytes as u64,
    },
    ZoneFigure {
        series: "buffer_requests_total",
        kind: MetricType::Counter,
        unit: Unit::Count,
        help: "Buffers handed out.",
        value: |zone| zone.requests,
    },
    ZoneFigure {
        series: "buffer_failures_total",
        kind: MetricType::Counter,
        unit: Unit::Count,
        help: "Requests for a buffer that failed.",
        value: |zone| zone.failures,
    },
];

impl ZoneFigure {
    fn sample(&self, zone: &ZoneFigures) -> Sample {
        Sample::labelled(
            series(self.series, self.kind, self.unit, self.help),
            format!("zone=\"{}\"", zone.name),
            (self.value)(zone) as f64,
        )
    }
}
