//! Tests of the reports about figures.

use mbuf::{MbufPool, Packet, PoolConfig};
use mbuma::DropReason;

use super::super::figures::tests::{figures, fresh_stack};
use super::*;

fn stack() -> StackStats {
    let mut stack = fresh_stack();
    (stack.received, stack.delivered) = (12, 10);
    stack.dropped = vec![(DropReason::IpBadChecksum, 2)];
    (stack.tcp.connections, stack.tcp.segments_in) = (2, 31);
    stack
}

#[test]
fn the_overview_has_everything_once() {
    // Breaks when a line of it is lost, or shows another's figure.
    let text = overview(&figures());
    for words in [
        "10.0.2.100 and fd00::100 on tap0, gateway 10.0.2.2 and fd00::2, name server 10.0.2.3 and fd00::3",
        "connections: 3 now; 7 from the guest",
        "1.5 MB guest to host",
        "UDP: 1 flows now",
        "packets: 12 received, 10 delivered, 2 dropped",
        "locks: ",
    ] {
        assert_eq!(text.matches(words).count(), 1, "{words} in {text}");
    }
}

#[test]
fn every_counter_is_shown() {
    // Breaks when a counter is added to the stack or the gateway, and netstat -s does not know.
    let counters = Counters {
        pings: 77,
        ..Counters::default()
    };
    let text = protocols(&stack(), &counters);
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    for line in [
        "2 connections now",
        "31 segments in",
        "77 pings",
        "2 ip bad checksum",
        "12 received",
    ] {
        assert!(lines.contains(&line), "{line} in {text}");
    }
    let json = protocols_json(&stack(), &counters);
    assert_eq!(json["tcp"]["segments_in"], 31);
    assert_eq!(json["gateway"]["pings"], 77);
    assert_eq!(json["drops"]["ip_bad_checksum"], 2);
    let names = json["tcp"].as_object().expect("an object").len();
    assert_eq!(names, stack().tcp.figures().count() + 1);
}

#[test]
fn zones_and_locks_are_json() {
    // Breaks when a zone is no plain data, which would be an empty section, or a list is written as an object.
    let pool = mbufs_json(&stack().pool);
    assert_eq!(pool["zones"][0]["name"], "mbuf");
    assert_eq!(pool["calls"]["pullup_copied"], 0);
    let locks = locks_json();
    assert!(
        locks["classes"].is_array() && locks["threads"].is_array(),
        "{locks}"
    );
}

#[test]
fn tables_have_a_row_each() {
    // Breaks when a zone or an interface is left out.
    let text = interfaces(&figures());
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("tap0") && text.contains("1500"), "{text}");
}

/// The report of a pool after some ticks.
fn zones(pool: &MbufPool) -> ZoneReport {
    let reclaim = ReclaimFigures {
        ticks: 7,
        drains: 1,
        pages: 300,
        busy_us: 900,
        longest_tick_us: 93,
        longest_heap_trim_us: 4000,
    };
    ZoneReport::of(pool, reclaim)
}

#[test]
fn zones_say_which_lines_hold_their_items() {
    // Breaks when the census, a shortage, or the longest tick is not in what `netstat -z` prints.
    let config = PoolConfig {
        mbufs_max: 1000,
        cluster_bytes_max: 1 << 20,
    };
    let pool = MbufPool::new(config).expect("address space");
    let rows = zones(&pool).to_string();
    assert!(!rows.contains("short") && !rows.contains("live"), "{rows}");
    let one = Packet::new(&pool);
    let text = zones(&pool).to_string();
    for census in pool.census() {
        let table = format!("zone '{}': ", census.zone);
        assert_eq!(text.contains(&table), !census.holders.is_empty(), "{text}");
    }
    drop(one);
    let held: Vec<_> = std::iter::from_fn(|| Packet::new(&pool).ok()).collect();
    let text = zones(&pool).to_string();
    for zone in pool.stats().zones() {
        let first = |row: &&str| row.split_whitespace().next() == Some(zone.name);
        let rows = text.lines().filter(first);
        assert_eq!(rows.count(), 1, "{} in {text}", zone.name);
    }
    for words in [
        "zone 'mbuf': 1000 live",
        "report/tests.rs:",
        "zone 'mbuf' was short: 1 times near its limit; allocations that failed: 1 at the limit",
        "longest tick 93 us, longest heap trim 4000 us",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let json = zones(&pool).to_json();
    let mbufs = &json[0];
    assert_eq!(mbufs["name"], "mbuf");
    assert_eq!(mbufs["census"]["live"], held.len());
    let site = mbufs["census"]["holders"][0]["site"].as_str();
    assert!(
        site.is_some_and(|site| site.contains("report/tests.rs")),
        "{mbufs}"
    );
    assert_eq!(mbufs["shortages"]["at_limit"], 1);
    drop(held);
    assert_eq!(pool.live(), mbuf::Live::NONE);
}
