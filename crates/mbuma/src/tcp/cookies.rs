//! SYN cookies: handshakes for which the listener keeps no state, while its half-open connections are at their bound.
//!
//! A forged SYN occupies a half-open connection for a minute. Beyond the bound the listener answers a SYN and keeps
//! nothing. All that it needs later is in its initial sequence number, which the peer's acknowledgement brings back:
//!
//! ```text
//!    31                       8 7   5 4     1   0
//!   +--------------------------+-----+-------+------+
//!   | keyed hash of the rest   | MSS | scale | SACK |
//!   +--------------------------+-----+-------+------+
//!    of the two ends, the       one of none,
//!    peer's number, the slot    MSSES  or + 1
//! ```
//!
//! AccECN needs no bit, because the client's acknowledgement tells of it, and RFC 3168's ECN is not offered. Timestamps
//! need none: the acknowledgement has them if the SYN-ACK had. Linux keeps the options in its timestamp, where a peer
//! without timestamps has no room for them; FreeBSD keeps them here.
//!
//! 1. A cookie is valid in its slot of 64 s and in the next one; the listener tries both. Only in that time does the
//!    listener check acknowledgements for cookies; at other times a guess has no effect.
//! 2. Each cookie is valid once ([`Redeemed`]): a copy of the acknowledgement, or of the first data, that arrives after
//!    the end of the connection does not open it again.
//! 3. The SYN-ACK is never retransmitted. If the peer's acknowledgement is lost, its first data opens the connection.
//!    Later data that arrives before that lacks the peer's initial number: it is dropped without a reset, and the peer
//!    retransmits it.
//!
//! An interceptor has no cookies, because its user decides before the SYN is answered.
//!
//! Locks: `redeemed` (TASKQUEUE), with nothing taken inside.
//! Sources: D. J. Bernstein, *SYN cookies* (1996); RFC 4987 3.6; FreeBSD's syncache.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{KeyedHash, LockClass, Mutex, Random, Time, order};
use mbuf::Chain;
use wire::{SeqNum, TcpFields, TcpFlags};

use super::accept::AcceptQueue;
use super::ecn::{self, Ecn};
use super::input::Verdict;
use super::options::{self, SegmentOptions, SynOptions};
use super::pcb::{MSS_DEFAULT, State};
use super::segment::{self, Payload, Segment, SegmentFields};
use super::timers::fields::TcpTimer;
use super::user_options::TcpSocketOptions;
use super::{listen, output, recv_state, steps};
use crate::batch::Batch;
use crate::config::EcnMode;
use crate::drops::DropReason;
use crate::inet::{ENDS_MAX, Ends};
use crate::ip;

static REDEEMED: LockClass = LockClass::new("redeemed SYN cookies", order::TASKQUEUE);

/// The maximum segment sizes that a cookie can encode: the largest one that is not more than the peer's is used. IPv4's
/// default, IPv6's least link, tunnels, Ethernet with IPv6 and with IPv4, the same with an MTU of 9000, a local device.
const MSSES: [u16; 8] = [536, 1220, 1300, 1440, 1460, 8940, 8960, 65_460];

/// A slot of time, in seconds.
const SLOT: u64 = 64;

/// Bits that encode values; the other bits are the hash.
const PLAIN_BITS: u32 = 8;

/// Used cookies at most that are stored for a slot: beyond that, a copy of an acknowledgement may open its connection
/// again.
const REDEEMED_MAX: usize = 1 << 16;

/// Makes cookies and verifies them.
#[derive(Debug)]
pub(crate) struct Cookies {
    secret: KeyedHash,
    /// The slot of the last cookie, plus one; 0: there was none.
    sent_until: AtomicU64,
    redeemed: Mutex<Redeemed>,
}

/// The cookies of two slots that have opened a connection.
#[derive(Debug, Default)]
struct Redeemed {
    slot: u64,
    now: BTreeSet<u64>,
    before: BTreeSet<u64>,
}

impl Redeemed {
    /// Stores a cookie of this slot; false if it was stored before.
    fn add(&mut self, cookie: u64, slot: u64) -> bool {
        // A thread whose batch began in the previous slot must not move the list back to that slot.
        if slot > self.slot {
            let now = std::mem::take(&mut self.now);
            self.before = if slot == self.slot + 1 {
                now
            } else {
                BTreeSet::new()
            };
            self.slot = slot;
        }
        if self.before.contains(&cookie) || self.now.contains(&cookie) {
            return false;
        }
        if self.now.len() < REDEEMED_MAX {
            self.now.insert(cookie);
        }
        true
    }
}

/// The values of a valid cookie.
#[derive(Debug, Clone, Copy)]
struct Opened {
    syn: SynOptions,
    /// The whole hash, which identifies the cookie.
    id: u64,
}

impl Cookies {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self {
            secret: KeyedHash::new(random),
            sent_until: AtomicU64::new(0),
            redeemed: Mutex::new(&REDEEMED, Redeemed::default()),
        }
    }

    /// Whether an acknowledgement of a cookie may still come.
    pub(crate) fn are_out(&self, now: Time) -> bool {
        // Relaxed: a hint. A thread that misses the change treats the handshake as a stray segment.
        let until = self.sent_until.load(Ordering::Relaxed);
        until > 0 && slot_of(now) <= until
    }

    fn make(&self, ends: &Ends, irs: SeqNum, syn: SynOptions, own_scale: u8, now: Time) -> SeqNum {
        let slot = slot_of(now);
        // Relaxed: as above. Only a new slot is written, so that a flood does not write to a shared line.
        if self.sent_until.load(Ordering::Relaxed) != slot + 1 {
            self.sent_until.store(slot + 1, Ordering::Relaxed);
        }
        let mss = syn.mss.unwrap_or(MSS_DEFAULT as u16);
        let index = MSSES.iter().rposition(|&m| m <= mss).unwrap_or(0) as u32;
        let scale = syn
            .window_scale
            .map_or(0, |shift| u32::from(shift.min(14)) + 1);
        let plain = index << 5 | scale << 1 | u32::from(syn.sack_permitted);
        SeqNum((self.seal(ends, irs, (slot, own_scale), plain) as u32) << PLAIN_BITS | plain)
    }

    /// The options that the SYN offered, if this is a valid cookie.
    fn open(
        &self,
        ends: &Ends,
        irs: SeqNum,
        cookie: SeqNum,
        own_scale: u8,
        now: Time,
    ) -> Option<Opened> {
        let plain = cookie.0 & ((1 << PLAIN_BITS) - 1);
        let this = slot_of(now);
        let slots = [Some(this), this.checked_sub(1)].into_iter().flatten();
        let mut seals = slots.map(|slot| self.seal(ends, irs, (slot, own_scale), plain));
        let id = seals.find(|id| (*id as u32) << PLAIN_BITS | plain == cookie.0)?;
        let scale = (plain >> 1) & 15;
        let syn = SynOptions {
            mss: MSSES.get((plain >> 5) as usize).copied(),
            window_scale: scale.checked_sub(1).map(|shift| shift as u8),
            sack_permitted: plain & 1 != 0,
        };
        Some(Opened { syn, id })
    }

    /// The keyed hash of everything that a cookie encodes, and of the window scale that the SYN-ACK had: if the
    /// listener's program has set another receive buffer since, the two ends would read windows differently.
    fn seal(&self, ends: &Ends, irs: SeqNum, (slot, scale): (u64, u8), plain: u32) -> u64 {
        let mut all = [0; ENDS_MAX + 16];
        let len = ends.with_bytes(|bytes| {
            all[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        });
        let rest = &mut all[len..len + 16];
        rest[..4].copy_from_slice(&irs.0.to_be_bytes());
        rest[4..12].copy_from_slice(&(slot << 4 | u64::from(scale)).to_be_bytes());
        rest[12..].copy_from_slice(&plain.to_be_bytes());
        self.secret.hash(&all[..len + 16])
    }

    /// Redeems a cookie; false if it was redeemed before.
    fn redeem(&self, cookie: Opened, now: Time) -> bool {
        self.redeemed.lock().add(cookie.id, slot_of(now))
    }
}

fn slot_of(now: Time) -> u64 {
    now.as_millis() / 1000 / SLOT
}

/// Answers a SYN beyond the bound, and keeps no state.
#[doc(alias = "syncookie_generate")]
pub(super) fn answer(
    batch: &mut Batch<'_>,
    seg: &Segment,
    ip: &ip::Received<'_>,
    asked: Option<TcpSocketOptions>,
) -> Verdict {
    let tcp = &batch.stack.tcp;
    let scale = recv_state::scale(&tcp.config, asked.as_ref());
    let (cookies, syn) = (&tcp.cookies, seg.options.syn);
    let iss = cookies.make(&seg.ends, seg.seq, syn, scale, batch.now);
    let mut t = listen::half_open(batch, seg, ip, (State::SynReceived, iss), asked);
    // Of ECN only AccECN, whose client tells by its acknowledgement that it was agreed on (RFC 9768 5.1).
    if t.conn.ecn.accurate().is_none() {
        t.conn.ecn = Ecn::new(EcnMode::Off, false);
    }
    let (tos, ttl) = asked.map_or((0, 0), |asked| asked.ip_fields());
    let flags = TcpFlags::SYN | TcpFlags::ACK;
    let ecn = t.conn.ecn.bits_of(flags, false, 0);
    let out = SegmentFields {
        ends: seg.ends,
        flow: 0,
        header: TcpFields {
            src_port: seg.ends.local_port(),
            dst_port: seg.ends.peer_port(),
            seq: iss,
            ack: t.recv.nxt,
            flags: flags | ecn,
            window: output::syn_window(&mut t),
            urgent: 0,
            options: options::of_syn(&tcp.config, &mut t, flags, batch.now),
        },
        segsz: 0,
        tos,
        ttl,
        may_fragment: false,
    };
    tcp.counters.cookies_sent.inc();
    // If there is no buffer or route for the answer, the peer will retransmit.
    let _: Result<(), DropReason> = segment::send(batch, &out, Payload::none(), None);
    Verdict::Delivered
}

/// Makes the connection of the cookie in this segment, as if it had been half open; the segment is its first one.
#[doc(alias = "syncookie_expand")]
pub(super) fn redeem(
    batch: &mut Batch<'_>,
    seg: &mut Segment,
    ip: &ip::Received<'_>,
    queue: &Arc<AcceptQueue>,
) -> Verdict {
    let tcp = &batch.stack.tcp;
    let (irs, iss) = (seg.seq - 1, seg.ack - 1);
    let asked = queue.inherited();
    let scale = recv_state::scale(&tcp.config, asked.as_ref());
    let opened = match tcp.cookies.open(&seg.ends, irs, iss, scale, batch.now) {
        Some(opened) if !seg.has(TcpFlags::SYN) => opened,
        _ => return Verdict::Drop(DropReason::TcpNoCookie),
    };
    let Some(place) = queue.reserve_beyond(seg.ends) else {
        // The backlog is full. For the peer the connection is established, so it will retransmit.
        return Verdict::Drop(DropReason::TcpListenOverflow);
    };
    if !tcp.cookies.redeem(opened, batch.now) {
        place.give_up();
        return Verdict::Drop(DropReason::TcpNoCookie);
    }
    tcp.counters.segments_in.inc();
    tcp.counters.cookies_taken.inc();
    let mut t = listen::half_open(
        batch,
        &the_syn(seg, irs, opened.syn),
        ip,
        (State::SynReceived, iss),
        asked,
    );
    // As after the answer.
    output::syn_window(&mut t);
    t.send.syn_was_sent(batch.now);
    // If the user's queue fills up meanwhile, the connection stays half open, as any other.
    let again = t.send.rtt.expires(batch.now, &tcp.config);
    t.timers.set(TcpTimer::Rexmit, again);
    t.conn.accept = Some(place);
    match listen::admit(batch, seg.ends, ip, t) {
        Ok(pcb) => steps::run(batch, &pcb, seg),
        Err(reason) => Verdict::Drop(reason),
    }
}

/// Reconstructs the SYN, except for its window, which the acknowledgement has anew.
fn the_syn(ack: &Segment, irs: SeqNum, syn: SynOptions) -> Segment {
    let is_pure = ack.data.is_empty() && !ack.has(TcpFlags::FIN);
    Segment {
        ends: ack.ends,
        seq: irs,
        start: irs,
        ack: SeqNum(0),
        flags: TcpFlags::SYN | ecn::offer_of_cookie(ack.flags, is_pure),
        window: 0,
        urgent: 0,
        options: SegmentOptions {
            ts: ack.options.ts,
            syn,
            ..SegmentOptions::default()
        },
        mark: 0,
        segsz: 0,
        payload: 0,
        data: Chain::new(),
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
