use super::*;

const MSS: u32 = 1000;

fn acked(bytes: u32) -> RateSample {
    RateSample {
        acked: bytes,
        cwnd_limited: true,
        ..RateSample::default()
    }
}

fn event(why: Why, flight: u32) -> CongestionEvent {
    CongestionEvent::new(why, Time::ZERO, flight)
}

/// Breaks when slow start grows by less than what was acknowledged, or congestion avoidance by more than one segment
/// a window.
#[test]
fn slow_start_doubles_and_congestion_avoidance_adds_a_segment() {
    let (mut reno, mut w) = (Reno::default(), Window::new(MSS, 10));
    reno.on_ack(&mut w, &acked(4 * MSS));
    assert_eq!(w.cwnd, 14 * MSS);
    w.ssthresh = w.cwnd;
    for _ in 0..13 {
        reno.on_ack(&mut w, &acked(MSS));
        assert_eq!(w.cwnd, 14 * MSS);
    }
    reno.on_ack(&mut w, &acked(MSS));
    assert_eq!(w.cwnd, 15 * MSS);
}

/// Breaks when the part of the window that no segment fills delays growth: half of a segment of ten at 1 % of loss.
#[test]
fn a_round_trip_is_what_whole_segments_fill() {
    let (mut reno, mut w) = (Reno::default(), Window::new(MSS, 10));
    (w.cwnd, w.ssthresh) = (3 * MSS + 500, 3 * MSS + 500);
    for _ in 0..3 {
        assert_eq!(w.cwnd, 3 * MSS + 500);
        reno.on_ack(&mut w, &acked(MSS));
    }
    assert_eq!(w.cwnd, 4 * MSS + 500);
}

/// Breaks when a window grows that its sender did not fill (RFC 7661).
#[test]
fn no_growth_unless_limited() {
    let (mut reno, mut w) = (Reno::default(), Window::new(MSS, 10));
    let sample = RateSample {
        cwnd_limited: false,
        ..acked(4 * MSS)
    };
    reno.on_ack(&mut w, &sample);
    assert_eq!(w.cwnd, 10 * MSS);
}

/// Breaks when a loss halves the window instead of the flight, falls below two segments, or when a second timeout for
/// the same data lowers the threshold again (RFC 5681 3.1).
#[test]
fn a_loss_halves_the_flight_and_not_the_window() {
    let (mut reno, mut w) = (Reno::default(), Window::new(MSS, 10));
    reno.on_congestion(&mut w, &event(Why::Loss, 6 * MSS));
    assert_eq!((w.cwnd, w.ssthresh), (3 * MSS, 3 * MSS));
    reno.on_congestion(&mut w, &event(Why::Timeout, 8 * MSS));
    assert_eq!((w.cwnd, w.ssthresh), (MSS, 4 * MSS));
    let again = CongestionEvent {
        again: true,
        ..event(Why::Timeout, MSS)
    };
    reno.on_congestion(&mut w, &again);
    assert_eq!((w.cwnd, w.ssthresh), (MSS, 4 * MSS));
    reno.on_congestion(&mut w, &event(Why::Loss, MSS));
    assert_eq!(w.ssthresh, 2 * MSS);
}

/// Breaks when a spurious recovery leaves the window smaller, also one in which it shrank twice, or when it can be
/// undone twice.
#[test]
fn an_undo_restores_the_window_once() {
    let (mut reno, mut w) = (Reno::default(), Window::new(MSS, 10));
    let before = w;
    reno.on_congestion(&mut w, &event(Why::Loss, 10 * MSS));
    let second = CongestionEvent {
        continues: true,
        ..event(Why::Loss, 10 * MSS)
    };
    reno.on_congestion(&mut w, &second);
    reno.on_undo(&mut w, Time::ZERO);
    assert_eq!(w, before);
    w.cwnd = MSS;
    reno.on_undo(&mut w, Time::ZERO);
    assert_eq!(w.cwnd, MSS);
}

/// Breaks when a jumbo path's initial window exceeds RFC 6928's bytes.
#[test]
fn initial_windows_are_those_of_rfc_6928() {
    assert_eq!(Window::new(1460, 10).cwnd, 14_600);
    assert_eq!(Window::new(8960, 10).cwnd, 17_920);
}
