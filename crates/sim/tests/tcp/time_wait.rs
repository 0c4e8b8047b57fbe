//! A SYN for a connection in TIME-WAIT (RFC 1122 4.2.2.13, RFC 9293 3.6.1).

use std::net::SocketAddrV4;

use crate::common::*;
use mbuma::{State, TcpListener, TcpStream};
use sim::Segment;
use wire::TcpOptions;

/// A connection of a listener that has sent so many bytes and is in TIME-WAIT.
fn closed_after(b: &mut Bench, bytes_sent: usize) -> (Hand, TcpListener, TcpStream) {
    let listener = b
        .stack()
        .tcp_listen(SocketAddrV4::new(US, PORT), 16)
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
    stream.shutdown(std::net::Shutdown::Write);
    b.run(ms(0));
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
    // RFC 1122 4.2.2.13: breaks if the initial sequence number comes from the clock alone. After a transfer of more than
    // 250 kB/s it lies inside of the old connection's sequence space, and old segments pass for new ones.
    let mut b = Bench::new();
    let (hand, listener, stream) = closed_after(&mut b, 4_000_000);
    b.say(&new_syn(&hand));
    let syn_ack = b.one();
    assert_eq!(syn_ack.flags, SYN | ACK);
    assert!(syn_ack.seq.after(hand.rcv), "{} {}", syn_ack.seq, hand.rcv);
    drop((stream, listener));
    b.finish();
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
    assert!(listener.accept().is_none());
    let again = Segment {
        seq: hand.snd - 1,
        ..hand.segment(FIN | ACK)
    };
    b.say(&again);
    let ack = b.one();
    assert_eq!((ack.flags, ack.seq, ack.ack), (ACK, hand.rcv, hand.snd));
    b.run(secs(31));
    assert_eq!(b.stack().stats().tcp.connections, 0);
    drop((stream, listener));
    b.finish();
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
    drop(stream);
    b.finish();
}
