use std::time::Duration;

use mbuf::{MbufPool, PoolConfig};
use mbuma::{DropReason, IfStats, StackStats, TcpStats};

use super::{Counters, Figures, Fixed, Gauges, size, span};
use crate::guest::GuestEnd;
use crate::sys::tap::Offloads;

fn figures() -> Figures {
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let stack = StackStats {
        received: 12,
        delivered: 10,
        dropped: vec![(DropReason::IpBadChecksum, 2)],
        interfaces: vec![IfStats {
            name: "tap0".to_owned(),
            mac: wire::MacAddr([2; 6]),
            mtu: 1500,
            in_packets: 12,
            in_bytes: 1200,
            out_packets: 3,
            out_bytes: 300,
        }],
        tcp: TcpStats::default(),
        pool: pool.stats(),
    };
    let fixed = Fixed {
        guest: GuestEnd::new("tap0", [2; 6]),
        mtu: 1500,
        offloads: Offloads {
            vnet_hdr: true,
            csum: true,
            tso4: true,
            tso6: false,
            tso_ecn: false,
            uso: false,
        },
    };
    let counters = Counters {
        connections_out: 7,
        bytes_up: 1_500_000,
        ..Counters::default()
    };
    let gauges = Gauges {
        connections_active: 3,
        flows_active: 1,
    };
    Figures::new(&fixed, Duration::from_millis(1500), counters, gauges, stack)
}

#[test]
fn prometheus_can_read_it() {
    // Breaks when one line is malformed: Prometheus then drops the whole answer.
    let text = figures().to_prometheus();
    let mut declared = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert!(matches!(kind, "counter" | "gauge"), "{line}");
            assert!(kind == "gauge" || name.ends_with("_total"), "{line}");
            assert!(!declared.contains(&name), "declared twice: {line}");
            declared.push(name);
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            let name = series.split('{').next().expect("a name");
            assert_eq!(declared.last(), Some(&name), "not under its type: {line}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
            value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
        }
    }
    for line in [
        "mbuma_connections_total{by=\"guest\"} 7",
        "mbuma_drops_total{reason=\"ip_bad_checksum\"} 2",
        "mbuma_tcp_payload_bytes_total{direction=\"up\"} 1500000",
        "mbuma_frames_total{interface=\"tap0\",direction=\"in\"} 12",
        "mbuma_uptime_seconds 1.5",
        "mbuma_buffers_used{zone=\"mbuf\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_page_has_no_gaps() {
    // Breaks when the page names a figure that there is not, or leaves a brace.
    let page = include_str!("../status.html");
    let names = page.split("{{").skip(1).map(|rest| rest.split("}}").next());
    for name in names {
        let name = name.expect("a name ends");
        assert!(!figures().named(name).is_empty(), "{name}");
    }
    let filled = figures().fill(page);
    assert!(!filled.contains("{{") && !filled.contains("}}"));
    for text in [
        "10.0.2.100",
        "1.5 MB",
        "ip bad checksum",
        "mbuf_cluster",
        "1.50 s",
    ] {
        assert!(filled.contains(text), "{text}");
    }
    assert_eq!(figures().fill("a {{no such}} b {{uptime"), "a  b {{uptime");
}

#[test]
fn programs_can_read_the_summary() {
    // Breaks when --stats=json changes its shape, or two parts of it have one name.
    let json = serde_json::to_value(figures()).expect("plain data");
    assert_eq!(json["connections_out"], 7);
    assert_eq!(json["connections_active"], 3);
    assert_eq!(json["drops"][0]["reason"], "ip_bad_checksum");
    assert_eq!(json["zones"][0]["name"], "mbuf");
    assert_eq!(json["guest"]["addr"], "10.0.2.100");
}

#[test]
fn people_can_read_sizes() {
    // Breaks when a large transfer is shown in a unit that hides it.
    assert_eq!(size(0), "0 B");
    assert_eq!(size(999), "999 B");
    assert_eq!(size(1000), "1.0 kB");
    assert_eq!(size(u64::MAX), "18446.7 PB");
    assert_eq!(span(0.25), "0.25 s");
    assert_eq!(span(61.0), "1 min 1 s");
    assert_eq!(span(7260.0), "2 h 1 min");
}
