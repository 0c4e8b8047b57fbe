//! Connections and flows, as `netstat -a` lists them.
//!
//! Both ends are those that the guest sees: its own, and the address to which it connected. Bytes are those in the
//! stack's buffers: `UP` has come from the guest and waits for the host, `DOWN` waits for the guest to take or
//! acknowledge it.
//!
//! Invariants: [`ROWS_MAX`] rows at most, and how many were left out.
//! Locks: each connection's, in turn.

use std::fmt;
use std::net::SocketAddr;

use kern::Time;
use mbuma::Stack;
use mbuma::socket::TcpInfo;
use serde::Serialize;

use crate::gateway::udp::GuestFlows;

/// Rows of each kind at most: more than a terminal shows, and few enough for one answer.
const ROWS_MAX: usize = 16 << 10;

/// All connections and flows.
#[derive(Debug, Serialize)]
pub(super) struct Listing {
    tcp: Vec<Tcp>,
    udp: Vec<Udp>,
    /// Rows that were left out.
    omitted: usize,
}

/// A TCP connection.
#[derive(Debug, Serialize)]
struct Tcp {
    guest: SocketAddr,
    remote: SocketAddr,
    state: String,
    /// Bytes from the guest that were not read yet.
    up_queue: usize,
    /// Bytes for the guest that it has not acknowledged.
    down_queue: usize,
    /// Bytes that arrived out of order.
    reass_queue: usize,
    cwnd: u32,
    /// Bytes of the guest's largest segment.
    received_mss: u32,
    /// Segments by which data for the guest was overtaken at most.
    reordering: u8,
    congestion: &'static str,
    rtt_us: Option<u128>,
    /// The time for which data for the guest waited to be sent or acknowledged; and the parts of it in which the
    /// guest's window or the send buffer held it back.
    busy_us: u128,
    window_limited_us: u128,
    buffer_limited_us: u128,
    /// The time since the last valid segment of the guest.
    silent_us: u128,
}

/// A UDP flow.
#[derive(Debug, Serialize)]
struct Udp {
    guest: SocketAddr,
    remote: SocketAddr,
    idle_s: f64,
}

impl Listing {
    /// The rows now, ordered by ends.
    pub(super) fn of(stack: &Stack, flows: &GuestFlows, now: Time) -> Listing {
        let all = stack.connections().into_iter();
        let tcp = all.map(|one| Tcp::of(one.peer, one.local, &one.info));
        let udp = flows.list().map(|flow| Udp {
            guest: flow.ends.guest,
            remote: flow.ends.remote,
            idle_s: (now - flow.last_used).as_secs_f64(),
        });
        Listing::new(tcp.collect(), udp.collect(), ROWS_MAX)
    }

    fn new(mut tcp: Vec<Tcp>, mut udp: Vec<Udp>, rows_max: usize) -> Listing {
        tcp.sort_by_key(|row| (row.guest, row.remote));
        udp.sort_by_key(|row| (row.guest, row.remote));
        let before = tcp.len() + udp.len();
        tcp.truncate(rows_max);
        udp.truncate(rows_max);
        let omitted = before - tcp.len() - udp.len();
        Listing { tcp, udp, omitted }
    }
}

impl Tcp {
    fn of(guest: SocketAddr, remote: SocketAddr, info: &TcpInfo) -> Tcp {
        Tcp {
            guest,
            remote,
            state: info.state.to_string(),
            up_queue: info.recv_queue,
            down_queue: info.send_queue,
            reass_queue: info.reass_queue,
            cwnd: info.cwnd,
            received_mss: info.received_mss,
            reordering: info.reordering,
            congestion: info.congestion,
            rtt_us: info.rtt.map(|rtt| rtt.as_micros()),
            busy_us: info.busy.as_micros(),
            window_limited_us: info.window_limited.as_micros(),
            buffer_limited_us: info.buffer_limited.as_micros(),
            silent_us: info.since_heard.as_micros(),
        }
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<5} {:>8} {:>8}  {:<21}  {:<21}  {:<12} {:>8}",
            "PROTO", "UP", "DOWN", "GUEST", "REMOTE", "STATE", "RTT"
        )?;
        for row in &self.tcp {
            let rtt = row.rtt_us.map_or("-".to_owned(), |us| format!("{us} us"));
            let Tcp {
                up_queue,
                down_queue,
                state,
                ..
            } = row;
            let (guest, remote) = (row.guest.to_string(), row.remote.to_string());
            writeln!(
                f,
                "tcp   {up_queue:>8} {down_queue:>8}  {guest:<21}  {remote:<21}  {state:<12} {rtt:>8}"
            )?;
        }
        for row in &self.udp {
            let (guest, remote) = (row.guest.to_string(), row.remote.to_string());
            let idle = format!("idle {:.0} s", row.idle_s);
            writeln!(
                f,
                "udp   {:>8} {:>8}  {guest:<21}  {remote:<21}  {idle}",
                "-", "-"
            )?;
        }
        match self.omitted {
            0 => Ok(()),
            n => writeln!(f, "({n} more)"),
        }
    }
}

#[cfg(test)]
mod tests;
