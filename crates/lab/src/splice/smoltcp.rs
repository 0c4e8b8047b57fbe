//! smoltcp as client, proxy and server: three interfaces of one process, joined by queues of packets.
//!
//! smoltcp has neither a splice nor data by reference: the proxy's program copies from one socket's ring to the other's
//! through a buffer, and the stack copies into packets. Packets are as long as IP allows, and have no checksums, as
//! ours on an epair. The client's ring is sent as it is and the server drops, so neither copies.
//!
//! Two queues make a direction: packets, and their empty storage on its way back. Memory is touched by one thread at a
//! time.

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

/// Room for the longest packet.
type Storage = Box<[u8; MTU]>;

struct Packet {
    storage: Storage,
    len: usize,
}

/// A direction of a cable.
struct Lane {
    /// Twice as long as sockets may fill it: an answer to a packet always has room. Without that, two full directions
    /// would wait for each other: smoltcp takes a packet in only with room for an answer.
    packets: ArrayQueue<Packet>,
    spare: ArrayQueue<Storage>,
}

impl Lane {
    fn new(slots: usize) -> Arc<Self> {
        let lane = Self {
            packets: ArrayQueue::new(2 * slots),
            spare: ArrayQueue::new(slots),
        };
        for _ in 0..slots {
            let _ = lane.spare.push(storage());
        }
        Arc::new(lane)
    }

    fn is_full(&self) -> bool {
        self.packets.len() >= self.spare.capacity()
    }
}

fn storage() -> Storage {
    let bytes = vec![0; MTU].into_boxed_slice();
    bytes.try_into().expect("as long as that")
}

/// An end of a cable.
struct Port {
    inward: Arc<Lane>,
    outward: Arc<Lane>,
}

impl Port {
    fn pair(slots: usize) -> [Self; 2] {
        let lanes = [Lane::new(slots), Lane::new(slots)];
        [[0, 1], [1, 0]].map(|[inward, outward]| Self {
            inward: Arc::clone(&lanes[inward]),
            outward: Arc::clone(&lanes[outward]),
        })
    }
}

struct Received<'a>(Packet, &'a Lane);

/// It takes storage only when it is used: smoltcp drops the room of each packet that has no answer.
struct Room<'a>(&'a Lane);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let Self(packet, lane) = self;
        let result = f(&packet.storage[..packet.len]);
        // Where there is no place, the storage is one that an answer made.
        let _ = lane.spare.push(packet.storage);
        result
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let Self(lane) = self;
        let mut storage = lane.spare.pop().unwrap_or_else(storage);
        let result = f(&mut storage[..len]);
        let _ = lane.packets.push(Packet { storage, len });
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: StackTime) -> Option<(Received<'_>, Room<'_>)> {
        let packet = self.inward.packets.pop()?;
        Some((Received(packet, &self.inward), Room(&self.outward)))
    }

    fn transmit(&mut self, _: StackTime) -> Option<Room<'_>> {
        (!self.outward.is_full()).then_some(Room(&self.outward))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

/// The settings with which it was fastest here.
#[derive(Clone, Copy)]
struct Settings {
    /// Packets of sockets that wait in one direction at most: more are slower, as their memory is colder.
    slots: usize,
    /// Bytes of each of a socket's two buffers.
    buffer: usize,
    /// Without its delay of 10 ms, which a stream in small buffers waits for.
    acks_at_once: bool,
}

impl Settings {
    /// The best of a sweep over slots of 16 to 256, buffers of 64 KiB to 4 MiB, the clock read each 1 to 16 polls, and
    /// ACKs at once or delayed. A buffer of 64 KiB is one byte less, see [`UNSCALED`].
    fn best(case: &Case) -> Self {
        let stream = |slots, buffer| Self {
            slots,
            buffer,
            acks_at_once: true,
        };
        match (case.traffic, case.own_cpu) {
            (Traffic::RoundTrips, _) => Self {
                slots: 64,
                buffer: UNSCALED,
                acks_at_once: false,
            },
            (Traffic::Streams(_), false) => stream(16, UNSCALED),
            (Traffic::Streams(1), true) => stream(64, 256 << 10),
            (Traffic::Streams(_), true) => stream(64, UNSCALED),
        }
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
    fn new(mut port: Port, net: u8, host: u8, sockets: usize, best: Settings) -> Self {
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = u64::from(net) << 8 | u64::from(host);
        let mut iface = Interface::new(config, &mut port, StackTime::ZERO);
        iface.update_ip_addrs(|all| {
            let _ = all.push(IpCidr::new(IpAddress::v4(10, 0, net, host), 24));
        });
        let mut set = SocketSet::new(Vec::new());
        let ring = || SocketBuffer::new(vec![7; best.buffer]);
        let handles = (0..sockets).map(|_| {
            let mut socket = Socket::new(ring(), ring());
            socket.set_nagle_enabled(false);
            if best.acks_at_once {
                socket.set_ack_delay(None);
            }
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
    let best = Settings::best(case);
    let streams = case.streams();
    let [client, front] = Port::pair(best.slots);
    let [back, server] = Port::pair(best.slots);
    let node = |port, net, host| Node::new(port, net, host, streams, best);
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

/// The longest packet that IP allows.
const MTU: usize = 65_535;
const PORT: u16 = 80;
/// The largest window without a scale. smoltcp rounds a window down to its scale, so that the window's right edge may
/// move back by a byte; the byte that is on its way there is dropped, and its stream stands still for a second (RTO).
const UNSCALED: usize = 65_535;
/// Bytes that a program reads at once.
const CHUNK: usize = 64 << 10;
/// Turns between two looks at the clock for the stack: the best of the same sweep.
const TURNS_A_TICK: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::case::CASES;
    use super::*;
    use std::iter;

    /// Breaks if the proxy stalls in one of the cases: with all sockets full, or after more packets without an answer
    /// than there are slots.
    #[test]
    fn its_streams_go_on() {
        for case in CASES {
            let (mut ends, mut proxy) = joined(case);
            let slots = Settings::best(case).slots;
            let enough = (4 * slots * MTU * case.streams()) as u64;
            let (mut bytes, mut idle) = (0, 0);
            while bytes < enough {
                let arrived = ends.stream();
                proxy.turn();
                bytes += arrived;
                idle = if arrived > 0 { 0 } else { idle + 1 };
                assert!(idle < TURNS_MAX, "{}: stands at {bytes}", case.name);
            }
        }
    }

    /// More turns than any timer of a stack that lost nothing asks for.
    const TURNS_MAX: u32 = 1_000_000;

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

    /// Breaks if a byte on its way to the right edge of a window is dropped: its stream would stand still for a second.
    #[test]
    fn data_up_to_the_edge_of_a_window_arrive() {
        let case = CASES.iter().find(|case| case.name == "fifteen");
        let (mut ends, mut proxy) = joined(case.expect("a case"));
        // The congestion window opens.
        let mut bytes = 0;
        while bytes < 64 << 20 {
            bytes += ends.stream();
            proxy.turn();
        }
        while ends.client.socket(0).send_queue() > 0 {
            ends.client.turn();
            proxy.turn();
            ends.server.turn();
            while let Ok(1..) = ends.server.socket(0).recv(|data| (data.len(), data.len())) {}
        }
        let (client, front) = (&mut ends.client, &mut proxy.front);
        let send = |client: &mut Node, bytes: usize| {
            let sent = client.socket(0).send_slice(&vec![7; bytes]);
            client.turn();
            sent.expect("it is connected")
        };
        // The edge is at the end of the receive buffer now; with an odd number of bytes the scale would move it back.
        let mut sent = send(client, 2);
        front.turn();
        client.turn();
        sent += send(client, 1);
        sent += send(client, UNSCALED - sent);
        // The answer to the first packet is made while the others are on their way.
        let packets = &front.port.inward.packets;
        let mut on_their_way = iter::from_fn(|| packets.pop())
            .collect::<Vec<_>>()
            .into_iter();
        assert!(packets.push(on_their_way.next().expect("a packet")).is_ok());
        front.turn();
        let packets = &front.port.inward.packets;
        assert!(on_their_way.all(|packet| packets.push(packet).is_ok()));
        front.turn();
        assert_eq!(sent, UNSCALED, "the congestion window was open");
        assert_eq!(front.socket(0).recv_queue(), sent);
    }

    /// Breaks if an answer is lost, or waits, while both directions of a cable are full.
    #[test]
    fn two_full_directions_answer_each_other() {
        const SLOTS: usize = 4;
        let mut ports = Port::pair(SLOTS);
        for port in &mut ports {
            while let Some(room) = port.transmit(StackTime::ZERO) {
                room.consume(1, |_| ());
            }
        }
        for port in &mut ports {
            for _ in 0..SLOTS {
                let (packet, room) = port.receive(StackTime::ZERO).expect("a packet");
                assert_eq!(packet.consume(<[u8]>::len), 1);
                room.consume(2, |_| ());
            }
        }
        for port in &mut ports {
            let answers = iter::from_fn(|| port.inward.packets.pop()).map(|packet| packet.len);
            assert_eq!(answers.collect::<Vec<_>>(), [2; SLOTS]);
        }
    }
}
