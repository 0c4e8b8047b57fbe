//! smoltcp as an end, driven by the thread that carries frames.

use std::collections::VecDeque;
use std::io;

use kern::{Clock, MonotonicClock, Time};
use sim::Frame;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use super::super::designs::Algorithm;
use super::super::path::{MTU, Path};
use super::End;
use super::ours::{PORT, RECEIVER, sender};

/// Frames that may wait until the link takes them: then the stack has to wait, too.
const SLOTS: usize = 64;
/// Bytes of an Ethernet header, which smoltcp counts in its MTU.
const HEADER: usize = 14;

/// The two queues of frames of an interface.
#[derive(Default)]
struct Port {
    inward: VecDeque<Vec<u8>>,
    outward: VecDeque<Vec<u8>>,
}

struct Received(Vec<u8>);
struct Room<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Room<'_>)> {
        let frame = self.inward.pop_front()?;
        Some((Received(frame), Room(&mut self.outward)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_>> {
        (self.outward.len() < SLOTS).then_some(Room(&mut self.outward))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(MTU) + HEADER;
        capabilities
    }
}

/// An interface with its flows.
pub(super) struct SmoltcpEnd {
    clock: MonotonicClock,
    port: Port,
    iface: Interface,
    sockets: SocketSet<'static>,
    /// Each with the bytes that it has received.
    flows: Vec<(SocketHandle, u64)>,
    /// When it has work next.
    deadline: Option<Time>,
}

impl SmoltcpEnd {
    pub(super) fn receiver(path: &Path) -> io::Result<Self> {
        let mut end = Self::new(RECEIVER.octets());
        for flow in 0..path.flows {
            let handle = end.add_socket(path, CongestionControl::None);
            let socket = end.sockets.get_mut::<Socket<'_>>(handle);
            let listens = socket.listen(PORT + flow as u16);
            listens.map_err(|error| io::Error::other(error.to_string()))?;
        }
        Ok(end)
    }

    pub(super) fn sender(algorithm: Algorithm, (path, flow): (&Path, usize)) -> io::Result<Self> {
        let algorithm = match algorithm {
            Algorithm::Reno => CongestionControl::Reno,
            Algorithm::Cubic => CongestionControl::Cubic,
            Algorithm::Bbr => return Err(io::Error::other("smoltcp has no BBR")),
        };
        let mut end = Self::new(sender(flow).octets());
        let handle = end.add_socket(path, algorithm);
        let to = (IpAddress::from(RECEIVER), PORT + flow as u16);
        let socket = end.sockets.get_mut::<Socket<'_>>(handle);
        let connects = socket.connect(end.iface.context(), to, 40_000);
        connects.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(end)
    }

    fn new(addr: [u8; 4]) -> Self {
        let [a, b, c, d] = addr;
        let mac = HardwareAddress::Ethernet(EthernetAddress([2, 0, a, b, c, d]));
        let (clock, mut port) = (MonotonicClock::new(), Port::default());
        let mut iface = Interface::new(Config::new(mac), &mut port, Instant::ZERO);
        iface.update_ip_addrs(|all| {
            let _ = all.push(IpCidr::new(IpAddress::v4(a, b, c, d), 24));
        });
        Self {
            clock,
            port,
            iface,
            sockets: SocketSet::new(Vec::new()),
            flows: Vec::new(),
            deadline: None,
        }
    }

    fn add_socket(&mut self, path: &Path, algorithm: CongestionControl) -> SocketHandle {
        let ring = || SocketBuffer::new(vec![0; 3 * path.bdp() / 2]);
        let mut socket = Socket::new(ring(), ring());
        socket.set_congestion_control(algorithm);
        let handle = self.sockets.add(socket);
        self.flows.push((handle, 0));
        handle
    }

    /// The work of its programs: send without end, and receive.
    fn run_programs(&mut self) {
        for (handle, received) in &mut self.flows {
            let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
            // The bytes that lie in the ring already.
            while let Ok(1..) = socket.send(|room| (room.len(), room.len())) {}
            while let Ok(n @ 1..) = socket.recv(|data| (data.len(), data.len())) {
                *received += n as u64;
            }
        }
    }

    fn now(&self) -> Instant {
        let micros = self.clock.now().as_micros();
        Instant::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }
}

impl End for SmoltcpEnd {
    fn next_frame(&mut self) -> Option<Frame> {
        if self.port.outward.is_empty() {
            self.run_programs();
            let now = self.now();
            self.iface.poll(now, &mut self.port, &mut self.sockets);
            let next = self.iface.poll_at(now, &self.sockets);
            let micros = |at: Instant| u64::try_from(at.total_micros()).unwrap_or(0);
            // Both clocks began together, to within less than a tick of the stack's timers.
            self.deadline = next.map(|at| Time::from_micros(micros(at)));
        }
        self.port.outward.pop_front().map(Frame::new)
    }

    fn deliver(&mut self, frame: &Frame) {
        self.port.inward.push_back(frame.bytes.clone());
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn received(&self) -> Vec<u64> {
        self.flows.iter().map(|(_, bytes)| *bytes).collect()
    }

    fn timeouts(&self) -> Option<u64> {
        None
    }
}
