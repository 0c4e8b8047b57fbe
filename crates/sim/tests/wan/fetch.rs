//! A short answer over a long path: its time is that of the handshake, the request and the flights of slow start.

use std::time::Duration;

use mbuma::{Config, SocketError};
use sim::{Link, Net, PortConfig};

use super::path::{A, B, RATE_BPS, RTT, connect, end, listen};

const ANSWER: usize = 90 << 10;

/// The round trips from the SYN to the last byte of an answer of 90 KiB, over a path without losses.
fn round_trips(tune: impl Fn(&mut Config)) -> f64 {
    let mut net = Net::new(1);
    let wire = net.wire(Link {
        rate_bps: RATE_BPS,
        ..Link::delay(RTT / 2)
    });
    let nodes = [A, B].map(|addr| {
        let node = net.stack_with(|config| {
            config.tcp.send_buffer = 2 * ANSWER;
            tune(config);
        });
        net.plug(node, wire, addr, &PortConfig::plain(1500));
        node
    });
    let listener = listen(&mut net, nodes);

    let began = net.now();
    let client = connect(&net, nodes[0]);
    let (mut peer, mut is_asked, mut received) = (None, false, 0);
    while received < ANSWER {
        is_asked = is_asked || client.send(b"GET").is_ok();
        if peer.is_none() {
            peer = listener.accept().ok();
        }
        if let Some(peer) = &peer
            && peer.recv(&mut [0; 8]) == Ok(3)
        {
            assert_eq!(peer.send(&vec![7; ANSWER]), Ok(ANSWER));
        }
        match client.recv_chain(usize::MAX) {
            Ok(chain) => received += chain.len(),
            Err(e) => assert_eq!(e, SocketError::WouldBlock),
        }
        net.run_for(Duration::from_micros(500));
    }
    let time = net.now() - began;
    drop((client, peer, listener));
    end(&mut net, nodes);
    time.as_secs_f64() / RTT.as_secs_f64()
}

#[test]
fn an_answer_of_90_kib_takes_three_flights() {
    // RFC 5681 3.1, 6928 2, RFC 9293 A.3: breaks when the first flight has less than ten segments, the next does not
    // double, or the end of one waits: for a delayed acknowledgement, for those of all before, since the program does
    // not set TCP_NODELAY, or for the pace of a window that a short queue holds.
    for is_paced in [false, true] {
        let n = round_trips(|config| config.tcp.pacing = is_paced);
        println!("an answer of 90 KiB, pacing {is_paced}: {n:.2} round trips");
        assert!(n <= 4.3, "pacing {is_paced}: {n:.2} round trips");
    }
}
