//! Options of one connection, at any time: buffers, congestion control, keepalives, and those of [`TcpSocketOptions`].
//!
//! Locks: the connection, for each call.

use std::time::Duration;

use super::TcpStream;
use crate::network;
use crate::tcp::TcpSocketOptions;
use crate::tcp::cc::{Cc, CongestionControl};
use crate::tcp::due::Due;
use crate::tcp::options::each_segment_len;
use crate::tcp::timers::fields::TcpTimer;
use crate::tcp::user_options::SEGMENT_MIN;

impl TcpStream {
    /// From now on all segments of the connection leave by the calling CPU's queue, if the interface has several: for a
    /// program that hands a connection to another thread (see [`Incoming::accept`]).
    ///
    /// [`Incoming::accept`]: crate::socket::Incoming::accept
    #[doc(alias = "SO_INCOMING_CPU")]
    pub fn keep_to_this_cpu(&self) {
        let _giant = self.stack.enter_giant();
        if let Some(way) = network::egress(&self.stack, self.pcb.ends().peer()) {
            let cpu = self.stack.cpus.current();
            self.pcb.keep_to(way.ifp.queues.len(), cpu);
        }
    }

    /// Sends small segments at once instead of gathering them (RFC 9293 3.7.4). Turning it on also sends what a cork
    /// holds back at that moment ([`TcpSocketOptions::cork`]), as on Linux.
    #[doc(alias = "TCP_NODELAY")]
    pub fn set_nodelay(&self, on: bool) {
        self.with(|t| {
            t.send.nodelay = on;
            if on && t.unsent() > 0 && t.send.usable_window() > 0 {
                t.due |= Due::PROBE;
            }
        });
    }

    /// Whether small segments are sent at once.
    pub fn nodelay(&self) -> bool {
        self.pcb.lock(self.stack.giant()).send.nodelay
    }

    /// Sets the congestion control of this connection. The window does not change; the new algorithm starts from it,
    /// without knowledge of earlier events.
    #[doc(alias = "TCP_CONGESTION")]
    pub fn set_congestion(&self, congestion: CongestionControl) {
        let cc = Cc::new(congestion);
        let old = self.with(|t| std::mem::replace(&mut t.send.cc, cc));
        // An embedder's destructor runs without the connection's lock.
        drop(old);
    }

    /// Sets the size of each buffer in bytes, at most a GiB. Their content stays, and the stack still accepts data
    /// within the announced window; after that it announces no more until there is room. The sizes are fixed from now
    /// on. The receive buffer has at least four units of the window's field (RFC 7323 2.2). To set sizes before the
    /// handshake, use the options of the attempt or the listener: see [`TcpSocketOptions::recv_buffer`].
    #[doc(alias = "SO_SNDBUF")]
    #[doc(alias = "SO_RCVBUF")]
    pub fn set_buffers(&self, send: usize, receive: usize) {
        self.with(|t| t.set_buffers(Some(send), Some(receive)));
    }

    /// The options of this connection.
    pub fn options(&self) -> TcpSocketOptions {
        self.pcb.lock(self.stack.giant()).conn.asked()
    }

    /// Sets the options of this connection. Buffers of which the options have no size keep theirs.
    #[doc(alias = "setsockopt")]
    pub fn set_options(&self, options: &TcpSocketOptions) {
        let now = self.stack.clock.now();
        self.with(|t| {
            let waits = t.waits();
            let kept = t.conn.options.get_or_insert_default();
            let before = std::mem::replace(&mut kept.asked, *options);
            kept.note_waiting(waits, now);
            if options.quick_ack && t.timers.is_set(TcpTimer::DelayedAck) {
                t.due |= Due::ACK;
            }
            t.set_buffers(
                options
                    .send_buffer
                    .filter(|_| options.send_buffer != before.send_buffer),
                options
                    .recv_buffer
                    .filter(|_| options.recv_buffer != before.recv_buffer),
            );
            if let Some(max) = options.segment_max {
                let most = max.max(SEGMENT_MIN) - each_segment_len(t);
                if let Some(path) = &mut t.send.path {
                    path.limit(most);
                }
                let mss = t.send.mss.min(most);
                t.send.set_mss(mss);
            }
        });
    }

    /// Turns keepalives on: the first probe is sent after `idle`.
    #[doc(alias = "SO_KEEPALIVE")]
    pub fn set_keepalive(&self, idle: Option<Duration>) {
        let now = self.stack.clock.now();
        self.with(|t| {
            t.conn.set_keepalive(idle);
            t.timers.set(
                TcpTimer::Keepalive,
                idle.filter(|_| t.conn.state.is_synchronized())
                    .map(|d| now + d),
            );
        });
    }

    /// The idle time before the first keepalive, if keepalives are on.
    pub fn keepalive(&self) -> Option<Duration> {
        self.pcb.lock(self.stack.giant()).conn.keepalive()
    }
}
