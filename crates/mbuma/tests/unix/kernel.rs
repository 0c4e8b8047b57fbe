//! The kernel's UNIX-domain sockets and ours, under the same random operations: each must have the same
//! outcome, step by step.
//!
//! Known differences, for which the kernel's side of the test makes up:
//! - Linux says "connection refused" where no socket has an abstract name; we say "not found", as for a path.
//! - Linux has a set of abstract names for each type; we have one, as for paths: streams and datagrams have
//!   different names here.
//! - A datagram socket that takes no more gives the end where a call blocks, "would block" where not; ours
//!   always the end.
//! - An unread empty record is unread to us, and not to Linux: its records have a byte here.
//! - Linux drops what waits in a datagram socket when a send finds its peer gone; ours stays to be read.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net as kernel;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::unix::*;
use mbuma::unix::{Unix, UnixError};
use mbuma::{UnixDatagram, UnixListener, UnixSeqpacket, UnixStream};
use proptest::prelude::*;

/// The outcome of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Done,
    Bytes(Vec<u8>),
    WouldBlock,
    BrokenPipe,
    Reset,
    Refused,
    NotConnected,
    NotPermitted,
    AddrInUse,
    Other(String),
}

impl From<io::Error> for Outcome {
    fn from(e: io::Error) -> Self {
        match e.raw_os_error() {
            Some(libc::EAGAIN) => Self::WouldBlock,
            Some(libc::EPIPE) => Self::BrokenPipe,
            Some(libc::ECONNRESET) => Self::Reset,
            Some(libc::ECONNREFUSED) => Self::Refused,
            Some(libc::ENOTCONN) => Self::NotConnected,
            Some(libc::EPERM) => Self::NotPermitted,
            Some(libc::EADDRINUSE) => Self::AddrInUse,
            _ => Self::Other(e.to_string()),
        }
    }
}

impl From<UnixError> for Outcome {
    fn from(e: UnixError) -> Self {
        match e {
            UnixError::WouldBlock => Self::WouldBlock,
            UnixError::BrokenPipe => Self::BrokenPipe,
            UnixError::Reset => Self::Reset,
            UnixError::Refused | UnixError::NotFound => Self::Refused,
            UnixError::NotConnected => Self::NotConnected,
            UnixError::NotPermitted => Self::NotPermitted,
            UnixError::AddrInUse => Self::AddrInUse,
            other => Self::Other(other.to_string()),
        }
    }
}

/// A send of `len` bytes.
fn sent<E: Into<Outcome>>(result: Result<usize, E>, len: usize) -> Outcome {
    match result {
        Ok(n) if n == len => Outcome::Done,
        Ok(n) => Outcome::Other(format!("{n} bytes of {len}")),
        Err(e) => e.into(),
    }
}

/// A receive into `buf`.
fn received<E: Into<Outcome>>(result: Result<usize, E>, buf: &[u8]) -> Outcome {
    result.map_or_else(Into::into, |n| Outcome::Bytes(buf[..n].to_vec()))
}

/// One socket of a pair, the kernel's or ours.
trait Socket {
    fn send(&self, bytes: &[u8]) -> Outcome;
    fn recv(&self, buf: &mut [u8]) -> Outcome;
    fn shutdown(&self, how: Shutdown);
}

impl Socket for kernel::UnixStream {
    fn send(&self, bytes: &[u8]) -> Outcome {
        sent((&mut &*self).write(bytes), bytes.len())
    }

    fn recv(&self, buf: &mut [u8]) -> Outcome {
        received((&mut &*self).read(buf), buf)
    }

    fn shutdown(&self, how: Shutdown) {
        self.shutdown(how).expect("it is connected");
    }
}

/// The kernel's datagram socket, and whether it takes no more.
struct KernelDatagram(kernel::UnixDatagram, std::cell::Cell<bool>);

impl Socket for KernelDatagram {
    fn send(&self, bytes: &[u8]) -> Outcome {
        sent(self.0.send(bytes), bytes.len())
    }

    fn recv(&self, buf: &mut [u8]) -> Outcome {
        match received(self.0.recv(buf), buf) {
            Outcome::WouldBlock if self.1.get() => Outcome::Bytes(Vec::new()),
            other => other,
        }
    }

    fn shutdown(&self, how: Shutdown) {
        self.0.shutdown(how).expect("it is connected");
        self.1.set(self.1.get() || how != Shutdown::Write);
    }
}

impl Socket for UnixStream {
    fn send(&self, bytes: &[u8]) -> Outcome {
        sent(self.send(bytes), bytes.len())
    }

    fn recv(&self, buf: &mut [u8]) -> Outcome {
        received(self.recv(buf), buf)
    }

    fn shutdown(&self, how: Shutdown) {
        self.shutdown(how);
    }
}

impl Socket for UnixSeqpacket {
    fn send(&self, bytes: &[u8]) -> Outcome {
        sent(self.send(bytes).map(|()| bytes.len()), bytes.len())
    }

    fn recv(&self, buf: &mut [u8]) -> Outcome {
        received(self.recv(buf), buf)
    }

    fn shutdown(&self, how: Shutdown) {
        self.shutdown(how);
    }
}

impl Socket for UnixDatagram {
    fn send(&self, bytes: &[u8]) -> Outcome {
        let outcome = sent(self.send(bytes).map(|()| bytes.len()), bytes.len());
        if outcome == Outcome::Refused {
            while let Ok(Some(_)) = self.recv_with(0) {}
        }
        outcome
    }

    fn recv(&self, buf: &mut [u8]) -> Outcome {
        received(self.recv(buf), buf)
    }

    fn shutdown(&self, how: Shutdown) {
        self.shutdown(how);
    }
}

/// An operation on one socket of a pair.
#[derive(Debug, Clone)]
enum Op {
    Send(usize, usize),
    Recv(usize, usize),
    Shutdown(usize, Shutdown),
    Close(usize),
}

fn how() -> impl Strategy<Value = Shutdown> {
    prop_oneof![
        Just(Shutdown::Read),
        Just(Shutdown::Write),
        Just(Shutdown::Both)
    ]
}

/// Up to 40 operations, of which the ends are few. They fit every buffer.
fn ops(shortest: usize) -> impl Strategy<Value = Vec<Op>> {
    let side = || 0..2_usize;
    let op = prop_oneof![
        8 => (side(), shortest..2000_usize).prop_map(|(s, len)| Op::Send(s, len)),
        8 => (side(), 1..3000_usize).prop_map(|(s, len)| Op::Recv(s, len)),
        1 => (side(), how()).prop_map(|(s, how)| Op::Shutdown(s, how)),
        1 => side().prop_map(Op::Close),
    ];
    prop::collection::vec(op, 1..40)
}

/// The outcome of each operation on a pair. Bytes differ by sender and time.
fn play<S: Socket>(pair: (S, S), ops: &[Op]) -> Vec<Outcome> {
    let mut pair = [Some(pair.0), Some(pair.1)];
    let step = |(n, op): (usize, &Op)| {
        let (Op::Send(side, _) | Op::Recv(side, _) | Op::Shutdown(side, _) | Op::Close(side)) = op;
        let socket = pair[*side].as_ref()?;
        Some(match op {
            Op::Send(_, len) => socket.send(&vec![n as u8; *len]),
            Op::Recv(_, max) => socket.recv(&mut vec![0; *max]),
            Op::Shutdown(_, how) => {
                socket.shutdown(*how);
                Outcome::Done
            }
            Op::Close(_) => {
                pair[*side] = None;
                Outcome::Done
            }
        })
    };
    ops.iter().enumerate().filter_map(step).collect()
}

fn nonblocking(
    pair: (kernel::UnixStream, kernel::UnixStream),
) -> (kernel::UnixStream, kernel::UnixStream) {
    pair.0.set_nonblocking(true).expect("a socket");
    pair.1.set_nonblocking(true).expect("a socket");
    pair
}

/// std has no sequenced packets; its streams do for their descriptors.
fn kernel_seqpackets() -> (kernel::UnixStream, kernel::UnixStream) {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `fds` has room for two descriptors.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) };
    assert_eq!(made, 0, "{}", io::Error::last_os_error());
    let [a, b] = fds.map(|fd| {
        // SAFETY: the call above made it, and no other value owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        kernel::UnixStream::from(fd)
    });
    nonblocking((a, b))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Breaks if a stream behaves otherwise than the kernel's.
    #[test]
    fn streams_behave_as_the_kernels(ops in ops(1)) {
        let stack = stack();
        let theirs = play(nonblocking(kernel::UnixStream::pair().unwrap()), &ops);
        let ours = play(stack.unix().pair(), &ops);
        prop_assert_eq!(ours, theirs);
    }

    /// Breaks if sequenced packets behave otherwise than the kernel's.
    #[test]
    fn seqpackets_behave_as_the_kernels(ops in ops(1)) {
        let stack = stack();
        let theirs = play(kernel_seqpackets(), &ops);
        let ours = play(stack.unix().seqpacket_pair(), &ops);
        prop_assert_eq!(ours, theirs);
    }

    /// Breaks if connected datagram sockets behave otherwise than the kernel's.
    #[test]
    fn datagrams_behave_as_the_kernels(ops in ops(0)) {
        let stack = stack();
        let (a, b) = kernel::UnixDatagram::pair().unwrap();
        let [a, b] = [a, b].map(|s| {
            s.set_nonblocking(true).unwrap();
            KernelDatagram(s, std::cell::Cell::new(false))
        });
        let theirs = play((a, b), &ops);
        let ours = play(stack.unix().datagram_pair(), &ops);
        prop_assert_eq!(ours, theirs);
    }

    /// Breaks if names, listeners and unconnected datagrams behave otherwise than the kernel's.
    #[test]
    fn named_sockets_behave_as_the_kernels(ops in named_ops()) {
        let stack = stack();
        let theirs = play_named(&Kernel::new(), &ops);
        let ours = play_named(&stack.unix(), &ops);
        prop_assert_eq!(ours, theirs);
    }
}

/// An operation on sockets with names. Sockets are in slots; an operation on an empty slot is none.
#[derive(Debug, Clone)]
enum NamedOp {
    Listen(usize, u8),
    Bind(usize, u8),
    Connect(usize, u8),
    Accept(usize, usize),
    /// Connects a datagram socket.
    Aim(usize, u8),
    SendTo(usize, u8),
    Send(usize),
    Recv(usize),
    Close(usize),
}

const SLOTS: usize = 6;

fn named_ops() -> impl Strategy<Value = Vec<NamedOp>> {
    use NamedOp::*;
    let slot = || 0..SLOTS;
    let name = || 0..3_u8;
    let mailbox = || 10..13_u8;
    let op = prop_oneof![
        2 => (slot(), name()).prop_map(|(s, n)| Listen(s, n)),
        2 => (slot(), mailbox()).prop_map(|(s, n)| Bind(s, n)),
        3 => (slot(), name()).prop_map(|(s, n)| Connect(s, n)),
        3 => (slot(), slot()).prop_map(|(s, t)| Accept(s, t)),
        1 => (slot(), mailbox()).prop_map(|(s, n)| Aim(s, n)),
        3 => (slot(), mailbox()).prop_map(|(s, n)| SendTo(s, n)),
        4 => slot().prop_map(Send),
        4 => slot().prop_map(Recv),
        2 => slot().prop_map(Close),
    ];
    prop::collection::vec(op, 1..40)
}

/// A family of sockets with names.
trait Family {
    type Stream;
    type Listener;
    type Datagram;
    fn listen(&self, name: u8) -> Result<Self::Listener, Outcome>;
    fn bind(&self, name: u8) -> Result<Self::Datagram, Outcome>;
    fn connect(&self, name: u8) -> Result<Self::Stream, Outcome>;
    fn accept(&self, listener: &Self::Listener) -> Result<Self::Stream, Outcome>;
    fn aim(&self, socket: &Self::Datagram, name: u8) -> Outcome;
    fn send_to(&self, socket: &Self::Datagram, name: u8, bytes: &[u8]) -> Outcome;
    fn send(&self, socket: &Slot<Self>, bytes: &[u8]) -> Outcome;
    fn recv(&self, socket: &Slot<Self>, buf: &mut [u8]) -> Outcome;
}

enum Slot<F: Family + ?Sized> {
    Empty,
    Stream(F::Stream),
    Listener(F::Listener),
    /// Connected at most once: the fate of messages under way when a socket changes its peer is not
    /// the same anywhere.
    Datagram(F::Datagram, bool),
}

/// The kernel's; its names are this case's own.
struct Kernel(String);

impl Kernel {
    fn new() -> Self {
        static CASES: AtomicU64 = AtomicU64::new(0);
        let case = CASES.fetch_add(1, Ordering::Relaxed);
        Self(format!("mbuma-test-{}-{case}-", std::process::id()))
    }

    fn addr(&self, name: u8) -> kernel::SocketAddr {
        kernel::SocketAddr::from_abstract_name(format!("{}{name}", self.0)).expect("it is short")
    }
}

impl Family for Kernel {
    type Stream = kernel::UnixStream;
    type Listener = kernel::UnixListener;
    type Datagram = kernel::UnixDatagram;

    fn listen(&self, name: u8) -> Result<kernel::UnixListener, Outcome> {
        let listener = kernel::UnixListener::bind_addr(&self.addr(name))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    fn bind(&self, name: u8) -> Result<kernel::UnixDatagram, Outcome> {
        let socket = kernel::UnixDatagram::bind_addr(&self.addr(name))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    fn connect(&self, name: u8) -> Result<kernel::UnixStream, Outcome> {
        let stream = kernel::UnixStream::connect_addr(&self.addr(name))?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    fn accept(&self, listener: &kernel::UnixListener) -> Result<kernel::UnixStream, Outcome> {
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    fn aim(&self, socket: &kernel::UnixDatagram, name: u8) -> Outcome {
        let aimed = socket.connect_addr(&self.addr(name));
        aimed.map_or_else(Into::into, |()| Outcome::Done)
    }

    fn send_to(&self, socket: &kernel::UnixDatagram, name: u8, bytes: &[u8]) -> Outcome {
        sent(socket.send_to_addr(bytes, &self.addr(name)), bytes.len())
    }

    fn send(&self, socket: &Slot<Self>, bytes: &[u8]) -> Outcome {
        match socket {
            Slot::Stream(s) => Socket::send(s, bytes),
            Slot::Datagram(s, _) => sent(s.send(bytes), bytes.len()),
            Slot::Empty | Slot::Listener(_) => Outcome::Done,
        }
    }

    fn recv(&self, socket: &Slot<Self>, buf: &mut [u8]) -> Outcome {
        match socket {
            Slot::Stream(s) => Socket::recv(s, buf),
            Slot::Datagram(s, _) => received(s.recv(buf), buf),
            Slot::Empty | Slot::Listener(_) => Outcome::Done,
        }
    }
}

impl Family for Unix {
    type Stream = UnixStream;
    type Listener = UnixListener;
    type Datagram = UnixDatagram;

    fn listen(&self, name: u8) -> Result<UnixListener, Outcome> {
        Ok(Unix::listen(self, &[name], 128)?)
    }

    fn bind(&self, name: u8) -> Result<UnixDatagram, Outcome> {
        Ok(self.datagram_bind(&[name])?)
    }

    fn connect(&self, name: u8) -> Result<UnixStream, Outcome> {
        Ok(Unix::connect(self, &[name])?)
    }

    fn accept(&self, listener: &UnixListener) -> Result<UnixStream, Outcome> {
        Ok(listener.accept()?)
    }

    fn aim(&self, socket: &UnixDatagram, name: u8) -> Outcome {
        let aimed = socket.connect(&[name]);
        aimed.map_or_else(Into::into, |()| Outcome::Done)
    }

    fn send_to(&self, socket: &UnixDatagram, name: u8, bytes: &[u8]) -> Outcome {
        let result = socket.send_to(bytes, &[name]);
        sent(result.map(|()| bytes.len()), bytes.len())
    }

    fn send(&self, socket: &Slot<Self>, bytes: &[u8]) -> Outcome {
        match socket {
            Slot::Stream(s) => Socket::send(s, bytes),
            Slot::Datagram(s, _) => Socket::send(s, bytes),
            Slot::Empty | Slot::Listener(_) => Outcome::Done,
        }
    }

    fn recv(&self, socket: &Slot<Self>, buf: &mut [u8]) -> Outcome {
        match socket {
            Slot::Stream(s) => Socket::recv(s, buf),
            Slot::Datagram(s, _) => Socket::recv(s, buf),
            Slot::Empty | Slot::Listener(_) => Outcome::Done,
        }
    }
}

/// Puts the new socket into a slot; the former one closes after it, as an assignment has it.
fn put<F: Family>(slot: &mut Slot<F>, made: Result<Slot<F>, Outcome>) -> Outcome {
    match made {
        Ok(made) => {
            *slot = made;
            Outcome::Done
        }
        Err(outcome) => outcome,
    }
}

fn play_named<F: Family>(family: &F, ops: &[NamedOp]) -> Vec<Outcome> {
    let mut slots: [Slot<F>; SLOTS] = std::array::from_fn(|_| Slot::Empty);
    let step = |(n, op): (usize, &NamedOp)| {
        let bytes = [n as u8; 100];
        match *op {
            NamedOp::Listen(s, name) => put(&mut slots[s], family.listen(name).map(Slot::Listener)),
            NamedOp::Bind(s, name) => {
                let made = family.bind(name).map(|d| Slot::Datagram(d, false));
                put(&mut slots[s], made)
            }
            NamedOp::Connect(s, name) => put(&mut slots[s], family.connect(name).map(Slot::Stream)),
            NamedOp::Accept(s, to) => match &slots[s] {
                Slot::Listener(l) => {
                    let made = family.accept(l).map(Slot::Stream);
                    put(&mut slots[to], made)
                }
                _ => Outcome::Done,
            },
            NamedOp::Aim(s, name) => match &mut slots[s] {
                Slot::Datagram(socket, aimed @ false) => {
                    *aimed = true;
                    family.aim(socket, name)
                }
                _ => Outcome::Done,
            },
            NamedOp::SendTo(s, name) => match &slots[s] {
                Slot::Datagram(socket, _) => family.send_to(socket, name, &bytes),
                _ => Outcome::Done,
            },
            NamedOp::Send(s) => family.send(&slots[s], &bytes),
            NamedOp::Recv(s) => family.recv(&slots[s], &mut [0; 70]),
            NamedOp::Close(s) => put(&mut slots[s], Ok(Slot::Empty)),
        }
    };
    ops.iter().enumerate().map(step).collect()
}
