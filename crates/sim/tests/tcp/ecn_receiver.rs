//! Explicit congestion notification: the handshake, and the receiver's half (RFC 3168).

use crate::common::*;
use mbuma::EcnMode;
use sim::Segment;
use wire::TcpFlags;

const ECE: TcpFlags = TcpFlags::ECE;
const CWR: TcpFlags = TcpFlags::CWR;

/// Congestion experienced, in the IP header.
const CE: u8 = 0b11;

/// A connection that the station began with an offer of ECN, which the stack took.
fn agreed(b: &mut Bench) -> (Hand, mbuma::TcpListener, mbuma::TcpStream) {
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    let mut hand = Hand::from_port(5000);
    b.say(&hand.segment(SYN | ECE | CWR));
    let answer = b.one();
    assert_eq!(answer.flags, SYN | ACK | ECE);
    hand.snd += 1;
    hand.rcv = answer.seq + 1;
    b.say(&hand.segment(ACK));
    let stream = listener.accept().expect("established");
    (hand, listener, stream)
}

/// The same with a mark.
fn marked(segment: Segment) -> Segment {
    Segment { ecn: CE, ..segment }
}

#[test]
fn a_mark_is_echoed_until_the_sender_says_that_it_knows() {
    // RFC 3168 6.1.3: breaks when a mark is not echoed at once, on acknowledgements and data, until CWR; or after it.
    let mut b = Bench::new();
    let (mut hand, _listener, stream) = agreed(&mut b);
    let data = hand.data(b"x");
    b.say(&marked(data));
    assert_eq!(b.one().flags, ACK | ECE);
    let data = hand.data(b"x");
    b.say(&data);
    b.send(&stream, b"answer");
    let answer = b.one();
    assert_eq!(answer.flags, ACK | PSH | ECE);
    let acknowledgement = hand.ack(&answer);
    b.say(&acknowledgement);
    let known = hand.data(b"x");
    b.say(&Segment {
        flags: known.flags | CWR,
        ..known
    });
    b.run(ms(50));
    assert_eq!(b.one().flags, ACK);
}

#[test]
fn marks_outside_of_the_window_and_on_old_data_are_not_echoed() {
    // RFC 3168 6.1.3 and 6.1.5: breaks when a forged or repeated segment slows the sender down.
    let mut b = Bench::new();
    let (mut hand, _listener, _stream) = agreed(&mut b);
    let data = hand.data(b"x");
    b.say(&data);
    b.run(ms(50));
    b.seen();
    let beyond = Segment {
        seq: hand.snd + 1_000_000,
        ..data.clone()
    };
    for wrong in [beyond, data, hand.segment(ACK)] {
        b.say(&marked(wrong));
        b.run(ms(50));
        assert!(b.seen().iter().all(|s| s.flags == ACK));
    }
}

#[test]
fn without_an_agreement_marks_mean_nothing() {
    // RFC 3168 6.1.1: breaks when a peer that did not offer ECN gets its bits, or a stack that has it switched off
    // accepts an offer.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    let data = hand.data(b"x");
    b.say(&marked(data));
    b.run(ms(50));
    assert_eq!(b.one().flags, ACK);
    drop((stream, b));

    let mut b = Bench::tuned(|c| c.tcp.ecn = EcnMode::Off);
    let listener = b
        .stack()
        .tcp_listen(us(PORT), 16)
        .expect("the port is free");
    b.say(&Hand::from_port(5000).segment(SYN | ECE | CWR));
    assert_eq!(b.one().flags, SYN | ACK);
    drop(listener);
    b.run(ms(0));
    b.seen();
}

#[test]
fn an_offer_that_gets_no_answer_is_not_made_again() {
    // RFC 3168 6.1.1.1: breaks when a middlebox that drops SYNs with the bits keeps every connection out; or when ECN
    // is used though one SYN went without it.
    let mut b = Bench::tuned(|c| c.tcp.ecn = EcnMode::Offer);
    let _stream = b.connect();
    let first = b.one();
    assert_eq!(first.flags, SYN | ECE | CWR);
    b.run(secs(1));
    let second = b.one();
    assert_eq!(second.flags, SYN);
    let mut hand = Hand::answering(&second);
    b.say(&hand.segment(SYN | ACK | ECE));
    hand.snd += 1;
    assert_eq!(b.one().flags, ACK);
    let data = hand.data(b"x");
    b.say(&marked(data));
    b.run(ms(50));
    assert_eq!(b.one().flags, ACK);
}

#[test]
fn a_program_chooses_ecn_for_its_own_connections() {
    // RFC 3168 6.1.1: breaks when the choice of a connection or of a listener does not go before the stack's, in either
    // direction.
    let asked = |mode| mbuma::TcpSocketOptions {
        ecn: Some(mode),
        ..mbuma::TcpSocketOptions::default()
    };
    for (stacks, own, offered) in [
        (EcnMode::Accept, EcnMode::Offer, SYN | ECE | CWR),
        (EcnMode::Offer, EcnMode::Accept, SYN),
    ] {
        let mut b = Bench::tuned(|c| c.tcp.ecn = stacks);
        let peer = them(PORT);
        let local = us(0);
        let stream = b.stack().tcp_connect_with(local, peer, &asked(own));
        b.run(ms(0));
        assert_eq!(b.one().flags, offered, "{stacks:?}");
        stream.expect("a route").abort();
    }
    for (stacks, own, answer) in [
        (EcnMode::Off, EcnMode::Accept, SYN | ACK | ECE),
        (EcnMode::Offer, EcnMode::Off, SYN | ACK),
    ] {
        let mut b = Bench::tuned(|c| c.tcp.ecn = stacks);
        let local = us(PORT);
        let listener = b.stack().tcp_listen(local, 16).expect("the port is free");
        listener.set_options(&asked(own));
        assert_eq!(listener.options(), asked(own));
        b.say(&Hand::from_port(5000).segment(SYN | ECE | CWR));
        assert_eq!(b.one().flags, answer, "{stacks:?}");
        drop(listener);
        b.run(ms(0));
        b.seen();
    }
}

#[test]
fn an_acknowledgement_alone_tells_how_the_syn_ack_arrived() {
    // RFC 9768 3.2.2.1, SHOULD: breaks when the first acknowledgement of a client has data that was written before:
    // then the server takes the flags for a count.
    let mut b = Bench::tuned(|c| c.tcp.ecn = EcnMode::OfferAccurate);
    let stream = b.connect();
    let syn = Segment {
        flags: SYN,
        ..b.one()
    };
    b.send(&stream, b"early");
    b.nothing();
    let mut hand = Hand::answering(&syn);
    b.say(&hand.segment(SYN | ACK | CWR));
    hand.snd += 1;
    let [code, data] = &b.seen()[..] else {
        panic!("two segments");
    };
    assert_eq!((code.flags, code.data.len()), (ACK | CWR, 0));
    assert_eq!(data.data, b"early");
    b.say(&hand.ack(data));
}

#[test]
fn after_an_offer_that_failed_the_next_connection_makes_none_for_a_while() {
    // RFC 9768 3.1.4.1: breaks when each connection over a path that drops SYNs for the bits of AccECN waits for two
    // timeouts, or when two lost SYNs switch AccECN off for ever.
    let mut b = Bench::tuned(|c| c.tcp.ecn = EcnMode::OfferAccurate);
    let first = b.connect();
    b.run(secs(4));
    let offers = |syns: &[Segment]| -> Vec<bool> {
        syns.iter().map(|syn| syn.flags.contains(ECE)).collect()
    };
    let syns = b.seen();
    assert_eq!(offers(&syns), [true, true, false]);
    let answer = |b: &mut Bench, syn: &Segment| {
        let hand = Hand::answering(syn);
        b.say(&hand.segment(SYN | ACK));
        assert_eq!(b.one().flags, ACK);
    };
    answer(&mut b, &syns[2]);
    let second = b.connect();
    let syns = b.seen();
    assert_eq!(offers(&syns), [false]);
    answer(&mut b, &syns[0]);
    [first, second].iter().for_each(|stream| stream.abort());
    b.run(secs(601));
    b.seen();
    let third = b.connect();
    let syns = b.seen();
    assert_eq!(offers(&syns), [true]);
    let hand = Hand::answering(&Segment {
        flags: SYN,
        ..syns[0].clone()
    });
    b.say(&hand.segment(SYN | ACK));
    b.seen();
    third.abort();
}
