//! The last segments of a flight are lost: a probe shows that, long before a timeout.

use std::time::Duration;

use mbuma::SocketError;
use sim::{Link, Net, PortConfig};

use super::path::{A, B, RTT, connect, end, listen, loss};

const SEGMENT: usize = 1000;

/// How a flight of ten segments ended whose last ones were lost.
#[derive(Debug, Clone, Copy)]
struct Repair {
    /// Round trips until the last segment was there, and until all were.
    last: f64,
    all: f64,
    timeouts: u64,
}

fn repair(lost: usize) -> Repair {
    let mut net = Net::new(1);
    let wire = net.wire(Link::delay(RTT / 2));
    let nodes = [A, B].map(|_| {
        net.stack_with(|config| {
            config.tcp.pacing = false;
            config.tcp.send_buffer = 100 * SEGMENT;
        })
    });
    let port = net.plug(nodes[0], wire, A, &PortConfig::plain(1500));
    net.plug(nodes[1], wire, B, &PortConfig::plain(1500));
    let listener = listen(&mut net, nodes);
    let client = connect(&net, nodes[0]);
    client.set_nodelay(true);
    net.run_for(4 * RTT);
    let peer = listener.accept().expect("a connection");
    let mut received = 0;
    let mut read = |peer: &mbuma::TcpStream| loop {
        match peer.recv_chain(usize::MAX) {
            Ok(chain) => received += chain.len(),
            Err(error) => {
                assert_eq!(error, SocketError::WouldBlock);
                return received;
            }
        }
    };
    // Round trips without a loss: the sender knows the path.
    for _ in 0..4 {
        assert_eq!(client.send(&[1; SEGMENT]), Ok(SEGMENT));
        net.run_for(4 * RTT);
        read(&peer);
    }
    let before = read(&peer);
    let began = net.now();
    for n in 0..10 {
        let faults = loss(if n < 10 - lost { 0.0 } else { 1.0 });
        let link = Link {
            faults,
            ..Link::delay(RTT / 2)
        };
        net.wire_mut(wire).set_link(port, link);
        assert_eq!(client.send(&[1; SEGMENT]), Ok(SEGMENT));
        net.run_for(Duration::from_micros(1));
    }
    net.wire_mut(wire).set_link(port, Link::delay(RTT / 2));
    let round_trips = |net: &Net| (net.now() - began).as_secs_f64() / RTT.as_secs_f64();
    let (mut last, mut all) = (None, None);
    while all.is_none() {
        net.run_for(Duration::from_micros(100));
        let now = round_trips(&net);
        let info = peer.info();
        if read(&peer) - before == 10 * SEGMENT {
            all = Some(now);
        }
        if info.reass_queue > 0 || all.is_some() {
            last = last.or(Some(now));
        }
    }
    let timeouts = net.at(nodes[0]).stats().tcp.timeouts;
    drop((client, peer, listener));
    end(&mut net, nodes);
    Repair {
        last: last.unwrap_or(f64::INFINITY),
        all: all.unwrap_or(f64::INFINITY),
        timeouts,
    }
}

#[test]
fn the_last_of_several_lost_segments_is_there_within_three_and_a_half_round_trips() {
    // RFC 8985 7: breaks when the loss of the last segments of a flight costs a timeout, or their probe comes late: one
    // round trip for what arrived, two until the probe, and half of one for its way. It may have to wait for the end of
    // a tick.
    let tick = kern::callout::TICK.as_secs_f64() / RTT.as_secs_f64();
    for lost in 1..=5 {
        let Repair {
            last,
            all,
            timeouts,
        } = repair(lost);
        println!("{lost} of 10 lost: the last one after {last:.2} round trips, all after {all:.2}");
        assert_eq!(timeouts, 0, "{lost} lost");
        // The acknowledgement of a single segment may be delayed, so its probe waits for 200 ms more.
        let most = if lost == 1 { 6.5 } else { 3.5 };
        assert!(last <= most + 1.5 * tick, "{lost} lost: {last:.2}");
        // One repair for the probe that arrived, and two for each repair (RFC 9937 6.2).
        assert!(all <= most.max(5.5) + 1.5 * tick, "{lost} lost: {all:.2}");
    }
}
