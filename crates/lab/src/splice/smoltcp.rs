//! smoltcp as client, proxy and server: three interfaces of one process, joined by queues of packets.
//!
//! smoltcp has neither a splice nor data by reference: the proxy's program copies from one socket's ring to the other's
//! through a buffer, and the stack copies into packets. Packets are as long as IP lets them be, and have no checksums, as ours
//! on an epair. The client's ring is sent as it is and the server drops, so neither copies.
//!
//! Two queues make a direction: packets, and their empty storage on its way back. Memory is touched by one thread at a time.

use super::case::{Case, Traffic};
use super::flow::{ClientAndServer, Middle, TrafficEnd};
use crossbeam_queue::ArrayQueue;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant as StackTime;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::sync::Arc;
use std::time::Instant;

/// A direction of a cable.
struct Lane {
    packets: ArrayQueue<Vec<u8>>,
    spare: ArrayQueue<Vec<u8>>,
}

impl Lane {
    fn new() -> Arc<Self> {
        let lane = Self {
            packets: ArrayQueue::new(SLOTS),
            spare: ArrayQueue::new(SLOTS),
        };
        for _ in 0..SLOTS {
            let _ = lane.spare.push(Vec::with_capacity(MTU));
        }
        Arc::new(lane)
    }
}

/// An end of a cable.
struct Port {
    inward: Arc<Lane>,
    outward: Arc<Lane>,
}

impl Port {
    fn pair() -> [Self; 2] {
        let lanes = [Lane::new(), Lane::new()];
        [[0, 1], [1, 0]].map(|[inward, outward]| Self {
            inward: Arc::clone(&lanes[inward]),
            outward: Arc::clone(&lanes[outward]),
        })
    }
}

struct Received<'a>(Vec<u8>, &'a Lane);
struct Room<'a>(Vec<u8>, &'a Lane);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let Self(packet, lane) = self;
        let result = f(&packet);
        // There is a slot for each.
        let _ = lane.spare.push(packet);
        result
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let Self(mut packet, lane) = self;
        // Without zeroing what is there from before.
        packet.truncate(len);
        packet.resize(len, 0);
        let result = f(&mut packet);
        let _ = lane.packets.push(packet);
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: StackTime) -> Option<(Received<'_>, Room<'_>)> {
        let room = self.outward.spare.pop()?;
        let Some(packet) = self.inward.packets.pop() else {
            let _ = self.outward.spare.push(room);
            return None;
        };
        Some((Received(packet, &self.inward), Room(room, &self.outward)))
    }

    fn transmit(&mut self, _: StackTime) -> Option<Room<'_>> {
        let room = self.outward.spare.pop()?;
        Some(Room(room, &self.outward))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

/// An interface with its sockets.
struct Node {
    port: Port,
    iface: Interface,
    sockets: SocketSet<'static>,
    handles: Vec<SocketHandle>,
    begin: Instant,
    now: StackTime,
    turns: u32,
}

impl Node {
    /// With so many sockets, which are not connected yet.
    fn new(mut port: Port, net: u8, host: u8, sockets: usize, buffer: usize) -> Self {
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = u64::from(net) << 8 | u64::from(host);
        let mut iface = Interface::new(config, &mut port, StackTime::ZERO);
        iface.update_ip_addrs(|all| {
            let _ = all.push(IpCidr::new(IpAddress::v4(10, 0, net, host), 24));
        });
        let mut set = SocketSet::new(Vec::new());
        let ring = || SocketBuffer::new(vec![7; buffer]);
        let handles = (0..sockets).map(|_| {
            let mut socket = Socket::new(ring(), ring());
            socket.set_nagle_enabled(false);
            set.add(socket)
        });
        let handles = handles.collect();
        Self {
            port,
            iface,
            sockets: set,
            handles,
            begin: Instant::now(),
            now: StackTime::ZERO,
            turns: 0,
        }
    }

    fn listen(&mut self) {
        for at in 0..self.handles.len() {
            let listens = self.socket(at).listen(PORT);
            listens.expect("a new socket");
        }
    }

    fn connect(&mut self, net: u8, host: u8) {
        let to = (IpAddress::v4(10, 0, net, host), PORT);
        for (at, handle) in self.handles.iter().enumerate() {
            let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
            let connects = socket.connect(self.iface.context(), to, 40_000 + at as u16);
            connects.expect("a new socket");
        }
    }

    fn socket(&mut self, at: usize) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handles[at])
    }

    /// Takes in the packets that arrived, and sends.
    fn turn(&mut self) {
        // Reading the clock costs as much as a packet.
        if self.turns.is_multiple_of(TURNS_A_TICK) {
            let since = self.begin.elapsed().as_micros();
            self.now = StackTime::from_micros(i64::try_from(since).unwrap_or(i64::MAX));
        }
        self.turns = self.turns.wrapping_add(1);
        self.iface.poll(self.now, &mut self.port, &mut self.sockets);
    }

    fn is_connected(&mut self) -> bool {
        (0..self.handles.len()).all(|at| self.socket(at).may_send())
    }
}

/// The client and the server.
pub(crate) struct Ends {
    client: Node,
    server: Node,
}

/// The proxy: an interface on each side.
pub(crate) struct Proxy {
    front: Node,
    back: Node,
    buf: Box<[u8]>,
}

/// All three, with the case's connections.
pub(crate) fn joined(case: &Case) -> (Ends, Proxy) {
    let buffer = match (case.traffic, case.own_cpu) {
        (Traffic::RoundTrips, _) => 64 << 10,
        (_, false) => 256 << 10,
        (_, true) => 1 << 20,
    };
    let streams = case.streams();
    let [client, front] = Port::pair();
    let [back, server] = Port::pair();
    let node = |port, net, host| Node::new(port, net, host, streams, buffer);
    let mut ends = Ends {
        client: node(client, 1, 1),
        server: node(server, 2, 2),
    };
    let mut proxy = Proxy {
        front: node(front, 1, 2),
        back: node(back, 2, 1),
        buf: vec![0; CHUNK].into_boxed_slice(),
    };
    proxy.front.listen();
    ends.server.listen();
    ends.client.connect(1, 2);
    proxy.back.connect(2, 2);
    let mut nodes = [
        &mut ends.client,
        &mut ends.server,
        &mut proxy.front,
        &mut proxy.back,
    ];
    while !nodes.iter_mut().all(|node| node.is_connected()) {
        nodes.iter_mut().for_each(|node| node.turn());
    }
    (ends, proxy)
}

impl Middle for Proxy {
    fn turn(&mut self) {
        self.front.turn();
        self.back.turn();
        for at in 0..self.front.handles.len() {
            let [front, back] = [&mut self.front, &mut self.back].map(|node| node.socket(at));
            copy(front, back, &mut self.buf);
            copy(back, front, &mut self.buf);
        }
    }
}

/// Moves the data that `from` received and `to` has room for.
fn copy(from: &mut Socket<'_>, to: &mut Socket<'_>, buf: &mut [u8]) {
    let room = (to.send_capacity() - to.send_queue()).min(buf.len());
    if room == 0 || !from.can_recv() {
        return;
    }
    let n = from.recv_slice(&mut buf[..room]).unwrap_or(0);
    let sent = to.send_slice(&buf[..n]);
    assert_eq!(sent, Ok(n), "there was room");
}

impl ClientAndServer for Ends {
    fn stream(&mut self) -> u64 {
        for at in 0..self.client.handles.len() {
            // The bytes that are there already.
            let _ = self.client.socket(at).send(|room| (room.len(), ()));
        }
        self.client.turn();
        self.server.turn();
        let mut bytes = 0;
        for at in 0..self.server.handles.len() {
            while let Ok(n @ 1..) = self.server.socket(at).recv(|data| (data.len(), data.len())) {
                bytes += n as u64;
            }
        }
        bytes
    }

    fn send(&mut self, from: TrafficEnd, message: &[u8]) -> usize {
        self.node(from).socket(0).send_slice(message).unwrap_or(0)
    }

    fn transmit(&mut self, from: TrafficEnd) {
        self.node(from).turn();
    }

    fn recv(&mut self, to: TrafficEnd, buf: &mut [u8]) -> usize {
        let node = self.node(to);
        node.turn();
        node.socket(0).recv_slice(buf).unwrap_or(0)
    }
}

impl Ends {
    fn node(&mut self, side: TrafficEnd) -> &mut Node {
        match side {
            TrafficEnd::Client => &mut self.client,
            TrafficEnd::Server => &mut self.server,
        }
    }
}

/// The longest packet that IP lets be.
const MTU: usize = 65_535;
/// Packets that wait in one direction at most: more are slower, as their memory is colder.
const SLOTS: usize = 64;
const PORT: u16 = 80;
/// Bytes that a program reads at once.
const CHUNK: usize = 64 << 10;
/// Turns between two looks at the clock for the stack.
const TURNS_A_TICK: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::case::CASES;
    use super::*;

    /// Breaks if the proxy stalls in one of the cases, or changes a byte.
    #[test]
    fn its_proxy_carries_the_bytes() {
        for case in CASES {
            let (mut ends, mut proxy) = joined(case);
            let sent: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
            let last = case.streams() - 1;
            let (mut at, mut got, mut buf) = (0, Vec::new(), [0; 5000]);
            while got.len() < sent.len() {
                at += ends
                    .client
                    .socket(last)
                    .send_slice(&sent[at..])
                    .unwrap_or(0);
                ends.client.turn();
                proxy.turn();
                ends.server.turn();
                let n = ends.server.socket(last).recv_slice(&mut buf).unwrap_or(0);
                got.extend_from_slice(&buf[..n]);
            }
            assert!(got == sent, "{}", case.name);
        }
    }
}
