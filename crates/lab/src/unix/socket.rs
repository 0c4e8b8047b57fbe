//! A connected pair of sockets of any make: the kernel's, and ours, copying and by reference.
//!
//! All calls wait. Invariant: each side receives the bytes that the other sends, in order; after the end of one side
//! the other's calls fail or report it.

use kern::Random;
use mbuf::Chain;
use mbuma::{Config, Stack};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// One side.
pub(crate) trait Socket: Send + Sync + Sized {
    /// The bytes of one hand-over.
    type Data: Send;

    /// Pairs of sockets.
    fn pairs(n: usize) -> Vec<[Self; 2]>;
    /// A message to hand over.
    fn data(&self, size: usize) -> Self::Data;
    /// Hands it over; says whether the other side is there.
    fn send(&self, data: &mut Self::Data) -> bool;
    /// Receives into the same, or in its place, as much as there is; says how much. 0 is the end.
    fn recv(&self, data: &mut Self::Data) -> usize;
    /// Ends both directions: the other side's calls, and this one's on other threads, return.
    fn end(&self);

    /// Receives as much as was handed over at once. Says whether it came.
    fn recv_all(&self, data: &mut Self::Data, size: usize) -> bool;
}

/// The kernel's.
pub(crate) struct Kernel(UnixStream);

impl Socket for Kernel {
    type Data = Vec<u8>;

    fn pairs(n: usize) -> Vec<[Self; 2]> {
        let pair = |_| UnixStream::pair().expect("two descriptors");
        let both = |(a, b)| [Self(a), Self(b)];
        (0..n).map(pair).map(both).collect()
    }

    fn data(&self, size: usize) -> Vec<u8> {
        vec![1; size]
    }

    fn send(&self, data: &mut Vec<u8>) -> bool {
        (&self.0).write_all(data).is_ok()
    }

    fn recv(&self, data: &mut Vec<u8>) -> usize {
        (&self.0).read(data).unwrap_or(0)
    }

    fn end(&self) {
        // A closed socket needs no shutdown.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    fn recv_all(&self, data: &mut Vec<u8>, _: usize) -> bool {
        (&self.0).read_exact(data).is_ok()
    }
}

/// Ours, between threads of one stack; bytes are copied in and out.
pub(crate) struct Copied(mbuma::unix::UnixStream);

/// Ours; chains of mbufs change hands.
pub(crate) struct ByRef {
    socket: mbuma::unix::UnixStream,
    stack: Stack,
}

fn stack() -> Stack {
    let clock = Arc::new(kern::MonotonicClock::new());
    Stack::new(Config::new(clock, Random::from_seed(1)))
        .expect("address space for a stack's buffers")
}

impl Socket for Copied {
    type Data = Vec<u8>;

    fn pairs(n: usize) -> Vec<[Self; 2]> {
        let stack = stack();
        let pair = |_| stack.unix().pair();
        let both = |(a, b)| [Self(a), Self(b)];
        (0..n).map(pair).map(both).collect()
    }

    fn data(&self, size: usize) -> Vec<u8> {
        vec![1; size]
    }

    fn send(&self, data: &mut Vec<u8>) -> bool {
        self.0.send_blocking(data, None) == Ok(data.len())
    }

    fn recv(&self, data: &mut Vec<u8>) -> usize {
        self.0.recv_blocking(data, None).unwrap_or(0)
    }

    fn end(&self) {
        self.0.shutdown(Shutdown::Both);
    }

    fn recv_all(&self, data: &mut Vec<u8>, _: usize) -> bool {
        let mut got = 0;
        while got < data.len() {
            match self.0.recv_blocking(&mut data[got..], None) {
                Ok(n) if n > 0 => got += n,
                _ => return false,
            }
        }
        true
    }
}

impl Socket for ByRef {
    type Data = Chain;

    fn pairs(n: usize) -> Vec<[Self; 2]> {
        let stack = stack();
        let one = |socket| Self {
            socket,
            stack: stack.clone(),
        };
        let both = |(a, b)| [one(a), one(b)];
        (0..n).map(|_| stack.unix().pair()).map(both).collect()
    }

    fn data(&self, size: usize) -> Chain {
        Chain::from_slice(self.stack.pool(), &vec![1; size]).expect("a new stack's buffers")
    }

    // A reference to the same bytes each time, or the received bytes: no copy.
    fn send(&self, data: &mut Chain) -> bool {
        let Ok(shared) = data.share_all() else {
            return false;
        };
        self.socket.send_chain_blocking(shared, None).is_ok()
    }

    fn recv(&self, data: &mut Chain) -> usize {
        *data = self
            .socket
            .recv_chain_blocking(1 << 20, None)
            .unwrap_or_default();
        data.len()
    }

    fn end(&self) {
        self.socket.shutdown(Shutdown::Both);
    }

    fn recv_all(&self, data: &mut Chain, size: usize) -> bool {
        *data = Chain::new();
        while data.len() < size {
            match self.socket.recv_chain_blocking(size - data.len(), None) {
                Ok(more) if !more.is_empty() => data.append(more),
                _ => return false,
            }
        }
        true
    }
}
