//! Windows: closed, small, large.

use std::time::Duration;

use crate::common::*;
use mbuma::{SocketError, State};
use sim::{Link, Net, Pattern, PortConfig, Segment};
use wire::TcpOptions;

/// Sends as much as the window takes, and has it acknowledged while the window closes.
fn close_window(b: &mut Bench) -> (Hand, mbuma::TcpStream) {
    let options = TcpOptions {
        mss: Some(1000),
        ..TcpOptions::default()
    };
    let (mut hand, stream) = b.active_with(1000, options);
    b.run(secs(1));
    b.send(&stream, &bytes(5000));
    let data = b.one();
    assert_eq!(data.data.len(), 1000);
    hand.window = 0;
    b.say(&hand.ack(&data));
    b.nothing();
    (hand, stream)
}

#[test]
fn a_closed_window_is_probed_for_an_hour_and_then_everything_goes_on() {
    // RFC 9293 3.8.6.1: breaks when the probing stops, the connection is given up, or the probes do
    // not become rarer.
    let mut b = Bench::new();
    let (mut hand, stream) = close_window(&mut b);
    let start = b.net.now();
    let mut probes = Vec::new();
    while b.net.now() < start + secs(3600) {
        b.run(ms(100));
        for probe in b.seen() {
            assert_eq!((probe.data.len(), probe.seq), (1, hand.rcv));
            b.say(&hand.segment(ACK));
            probes.push(probe);
        }
    }
    let at = times_ms(&probes, start);
    assert_eq!(at[..6], [200, 600, 1400, 3000, 6200, 12_600]);
    assert!(
        (60..75).contains(&at.len()),
        "one a minute in the end: {}",
        at.len()
    );
    let stats = b.stack().stats().tcp;
    assert_eq!(
        (stats.timeouts, stats.fast_retransmits),
        (0, 0),
        "a closed window is no loss"
    );
    assert_eq!(stream.state(), State::Established);

    hand.window = 65_535;
    b.say(&hand.segment(ACK));
    let rest: Vec<u8> = b.seen().into_iter().flat_map(|s| s.data).collect();
    assert_eq!(rest, bytes(5000)[1000..]);
    hand.rcv += 4000;
    b.say(&hand.segment(ACK));
}

#[test]
fn a_peer_that_does_not_answer_probes_is_given_up() {
    // Breaks when a dead peer with a closed window keeps a connection for ever.
    let mut b = Bench::new();
    let (_, stream) = close_window(&mut b);
    b.run(secs(1200));
    assert_eq!(stream.error(), Some(SocketError::TimedOut));
}

/// A connection that has sent data and a FIN, of which the peer took nothing: it has no room.
fn close_over_data_and_fin(b: &mut Bench) -> (Hand, mbuma::TcpStream) {
    let (mut hand, stream) = b.active();
    b.run(secs(1));
    stream.send(&bytes(500)).expect("room");
    b.shut(&stream);
    assert!(b.seen().iter().any(|s| s.has(FIN)));
    hand.window = 0;
    b.say(&hand.segment(ACK));
    (hand, stream)
}

/// Drops the stream, whose peer answers probes and keeps its window closed, and returns how long the connection lives.
fn orphan_lives(b: &mut Bench, hand: &mut Hand, stream: mbuma::TcpStream, takes: bool) -> Duration {
    let start = b.net.now();
    drop(stream);
    while b.stack().stats().tcp.connections > 0 {
        b.run(ms(100));
        for probe in b.seen().iter().filter(|s| !s.has(RST)) {
            assert_eq!((probe.seq, probe.data.len()), (hand.rcv, 1));
            let answer = match takes {
                true => hand.ack(probe),
                false => hand.segment(ACK),
            };
            b.say(&answer);
        }
        assert!(b.net.now() < start + secs(700));
    }
    assert_eq!(b.stack().stats().tcp.timed_out, 1);
    b.net.now() - start
}

#[test]
fn no_connection_waits_for_ever_for_a_window_that_stays_closed() {
    // RFC 6429 3: breaks when a peer that answers and never reads keeps a connection without an owner.
    let mut b = Bench::new();
    let (mut hand, stream) = close_window(&mut b);
    assert!(orphan_lives(&mut b, &mut hand, stream, false) > secs(500));
}

#[test]
fn an_orphan_waits_as_long_if_its_probes_are_frequent() {
    // Breaks when the wait for a closed window is bounded by a number of probes: a small bound of their interval makes
    // that some seconds.
    let mut b = Bench::tuned(|c| c.tcp.rto_max = secs(1));
    let (mut hand, stream) = close_window(&mut b);
    assert!(orphan_lives(&mut b, &mut hand, stream, false) > secs(500));
}

#[test]
fn a_byte_at_times_does_not_keep_an_orphan() {
    // RFC 6429 3: breaks when a peer that opens its window for a byte every eight minutes keeps a connection without an
    // owner, and its data.
    let mut b = Bench::new();
    let (mut hand, stream) = close_window(&mut b);
    let start = b.net.now();
    drop(stream);
    let mut opens = start + secs(480);
    while b.stack().stats().tcp.connections > 0 {
        b.run(ms(100));
        for probe in b.seen().iter().filter(|s| !s.has(RST)) {
            b.say(&hand.ack(probe));
        }
        if b.net.now() >= opens {
            opens += secs(480);
            hand.window = 1;
            b.say(&hand.segment(ACK));
            hand.window = 0;
        }
        assert!(b.net.now() < start + secs(9000), "still there");
    }
    assert_eq!(b.stack().stats().tcp.timed_out, 1);
}

#[test]
fn probes_that_are_taken_do_not_come_sooner() {
    // Breaks when the acknowledgement of a probe restarts the retransmission timer of the data behind it, whose end is
    // the next probe: then a peer with room for some bytes, less than its window's scale can tell, gets a probe each
    // timeout, and an orphan gives it up after some seconds (seeds 23366, 24139, 25479).
    let mut b = Bench::new();
    let (mut hand, stream) = close_over_data_and_fin(&mut b);
    assert!(orphan_lives(&mut b, &mut hand, stream, true) > secs(500));
}

#[test]
fn a_window_that_closes_over_data_and_fin_is_probed() {
    // RFC 9293 3.8.6.1: breaks when what is under way is neither sent again nor asked for, because the
    // window is closed and the FIN behind it is sent already.
    let mut b = Bench::new();
    let (mut hand, stream) = close_over_data_and_fin(&mut b);
    drop(stream);
    for _ in 0..45 {
        b.run(secs(10));
        for probe in b.seen() {
            assert_eq!((probe.seq, probe.data.len()), (hand.rcv, 1));
            b.say(&hand.segment(ACK));
        }
    }
    assert!(b.stack().stats().tcp.zero_window_probes > 10);
    hand.window = 65_535;
    b.say(&hand.segment(ACK));
    let again = b.seen();
    let data: Vec<u8> = again.iter().flat_map(|s| s.data.clone()).collect();
    assert_eq!(data, bytes(500));
    let fin = again.last().expect("data").clone();
    assert!(fin.has(FIN));
    b.say(&hand.ack(&fin));
}

#[test]
fn a_window_that_closes_after_a_long_silence_is_probed() {
    // Breaks when the silence before the first probe counts against the peer.
    let mut b = Bench::new();
    let (hand, stream) = b.active_with(0, TcpOptions::default());
    b.run(secs(7200));
    stream.send(b"after two hours").expect("room");
    b.run(ms(1500));
    assert!(!b.seen().is_empty());
    assert_eq!(stream.state(), State::Established);
    b.say(&hand.segment(ACK));
    assert_eq!(stream.error(), None);
}

#[test]
fn a_probe_that_is_taken_moves_on() {
    // Breaks when the sender does not go on when the peer has room for exactly the byte of the probe.
    let mut b = Bench::new();
    let (mut hand, _stream) = close_window(&mut b);
    b.run(ms(250));
    let probe = b.one();
    hand.window = 65_535;
    b.say(&hand.ack(&probe));
    let rest: Vec<u8> = b.seen().into_iter().flat_map(|s| s.data).collect();
    assert_eq!(rest, bytes(5000)[1001..], "full segments and the end");
}

#[test]
fn a_window_that_closes_and_opens_at_once_gets_nothing_again() {
    // Breaks when the stack and a peer that drops each segment for want of memory, and answers each, exchange segments
    // for ever.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    b.run(secs(1));
    b.send(&stream, &bytes(2920));
    let sent: usize = b.seen().iter().map(|s| s.data.len()).sum();
    assert_eq!(sent, 2920);
    for _ in 0..10 {
        for window in [0, 65_535] {
            hand.window = window;
            b.say(&hand.segment(ACK));
            b.nothing();
        }
    }
    // But it does come again, in its time.
    b.run(secs(2));
    let again = b.seen();
    assert_eq!(again.first().map(|s| s.seq), Some(hand.rcv));
    assert_eq!(stream.error(), None);
}

#[test]
fn acknowledgements_get_through_while_windows_are_closed() {
    // RFC 9293 3.10.7.4: breaks when a probe moves our acknowledgements out of the peer's window, or
    // when we do not process the peer's at the edge of our window: then neither side hears the other.
    each_shape(|mut b| {
        let (mut hand, stream) = close_window(&mut b);
        b.run(ms(250));
        assert_eq!(b.one().data.len(), 1, "a probe");
        let data = hand.data(b"the other way");
        b.say(&data);
        b.run(ms(50));
        let ack = b.one();
        assert_eq!(ack.ack, hand.snd);
        assert_eq!(
            ack.seq, hand.rcv,
            "the right edge of the closed window, not behind it"
        );
        assert_eq!(read(&stream), b"the other way");
        stream.abort();
    });
    let mut b = Bench::tuned(|c| c.tcp.recv_buffer = 4096);
    let (mut hand, stream) = b.passive();
    let full = hand.data(&bytes(4096 - 1000));
    let rest = hand.data(&bytes(1000));
    b.say(&full);
    b.say(&rest);
    b.send(&stream, b"ours");
    let ours = b.seen().pop().expect("data");
    assert_eq!(ours.data, b"ours");
    hand.rcv = ours.end();
    // A window's worth is sent, so that this lies at the right edge.
    b.say(&hand.segment(ACK));
    assert_eq!(stream.info().send_queue, 0);
}

#[test]
fn a_late_duplicate_does_not_move_the_window() {
    // RFC 9293 3.10.7.4 (SND.WL1): breaks when an old segment's window is taken for new because its
    // data was cut off.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        hand.window = 1000;
        let old = hand.data(b"old");
        b.say(&old);
        hand.window = 65_535;
        b.say(&hand.data(b"new"));
        b.seen();
        b.say(&old);
        b.seen();
        assert_eq!(stream.info().snd_wnd, 65_535);
        stream.abort();
    });
}

#[test]
fn the_window_closes_without_a_reader_and_opens_with_one() {
    // RFC 9293 3.8.6: breaks when more is announced than there is room, or a reader's progress is
    // never told to a peer that waits for it.
    for shape in sim::Shape::ALL {
        let port = PortConfig::plain(link_mtu()).shaped(shape);
        let mut b = Bench::with(&port, |c| c.tcp.recv_buffer = 16_384);
        let (mut hand, stream) = b.passive();
        let mut sent = Vec::new();
        loop {
            let data = hand.data(&bytes(1024));
            b.say(&data);
            sent.extend_from_slice(&data.data);
            b.run(ms(50));
            let ack = b.seen().pop().expect("an acknowledgement");
            assert_eq!(ack.ack, hand.snd);
            assert!(usize::from(ack.window) <= 16_384 - sent.len());
            if ack.window == 0 {
                break;
            }
        }
        assert_eq!(sent.len(), 16_384);
        assert_eq!(read(&stream), sent);
        b.run(ms(0));
        assert_eq!(b.one().window, 16_384, "told at once");
    }
}

#[test]
fn a_reader_of_a_buffer_larger_than_any_window_reopens_it() {
    // RFC 9293 3.8.6: breaks when a peer that cannot scale windows hears of a reader's progress only by its own probes,
    // because a quarter of the buffer is more than a window can grow by.
    let mut b = Bench::tuned(|c| {
        c.tcp.recv_buffer = 400_000;
        c.tcp.recv_buffer_max = 400_000;
    });
    let (mut hand, stream) = b.passive();
    let mut sent = 0;
    loop {
        let data = hand.data(&bytes(1000));
        b.say(&data);
        sent += data.data.len();
        b.run(ms(50));
        let ack = b.seen().pop().expect("an acknowledgement");
        assert_eq!(ack.ack, hand.snd);
        if ack.window < 1000 {
            break;
        }
    }
    assert_eq!(read(&stream).len(), sent);
    b.run(ms(0));
    assert_eq!(b.one().window, 65_535, "told at once");
}

#[test]
fn a_slow_reader_does_not_cause_small_segments() {
    // RFC 9293 3.8.6.2.2 (silly window syndrome): breaks when each byte read is announced.
    let mut b = Bench::tuned(|c| c.tcp.recv_buffer = 16_384);
    let (mut hand, stream) = b.passive();
    for chunk in bytes(16_384).chunks(1024) {
        let data = hand.data(chunk);
        b.say(&data);
    }
    b.run(ms(50));
    b.seen();
    let mut read = 0;
    for _ in 0..1400 {
        read += stream.recv_chain(1).expect("16 KiB are there").len();
        b.run(ms(1));
        b.nothing();
    }
    assert_eq!(read, 1400);
    // Not even to a probe.
    let probe = Segment {
        data: vec![0],
        ..hand.segment(ACK)
    };
    b.say(&probe);
    assert_eq!(b.one().window, 0);
    stream.recv_chain(60).expect("more is there");
    b.say(&probe);
    assert_eq!(b.one().window, 1460, "now it is a segment");
}

#[test]
fn the_answers_of_a_dialogue_announce_one_window() {
    // Breaks when the edge is held back by less than a segment though all was read: then nearly each answer has another
    // window, and none of them is the segment that a peer with header prediction expects.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        let mut windows = Vec::new();
        for _ in 0..40 {
            let request = hand.data(&bytes(69));
            b.say(&request);
            assert_eq!(read(&stream).len(), 69);
            b.send(&stream, b"answer");
            let answer = b.one();
            hand.rcv = answer.end();
            windows.push(answer.window);
        }
        windows.dedup();
        assert_eq!(windows.len(), 1, "{windows:?}");
        stream.abort();
    });
}

#[test]
fn a_small_window_waits_until_it_is_worth_it() {
    // RFC 1122 4.2.3.4: breaks when a sender fills each small window with a small segment; or never
    // sends into one that stays small.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    b.run(secs(1));
    hand.window = 100;
    b.say(&hand.segment(ACK));
    stream.send(&bytes(5000)).expect("room");
    b.run(ms(150));
    b.nothing();
    b.run(ms(100));
    let forced = b.one();
    assert_eq!(
        forced.data.len(),
        100,
        "the override timeout sends what fits"
    );
    b.say(&hand.ack(&forced));
}

#[test]
fn small_writes_are_gathered_while_something_is_under_way() {
    // RFC 896, RFC 9293 3.7.4 (Nagle): breaks when every keystroke is a segment, or the last one never
    // leaves.
    each_shape(|mut b| {
        let (mut hand, stream) = b.active();
        for c in b"typing" {
            stream.send(&[*c]).expect("room");
            b.run(ms(1));
        }
        let first = b.one();
        assert_eq!(first.data, b"t");
        b.say(&hand.ack(&first));
        let second = b.one();
        assert_eq!(second.data, b"yping");
        b.say(&hand.ack(&second));
    });
}

#[test]
fn nodelay_sends_at_once() {
    // Breaks when a program that set TCP_NODELAY still waits.
    let mut b = Bench::new();
    let (_, stream) = b.active();
    stream.set_nodelay(true);
    for c in b"typing" {
        stream.send(&[*c]).expect("room");
        b.run(ms(1));
    }
    let seen = b.seen();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|s| s.data.len() == 1 && s.has(PSH)));
}

#[test]
fn the_end_of_a_write_waits_only_for_a_small_segment() {
    // RFC 9293 A.3: breaks when Nagle's rule holds back more than the second small segment.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    for expected in [&[MSS, MSS, 10][..], &[MSS, MSS]] {
        b.send(&stream, &bytes(2 * MSS + 10));
        let lens: Vec<_> = b.seen().iter().map(|s| s.data.len()).collect();
        assert_eq!(lens, expected);
    }
    hand.rcv += 2 * MSS as u32 + 10;
    b.say(&hand.segment(ACK));
    assert_eq!(b.one().data.len(), 10);
}

#[test]
fn acknowledgements_wait_for_data_to_ride_on_but_not_long() {
    // RFC 1122 4.2.3.2: breaks when each segment is acknowledged by itself, or the delay is wrong.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        let data = hand.data(&bytes(100));
        b.say(&data);
        b.nothing();
        b.send(&stream, b"answer");
        let ride = b.one();
        assert_eq!((ride.data.as_slice(), ride.ack), (&b"answer"[..], hand.snd));
        b.say(&hand.ack(&ride));
        b.run(ms(100));
        b.nothing();

        let start = b.net.now();
        b.say(&hand.data(&bytes(100)));
        b.nothing();
        b.run(ms(100));
        let seen = b.seen();
        assert_eq!(times_ms(&seen, start), [40]);
        assert_eq!(seen[0].ack, hand.snd);
        stream.abort();
    });
}

#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    // RFC 1122 4.2.3.2, RFC 5681 4.2: breaks when a sender has to wait for a timer behind the first segments, which
    // are acknowledged one by one.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        for _ in 0..16 {
            b.say(&hand.data(&bytes(MSS)));
        }
        assert_eq!(read(&stream).len(), 16 * MSS);
        b.run(ms(0));
        b.seen();
        let one = hand.data(&bytes(MSS));
        b.say(&one);
        b.nothing();
        b.say(&hand.data(&bytes(MSS)));
        assert_eq!(b.one().ack, hand.snd);
        stream.abort();
    });
}

#[test]
fn a_gap_is_reported_at_once_and_so_is_its_end() {
    // RFC 5681 4.2: breaks when the sender does not get its duplicates, or waits once it has repaired.
    each_shape(|mut b| {
        let (mut hand, stream) = b.passive();
        let missing = hand.data(&bytes(500));
        let expected = missing.seq;
        for _ in 0..3 {
            b.say(&hand.data(&bytes(500)));
            assert_eq!(b.one().ack, expected);
        }
        b.say(&missing);
        assert_eq!(b.one().ack, hand.snd);
        assert_eq!(read(&stream).len(), 2000);
        stream.abort();
    });
}

#[test]
fn segments_in_any_order_and_overlap_make_the_same_stream() {
    // Breaks when reassembly loses, doubles or swaps a byte. Every order of six segments, some of
    // which overlap.
    let whole = bytes(600);
    let ranges = [
        (0, 100),
        (100, 250),
        (200, 300),
        (300, 450),
        (400, 600),
        (50, 500),
    ];
    each_shape(|mut b| {
        let listener = b.stack().tcp_listen(us(PORT), 16).expect("free");
        for (i, order) in permutations(ranges.len())
            .into_iter()
            .enumerate()
            .step_by(7)
        {
            let hand = b.dial(10_000 + i as u16, TcpOptions::default());
            let stream = listener.accept().expect("established");
            for &i in &order {
                let (from, to) = ranges[i];
                let seq = hand.snd + from as u32;
                b.say(&Segment {
                    data: whole[from..to].to_vec(),
                    seq,
                    ..hand.segment(ACK)
                });
            }
            assert_eq!(read(&stream), whole, "{order:?}");
            stream.abort();
            b.run(ms(0));
            b.seen();
        }
    });
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    let with = |p: &Vec<usize>| {
        let p = p.clone();
        (0..n).map(move |at| {
            let mut q = p.clone();
            q.insert(at, n - 1);
            q
        })
    };
    shorter.iter().flat_map(with).collect()
}

#[test]
fn a_segment_that_is_missing_is_taken_however_many_gaps_there_are() {
    // Breaks when a full reassembly queue refuses the very segment that would empty it.
    let mut b = Bench::tuned(|c| c.tcp.reass_ranges_max = 16);
    let (hand, stream) = b.passive();
    for i in 0..40 {
        let seq = hand.snd + 2 + 2 * i;
        b.say(&Segment {
            data: vec![9],
            seq,
            ..hand.segment(ACK)
        });
    }
    let reasons = b.stack().stats().dropped;
    assert!(
        reasons
            .iter()
            .any(|(r, n)| r.name() == "tcp_reassembly_full" && *n == 24),
        "{reasons:?}"
    );
    b.say(&Segment {
        data: vec![1, 2],
        ..hand.segment(ACK)
    });
    assert_eq!(read(&stream), [1, 2, 9]);
}

#[test]
fn small_segments_do_not_pin_clusters() {
    // Breaks when each byte keeps a whole cluster from being reused: a peer that sends bytes one by
    // one would hold thousands of times what it sends.
    let port = PortConfig::plain(link_mtu()).shaped(sim::Shape::Cluster);
    let mut b = Bench::with(&port, |_| {});
    let (mut hand, stream) = b.passive();
    for _ in 0..2000 {
        b.say(&hand.data(b"x"));
    }
    let live = b.stack().pool().live();
    assert!(
        live.clusters * 2048 + live.mbufs * 256 < 4 * 2000 + 4096,
        "{live:?}"
    );
    assert_eq!(read(&stream).len(), 2000);
    // The same behind a gap.
    hand.snd += 1;
    for _ in 0..2000 {
        b.say(&hand.data(b"x"));
    }
    let live = b.stack().pool().live();
    assert!(
        live.clusters * 2048 + live.mbufs * 256 < 4 * 2000 + 4096,
        "{live:?}"
    );
    stream.abort();
}

#[test]
fn a_scaled_window_fills_a_long_path() {
    // RFC 7323 2: breaks when windows are not scaled, or the sender does not use what it may: 50 ms at
    // 160 Mbit/s need a window of 1 MB, sixteen times what fits without scaling.
    let mut net = Net::new(5);
    let wire = net.wire(Link::rate(ms(25), 160_000_000));
    let (a, z) = (net.stack(), net.stack());
    net.plug(a, wire, us(0).ip(), &PortConfig::offloading(link_mtu()));
    net.plug(z, wire, them(0).ip(), &PortConfig::offloading(link_mtu()));
    let to = them(PORT);
    let listener = net.at(z).tcp_listen(to, 1).expect("free");
    let source = net.at(a).tcp_connect(us(0), to).expect("free");
    net.run_for(ms(200));
    let sink = listener.accept().expect("established");
    let pattern = Pattern::new(1);
    let (mut sent, mut received) = (0, 0);
    let mut second = [0; 4];
    for tick in 0..4000 {
        let mut chunk = vec![0; source.send_space().min(100_000)];
        pattern.fill(sent, &mut chunk);
        sent += chunk.len() as u64;
        if !chunk.is_empty() {
            source.send(&chunk).expect("room");
        }
        net.run_for(ms(1));
        let got = read(&sink);
        assert_eq!(pattern.mismatch(received, &got), None);
        received += got.len() as u64;
        second[tick / 1000] += got.len();
    }
    // 20 MB/s less headers; after slow start it should be nearly all of it.
    assert!(second[3] > 17_000_000, "bytes in each second: {second:?}");
}

#[test]
fn a_peer_without_scaling_gets_plain_windows() {
    // RFC 7323 1.3: breaks when a window is scaled although the peer did not agree.
    let mut b = Bench::new();
    let (mut hand, stream) = b.active();
    b.say(&hand.data(&bytes(100)));
    b.run(ms(50));
    // The buffer is a megabyte, of which the field says what it can.
    assert!(b.one().window > 65_535 - MSS as u16);
    hand.window = 1000;
    b.say(&hand.segment(ACK));
    assert_eq!(stream.info().snd_wnd, 1000);
}

#[test]
fn a_scaled_window_is_read_as_such() {
    // RFC 7323 2.3: breaks when the shift is applied in a SYN, or not applied after it; and a shift
    // above 14 counts as 14.
    for (shift, factor) in [(0, 1), (7, 128), (14, 16_384), (200, 16_384)] {
        let mut b = Bench::new();
        let options = TcpOptions {
            window_scale: Some(shift),
            ..TcpOptions::default()
        };
        let stream = b.connect();
        let mut hand = Hand::answering(&b.one());
        hand.window = 100;
        b.say(&Segment {
            options,
            ..hand.segment(SYN | ACK)
        });
        assert_eq!(stream.info().snd_wnd, 100);
        hand.snd += 1;
        b.say(&hand.segment(ACK));
        assert_eq!(stream.info().snd_wnd, 100 * factor, "shift {shift}");
    }
}

#[test]
fn a_window_that_grew_is_announced_once() {
    // Breaks when the turn to send finds that the window grew by enough to say so, announces nothing
    // because it grew by too little for that, and finds so again: for ever, with the connection locked.
    // Half of the first buffer is odd, and a segment larger than that.
    for (buffer, sent, taken) in [(16_002, 16_000, 8000), (1, 1, 1)] {
        let mut b = Bench::with(&PortConfig::plain(9000), |c| c.tcp.recv_buffer = buffer);
        let options = TcpOptions {
            mss: Some(8960),
            ..TcpOptions::default()
        };
        let addr = us(PORT);
        let listener = b.stack().tcp_listen(addr, 1).expect("the port is free");
        let mut hand = b.dial(5000, options);
        let stream = listener.accept().expect("the handshake is complete");
        for piece in bytes(sent).chunks(MSS) {
            let data = hand.data(piece);
            b.say(&data);
        }
        b.run(secs(1));
        b.seen();
        let part = stream.recv_chain(taken).expect("data");
        b.run(ms(0));
        assert_eq!(part.len() + read(&stream).len(), sent);
        b.run(ms(0));
        assert_eq!(usize::from(b.one().window), buffer);
    }
}
