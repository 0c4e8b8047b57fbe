use std::time::Duration;

use kern::{Figure, Unit};
use mbuf::{MbufPool, PoolConfig, SizeCounts, SizeHistogram};
use mbuma::{
    ComponentKind, ComponentStats, DropReason, GiantStats, IfStats, StackStats, TcpHistogram,
    TcpStats,
};

use super::{Counters, Figures, Fixed, Gauges, Share};
use crate::args::PublishRange;
use crate::gateway::test_gateway;
use crate::ports::PortSpec;

/// The counts of `packets` packets of 100 bytes.
fn sizes(packets: usize) -> SizeCounts {
    let sizes = SizeHistogram::new();
    (0..packets).for_each(|_| sizes.record(100));
    sizes.get()
}

/// Figures with something in every part.
pub(in super::super) fn figures() -> Figures {
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let stack = StackStats {
        received: 12,
        delivered: 10,
        dropped: vec![(DropReason::IpBadChecksum, 2)],
        forwarded: 0,
        interfaces: vec![IfStats {
            name: "tap0".to_owned(),
            mac: wire::MacAddr([2; 6]),
            mtu: 1500,
            input: sizes(12),
            output: sizes(3),
            merged: 0,
            addresses_given_up: 0,
        }],
        netisr: Vec::new(),
        loopback: IfStats {
            name: "lo0".to_owned(),
            mac: wire::MacAddr::ZERO,
            mtu: u16::MAX,
            input: sizes(1),
            output: sizes(1),
            merged: 0,
            addresses_given_up: 0,
        },
        tcp: TcpStats::default(),
        tcp_histograms: vec![TcpHistogram {
            figure: Figure {
                name: "connection_rtt",
                unit: Unit::Seconds,
                help: "Round trips.",
            },
            buckets: vec![(0.001, 1), (0.01, 3)],
            count: 4,
            sum: 1.5,
        }],
        pool: pool.stats(),
        giant: GiantStats {
            over_all: true,
            components: vec![ComponentStats {
                kind: ComponentKind::Device,
                name: "tap0".to_owned(),
                mp_safe: true,
                entered: 0,
            }],
        },
    };
    let range: PublishRange = "8080:10.0.2.101:80".parse().expect("two ports");
    let fixed = Fixed {
        published: vec![PortSpec {
            id: 1,
            publish: range.ports().next().expect("a port").publish,
        }],
        workers_asked: 2,
        ..test_gateway::fixed()
    };
    let share = |connections_out, connections_active, flows_active| Share {
        counters: Counters {
            connections_out,
            bytes_up: 750_000,
            ..Counters::default()
        },
        gauges: Gauges {
            connections_active,
            flows_active,
            http_active: 0,
        },
    };
    let shares = vec![share(5, 2, 1), share(2, 1, 0)];
    Figures::new(&fixed, Duration::from_millis(1500), shares, stack)
}

#[test]
fn programs_can_read_the_summary() {
    // Breaks when --stats=json changes its shape, or two parts of it have one name.
    let json = serde_json::to_value(figures()).expect("plain data");
    assert_eq!(json["connections_out"], 7);
    assert_eq!(json["connections_active"], 3);
    assert_eq!(json["drops"][0]["reason"], "ip_bad_checksum");
    assert_eq!(json["zones"][0]["name"], "mbuf");
    assert_eq!(json["giant"]["over_all"], true);
    assert_eq!(json["giant"]["components"][0]["name"], "tap0");
    assert_eq!(json["guest"]["addr"], "10.0.2.100");
    assert_eq!(json["bytes_up"], 1_500_000);
    assert_eq!(json["workers"][1]["connections"], 2);
    assert_eq!(json["published"][0]["guest_port"], 80);
    assert_eq!(json["published"][0]["guest_addr"], "10.0.2.101");
}
