//! The object behind a descriptor.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;
use std::time::Duration;

use mbuma::congestion::CongestionControl;
use mbuma::{SocketError, TcpListener, TcpSocketOptions, TcpStream, UdpSocket};

use super::error_queue::ErrorQueue;
use super::poll::Interest;
use crate::script::dialect::Dialect;

/// The object that is open under a number.
pub(in crate::script) enum Object {
    /// A TCP socket that neither listens nor connects.
    Fresh,
    /// A UDP socket that has no port yet.
    FreshDatagrams,
    /// A listener, and connections that a poll took out of its queue.
    Listener(ListenSocket),
    /// A connection.
    Stream(TcpStream),
    /// A UDP socket.
    Datagrams(UdpSocket),
    /// A set of descriptors to wait for.
    Epoll(BTreeMap<i64, Interest>),
    /// A file, whose bytes are those that its reader expects.
    File,
}

/// A listener.
pub(in crate::script) struct ListenSocket {
    listener: TcpListener,
    /// The connections that a poll took out of the queue.
    ready: VecDeque<TcpStream>,
}

impl ListenSocket {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            ready: VecDeque::new(),
        }
    }

    pub(super) fn accept(&mut self) -> Option<TcpStream> {
        self.ready
            .pop_front()
            .or_else(|| self.listener.accept().ok())
    }

    /// Sets the options that later connections inherit.
    pub(super) fn set_options(&self, options: &TcpSocketOptions) {
        self.listener.set_options(options);
    }

    /// Whether a connection is ready.
    pub(super) fn is_ready(&mut self) -> bool {
        if self.ready.is_empty() {
            self.ready.extend(self.listener.accept());
        }
        !self.ready.is_empty()
    }
}

/// One open descriptor.
pub(in crate::script) struct Descriptor {
    pub(super) object: Object,
    pub(super) nonblocking: bool,
    pub(super) bound: Option<SocketAddrV4>,
    /// Values of options, as they were set; those that a connection inherits are applied when there is one.
    pub(super) options: BTreeMap<String, i64>,
    /// Bytes of the connection's send and receive buffer, if they were set.
    pub(super) buffers: (Option<usize>, Option<usize>),
    /// TCP_KEEPIDLE, if it was not set.
    pub(super) keepalive_idle: Duration,
    /// TCP_CONGESTION, if it was set.
    pub(super) congestion: Option<CongestionControl>,
    /// Bytes that were read, and written.
    pub(super) read: u64,
    pub(super) written: u64,
    /// A call has reported the connection's error, which calls report once.
    pub(super) error_was_told: bool,
    /// A call has reported the end of the handshake.
    pub(super) is_connected: bool,
    pub(super) errors: ErrorQueue,
}

impl Descriptor {
    pub(super) fn new(object: Object) -> Self {
        Self {
            object,
            nonblocking: false,
            bound: None,
            options: BTreeMap::new(),
            buffers: (None, None),
            keepalive_idle: Duration::ZERO,
            congestion: None,
            read: 0,
            written: 0,
            error_was_told: false,
            is_connected: false,
            errors: ErrorQueue::default(),
        }
    }

    /// Takes note of the size of a buffer, and returns the one that the system reports: Linux doubles it, because half
    /// of the receive buffer is for its own records (socket(7); tcp(7), `tcp_adv_win_scale`).
    pub(super) fn set_buffer(&mut self, name: &str, given: i64, dialect: Dialect) -> i64 {
        let reported = match dialect {
            Dialect::Linux => given.saturating_mul(2),
            Dialect::Bsd => given,
        };
        let size = |n: i64| usize::try_from(n).unwrap_or(0);
        match name {
            "SO_SNDBUF" => self.buffers.0 = Some(size(reported)),
            _ => self.buffers.1 = Some(size(given)),
        }
        reported
    }

    /// Bytes of the connection that the peer has acknowledged.
    pub(super) fn acknowledged(&self) -> Option<u64> {
        match &self.object {
            Object::Stream(stream) => {
                let queued = stream.info().send_queue as u64;
                Some(self.written.saturating_sub(queued))
            }
            _ => None,
        }
    }

    /// The connection's error, if no call has returned it.
    pub(super) fn take_error(&mut self) -> Option<SocketError> {
        let error = match &self.object {
            Object::Stream(stream) => stream.error(),
            _ => None,
        };
        error.filter(|_| !std::mem::replace(&mut self.error_was_told, true))
    }
}
