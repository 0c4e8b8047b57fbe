//! Pacing: the rate at which data leaves.

use crate::common::*;
use mbuma::TcpStream;
use mbuma::congestion::CongestionControl;

/// The first flight: the next window is larger than 64 KiB, below which slow start is not paced.
const FLIGHT: usize = 25 * MSS;

fn paced() -> Bench {
    Bench::tuned(|c| (c.tcp.pacing, c.tcp.initial_window) = (true, 25))
}

/// A connection over a round trip of 20 ms.
fn far(b: &mut Bench) -> (Hand, TcpStream) {
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    let mut hand = Hand::from_port(5000);
    let mut syn = hand.segment(SYN);
    syn.options = with_mss();
    b.say(&syn);
    hand.rcv = b.one().seq + 1;
    hand.snd += 1;
    b.run(ms(20));
    b.say(&hand.segment(ACK));
    let stream = listener.accept().expect("the handshake is complete");
    (hand, stream)
}

/// Full segments that the station saw since the last call.
fn full(b: &mut Bench) -> usize {
    let seen = b.seen();
    seen.iter().filter(|s| s.data.len() == MSS).count()
}

#[test]
fn a_window_leaves_over_half_a_round_trip_in_slow_start() {
    // Breaks when a window leaves at once and needs a queue of its size on the way; when the first flight is held back,
    // which makes short transfers longer; or when timers that are coarse slow the sender down.
    let mut b = paced();
    let (mut hand, stream) = far(&mut b);
    assert_eq!(stream.send(&bytes(3 * FLIGHT)).expect("room"), 3 * FLIGHT);
    b.run(ms(0));
    let first = b.seen();
    assert_eq!(first.len(), 25, "the first flight, at once");
    b.run(ms(20));
    b.nothing();
    b.say(&hand.ack(first.last().expect("some")));
    assert_eq!(full(&mut b), 5, "a burst");
    let rate = stream.info().pacing_rate.expect("paced");
    let expected = 2 * 2 * FLIGHT as u64 * 1000 / 20;
    assert!(rate.abs_diff(expected) < expected / 20, "{rate} {expected}");
    b.run(ms(5));
    let half = full(&mut b);
    assert!((22..=27).contains(&half), "{half}");
    b.run(ms(5));
    assert_eq!(5 + half + full(&mut b), 44, "the peer's whole window");
    stream.abort();
}

#[test]
fn a_send_buffer_whose_size_a_program_has_set_does_not_grow() {
    // SO_SNDBUF: breaks if a far peer's window makes a buffer larger than its program allows.
    let mut b = paced();
    let (mut hand, stream) = far(&mut b);
    let size = 30 * MSS;
    stream.set_options(&mbuma::TcpSocketOptions {
        send_buffer: Some(size),
        ..mbuma::TcpSocketOptions::default()
    });
    for _ in 0..3 {
        assert_eq!(stream.send(&bytes(10 * FLIGHT)), Ok(size));
        b.run(ms(20));
        let last = b.seen().pop().expect("data");
        b.say(&hand.ack(&last));
        b.run(ms(20));
        if let Some(last) = b.seen().pop() {
            b.say(&hand.ack(&last));
        }
    }
    stream.abort();
}

#[test]
fn acknowledgements_do_not_wait_for_their_turn() {
    // Breaks when an acknowledgement is held back with the data that could have carried it.
    let mut b = paced();
    let (mut hand, stream) = far(&mut b);
    assert_eq!(stream.send(&bytes(3 * FLIGHT)).expect("room"), 3 * FLIGHT);
    b.run(ms(20));
    let first = b.seen();
    b.say(&hand.ack(first.last().expect("some")));
    assert_eq!(full(&mut b), 5);
    for _ in 0..2 {
        let data = hand.data(&bytes(MSS));
        b.say(&data);
    }
    let seen = b.seen();
    let told = seen.iter().any(|s| s.data.is_empty() && s.ack == hand.snd);
    assert!(told, "{}", show(&seen));
    stream.abort();
}

#[test]
fn a_program_bounds_the_rate_of_a_connection() {
    // Breaks when a rate that a program asked for is exceeded, by the first flight or later, or not used; whether the
    // stack paces or not.
    const RATE: u64 = 100_000;
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    stream.set_options(&mbuma::TcpSocketOptions {
        pacing_max: Some(RATE),
        ..mbuma::TcpSocketOptions::default()
    });
    let data = bytes(1 << 20);
    let (mut sent, mut written) = (0, 0);
    for _ in 0..200 {
        while let Ok(n) = stream.send(&data[written..]) {
            written += n;
            if written == data.len() {
                break;
            }
        }
        b.run(ms(10));
        for segment in b.seen() {
            sent += segment.data.len();
            b.say(&hand.ack(&segment));
        }
    }
    let fair = 2 * RATE as usize;
    assert!((fair * 95 / 100..fair + 3 * MSS).contains(&sent), "{sent}");
    stream.abort();
}

#[test]
fn probes_of_a_closed_window_are_no_measure_of_the_path() {
    // Breaks when BBR takes the bytes that probes deliver for the rate of the path, and forgets the rate that it
    // measured.
    let mut b = Bench::tuned(|c| {
        c.tcp.pacing = true;
        c.tcp.congestion = CongestionControl::Bbr;
    });
    let (mut hand, stream) = far(&mut b);
    let data = bytes(1 << 20);
    let mut written = stream.send(&data).expect("room");
    for _ in 0..100 {
        b.run(ms(20));
        for segment in b.seen() {
            b.say(&hand.ack(&segment));
        }
        written += stream.send(&data[written..]).unwrap_or(0);
        if written > data.len() / 4 {
            break;
        }
    }
    let before = stream.info().pacing_rate.expect("paced");
    hand.window = 0;
    for _ in 0..6000 {
        b.run(ms(100));
        for segment in b.seen() {
            b.say(&hand.ack(&segment));
        }
    }
    let after = stream.info().pacing_rate.expect("paced");
    assert!(after >= before / 2, "{before} -> {after}");
    stream.abort();
}
