//! The close of a connection, and the states after it.

use crate::common::*;
use mbuf::Chain;
use mbuma::{SocketError, State, TcpStream};
use sim::Segment;
use wire::SeqNum;

#[test]
fn we_close_first_and_the_peer_goes_on_for_a_while() {
    // RFC 9293 3.6: breaks when half-close ends the other direction too, or a state is left out.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        stream.send(b"bye").expect("room");
        b.shut(&stream);
        let seen = b.seen();
        let fin = seen.last().expect("a FIN is due").clone();
        assert!(fin.has(FIN));
        assert_eq!(stream.state(), State::FinWait1);
        b.say(&hand.ack(&fin));
        assert_eq!(stream.state(), State::FinWait2);
        assert_eq!(stream.send(b"more").err(), Some(SocketError::Closed));
        for text in ["one", "two", "three"] {
            b.say(&hand.data(text.as_bytes()));
            assert_eq!(read(&stream), text.as_bytes());
        }
        b.seen();
        b.say(&hand.fin());
        assert_eq!(b.one().ack, hand.snd);
        assert_eq!(stream.state(), State::TimeWait);
        assert_end(&stream);
    });
}

#[test]
fn the_last_data_have_the_fin() {
    // Breaks when the end of a short answer costs a segment of its own, and the peer's acknowledgement another; or when
    // a refused call closes the sending side.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        let stack = b.stack();
        let chain = |bytes: &[u8]| Chain::from_slice(stack.pool(), bytes).expect("buffers");
        stream.send_last_chain(chain(b"answer")).expect("room");
        b.run(ms(0));
        let last = b.one();
        assert!(last.has(FIN));
        assert_eq!(last.data, b"answer");
        let (e, back) = stream.send_last_chain(chain(b"more")).unwrap_err();
        assert_eq!((e, back.to_vec()), (SocketError::Closed, b"more".to_vec()));
        b.say(&hand.ack(&last));
        assert_eq!(stream.state(), State::FinWait2);
        b.say(&hand.fin());
        assert_eq!(b.one().ack, hand.snd);
        drop((back, stack));
    });
}

#[test]
fn the_peer_closes_first_and_we_go_on_for_a_while() {
    // RFC 9293 3.6: breaks when a peer's FIN stops our sending.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        let last = hand.data(b"last");
        b.say(&last);
        b.say(&hand.fin());
        assert_eq!(stream.state(), State::CloseWait);
        assert_eq!(read(&stream), b"last");
        assert_end(&stream);
        b.seen();
        stream.send(b"answer").expect("half of it is open");
        b.run(ms(0));
        let data = b.one();
        assert_eq!(data.data, b"answer");
        b.say(&hand.ack(&data));
        b.shut(&stream);
        let fin = b.one();
        assert!(fin.has(FIN));
        assert_eq!(stream.state(), State::LastAck);
        b.say(&hand.ack(&fin));
        assert_eq!((stream.state(), stream.error()), (State::Closed, None));
        assert!(
            stream
                .recv_chain(1)
                .expect("still the end of the stream")
                .is_empty()
        );
        assert_eq!(b.stack().stats().tcp.connections, 0);
    });
}

#[test]
fn both_close_at_once() {
    // RFC 9293 3.6, figure 13: breaks when FINs that cross lead anywhere but CLOSING and TIME-WAIT.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        b.shut(&stream);
        let ours = b.one();
        b.say(&hand.fin());
        assert_eq!(stream.state(), State::Closing);
        assert_eq!(b.one().ack, hand.snd);
        b.say(&hand.ack(&ours));
        assert_eq!(stream.state(), State::TimeWait);
    });
}

#[test]
fn a_fin_that_acknowledges_ours_leads_straight_to_time_wait() {
    // RFC 9293 3.10.7.4: breaks when both in one segment are taken for one.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        b.shut(&stream);
        hand.rcv = b.one().end();
        b.say(&hand.fin());
        assert_eq!(stream.state(), State::TimeWait);
    });
}

#[test]
fn a_fin_waits_for_data_that_is_missing() {
    // Breaks when a FIN that overtakes data ends the stream early.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        let data = hand.data(b"late");
        b.say(&hand.fin());
        assert_eq!(stream.state(), State::Established);
        assert_eq!(stream.recv_chain(9).err(), Some(SocketError::WouldBlock));
        b.say(&data);
        assert_eq!(read(&stream), b"late");
        assert_eq!(stream.state(), State::CloseWait);
    });
}

#[test]
fn our_fin_is_repeated_with_back_off() {
    // RFC 6298 5: breaks when the last segment of all is not protected by a timer.
    let mut b = Bench::new();
    let (_, stream) = b.active();
    b.run(secs(5));
    let start = b.net.now();
    stream.shutdown(std::net::Shutdown::Write);
    b.run(secs(4));
    let seen = b.seen();
    // Without a round trip worth mentioning the timeout is its lower bound, 200 ms.
    assert_eq!(times_ms(&seen, start), [0, 200, 600, 1400, 3000]);
    assert!(seen.iter().all(|s| s.has(FIN) && s.seq == seen[0].seq));
}

/// Closes from our side; the peer closes too. Returns the hand.
fn to_time_wait(b: &mut Bench) -> (Hand, mbuma::TcpStream) {
    let (mut hand, stream) = b.active();
    b.shut(&stream);
    hand.rcv = b.one().end();
    b.say(&hand.fin());
    b.one();
    assert_eq!(stream.state(), State::TimeWait);
    (hand, stream)
}

#[test]
fn time_wait_lasts_twice_the_segment_lifetime() {
    // RFC 9293 3.4.2, 3.6.1: breaks when it is shorter, or never ends.
    let mut b = Bench::new();
    let (_, stream) = to_time_wait(&mut b);
    b.run(ms(29_990));
    assert_eq!(stream.state(), State::TimeWait);
    b.run(ms(20));
    assert_eq!((stream.state(), stream.error()), (State::Closed, None));
    assert_eq!(b.stack().stats().tcp.connections, 0);
}

#[test]
fn a_repeated_fin_begins_time_wait_anew() {
    // RFC 9293 3.10.7.4: breaks when the peer's repeated FIN is not acknowledged again, or when the
    // wait ends while the peer may still be repeating it.
    each_shape(|mut b| {
        let (hand, stream) = to_time_wait(&mut b);
        b.run(secs(20));
        let again = Segment {
            seq: hand.snd - 1,
            ..hand.segment(FIN | ACK)
        };
        b.say(&again);
        assert_eq!(b.one().ack, hand.snd);
        b.run(secs(20));
        assert_eq!(stream.state(), State::TimeWait);
        b.run(secs(11));
        assert_eq!(stream.state(), State::Closed);
    });
}

#[test]
fn a_newer_syn_takes_the_place_of_a_time_wait() {
    // RFC 1122 4.2.2.13: breaks when a client that comes back to the same port has to wait, or when an
    // old SYN can end TIME-WAIT.
    each_shape(|mut b| {
        let listener = b.stack().tcp_listen(us(PORT), 16).expect("free");
        let mut hand = b.dial(5000, wire::TcpOptions::default());
        let stream = listener.accept().expect("established");
        b.shut(&stream);
        hand.rcv = b.one().end();
        b.say(&hand.fin());
        b.seen();
        assert_eq!(stream.state(), State::TimeWait);

        let old = Segment {
            seq: hand.snd - 5000,
            ..hand.segment(SYN)
        };
        b.say(&old);
        let challenge = b.one();
        assert_eq!((challenge.flags, challenge.ack), (ACK, hand.snd));
        assert_eq!(stream.state(), State::TimeWait);

        let new = Segment {
            seq: hand.snd + 5000,
            ..hand.segment(SYN)
        };
        b.say(&new);
        let syn_ack = b.one();
        assert_eq!((syn_ack.flags, syn_ack.ack), (SYN | ACK, new.seq + 1));
        assert_eq!((stream.state(), stream.error()), (State::Closed, None));
        hand.snd = new.seq + 1;
        hand.rcv = syn_ack.seq + 1;
        b.say(&hand.segment(ACK));
        let second = listener.accept().expect("the new connection");
        assert_eq!(second.state(), State::Established);
    });
}

#[test]
fn an_orphan_does_not_wait_in_fin_wait_2_for_ever() {
    // Breaks when a peer that never closes keeps a connection without an owner.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    drop(stream);
    b.run(ms(0));
    let fin = b.one();
    assert!(fin.has(FIN));
    b.say(&hand.ack(&fin));
    assert_eq!(b.stack().stats().tcp.connections, 1);
    b.run(secs(59));
    assert_eq!(b.stack().stats().tcp.connections, 1);
    b.run(secs(2));
    assert_eq!(b.stack().stats().tcp.connections, 0);
}

#[test]
fn an_owner_may_wait_in_fin_wait_2_as_long_as_it_likes() {
    // Breaks when half-close has a time limit: a long answer to a request takes what it takes.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    b.shut(&stream);
    let fin = b.one();
    b.say(&hand.ack(&fin));
    b.run(secs(3600));
    b.say(&hand.data(b"at last"));
    assert_eq!(read(&stream), b"at last");
}

#[test]
fn data_for_an_orphan_is_answered_with_a_reset() {
    // RFC 1122 4.2.2.13: breaks when a peer is led to believe that its data is read.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        drop(stream);
        b.run(ms(0));
        let fin = b.one();
        b.say(&hand.ack(&fin));
        b.say(&hand.data(b"anybody there?"));
        let rst = b.one();
        assert!(rst.has(RST));
        assert_eq!(
            rst.seq, hand.rcv,
            "or the peer does not believe it (RFC 5961 3.2)"
        );
        assert_eq!(b.stack().stats().tcp.connections, 0);
    });
}

#[test]
fn data_beside_a_syn_that_crosses_that_of_an_orphan_is_answered_with_a_reset() {
    // RFC 1122 4.2.2.13: breaks when the data that waits for the end of the handshake is acknowledged although the
    // program is gone.
    let mut b = Bench::new();
    let stream = b.connect();
    let mut hand = Hand::answering(&b.one());
    stream.send(b"a request").expect("room");
    drop(stream);
    b.say(&Segment {
        data: b"anybody there?".to_vec(),
        ..hand.segment(SYN)
    });
    hand.snd += 1;
    let syn_ack = b.one();
    assert_eq!((syn_ack.flags, syn_ack.ack), (SYN | ACK, hand.snd));
    b.say(&hand.segment(ACK));
    assert!(b.one().has(RST));
    assert_eq!(b.stack().stats().tcp.connections, 0);
}

#[test]
fn dropping_a_stream_with_unread_data_resets_it() {
    // RFC 2525 2.17: breaks when the peer believes that what it sent was read.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        b.say(&hand.data(b"unread"));
        b.seen();
        drop(stream);
        b.run(ms(0));
        let rst = b.one();
        assert!(rst.has(RST));
        assert_eq!(rst.seq, hand.rcv);
    });
}

#[test]
fn abort_resets_from_every_state() {
    // RFC 9293 3.10.5: breaks when a state that requires a reset sends none, or the connection stays.
    type Step = fn(&mut Bench, &mut Hand, &mbuma::TcpStream);
    let steps: [(State, bool, Step); 6] = [
        (State::Established, true, |_, _, _| {}),
        (State::CloseWait, true, |b, hand, _| {
            b.say(&hand.fin());
        }),
        (State::FinWait1, true, |b, _, stream| {
            b.shut(stream);
        }),
        (State::FinWait2, true, |b, hand, stream| {
            b.shut(stream);
            let fin = b.one();
            b.say(&hand.ack(&fin));
        }),
        (State::LastAck, true, |b, hand, stream| {
            b.say(&hand.fin());
            b.shut(stream);
        }),
        (State::TimeWait, false, |b, hand, stream| {
            b.shut(stream);
            hand.rcv = b.one().end();
            b.say(&hand.fin());
        }),
    ];
    for (state, tells, step) in steps {
        let mut b = Bench::new();
        let (mut hand, stream) = b.active();
        step(&mut b, &mut hand, &stream);
        assert_eq!(stream.state(), state);
        b.seen();
        stream.abort();
        b.run(ms(0));
        assert_eq!(b.seen().iter().any(|s| s.has(RST)), tells, "{state:?}");
        assert_eq!(stream.recv_chain(1).err(), Some(SocketError::Closed));
        assert_eq!(b.stack().stats().tcp.connections, 0, "{state:?}");
    }
}

#[test]
fn a_reset_is_believed_in_every_state() {
    // RFC 9293 3.10.7.4: breaks when a connection outlives its peer.
    each_shape(|mut b| {
        let (hand, stream) = b.passive();
        b.send(&stream, b"in flight");
        b.seen();
        b.say(&hand.segment(RST));
        assert_eq!(stream.error(), Some(SocketError::Reset));
        assert_eq!(stream.send(b"x").err(), Some(SocketError::Reset));
        assert_eq!(stream.recv_chain(1).err(), Some(SocketError::Reset));
        b.nothing();
    });
    // Half-open: the listener's user never hears of it.
    let mut b = Bench::new();
    let listener = b.stack().tcp_listen(us(PORT), 1).expect("free");
    let mut hand = Hand::from_port(5000);
    b.say(&hand.segment(SYN));
    hand.snd += 1;
    b.say(&hand.segment(RST));
    assert!(listener.accept().is_err());
    assert_eq!(b.stack().stats().tcp.connections, 0);
}

#[test]
fn data_received_before_a_reset_can_still_be_read() {
    // Breaks when a reset drops data that was acknowledged.
    let mut b = Bench::new();
    let (mut hand, stream) = b.passive();
    b.say(&hand.data(b"acknowledged"));
    b.say(&hand.segment(RST));
    assert_eq!(read(&stream), b"acknowledged");
    assert_eq!(stream.recv_chain(1).err(), Some(SocketError::Reset));
}

#[test]
fn a_fin_fits_into_a_closed_window() {
    // Breaks when a connection whose reader has stopped can't be closed, and dies of it.
    let mut b = Bench::tuned(|c| c.tcp.recv_buffer = 4096);
    let (mut hand, stream) = b.passive();
    for chunk in bytes(4096).chunks(1024) {
        b.say(&hand.data(chunk));
    }
    b.run(ms(50));
    assert_eq!(b.seen().last().expect("acknowledged").window, 0);
    b.say(&hand.fin());
    assert_eq!(b.one().ack, hand.snd);
    assert_eq!(read(&stream), bytes(4096));
    assert_end(&stream);
    drop(stream);
}

/// A connection whose peer has closed its window with the acknowledgement of all data.
fn sent_into_a_closed_window(b: &mut Bench) -> (Hand, TcpStream) {
    let (mut hand, stream) = b.active_with(536, wire::TcpOptions::default());
    hand.window = 0;
    b.send(&stream, &bytes(536));
    let data = b.one();
    b.say(&hand.ack(&data));
    (hand, stream)
}

#[test]
fn a_fin_at_a_closed_window_waits_as_long_as_the_peer_answers() {
    // RFC 9293 3.8.6.1: breaks when a connection is given up although its peer is there. Not every
    // peer takes a FIN while its window is closed.
    let mut b = Bench::new();
    let (mut hand, stream) = sent_into_a_closed_window(&mut b);
    b.shut(&stream);
    let mut fins = 0;
    for _ in 0..3600 {
        b.run(secs(1));
        for segment in b.seen() {
            fins += u32::from(segment.has(FIN));
            b.say(&hand.segment(ACK));
        }
    }
    assert!((50..120).contains(&fins), "about one a minute: {fins}");
    assert_eq!(stream.state(), State::FinWait1);
    hand.window = 1000;
    b.say(&hand.segment(ACK));
    b.run(secs(60));
    let fin = b.seen().pop().expect("the FIN again");
    b.say(&hand.ack(&fin));
    assert_eq!(stream.state(), State::FinWait2);
}

#[test]
fn the_fin_of_an_orphan_does_not_wait_for_ever_at_a_closed_window() {
    // RFC 6429 3: breaks when a peer that answers and takes no FIN keeps a connection without an owner.
    let mut b = Bench::new();
    let (hand, stream) = sent_into_a_closed_window(&mut b);
    drop(stream);
    for _ in 0..3600 {
        b.run(secs(1));
        for _ in b.seen().iter().filter(|s| !s.has(RST)) {
            b.say(&hand.segment(ACK));
        }
    }
    assert_eq!(b.stack().stats().tcp.timed_out, 1);
}

#[test]
fn a_silent_peer_is_given_up_and_told() {
    // RFC 9293 3.8.3: breaks when retransmission never ends, or the peer is left with half of a
    // connection.
    let mut b = Bench::new();
    let (hand, stream) = b.active();
    stream.send(b"hello?").expect("room");
    b.run(secs(1200));
    assert_eq!(stream.error(), Some(SocketError::TimedOut));
    let seen = b.seen();
    let sent = seen.iter().filter(|s| !s.data.is_empty()).count();
    assert_eq!(sent, 13, "once, and 12 times again");
    let rst = seen.last().expect("a reset at last");
    assert!(rst.has(RST));
    assert_eq!(rst.seq, hand.rcv + 6);
}

#[test]
fn old_segments_do_not_disturb_a_connection() {
    // Breaks when a duplicate from before moves anything.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        let first = hand.data(b"first");
        b.say(&first);
        b.say(&hand.data(b"second"));
        b.seen();
        b.say(&first);
        assert_eq!(b.one().ack, hand.snd);
        b.say(&Segment {
            seq: first.seq - 3000,
            ..first.clone()
        });
        assert_eq!(b.one().ack, hand.snd);
        b.say(&Segment {
            seq: SeqNum(first.seq.0 ^ 0x8000_0000),
            ..first
        });
        b.run(ms(0));
        assert_eq!(read(&stream), b"firstsecond");
    });
}

#[test]
fn a_fin_that_comes_twice_at_once_does_not_get_around_the_bound_of_time_wait() {
    // Breaks when a second FIN in the same batch makes the stack forget that the connection has just
    // come into TIME-WAIT: such connections are not among those of which the oldest make room.
    let mut b = Bench::tuned(|c| c.tcp.time_wait_max = 2);
    for _ in 0..6 {
        let (mut hand, stream) = b.active();
        b.shut(&stream);
        hand.rcv = b.one().end();
        let fin = hand.fin();
        b.net.say(b.peer, &fin);
        b.say(&fin);
        drop(stream);
        b.run(ms(0));
        b.seen();
    }
    assert_eq!(b.stack().stats().tcp.connections, 2);
}

#[test]
fn who_reads_no_more_acknowledges_all_the_same() {
    // POSIX shutdown(SHUT_RD), as BSD and Linux have it: breaks when data after it is answered with a reset, is not
    // acknowledged, or closes the window; or when its end is not seen.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        stream.shutdown(std::net::Shutdown::Read);
        assert_eq!(stream.recv(&mut [0; 4]), Ok(0));
        for _ in 0..200 {
            b.say(&hand.data(&bytes(2 * MSS)));
            b.run(ms(50));
            let answer = b.seen().pop().expect("an acknowledgement");
            assert!(!answer.has(RST), "{answer}");
            assert_eq!(answer.ack, hand.snd);
            assert!(answer.window > 0);
        }
        let fin = hand.segment(ACK | FIN);
        b.say(&fin);
        assert_eq!(stream.state(), State::CloseWait);
        assert_eq!(b.seen().pop().expect("the FIN's").ack, fin.end());
    });
}

#[test]
fn closing_the_reading_side_opens_the_window_for_good() {
    // POSIX shutdown(SHUT_RD): breaks when a peer that filled the window before it stays stopped, because the dropped
    // bytes count as unread or no window update tells of their room; or is stopped later, because what comes is kept.
    let mut b = Bench::tuned(|c| c.tcp.recv_buffer = 4 * MSS);
    let (mut hand, stream) = b.passive();
    for _ in 0..4 {
        b.say(&hand.data(&bytes(MSS)));
    }
    b.run(ms(250));
    assert_eq!(b.seen().pop().expect("an answer").window, 0);
    stream.shutdown(std::net::Shutdown::Read);
    b.run(ms(0));
    let whole = 4 * MSS as u16;
    let update = b.one();
    assert_eq!((update.ack, update.window), (hand.snd, whole));
    for _ in 0..8 {
        b.say(&hand.data(&bytes(2 * MSS)));
        b.run(ms(250));
        let answer = b.seen().pop().expect("an acknowledgement");
        assert_eq!((answer.ack, answer.window), (hand.snd, whole));
    }
}
