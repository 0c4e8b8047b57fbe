//! A device that claims to take packets of more than 64 KiB, and refuses them all.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use mbuf::Live;
use mbuma::SocketError;
use mbuma::device::Capabilities;
use sim::{Link, Net, PortConfig};

use super::path::{A, B};

const RTT: Duration = Duration::from_millis(2);

#[test]
fn a_device_that_refuses_large_packets_carries_a_connection() {
    // Breaks when each growth of the window ends with a packet that the device refuses: without SACK and timestamps the
    // timeout then doubles each time, because no retransmission is a sample of the round trip (RFC 6298 3).
    let mut net = Net::new(1);
    let wire = net.wire(Link::delay(RTT / 2));
    // An end in memory has no way to say the length of such a packet of IPv4.
    let port = PortConfig {
        caps: Capabilities {
            tso4_max: 272 << 10,
            ..Capabilities::whole(1500)
        },
        ..PortConfig::whole(1500)
    };
    let nodes = [A, B].map(|addr| {
        let node = net.stack_with(|config| {
            config.tcp.pacing = false;
            (config.tcp.sack, config.tcp.timestamps) = (false, false);
            config.tcp.send_buffer = 4 << 20;
            config.tcp.recv_buffer = 4 << 20;
        });
        net.plug(node, wire, addr, &port);
        node
    });
    let server = SocketAddrV4::new(B, 80);
    let listener = net.at(nodes[1]).tcp_listen(server, 1).expect("free");
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let client = net.at(nodes[0]).tcp_connect(any, server).expect("a port");
    net.run_for(Duration::from_secs(2));
    let peer = listener.accept().expect("a connection");
    let began = net.now();
    let (mut sent, mut received) = (0, 0);
    const ALL: usize = 20 << 20;
    let bytes = vec![7; 1 << 20];
    while received < ALL && net.now() - began < Duration::from_secs(60) {
        if sent < ALL {
            sent += client.send(&bytes).unwrap_or(0);
        }
        match peer.recv_chain(usize::MAX) {
            Ok(chain) => received += chain.len(),
            Err(error) => assert_eq!(error, SocketError::WouldBlock),
        }
        net.run_for(Duration::from_millis(1));
    }
    let took = net.now() - began;
    let timeouts = net.at(nodes[0]).stats().tcp.timeouts;
    println!("20 MiB in {took:?}, {timeouts} timeouts");
    assert!(
        received >= ALL,
        "{received} bytes in {took:?}, {timeouts} timeouts"
    );
    assert!(timeouts <= 3, "{timeouts} timeouts");
    drop((client, peer, listener));
    net.run_for(Duration::from_secs(120));
    for node in nodes {
        assert_eq!(net.at(node).pool().live(), Live::NONE, "buffers are left");
    }
}
