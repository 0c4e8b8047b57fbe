//! Tests of the listing.

use std::net::Ipv4Addr;
use std::time::Duration;

use mbuma::State;

use super::*;

fn tcp(port: u16) -> Tcp {
    let guest = (Ipv4Addr::new(10, 0, 2, 100), port).into();
    let remote = (Ipv4Addr::new(192, 0, 2, 7), 443).into();
    let mut info = TcpInfo::default();
    info.state = State::FinWait1;
    info.received_mss = 1448;
    info.reordering = 6;
    info.rtt = Some(Duration::from_micros(120));
    info.congestion = "cubic";
    info.cwnd = 14_600;
    info.send_queue = 5;
    info.recv_queue = 17;
    Tcp::of(guest, remote, &info)
}

#[test]
fn a_connection_has_the_guests_view() {
    // Breaks when the ends, or the directions of the queues, are mixed up.
    let listing = Listing::new(vec![tcp(40_000)], Vec::new(), ROWS_MAX);
    let text = listing.to_string();
    let words: Vec<_> = text
        .lines()
        .nth(1)
        .expect("a row")
        .split_whitespace()
        .collect();
    let expected = [
        "tcp",
        "17",
        "5",
        "10.0.2.100:40000",
        "192.0.2.7:443",
        "FIN_WAIT_1",
        "120",
        "us",
    ];
    assert_eq!(words, expected);
    let json = serde_json::to_value(&listing).expect("plain data");
    assert_eq!(json["tcp"][0]["guest"], "10.0.2.100:40000");
    assert_eq!(json["tcp"][0]["rtt_us"], 120);
    assert_eq!(json["tcp"][0]["congestion"], "cubic");
    assert_eq!(json["tcp"][0]["received_mss"], 1448);
    assert_eq!(json["tcp"][0]["reordering"], 6);
}

#[test]
fn rows_are_bounded_and_counted() {
    // Breaks when the answer grows without bound with the connections, or does not count those that it leaves out.
    let listing = Listing::new((1..=10).rev().map(tcp).collect(), Vec::new(), 4);
    let ports: Vec<_> = listing.tcp.iter().map(|row| row.guest.port()).collect();
    assert_eq!(ports, [1, 2, 3, 4]);
    assert!(listing.to_string().ends_with("(6 more)\n"));
}

#[test]
fn states_have_their_usual_names() {
    // Breaks when a script that searches for netstat's names of states finds none.
    for (state, want) in [
        (State::Established, "ESTABLISHED"),
        (State::SynReceived, "SYN_RECEIVED"),
        (State::FinWait2, "FIN_WAIT_2"),
        (State::TimeWait, "TIME_WAIT"),
    ] {
        assert_eq!(state.to_string(), want);
    }
}
