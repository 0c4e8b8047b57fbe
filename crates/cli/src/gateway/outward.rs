//! A TCP connection between the guest's loopback and the host's: both ends are sockets of a kernel, and the stack is
//! not used.
//!
//! ```text
//!   guest's program <=> its kernel's loopback <=> [guest end  host end] <=> host's loopback <=> host's program
//! ```
//! Bytes go through clusters, as those of other connections: an end is read when the other has taken all that was read
//! before, so that the window of each end follows the speed of the other peer.
//!
//! Invariants: both ends are watched under one token, so an event counts for both, and a read that finds nothing
//! corrects it.
//! Locks: none.

use std::io;

use kern::Time;
use mbuf::Chain;
use mbuma::runtime::Readiness;

use super::client_quota::ClientSlot;
use super::host::{Host, Moved, SEGMENT_MAX};
use super::loopback::OutwardClient;
use super::relay::{Remainder, Turn};
use super::retry::{NO_BUFS_WAIT, RetryTimer};
use super::shared::Shared;
use super::table::Token;

/// A connection of a program of the guest with one of the host.
pub(super) struct OutwardConnection {
    guest: OutwardEnd,
    host: OutwardEnd,
    token: Token,
    /// An event reported an error, or the end of both directions.
    failed: bool,
    /// For clusters, when there are none.
    retry: RetryTimer,
    /// When bytes were moved last.
    moved_at: Time,
    /// Its place in the quota, held until it ends.
    _slot: ClientSlot,
}

/// One end.
struct OutwardEnd {
    socket: Host,
    /// Read from the other end, and not taken by this one yet.
    pending: Chain,
    /// Its peer has sent its FIN.
    ended: bool,
    /// The FIN of the other end's peer was passed on to it.
    told: bool,
}

/// The reason why a direction moves no bytes.
enum Pause {
    /// Until an event.
    Event,
    /// Other connections come first.
    Turn,
    /// Until there are clusters.
    Clusters,
}

impl OutwardConnection {
    /// Joins the two ends, which are watched under `token`.
    pub(super) fn new(client: OutwardClient, token: Token, now: Time) -> OutwardConnection {
        let end = |socket| OutwardEnd {
            socket,
            pending: Chain::new(),
            ended: false,
            told: false,
        };
        OutwardConnection {
            guest: end(client.guest),
            host: end(client.host),
            token,
            failed: false,
            retry: RetryTimer::default(),
            moved_at: now,
            _slot: client.slot,
        }
    }

    /// Remembers the readiness of an event of one of the sockets.
    pub(super) fn note(&mut self, readiness: Readiness) {
        self.guest.socket.note(readiness);
        self.host.socket.note(readiness);
        self.failed |= readiness.failed();
    }

    /// Moves bytes both ways.
    pub(super) fn turn(&mut self, shared: &mut Shared, now: Time) -> Turn {
        let failed = std::mem::take(&mut self.failed);
        let error = |end: &OutwardEnd| end.socket.take_error().is_some();
        if failed && (error(&self.guest) || error(&self.host)) {
            return Turn::Done;
        }
        let up = pump(shared, &mut self.guest, &mut self.host);
        let down = pump(shared, &mut self.host, &mut self.guest);
        let (Ok((up, up_pause)), Ok((down, down_pause))) = (up, down) else {
            return Turn::Done;
        };
        shared.counters.bytes_up += up as u64;
        shared.counters.bytes_down += down as u64;
        if up + down > 0 {
            self.moved_at = now;
        }
        match (up_pause, down_pause) {
            _ if self.guest.told && self.host.told => Turn::Done,
            (Pause::Turn, _) | (_, Pause::Turn) => Turn::Again,
            (Pause::Clusters, _) | (_, Pause::Clusters) => {
                self.retry.set(shared, self.token, NO_BUFS_WAIT);
                Turn::Wait
            }
            (Pause::Event, Pause::Event) => Turn::Wait,
        }
    }

    /// The time since which an end has taken none of the data that waits for it; `None` if none waits.
    pub(super) fn stalled_since(&self) -> Option<Time> {
        let waits = |end: &OutwardEnd| !end.pending.is_empty() && !end.socket.may_write();
        (waits(&self.guest) || waits(&self.host)).then_some(self.moved_at)
    }

    /// Whether data of the guest is still to be delivered.
    pub(super) fn remainder(&self) -> Remainder {
        match self.host.pending.is_empty() {
            true => Remainder::Nothing,
            false => Remainder::Part,
        }
    }

    /// Ends it: by a close if both ends have ended, else by a reset.
    pub(super) fn close(self) {
        if !(self.guest.told && self.host.told) {
            self.guest.socket.reset();
            self.host.socket.reset();
        }
    }
}

/// Moves bytes from one end to the other. Returns how many, and why it stopped.
fn pump(
    shared: &mut Shared,
    from: &mut OutwardEnd,
    to: &mut OutwardEnd,
) -> io::Result<(usize, Pause)> {
    let mut moved = 0;
    loop {
        let is_over = to.pending.is_empty() && to.told;
        if is_over || !to.socket.may_write() {
            return Ok((moved, Pause::Event));
        }
        if !to.pending.is_empty() {
            if let Moved::Some(n) | Moved::Last(n) = to.socket.write(&to.pending, SEGMENT_MAX)? {
                to.pending.trim_front(n);
                moved += n;
            }
            continue;
        }
        if from.ended {
            if !std::mem::replace(&mut to.told, true) {
                to.socket.shutdown_write();
            }
            return Ok((moved, Pause::Event));
        }
        if !from.socket.may_read() {
            return Ok((moved, Pause::Event));
        }
        if moved >= SEGMENT_MAX {
            return Ok((moved, Pause::Turn));
        }
        let now = shared.now();
        if shared.allowance(now).is_none() {
            return Ok((moved, Pause::Clusters));
        }
        let Ok(row) = shared.scatter() else {
            return Ok((moved, Pause::Clusters));
        };
        match from.socket.read(row, SEGMENT_MAX)? {
            Moved::Some(chain) | Moved::Last(chain) | Moved::Final(chain) => to.pending = chain,
            Moved::End => from.ended = true,
            Moved::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests;
