//! Numbered datagrams of one flow, which must arrive in order where no wire changes it.
//!
//! Datagrams may be lost; none may overtake another, arrive twice, or have a wrong byte.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use kern::Time;
use mbuf::Chain;
use mbuma::{Stack, UdpSocket};

use super::{App, Context, Fickle};
use crate::pattern::Pattern;

/// The outcome of a flow.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// A violation of a rule, if there was one.
    pub violation: Option<String>,
}

/// A flow's figures, shared between its ends.
pub type SharedFlow = Rc<RefCell<Flow>>;

/// Bytes of the number in front of each datagram.
const NUMBER: usize = 8;

/// Sends numbered datagrams.
#[derive(Debug)]
pub struct Sequence {
    /// Where.
    pub stack: Stack,
    /// Its socket.
    pub socket: UdpSocket,
    /// The destination.
    pub peer: SocketAddr,
    /// The number of datagrams, and the length of each.
    pub datagrams: (u64, usize),
    /// The datagrams of a burst, and the time between two bursts.
    pub burst: (u64, Duration),
    /// When it begins.
    pub at: Time,
    /// Figures.
    pub flow: SharedFlow,
}

impl Sequence {
    fn send(&self) {
        let number = self.flow.borrow().sent + 1;
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.resize(self.datagrams.1.max(NUMBER), 0);
        Pattern::new(number).fill(0, &mut bytes[NUMBER..]);
        self.flow.borrow_mut().sent = number;
        // There may be no buffer, or no route while an interface moves: then this one is lost.
        if let Ok(chain) = Chain::from_slice(self.stack.pool(), &bytes) {
            let _: Result<(), _> = self.socket.send_to(chain, self.peer);
        }
    }
}

impl App for Sequence {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        if context.now < self.at {
            return Some(self.at);
        }
        for _ in 0..self.burst.0 {
            if self.flow.borrow().sent == self.datagrams.0 {
                context.finish();
                return None;
            }
            self.send();
        }
        self.at = context.now + self.burst.1;
        Some(self.at)
    }
}

/// Receives them. It never ends.
#[derive(Debug)]
pub struct Sink {
    /// Its socket.
    pub socket: UdpSocket,
    /// No wire on the way reorders or duplicates.
    pub strict: bool,
    /// Changes how its stack dispatches while datagrams are under way.
    pub fickle: Option<Fickle>,
    /// The number of the last datagram.
    pub last: u64,
    /// Figures.
    pub flow: SharedFlow,
}

impl Sink {
    fn check(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (number, rest) = bytes
            .split_first_chunk()
            .ok_or("a datagram without number")?;
        let number = u64::from_be_bytes(*number);
        if Pattern::new(number).mismatch(0, rest).is_some() {
            return Err(format!("datagram {number} has a wrong byte"));
        }
        if self.strict && number <= self.last {
            return Err(format!("datagram {number} came after {}", self.last));
        }
        self.last = number;
        Ok(())
    }
}

impl App for Sink {
    fn run(&mut self, context: &mut Context) -> Option<Time> {
        self.socket.set_waker(Some(context.waker.clone()));
        while let Ok(datagram) = self.socket.recv() {
            let checked = self.check(&datagram.payload.to_vec());
            let mut flow = self.flow.borrow_mut();
            flow.received += 1;
            self.fickle.iter_mut().for_each(Fickle::change);
            if let Err(what) = checked {
                flow.violation.get_or_insert(what);
            }
        }
        None
    }
}
