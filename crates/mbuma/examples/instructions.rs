//! Fixed loads for counting instructions: `instructions LOAD N` runs the load N times and prints N.
//!
//! | load | one unit |
//! |---|---|
//! | `trip` | a TCP round trip of 64 bytes between two stacks, one thread |
//! | `trip6` | the same over IPv6 |
//! | `segment` | a TCP segment of 1460 bytes sent, cut and summed in software, received and read |
//! | `splice` | the same twice, with a splice that sends on what the second stack receives |
//! | `datagram` | a UDP datagram of 64 bytes sent and received |
//! | `pair` | a packet with a cluster of 2 KiB allocated and freed |
//!
//! Time is virtual and the seed is fixed, so two runs do the same. `cargo xtask compare` runs each load under an
//! instruction counter for two values of N; the difference has no start-up in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kern::{Random, Time, VirtualClock};
use mbuf::{Chain, ClusterSize, MbufPool, Packet, PoolConfig};
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities};
use mbuma::socket::{SpliceOptions, splice};
use mbuma::{Config, IfConfig, RxQueue, Stack, TcpStream};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The payload of a segment on an Ethernet of MTU 1500, without options.
const SEGMENT: usize = 1460;
const BUDGET: Budget = Budget {
    frames: 64,
    bytes: 1 << 20,
};

fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [load, n] = args.as_slice() else {
        return Err("usage: instructions trip|trip6|segment|splice|datagram|pair N".into());
    };
    let n: usize = n.parse()?;
    match load.as_str() {
        "trip" => trips(n, V4)?,
        "trip6" => trips(n, V6)?,
        "segment" => segments(n)?,
        "splice" => splices(n)?,
        "datagram" => datagrams(n)?,
        "pair" => pairs(n)?,
        other => return Err(format!("{other}: no such load").into()),
    }
    println!("{n}");
    Ok(())
}

/// The addresses of the two stacks.
const V4: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)),
];

/// Two stacks joined by a pipe.
struct Net {
    hosts: [IpAddr; 2],
    clock: Arc<VirtualClock>,
    ends: [(Stack, RxQueue); 2],
}

impl Net {
    fn new(caps: Capabilities, hosts: [IpAddr; 2]) -> Result<Net> {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let (a, b) = Pipe::pair(caps);
        let end = |n, device| -> Result<(Stack, RxQueue)> {
            let stack = Stack::new(Config::new(clock.clone(), Random::from_seed(n)))?;
            let config = IfConfig::new("pipe0").with_addr(hosts[n as usize - 1], 24);
            let index = stack.attach(Arc::new(device), config)?;
            let queue = stack.rx_queue(index, 0)?;
            Ok((stack, queue))
        };
        let ends = [end(1, a)?, end(2, b)?];
        Ok(Net { hosts, clock, ends })
    }

    /// A microsecond passes, and both stacks take in what waits for them.
    fn turn(&self) -> Result<()> {
        self.clock.advance(Duration::from_micros(1));
        for (stack, queue) in &self.ends {
            queue.poll(BUDGET)?;
            stack.poll();
        }
        Ok(())
    }

    fn connect(&self) -> Result<[TcpStream; 2]> {
        let [(client, _), (server, _)] = &self.ends;
        let there = SocketAddr::new(self.hosts[1], 80);
        let listener = server.tcp_listen(there, 8)?;
        let here = SocketAddr::new(self.hosts[0], 0);
        let client = client.tcp_connect(here, there)?;
        let server = loop {
            self.turn()?;
            if let Ok(server) = listener.accept() {
                break server;
            }
        };
        client.set_nodelay(true);
        server.set_nodelay(true);
        Ok([client, server])
    }
}

fn trips(n: usize, hosts: [IpAddr; 2]) -> Result<()> {
    let net = Net::new(Capabilities::whole(1500), hosts)?;
    let [client, server] = net.connect()?;
    let mut buf = [0; 64];
    for _ in 0..n {
        client.send(&buf)?;
        while server.recv(&mut buf).is_err() {
            net.turn()?;
        }
        server.send(&buf)?;
        while client.recv(&mut buf).is_err() {
            net.turn()?;
        }
    }
    Ok(())
}

fn segments(n: usize) -> Result<()> {
    let net = Net::new(Capabilities::plain(1500), V4)?;
    let [client, server] = net.connect()?;
    stream(&net, n, &client, &server)
}

fn splices(n: usize) -> Result<()> {
    let net = Net::new(Capabilities::plain(1500), V4)?;
    let ([client, source], [reader, sink]) = (net.connect()?, net.connect()?);
    let _splice = splice(&source, &sink, SpliceOptions::default())?;
    stream(&net, n, &client, &reader)
}

/// Sends `n` segments on `client`, and reads them on `server`.
fn stream(net: &Net, n: usize, client: &TcpStream, server: &TcpStream) -> Result<()> {
    let mut block = Chain::from_slice(net.ends[0].0.pool(), &[0x5a; 32 * SEGMENT])?;
    let (mut sent, mut received) = (0, 0);
    while received < n * SEGMENT {
        while sent < n * SEGMENT && client.send_space() >= block.len() {
            let shared = block.share(0, block.len())?;
            sent += shared.len();
            client.send_chain(shared).map_err(|(e, _)| e)?;
        }
        net.turn()?;
        while let Ok(chain) = server.recv_chain(1 << 20) {
            received += chain.len();
        }
    }
    Ok(())
}

fn datagrams(n: usize) -> Result<()> {
    let net = Net::new(Capabilities::whole(1500), V4)?;
    let [(client, _), (server, _)] = &net.ends;
    let there = SocketAddr::new(V4[1], 53);
    let receiver = server.udp_bind(there)?;
    let sender = client.udp_bind(SocketAddr::new(V4[0], 0))?;
    for _ in 0..n {
        sender.send_to(&[0; 64], there)?;
        while receiver.recv().is_err() {
            net.turn()?;
        }
    }
    Ok(())
}

fn pairs(n: usize) -> Result<()> {
    let pool = MbufPool::new(PoolConfig::default())?;
    for _ in 0..n {
        let packet = Packet::with_cluster(&pool, ClusterSize::K2, 0)?;
        std::hint::black_box(&packet);
    }
    Ok(())
}
