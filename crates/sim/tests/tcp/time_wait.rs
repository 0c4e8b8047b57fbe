//! A SYN for a connection in TIME-WAIT (RFC 1122 4.2.2.13, RFC 9293 3.6.1).

use crate::common::*;
use mbuma::{State, TcpListener, TcpStream};
use sim::Segment;
use wire::TcpOptions;

/// A connection of a listener that has sent so many bytes and is in TIME-WAIT.
fn closed_after(b: &mut Bench, bytes_sent: usize) -> (Hand, TcpListener, TcpStream) {
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    let options = TcpOptions {
        mss: Some(MSS as u16),
        window_scale: Some(7),
        ..TcpOptions::default()
    };
    let mut hand = b.dial(5000, options);
    let stream = listener.accept().expect("established");
    let mut left = bytes(bytes_sent);
    while !left.is_empty() {
        let n = stream.send(&left).unwrap_or_default();
        left.drain(..n);
        b.run(ms(0));
        if let Some(last) = b.seen().pop() {
            b.say(&hand.ack(&last));
        }
    }
    b.shut(&stream);
    while let Some(last) = b.seen().pop() {
        b.say(&hand.ack(&last));
    }
    b.say(&hand.fin());
    b.seen();
    assert_eq!(stream.state(), State::TimeWait);
    (hand, listener, stream)
}

fn new_syn(hand: &Hand) -> Segment {
    Segment {
        seq: hand.snd + 5000,
        ..hand.segment(SYN)
    }
}

#[test]
fn the_next_incarnation_begins_beyond_the_last() {
    // RFC 1122 4.2.2.13: breaks if the initial sequence number comes from the clock alone. After a transfer of more
    // than 250 kB/s it lies inside of the old connection's sequence space, and old segments pass for new ones.
    let mut b = Bench::new();
    let (hand, _listener, _stream) = closed_after(&mut b, 4_000_000);
    b.say(&new_syn(&hand));
    let syn_ack = b.one();
    assert_eq!(syn_ack.flags, SYN | ACK);
    assert!(syn_ack.seq.after(hand.rcv), "{} {}", syn_ack.seq, hand.rcv);
}

/// The connection is in TIME-WAIT: it acknowledges the peer's FIN again, and ends when its time is over.
fn ends_from_time_wait(mut b: Bench, hand: &Hand, _sockets: (TcpListener, TcpStream)) {
    let again = Segment {
        seq: hand.snd - 1,
        ..hand.segment(FIN | ACK)
    };
    b.say(&again);
    let ack = b.one();
    assert_eq!((ack.flags, ack.seq, ack.ack), (ACK, hand.rcv, hand.snd));
    b.run(secs(31));
    assert_eq!(b.stack().stats().tcp.connections, 0);
}

#[test]
fn an_old_duplicate_syn_leads_back_to_time_wait() {
    // RFC 9293 3.6.1 (2): breaks if TIME-WAIT is gone once the peer has reset what an old duplicate of a SYN began.
    let mut b = Bench::new();
    let (hand, listener, stream) = closed_after(&mut b, 1000);
    let duplicate = new_syn(&hand);
    b.say(&duplicate);
    assert_eq!(b.one().flags, SYN | ACK);
    b.say(&Segment {
        seq: duplicate.seq + 1,
        ..hand.segment(RST)
    });
    b.nothing();
    assert!(listener.accept().is_err());
    ends_from_time_wait(b, &hand, (listener, stream));
}

#[test]
fn an_icmp_error_or_silence_leads_back_to_time_wait() {
    // RFC 9293 3.6.1 (2): breaks if TIME-WAIT is gone once a firewall, instead of the peer, has refused the answer to
    // an old duplicate of a SYN, or once nothing has answered it; old segments would then reach the next connection.
    for by_icmp in [true, false] {
        let mut b = Bench::tuned(|config| {
            config.tcp.syn_ack_retransmits_max = 1;
        });
        let (hand, listener, stream) = closed_after(&mut b, 1000);
        b.say(&new_syn(&hand));
        let syn_ack = b.one();
        match by_icmp {
            true => b.net.complain(b.peer, &syn_ack, (3, 3), [0; 4]),
            false => b.run(secs(5)),
        }
        b.run(ms(0));
        b.seen();
        ends_from_time_wait(b, &hand, (listener, stream));
    }
}

#[test]
fn a_syn_ends_time_wait_only_for_a_listener() {
    // Breaks if a SYN that nothing can answer ends TIME-WAIT all the same.
    let mut b = Bench::new();
    let (hand, listener, stream) = closed_after(&mut b, 1000);
    drop(listener);
    b.say(&new_syn(&hand));
    let challenge = b.one();
    assert_eq!((challenge.flags, challenge.ack), (ACK, hand.snd));
    assert_eq!(stream.state(), State::TimeWait);
}

/// A connection with timestamps that is in TIME-WAIT; the station's clock stands at `ts`.
fn waiting_with(b: &mut Bench, ts: u32) -> (Hand, TcpListener) {
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    let options = TcpOptions {
        mss: Some(MSS as u16),
        timestamps: Some((ts, 0)),
        ..TcpOptions::default()
    };
    let mut hand = b.dial(5000, options);
    hand.ts = Some((ts, 0));
    drop(listener.accept().expect("established"));
    b.run(ms(0));
    let fin = b.one();
    b.say(&hand.ack(&fin));
    b.say(&hand.fin());
    b.seen();
    (hand, listener)
}

#[test]
fn a_newer_timestamp_opens_the_next_connection() {
    // RFC 6191 2: breaks when a peer whose initial numbers are random, as all are now, must wait for TIME-WAIT to end
    // every second time; when an older SYN beyond the sequence space opens a connection; or when a SYN of the same time
    // does whose number is not beyond it.
    for (value, beyond, opens) in [
        (1001, true, true),
        (1001, false, true),
        (1000, true, true),
        (1000, false, false),
        (999, true, false),
        (999, false, false),
    ] {
        let mut b = Bench::new();
        let (hand, listener) = waiting_with(&mut b, 1000);
        let seq = match beyond {
            true => hand.snd + 5000,
            false => hand.snd - 5000,
        };
        let syn = Segment {
            seq,
            options: TcpOptions {
                timestamps: Some((value, 0)),
                ..TcpOptions::default()
            },
            ..hand.segment(SYN)
        };
        b.say(&syn);
        let answer = b.one();
        assert_eq!(answer.has(SYN), opens, "{value}, beyond: {beyond}");
        if opens {
            assert!(answer.seq.after(hand.rcv));
        }
        drop(listener);
        b.run(secs(100));
        b.seen();
    }
}

#[test]
fn a_pair_is_used_again_after_a_second_with_timestamps() {
    // RFC 6191 2, tcp_tw_reuse: breaks when a program with a port of its own can't connect again for as long as
    // TIME-WAIT lasts; when it can while a segment of the old connection may have the same timestamp, or without
    // timestamps; or when the new connection begins within the old one's sequence space.
    for (ts, after, opens) in [
        (Some((1000, 0)), 1100, true),
        (Some((1000, 0)), 900, false),
        (None, 1100, false),
    ] {
        let mut b = Bench::new();
        let connect = |b: &Bench| b.stack().tcp_connect(us(4000), them(PORT));
        let stream = connect(&b).expect("the pair is free");
        b.run(ms(0));
        let syn = b.one();
        let mut hand = Hand::answering(&syn);
        let options = TcpOptions {
            timestamps: ts,
            ..with_mss()
        };
        b.say(&Segment {
            options,
            ..hand.segment(SYN | ACK)
        });
        hand.snd += 1;
        hand.ts = ts;
        b.seen();
        drop(stream);
        b.run(ms(0));
        let fin = b.one();
        b.say(&hand.ack(&fin));
        b.say(&hand.fin());
        b.seen();
        b.run(ms(after));
        let again = connect(&b);
        assert_eq!(again.is_ok(), opens, "{ts:?} after {after} ms");
        if opens {
            b.run(ms(0));
            let next = b.one();
            assert!(next.has(SYN) && next.seq.after(hand.rcv));
            let value = |s: &Segment| s.options.timestamps.map(|(value, _)| value);
            assert!(value(&next) > value(&syn), "the clock of the pair goes on");
        }
        drop(again);
        b.run(secs(100));
        b.seen();
    }
}

#[test]
fn a_reset_does_not_end_time_wait() {
    // RFC 1337: breaks when a reset, which may be as old as any segment, ends the state that keeps old segments out.
    let mut b = Bench::new();
    let (hand, _listener, stream) = closed_after(&mut b, 10);
    for seq in [hand.snd, hand.snd - 1, hand.snd + 1] {
        b.say(&Segment {
            seq,
            ..hand.segment(RST)
        });
        b.nothing();
    }
    assert_eq!(stream.state(), State::TimeWait);
    b.run(secs(29));
    assert_eq!(stream.state(), State::TimeWait);
    b.run(secs(2));
    assert_eq!(stream.state(), State::Closed);
}
