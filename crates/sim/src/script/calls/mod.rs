//! The calls of a program on the stack's sockets: descriptors, and the effect of each call.
//!
//! ```text
//!   mod        one attempt of a call: its outcome, or that it blocks
//!   args       arguments as values
//!   descriptor the object behind a number
//!   setup      socket, bind, listen, accept, shutdown, close
//!   connect    connect
//!   data       everything that moves data
//!   message    the results of recvmsg beside the data
//!   error_queue bytes that are sent without a copy, and the messages about them
//!   send_times when bytes were sent and acknowledged
//!   options    getsockopt, setsockopt, fcntl, ioctl
//!   poll       poll, epoll
//! ```
//!
//! The errors are those of the system whose [`Dialect`] the script speaks. A call that blocks is attempted again after
//! each event.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use mbuma::{SocketError, Stack};

use super::dialect::Dialect;
use super::settings::Settings;
use super::syntax::{Addresses, Call, Expr, Micros};
use super::sysctl::Tunables;
use crate::family::IpFamily;

mod args;
mod connect;
mod data;
mod descriptor;
mod error_queue;
mod message;
mod options;
mod poll;
mod send_times;
mod setup;

pub(super) use self::descriptor::{Descriptor, Object};
pub(super) use self::send_times::constant as timestamping_constant;

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallOutcome {
    pub(super) value: i64,
    pub(super) errno: Option<&'static str>,
    /// Results that differ from the script, beside the value.
    pub(super) wrong: Vec<String>,
}

impl CallOutcome {
    fn value(value: i64) -> Self {
        Self {
            value,
            errno: None,
            wrong: Vec::new(),
        }
    }

    fn fails(errno: &'static str) -> Self {
        Self {
            value: -1,
            errno: Some(errno),
            wrong: Vec::new(),
        }
    }
}

/// One attempt of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It is over.
    Done(CallOutcome),
    /// It blocks.
    Blocks,
}

impl From<CallOutcome> for Attempt {
    fn from(outcome: CallOutcome) -> Self {
        Self::Done(outcome)
    }
}

/// Why a call can't be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// Its arguments make no sense.
    Wrong(String),
    /// The stack or the runner can't do it.
    Unsupported(String),
}

impl Problem {
    fn wrong<T>(message: impl Into<String>) -> Result<T, Self> {
        Err(Self::Wrong(message.into()))
    }

    fn unsupported<T>(message: impl Into<String>) -> Result<T, Self> {
        Err(Self::Unsupported(message.into()))
    }
}

type CallResult = Result<Attempt, Problem>;

/// The progress of a blocked call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// It was attempted before.
    pub(super) began: bool,
    /// Bytes that it wrote.
    pub(super) written: usize,
}

/// The effect of a call on the packets of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The next SYN that comes in begins a connection.
    Listener,
    /// The next SYN that the stack sends begins a connection, from this port if it is not 0.
    Connection { local_port: u16, remote_port: u16 },
    /// Datagrams come in for this port.
    Datagrams { local_port: u16 },
}

/// The descriptors of the program that a script describes.
pub(super) struct Sockets {
    stack: Stack,
    dialect: Dialect,
    family: IpFamily,
    addresses: Addresses,
    bind_port: u16,
    connect_port: u16,
    tolerance: Micros,
    /// The tunables: the options that a program did not set.
    pub(super) tunables: Tunables,
    table: BTreeMap<i64, Descriptor>,
    /// The descriptor of the last connection that was made or accepted.
    current: Option<i64>,
    /// The effect of the last call on packets.
    pub(super) subject: Option<Subject>,
}

impl Sockets {
    pub(super) fn new(
        stack: Stack,
        tunables: Tunables,
        settings: &Settings,
        dialect: Dialect,
    ) -> Self {
        Self {
            stack,
            dialect,
            family: settings.family,
            addresses: settings.addresses,
            bind_port: settings.bind_port,
            connect_port: settings.connect_port,
            tolerance: settings.tolerance,
            tunables,
            table: BTreeMap::new(),
            current: None,
            subject: None,
        }
    }

    /// Makes the call, or makes it again if it blocked.
    pub(super) fn attempt(&mut self, call: &Call, progress: &mut Progress) -> CallResult {
        let args = call.args.as_slice();
        let again = std::mem::replace(&mut progress.began, true);
        match call.name.as_str() {
            "socket" => self.socket(args, &call.returns),
            "bind" => self.bind(args),
            "listen" => self.listen(args),
            "connect" => self.connect(args, again),
            "accept" => self.accept(args, &call.returns),
            "accept4" => self.accept4(args, &call.returns),
            "shutdown" => self.shutdown(args),
            "close" => self.close(args),
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => {
                self.receive(&call.name, args, &call.returns)
            }
            "write" | "send" | "sendto" | "writev" | "sendmsg" => {
                self.transmit(&call.name, args, progress)
            }
            "open" => self.open(args, &call.returns),
            "sendfile" => self.sendfile(args, progress),
            "setsockopt" => self.setsockopt(args),
            "getsockopt" => self.getsockopt(args),
            "fcntl" => self.fcntl(args),
            "ioctl" => self.ioctl(args),
            "poll" => self.poll(args, &call.returns),
            "epoll_create" | "epoll_create1" => self.epoll_create(&call.returns),
            "epoll_ctl" => self.epoll_ctl(args),
            "epoll_wait" => self.epoll_wait(args, &call.returns),
            other => Problem::unsupported(format!("the call {other} is not known")),
        }
    }

    /// The descriptor of an argument; the error is EBADF.
    fn descriptor(&mut self, arg: Option<&Expr>) -> Result<Option<&mut Descriptor>, Problem> {
        let fd = args::int(arg, "a descriptor")?;
        Ok(self.table.get_mut(&fd))
    }

    /// A new descriptor with the number that the script wants, or the lowest free one.
    fn add(&mut self, wanted: &Expr, descriptor: Descriptor) -> i64 {
        let fd = match wanted {
            Expr::Int(fd) if *fd >= 0 && !self.table.contains_key(fd) => *fd,
            _ => (3..)
                .find(|fd| !self.table.contains_key(fd))
                .unwrap_or(i64::MAX),
        };
        self.table.insert(fd, descriptor);
        fd
    }

    /// Bytes that the program wrote into the connection with these ports, if it still holds it.
    pub(super) fn written(&self, local_port: u16, remote_port: u16) -> Option<u64> {
        self.table.values().find_map(|d| match &d.object {
            Object::Stream(stream)
                if stream.local_addr().port() == local_port
                    && stream.peer_addr().port() == remote_port =>
            {
                Some(d.written)
            }
            _ => None,
        })
    }

    /// A segment of the connection with these ports left, with its bytes up to `end`.
    pub(super) fn on_sent(&mut self, local_port: u16, remote_port: u16, end: u64, at: Micros) {
        for d in self.table.values_mut() {
            if let Object::Stream(stream) = &d.object
                && (stream.local_addr().port(), stream.peer_addr().port())
                    == (local_port, remote_port)
            {
                d.errors.on_sent(end, at);
            }
        }
    }

    /// Notes what the peers have acknowledged by now.
    pub(super) fn note_acknowledged(&mut self, at: Micros) {
        for d in self.table.values_mut() {
            if let Some(bytes) = d.acknowledged() {
                d.errors.on_acknowledged(bytes, at);
            }
        }
    }

    /// The connection that assertions are about.
    pub(super) fn current(&self) -> Option<&mbuma::TcpStream> {
        match &self.table.get(&self.current?)?.object {
            Object::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// The sockets that listen, and the connections that the program holds.
    pub(super) fn held(&self) -> (usize, Vec<(SocketAddr, SocketAddr)>) {
        let (mut listeners, mut held) = (0, Vec::new());
        for d in self.table.values() {
            match &d.object {
                Object::Listener(_) => listeners += 1,
                Object::Stream(stream) => held.push((stream.local_addr(), stream.peer_addr())),
                _ => {}
            }
        }
        (listeners, held)
    }
}

/// The name of an error.
fn errno(error: SocketError, dialect: Dialect) -> &'static str {
    match error {
        SocketError::Prohibited if dialect == Dialect::Bsd => "ECONNREFUSED",
        SocketError::Prohibited => "EHOSTUNREACH",
        SocketError::Refused => "ECONNREFUSED",
        SocketError::Unreachable => "EHOSTUNREACH",
        SocketError::Reset => "ECONNRESET",
        SocketError::TimedOut => "ETIMEDOUT",
        SocketError::Closed => "EPIPE",
        SocketError::WouldBlock => "EAGAIN",
        SocketError::AddrInUse => "EADDRINUSE",
        SocketError::AddrNotAvailable => "EADDRNOTAVAIL",
        SocketError::NoBufs | SocketError::TooManyConnections => "ENOBUFS",
        _ => "EIO",
    }
}
