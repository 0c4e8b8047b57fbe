//! SYN cookies: a handshake that we remember nothing of, for listeners whose places half-open connections take.
//!
//! A half-open connection keeps its place for a minute, and whoever forges source addresses can fill a backlog with a
//! few packets a second. So where only such connections are in the way, a SYN gets its answer and is forgotten. What we
//! will need is in our initial sequence number, which the peer's acknowledgement brings back:
//!
//! ```text
//!    31                       8 7     5 4     1   0
//!   +--------------------------+-------+-------+------+
//!   | keyed hash of all of it  | MSS   | scale | slot |
//!   +--------------------------+-------+-------+------+
//!    connection, the peer's      one of  none,   whether the slot
//!    number, slot, the rest      MSSES   or + 1  of time is odd
//! ```
//!
//! Nothing is sent a second time, and a peer whose acknowledgement is lost sends data, which does as well. Who has not
//! seen our answer must guess 24 bits, and only while we send cookies ([`Cookies::awaits`]).
//!
//! Called by: `listen`. Calls: `output`, `steps`. Locks: none.
//! Sources: D. J. Bernstein, *SYN cookies* (1996); RFC 4987 3.6.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{KeyedHash, Time};
use mbuf::Chain;
use wire::{SeqNum, TcpFlags};

use super::accept::AcceptQueue;
use super::input::Verdict;
use super::listen;
use super::output;
use super::pcb::{Key, State};
use super::segment::{self, Offer, Outgoing, Payload, Segment};
use super::steps;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ip4;

/// The MSSs that a cookie can tell: the largest that is not more than the peer's.
const MSSES: [u16; 8] = [64, 536, 1220, 1380, 1440, 1460, 8960, 65_495];
/// A slot of time, in seconds. A cookie is good in its own and in the next one.
const SLOT: u64 = 32;
/// Bits that say what they mean; the others are the hash.
const PLAIN_BITS: u32 = 8;

/// Makes cookies, and knows its own again.
pub(crate) struct Cookies {
    secret: KeyedHash,
    /// The slot after that of the last cookie; 0: there was none.
    sent_until: AtomicU64,
}

impl Cookies {
    pub(crate) fn new(secret: KeyedHash) -> Self {
        Self {
            secret,
            sent_until: AtomicU64::new(0),
        }
    }

    /// Whether a cookie may be on its way back.
    fn awaits(&self, now: Time) -> bool {
        // Relaxed: a hint. Who misses it takes a handshake for a stray.
        let until = self.sent_until.load(Ordering::Relaxed);
        until > 0 && slot_of(now) <= until
    }

    fn make(&self, key: &Key, irs: SeqNum, offer: Offer, now: Time) -> SeqNum {
        let slot = slot_of(now);
        // Relaxed: as above.
        if self.sent_until.load(Ordering::Relaxed) != slot + 1 {
            self.sent_until.store(slot + 1, Ordering::Relaxed);
        }
        let mss = offer.mss.unwrap_or(super::pcb::MSS_DEFAULT as u16);
        let index = MSSES.iter().rposition(|&m| m <= mss).unwrap_or(0) as u32;
        let scale = offer
            .window_scale
            .map_or(0, |shift| u32::from(shift.min(14)) + 1);
        self.seal(key, irs, slot, index << 5 | scale << 1 | (slot & 1) as u32)
    }

    /// What the SYN offered, if this is the cookie that we answered it with.
    fn open(&self, key: &Key, irs: SeqNum, cookie: SeqNum, now: Time) -> Option<Offer> {
        let plain = cookie.0 & ((1 << PLAIN_BITS) - 1);
        let this = slot_of(now);
        let slot = if (this & 1) as u32 == plain & 1 {
            this
        } else {
            this.checked_sub(1)?
        };
        let scale = (plain >> 1) & 15;
        (self.seal(key, irs, slot, plain) == cookie).then(|| Offer {
            mss: Some(MSSES[(plain >> 5) as usize]),
            window_scale: scale.checked_sub(1).map(|shift| shift as u8),
        })
    }

    fn seal(&self, key: &Key, irs: SeqNum, slot: u64, plain: u32) -> SeqNum {
        let mut all = [0; 28];
        all[..12].copy_from_slice(&key.to_bytes());
        all[12..16].copy_from_slice(&irs.0.to_be_bytes());
        all[16..24].copy_from_slice(&slot.to_be_bytes());
        all[24..].copy_from_slice(&plain.to_be_bytes());
        SeqNum((self.secret.hash(&all) as u32) << PLAIN_BITS | plain)
    }
}

fn slot_of(now: Time) -> u64 {
    now.as_nanos() / 1_000_000_000 / SLOT
}

/// Answers a SYN that there is no place for, and forgets it.
#[doc(alias = "syncookie_generate")]
pub(super) fn answer(batch: &mut Batch<'_>, seg: &Segment, ip: &ip4::Received<'_>) -> Verdict {
    let tcp = &batch.stack.tcp;
    let iss = tcp.cookies.make(&seg.key, seg.seq, seg.offer, batch.now);
    let mut t = listen::half_open(batch, seg, ip, State::SynReceived, iss);
    let (window, offer) = output::syn_window(&mut t);
    let out = Outgoing {
        key: seg.key,
        flow: 0,
        seq: iss,
        ack: t.rcv_nxt,
        flags: TcpFlags::SYN | TcpFlags::ACK,
        window,
        offer,
        segsz: 0,
    };
    tcp.counters.cookies_sent.inc();
    // If there is no buffer or route for it, the peer will ask again.
    let _: Result<(), DropReason> = segment::send(batch, &out, Payload::none(), None);
    Verdict::Delivered
}

/// Makes the connection whose cookie comes back with this segment, as if it had been there all the time; then the
/// segment is its first one. `None`: it brings none.
#[doc(alias = "syncookie_expand")]
pub(super) fn redeem(
    batch: &mut Batch<'_>,
    seg: &mut Segment,
    ip: &ip4::Received<'_>,
    queue: &Arc<AcceptQueue>,
) -> Option<Verdict> {
    let tcp = &batch.stack.tcp;
    if seg.has(TcpFlags::SYN) || !tcp.cookies.awaits(batch.now) {
        return None;
    }
    let (irs, iss) = (seg.seq - 1, seg.ack - 1);
    let offer = tcp.cookies.open(&seg.key, irs, iss, batch.now)?;
    if !queue.reserve_beyond() {
        // The user is slow. The peer takes the connection for made, and comes again.
        return Some(Verdict::Drop(DropReason::TcpListenOverflow));
    }
    tcp.counters.segments_in.inc();
    tcp.counters.cookies_taken.inc();
    let syn = Segment {
        key: seg.key,
        seq: irs,
        start: irs,
        ack: SeqNum(0),
        flags: TcpFlags::SYN,
        window: 0,
        offer,
        data: Chain::new(),
    };
    let mut t = listen::half_open(batch, &syn, ip, State::SynReceived, iss);
    output::syn_window(&mut t);
    // As after the answer.
    t.snd_nxt = iss + 1;
    t.snd_max = t.snd_nxt;
    Some(match listen::admit(batch, seg.key, ip, t, queue) {
        Some(pcb) => steps::run(batch, &pcb, seg),
        None => Verdict::Drop(DropReason::TcpListenOverflow),
    })
}

#[cfg(test)]
mod tests;
