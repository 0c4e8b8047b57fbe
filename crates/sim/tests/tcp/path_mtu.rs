//! The path's MTU, as routers report it, and reports that are forged (RFC 1191, RFC 5927 7).

use crate::common::*;
use mbuma::{TcpSocketOptions, TcpStream};
use sim::Segment;

/// The rest of an ICMP header that names an MTU.
fn mtu(mtu: u16) -> [u8; 4] {
    let [hi, lo] = mtu.to_be_bytes();
    [0, 0, hi, lo]
}

/// An MTU smaller than the link's, and possible.
fn small() -> u16 {
    if is_over_ipv6() { 1300 } else { 1000 }
}

/// The data of a segment that fits it.
fn small_mss() -> usize {
    usize::from(small()) - (usize::from(link_mtu()) - MSS)
}

/// A connection with ten full segments in flight.
fn ten_under_way(b: &mut Bench) -> (Hand, TcpStream, Vec<Segment>) {
    let (hand, stream) = b.active();
    b.send(&stream, &bytes(10 * MSS));
    let seen = b.seen();
    assert_eq!(seen.len(), 10);
    (hand, stream, seen)
}

/// A router reports that `about` is larger than `limit`; returns what is sent then.
fn reported(b: &mut Bench, about: &Segment, limit: u16) -> Vec<Segment> {
    b.net.complain(b.peer, about, (3, 4), mtu(limit));
    b.run(ms(0));
    b.seen()
}

#[test]
fn a_smaller_path_sends_smaller_segments_at_once() {
    // RFC 1191: breaks when a path with a smaller MTU swallows the connection; RFC 5927: or when an error about a
    // segment that is not in flight is believed.
    let mut b = Bench::new();
    let (mut hand, _stream, seen) = ten_under_way(&mut b);
    let forged = Segment {
        seq: seen[0].seq - 10_000,
        ..seen[0].clone()
    };
    assert!(reported(&mut b, &forged, small()).is_empty());
    let again = reported(&mut b, &seen[0], small());
    assert!(!again.is_empty());
    assert!(
        again.iter().all(|s| s.data.len() <= small_mss()),
        "{}",
        show(&again)
    );
    assert_eq!(again[0].seq, seen[0].seq);
    b.say(&hand.ack(&seen[9]));
}

#[test]
fn a_report_with_nothing_in_flight_is_forged() {
    // RFC 5927 4.1: breaks if an attacker who knows the numbers of an idle connection can make its segments small. No
    // full segment has arrived yet, so that an error about one in flight would be believed at once.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.set_nodelay(true);
    b.send(&stream, b"short");
    let last = b.one();
    b.say(&hand.ack(&last));
    let next = Segment {
        seq: last.end(),
        data: bytes(MSS),
        ..last
    };
    assert!(reported(&mut b, &next, small()).is_empty());
    assert_eq!(stream.info().mss, MSS as u32);
    b.send(&stream, &bytes(MSS));
    let sent = b.one();
    assert!(!reported(&mut b, &sent, small()).is_empty(), "in flight");
    b.say(&hand.ack(&sent));
    b.seen();
}

#[test]
fn a_report_about_a_size_that_passed_waits_for_the_loss() {
    // RFC 5927 7.2: breaks if an attacker who sees a connection whose segments arrive can make them small; or if a path
    // that has really become smaller is not believed when the data that its report quotes is lost.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    b.say(&hand.ack(&seen[9]));
    b.seen();
    for is_forged in [true, false] {
        b.send(&stream, &bytes(10 * MSS));
        let seen = b.seen();
        for about in &seen {
            assert!(reported(&mut b, about, small()).is_empty());
        }
        assert_eq!(stream.info().mss, MSS as u32);
        if is_forged {
            b.say(&hand.ack(&seen[9]));
            b.run(secs(2));
            assert_eq!(stream.info().mss, MSS as u32);
            continue;
        }
        b.run(secs(1));
        let again = b.seen();
        assert_eq!(again[0].seq, seen[0].seq);
        assert!(again.iter().all(|s| s.data.len() <= small_mss()));
        assert_eq!(stream.info().mss, small_mss() as u32);
        b.say(&hand.ack(&seen[9]));
    }
}

#[test]
fn of_several_reports_the_one_about_the_earliest_data_is_judged() {
    // RFC 5927 7.2: breaks if the loss of the first segment of a flight, each of which was reported as too large, shows
    // nothing, because the last report replaced the first.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    b.say(&hand.ack(&seen[9]));
    b.seen();
    b.send(&stream, &bytes(10 * MSS));
    let seen = b.seen();
    for about in &seen {
        assert!(reported(&mut b, about, small()).is_empty());
    }
    for _ in 0..3 {
        b.say(&hand.segment(ACK));
    }
    let again = b.seen();
    assert_eq!(again[0].seq, seen[0].seq);
    assert!(again[0].data.len() <= small_mss());
    assert_eq!(stream.info().mss, small_mss() as u32);
    b.say(&hand.ack(&seen[9]));
}

#[test]
fn a_station_of_the_link_that_does_not_answer_is_no_black_hole() {
    // RFC 8899 4.3: breaks if a neighbour that is silent for seconds gets small segments: no router is on the way.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    b.run(ms(1500));
    assert!(b.stack().stats().tcp.timeouts >= 2);
    assert_eq!(stream.info().mss, MSS as u32);
    b.seen();
    b.say(&hand.ack(&seen[9]));
}

#[test]
fn a_report_about_a_packet_that_would_have_passed_is_forged() {
    // RFC 5927 7.2: breaks if an error is believed that names an MTU not smaller than the packet that it quotes.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    stream.set_nodelay(true);
    b.send(&stream, b"small");
    let passing = b.one();
    assert!(reported(&mut b, &passing, small()).is_empty());
    assert_eq!(stream.info().mss, MSS as u32);
    b.say(&hand.ack(&passing));
}

#[test]
fn the_interfaces_mtu_is_tried_again_after_ten_minutes() {
    // RFC 1191 6.3: breaks if one report makes segments small for the life of the connection.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    stream.set_nodelay(true);
    reported(&mut b, &seen[0], small());
    b.say(&hand.ack(&seen[9]));
    b.seen();
    b.run(secs(599));
    b.send(&stream, &bytes(MSS));
    let last = b.seen().pop().expect("data");
    assert!(last.data.len() <= small_mss());
    b.say(&hand.ack(&last));
    b.run(secs(2));
    b.send(&stream, &bytes(MSS));
    let large = b.one();
    assert_eq!(large.data.len(), MSS);
    b.say(&hand.ack(&large));
}

#[test]
fn a_programs_limit_of_segments_outlives_a_report() {
    // RFC 1191 6.3: breaks if segments become larger than their program allows when the interface's MTU is tried again.
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    reported(&mut b, &seen[0], small());
    b.say(&hand.ack(&seen[9]));
    b.run(secs(1));
    b.seen();
    let limit = 800;
    stream.set_options(&TcpSocketOptions {
        segment_max: Some(limit),
        ..TcpSocketOptions::default()
    });
    b.run(secs(11 * 60));
    b.send(&stream, &bytes(10 * MSS));
    let later = b.seen();
    assert!(!later.is_empty());
    let longest = later.iter().map(|s| s.data.len()).max();
    assert_eq!(longest, Some(limit as usize), "{}", show(&later));
    stream.abort();
}

#[test]
fn a_path_below_296_bytes_gets_segments_that_may_be_fragmented() {
    // RFC 1191 3, RFC 791: breaks if segments get absurdly small, or keep DF set on a path that they do not fit.
    if is_over_ipv6() {
        return; // routers fragment nothing there, and each names its MTU
    }
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    assert!(seen.iter().all(|s| s.df));
    let again = reported(&mut b, &seen[0], 68);
    assert_eq!(stream.info().mss, 256);
    assert!(!again.is_empty() && again.iter().all(|s| !s.df));
    b.say(&hand.ack(&seen[9]));
}

#[test]
fn a_router_that_names_no_mtu_leads_to_the_next_smaller_link() {
    // RFC 1191 5 and 7: breaks if a report of an old router makes segments as small as can be.
    if is_over_ipv6() {
        return; // routers fragment nothing there, and each names its MTU
    }
    let mut b = Bench::new();
    let (mut hand, stream, seen) = ten_under_way(&mut b);
    reported(&mut b, &seen[0], 0);
    assert_eq!(stream.info().mss, 1492 - 40);
    b.say(&hand.ack(&seen[9]));
}
