//! The receive buffer grows with the amount that the user reads from a far peer.

use crate::common::*;
use mbuma::TcpStream;
use sim::{Link, Net, NodeId, PortConfig};

/// Two stacks with a link between them that carries 80 Mbit/s over 100 ms: a megabyte in flight.
struct Far {
    net: Net,
    streams: [TcpStream; 2],
    receiver: NodeId,
}

fn far(delay: std::time::Duration, max: usize, timestamps: bool) -> Far {
    let mut net = Net::new(1);
    let link = Link {
        delay,
        rate_bps: 80_000_000,
        ..Link::PERFECT
    };
    let wire = net.wire(link);
    let [a, b] = [1, 2].map(|n| {
        let node = net.stack_with(|c| {
            (c.tcp.recv_buffer, c.tcp.recv_buffer_max) = (64 << 10, max);
            (c.tcp.timestamps, c.tcp.send_buffer) = (timestamps, 4 << 20);
        });
        let addr = addr([10, 0, 0, n]);
        net.plug(node, wire, addr, &PortConfig::plain(link_mtu()));
        node
    });
    let there = them(PORT);
    let listener = net.at(b).tcp_listen(there, 1).expect("the port is free");
    let any = any();
    let client = net.at(a).tcp_connect(any, there).expect("a port is free");
    net.run_for(secs(1));
    let server = listener.accept().expect("established");
    Far {
        net,
        streams: [client, server],
        receiver: b,
    }
}

impl Far {
    /// Megabytes that arrive in ten seconds, and the window in the end. The user reads at once, or never.
    fn transfer(mut self, reads: bool) -> (f64, u32) {
        let [client, server] = &self.streams;
        let (mut got, chunk) = (0, bytes(1 << 20));
        for _ in 0..10_000 {
            while client.send(&chunk).is_ok_and(|n| n > 0) {}
            self.net.run_for(ms(1));
            if reads {
                got += read(server).len();
            }
        }
        let window = client.info().snd_wnd;
        for stream in &self.streams {
            stream.abort();
        }
        self.net.run_for(secs(1));
        assert_eq!(self.net.at(self.receiver).stats().tcp.connections, 0);
        (got as f64 / 1e6, window)
    }
}

#[test]
fn a_far_sender_fills_the_path() {
    // Breaks when a buffer of 64 KiB, which carries 5 Mbit/s over 100 ms, stays as it is, with or without timestamps;
    // or when it grows beyond its bound.
    for timestamps in [true, false] {
        let (fixed, _) = far(ms(50), 0, timestamps).transfer(true);
        let (tuned, window) = far(ms(50), 8 << 20, timestamps).transfer(true);
        println!("{fixed} MB in a fixed buffer, {tuned} MB in one that grows");
        assert!(fixed < 7.0, "{fixed}");
        assert!(tuned > 60.0, "{tuned}");
        assert!(window > 1 << 20);
        let (_, bounded) = far(ms(50), 200_000, timestamps).transfer(true);
        assert!(bounded <= 200_000, "{bounded}");
    }
}

#[test]
fn a_user_that_reads_nothing_and_a_near_peer_get_no_more() {
    // Breaks when the buffer of a user that has stopped grows; or when each pause of a reader makes it grow, with a
    // near peer.
    let far_away = far(ms(50), 8 << 20, true);
    assert_eq!(far_away.streams[1].info().recv_queue, 0);
    let (_, window) = far_away.transfer(false);
    assert!(window < 64 << 10, "{window}");
    // Nor does one whose size its program has set (SO_RCVBUF).
    let fixed = far(ms(50), 8 << 20, true);
    fixed.streams[1].set_options(&mbuma::TcpSocketOptions {
        recv_buffer: Some(64 << 10),
        ..mbuma::TcpSocketOptions::default()
    });
    let (_, window) = fixed.transfer(true);
    assert!(window <= 64 << 10, "{window}");
    let (_, window) = far(std::time::Duration::from_micros(100), 8 << 20, true).transfer(true);
    assert!(window <= 64 << 10, "{window}");
}
