//! A stack of ours as an end, driven by the thread that carries frames.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use kern::{Clock, MonotonicClock, Random, Time};
use mbuf::Mbufq;
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Config, IfConfig, IfIndex, Stack, TcpListener, TcpStream};
use sim::{Frame, Shape};

use super::super::designs::Algorithm;
use super::super::path::{MTU, Path};
use super::super::simulated::{BUFFER, choose_ecn};
use super::End;

pub(super) const PORT: u16 = 5001;

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// The receiver's address.
pub(super) const RECEIVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The address of the sender of a flow.
pub(super) fn sender(flow: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, 2 + flow as u8)
}

/// A stack with its flows.
pub(super) struct OurEnd {
    stack: Stack,
    index: IfIndex,
    /// The other end of its device.
    cable: Pipe,
    left: Mbufq,
    listeners: Vec<TcpListener>,
    /// Each with the bytes that it has received.
    streams: Vec<(Option<TcpStream>, u64)>,
    sends: bool,
}

impl OurEnd {
    pub(super) fn receiver(path: &Path) -> io::Result<Self> {
        let mut end = Self::new(RECEIVER, Algorithm::Reno, path)?;
        for flow in 0..path.flows {
            let at = SocketAddrV4::new(RECEIVER, PORT + flow as u16);
            let listener = end.stack.tcp_listen(at, 1);
            end.listeners.push(listener.map_err(io::Error::other)?);
            end.streams.push((None, 0));
        }
        Ok(end)
    }

    pub(super) fn sender(algorithm: Algorithm, (path, flow): (&Path, usize)) -> io::Result<Self> {
        let mut end = Self::new(sender(flow), algorithm, path)?;
        let to = SocketAddrV4::new(RECEIVER, PORT + flow as u16);
        let here = SocketAddrV4::new(sender(flow), 0);
        let stream = end.stack.tcp_connect(here, to).map_err(io::Error::other)?;
        end.streams.push((Some(stream), 0));
        end.sends = true;
        Ok(end)
    }

    fn new(addr: Ipv4Addr, algorithm: Algorithm, path: &Path) -> io::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
        let mut config = Config::new(clock, Random::from_os());
        config.tcp.send_buffer = BUFFER;
        config.tcp.recv_buffer = BUFFER;
        algorithm.choose(&mut config);
        choose_ecn(path, &mut config);
        let stack = Stack::new(config).map_err(io::Error::other)?;
        let (device, cable) = Pipe::pair(Capabilities::plain(MTU));
        let config = IfConfig::new("wan0").with_addr(addr, 24);
        let index = stack
            .attach(Arc::new(device), config)
            .expect("the MTU is large enough");
        Ok(Self {
            stack,
            index,
            cable,
            left: Mbufq::new(),
            listeners: Vec::new(),
            streams: Vec::new(),
            sends: false,
        })
    }

    /// The work of its programs: send without end, or receive.
    fn run_programs(&mut self) {
        for (listener, (stream, _)) in self.listeners.iter().zip(&mut self.streams) {
            *stream = stream.take().or_else(|| listener.accept().ok());
        }
        for (stream, received) in &mut self.streams {
            let Some(stream) = stream else { continue };
            while self.sends && stream.send(&[0; 1 << 16]).is_ok() {}
            while let Ok(chain) = stream.recv_chain(usize::MAX)
                && !chain.is_empty()
            {
                *received += chain.len() as u64;
            }
        }
    }
}

impl End for OurEnd {
    fn next_frame(&mut self) -> Option<Frame> {
        if self.left.is_empty() {
            let now = self.stack.now();
            if self.stack.next_deadline().is_some_and(|at| at <= now) {
                self.stack.poll();
            }
            self.run_programs();
            // An error of a pipe without its other end is not a frame.
            let _ = self.cable.receive(&mut self.left, ALL);
        }
        self.left
            .dequeue()
            .map(|packet| Frame::from_packet(&packet))
    }

    fn deliver(&mut self, frame: &Frame) {
        let mut frames = Mbufq::new();
        // Without a buffer the frame is lost, as on a link.
        if let Ok(packet) = frame.to_packet(self.stack.pool(), Shape::Cluster) {
            frames.enqueue(packet);
        }
        let _ = self.cable.transmit(&mut frames);
        let _ = self.stack.poll_interface(self.index, ALL);
    }

    fn next_deadline(&self) -> Option<Time> {
        // Both clocks began together, to within less than a tick of the stack's timers.
        self.stack.next_deadline()
    }

    fn received(&self) -> Vec<u64> {
        self.streams.iter().map(|(_, bytes)| *bytes).collect()
    }

    fn timeouts(&self) -> Option<u64> {
        Some(self.stack.stats().tcp.timeouts)
    }
}
