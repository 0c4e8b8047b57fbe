use std::time::Duration;

use kern::{Figure, Unit};
use mbuf::{SizeCounts, SizeHistogram};
use mbuma::{ComponentKind, Config, DropReason, Stack, StackStats};

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

/// Those of a stack that has done nothing.
pub(in super::super) fn fresh_stack() -> StackStats {
    let stack = Stack::new(Config::from_system()).expect("address space");
    stack.stats()
}

/// Figures with something in every part.
pub(in super::super) fn figures() -> Figures {
    let mut stack = fresh_stack();
    (stack.received, stack.delivered) = (12, 10);
    stack.dropped = vec![(DropReason::IpBadChecksum, 2)];
    let mut tap = stack.loopback.clone();
    (tap.name, tap.mac, tap.mtu) = ("tap0".to_owned(), wire::MacAddr([2; 6]), 1500);
    (tap.input, tap.output) = (sizes(12), sizes(3));
    stack.interfaces = vec![tap];
    (stack.loopback.input, stack.loopback.output) = (sizes(1), sizes(1));
    let figure = Figure {
        name: "connection_rtt",
        unit: Unit::Seconds,
        help: "Round trips.",
    };
    stack.tcp_histograms.truncate(1);
    for rtt in &mut stack.tcp_histograms {
        (rtt.figure, rtt.buckets) = (figure, vec![(0.001, 1), (0.01, 3)]);
        (rtt.count, rtt.sum) = (4, 1.5);
    }
    stack.giant.over_all = true;
    stack.giant.components.truncate(1);
    for device in &mut stack.giant.components {
        (device.kind, device.name) = (ComponentKind::Device, "tap0".to_owned());
        device.mp_safe = true;
    }
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
