//! Orphans: connections whose program has gone before the peer had all data and the FIN. The stack goes on without it
//! (RFC 9293 3.10.4), and a peer that takes nothing, or little at a time, would keep the data in memory for as long as
//! it likes (RFC 6429 3).
//!
//! | bound | |
//! |---|---|
//! | time | half of the data must be acknowledged in each [nine minutes](HALVES_WITHIN), whether the peer's window is closed or not; all of it in the time that the program chose ([`linger`](crate::TcpSocketOptions::linger)) |
//! | number | beyond [`TcpConfig::orphans_max`] the oldest is reset |
//! | memory | while less than a quarter of the pool's clusters is free, new ones have as many of the oldest reset, down to [a few](FEW) |
//!
//! An honest peer takes the rest in round trips, so the oldest orphan is most likely one of a peer that does not. If
//! the newest were reset, as on Linux, such peers could have all others' answers cut off.
//!
//! Locks: the list (TASKQUEUE), inside of a connection's. Sources: RFC 6429, Linux's `tcp_max_orphans`.
//!
//! [`TcpConfig::orphans_max`]: crate::config::TcpConfig::orphans_max

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::Duration;

use kern::{LockClass, Mutex, order};
use mbuf::{Headroom, MbufPool};

use super::pcb::{Inpcb, State, Tcb};
use super::reset::{self, EndReset};
use super::timers::fields::TcpTimer;
use super::visit;
use crate::batch::Batch;
use crate::error::SocketError;

static ORPHANS: LockClass = LockClass::new("tcp orphans", order::TASKQUEUE);

/// The time in which half of an orphan's data must be acknowledged: that of 4.4BSD for data that is not acknowledged at
/// all, which is twelve retransmissions (TCP/IP Illustrated 1, 21.2). RFC 6429 sets no time.
const HALVES_WITHIN: Duration = Duration::from_secs(540);

/// So many orphans stay though buffers are short: fewer do not make them so. The pool, whose answer takes locks, is
/// asked once for as many new ones.
const FEW: usize = 16;

/// The orphans of a stack.
#[derive(Debug)]
pub(crate) struct Orphans(Mutex<OrphanList>);

/// By number; numbers are given in turn, and wrap.
#[derive(Debug, Default)]
struct OrphanList {
    by_number: BTreeMap<NonZeroU32, Orphan>,
    last: u32,
}

#[derive(Debug)]
struct Orphan {
    pcb: Arc<Inpcb>,
    /// Bytes that were not acknowledged when the present minutes began.
    left: usize,
}

/// An orphan that was added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewOrphan {
    number: NonZeroU32,
    /// Orphans of the stack, with this one.
    len: usize,
}

impl OrphanList {
    fn add(&mut self, orphan: Orphan) -> NonZeroU32 {
        loop {
            self.last = self.last.wrapping_add(1);
            let number = NonZeroU32::new(self.last);
            if let Some(number) = number.filter(|number| !self.by_number.contains_key(number)) {
                self.by_number.insert(number, orphan);
                return number;
            }
        }
    }

    /// Numbers above the last one were given before the numbers wrapped.
    fn take_oldest(&mut self) -> Option<Orphan> {
        let last = NonZeroU32::new(self.last)?;
        let mut before_wrap = self.by_number.range((Excluded(last), Unbounded));
        match before_wrap.next().map(|(number, _)| *number) {
            Some(oldest) => self.by_number.remove(&oldest),
            None => self.by_number.pop_first().map(|(_, orphan)| orphan),
        }
    }
}

impl Orphans {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(&ORPHANS, OrphanList::default()))
    }

    /// The connection has become an orphan, which gets a number unless it is over.
    pub(crate) fn add(
        &self,
        batch: &Batch<'_>,
        pcb: &Arc<Inpcb>,
        t: &mut Tcb,
    ) -> Option<NewOrphan> {
        let is_over = matches!(t.conn.state, State::Closed | State::TimeWait);
        if is_over || t.fin_acked() {
            return None;
        }
        let linger = t.conn.asked().linger.filter(|time| *time < HALVES_WITHIN);
        let orphan = Orphan {
            pcb: Arc::clone(pcb),
            // 0: when the timer expires, the connection is given up (`is_too_slow`).
            left: linger.map_or(t.send.buf.claimed(), |_| 0),
        };
        let mut list = self.0.lock();
        let number = list.add(orphan);
        let len = list.by_number.len();
        drop(list);
        t.conn.set_orphan_number(Some(number));
        let within = linger.unwrap_or(HALVES_WITHIN);
        t.timers.set(TcpTimer::Orphan, batch.now + within);
        Some(NewOrphan { number, len })
    }

    /// The connection needs no bound any more: it has ended, or only the peer's FIN is missing.
    #[cold]
    pub(crate) fn forget(&self, t: &mut Tcb) {
        if let Some(number) = t.conn.set_orphan_number(None) {
            t.timers.stop(TcpTimer::Orphan);
            let own = self.0.lock().by_number.remove(&number);
            drop(own);
        }
    }

    fn take_oldest(&self) -> Option<Arc<Inpcb>> {
        let oldest = self.0.lock().take_oldest();
        oldest.map(|orphan| orphan.pcb)
    }

    /// The next minutes of an orphan begin, which has `left` bytes now; returns how many it had when the last ones
    /// began.
    fn begin_next(&self, number: NonZeroU32, left: usize) -> Option<usize> {
        let mut list = self.0.lock();
        let orphan = list.by_number.get_mut(&number)?;
        Some(std::mem::replace(&mut orphan.left, left))
    }
}

fn are_short(Headroom { left, max }: Headroom) -> bool {
    left < max / 4
}

/// How many of the oldest must go for one that was added.
fn excess(NewOrphan { number, len }: NewOrphan, pool: &MbufPool, max: usize) -> usize {
    let asks = (number.get() as usize).is_multiple_of(FEW) && len > FEW;
    match asks && are_short(pool.headroom()) {
        true => FEW.min(len - FEW),
        false => usize::from(len > max),
    }
}

/// Resets the oldest orphans, if there are too many with the one that was added; no connection is locked.
pub(crate) fn make_room(batch: &mut Batch<'_>, added: NewOrphan) {
    let tcp = &batch.stack.tcp;
    for _ in 0..excess(added, &batch.stack.pool, tcp.config.orphans_max) {
        let Some(pcb) = tcp.orphans.take_oldest() else {
            return;
        };
        let mut t = visit::begin(&pcb);
        // It may have ended meanwhile.
        if t.conn.set_orphan_number(None).is_none() {
            continue;
        }
        tcp.counters.orphans_reset.inc();
        let reset = EndReset::of(&t, batch.now);
        t.close(Some(SocketError::TimedOut));
        visit::end_later(batch, &pcb, t);
        reset::send(batch, pcb.ends(), reset);
    }
}

/// True if the connection must be given up: in the last minutes the peer has not taken half of the data. The number of
/// such minutes is bounded by the logarithm of the data.
pub(super) fn is_too_slow(batch: &Batch<'_>, t: &mut Tcb) -> bool {
    // Of an orphan without a number, the timer is the keepalive that its program had set.
    if !t.conn.orphan || !t.timers.take_due(TcpTimer::Orphan, batch.now) {
        return false;
    }
    let left = t.send.buf.claimed();
    let before = (t.conn.orphan_number())
        .and_then(|number| batch.stack.tcp.orphans.begin_next(number, left));
    let Some(before) = before else {
        return false;
    };
    t.timers.set(TcpTimer::Orphan, batch.now + HALVES_WITHIN);
    // Of no bytes, nothing was left but the FIN.
    before == 0 || left > before / 2
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::net::Ipv4Addr;

    use kern::Time;
    use wire::SeqNum;

    use super::*;
    use crate::config::TcpConfig;
    use crate::inet::{Ends, Pair};

    #[test]
    fn the_oldest_is_found_also_after_the_numbers_wrap() {
        // Breaks when the newest of 2^32 orphans are taken for the oldest, or when a number is given twice.
        let ends = Ends::V4(Pair {
            local: Ipv4Addr::LOCALHOST,
            peer: Ipv4Addr::LOCALHOST,
            local_port: 80,
            peer_port: 1,
        });
        let config = TcpConfig::default();
        let tcb = Tcb::new(&config, State::FinWait1, SeqNum(1), 536, Time::ZERO);
        let pcb = Inpcb::new(ends, 0, tcb);
        let mut list = OrphanList {
            last: u32::MAX - 2,
            ..OrphanList::default()
        };
        let orphan = || Orphan {
            pcb: Arc::clone(&pcb),
            left: 0,
        };
        let numbers: Vec<_> = (0..5).map(|_| list.add(orphan())).collect();
        let given = numbers.iter().map(|number| number.get());
        assert!(given.eq([u32::MAX - 1, u32::MAX, 1, 2, 3]));
        for number in numbers {
            assert!(list.by_number.contains_key(&number));
            assert!(list.take_oldest().is_some());
            assert!(!list.by_number.contains_key(&number), "{number}");
        }
        assert!(list.take_oldest().is_none());
    }
}
