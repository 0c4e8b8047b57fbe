//! TCP options of segments that a connection receives and sends.
//!
//! | option | SYN, SYN-ACK | other segments | bytes |
//! |---|---|---|---|
//! | MSS | always | | 4 |
//! | window scale | offered, or answers an offer | | 4 |
//! | SACK permitted | offered, or answers an offer | | 4, or none beside timestamps |
//! | timestamps | offered, or answers an offer | each but a reset, once agreed on | 12 |
//! | SACK | | while something is queued or a duplicate is to be reported | 4 + 8 a block |
//! | AccECN | answers an offer, in the SYN-ACK | after bytes arrived that it counts, or in each, if SACK leaves room | 8 or 12 |
//!
//! The maximum segment size counts no options (RFC 6691). [`SendState::mss`] is the rest of it after the options that
//! each segment carries. SACK blocks go only into segments in which data leaves room: so all full segments have one
//! size, and retransmissions are cut as before. If a full segment has no room for due SACK blocks, an acknowledgement
//! follows it.
//!
//! [`SendState::mss`]: super::pcb::SendState::mss
//!
//! Sources: RFC 9293 3.2 and 3.7.1, RFC 6691, RFC 7323, RFC 2018, RFC 9768 3.2.3.

use kern::Time;
use wire::{AccEcnOption, SackBlocks, TcpFlags, TcpOptions, TcpView};

use super::pcb::{MSS_DEFAULT, State, Tcb};
use super::timestamps::Timestamps;
use crate::config::TcpConfig;

/// Bytes of the timestamps option, aligned.
pub(crate) const TIMESTAMPS_LEN: u32 = 12;

/// Bytes of the SACK option, aligned, before its first block; and of a block.
const SACK_HEAD_LEN: u32 = 4;
const SACK_BLOCK_LEN: u32 = 8;

/// The smallest accepted maximum segment size. Smaller ones would lead to packets of a few bytes (CVE-2019-11479), and
/// with options to none at all. Hosts with less than IPv4's 536 hardly exist.
#[doc(alias = "net.inet.tcp.minmss")]
const MSS_MIN: u32 = 216;

/// The options of a received segment that the stack uses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SegmentOptions {
    pub(crate) ts: Option<Timestamps>,
    pub(crate) sack: SackBlocks,
    pub(crate) acc_ecn: Option<AccEcnOption>,
    /// A SYN's.
    pub(crate) syn: SynOptions,
}

/// The options that a SYN offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SynOptions {
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
}

impl SegmentOptions {
    /// Sets the options of a header; until now there are none.
    #[inline]
    pub(crate) fn read(&mut self, view: &TcpView<'_>) {
        let bytes = view.option_bytes();
        match TcpOptions::timestamps_alone(bytes) {
            None if bytes.is_empty() => {}
            None => self.read_several(view),
            alone => self.ts = alone.map(Timestamps::of_option),
        }
    }

    /// SYN options are used only in a SYN, and SACK blocks only in other segments.
    #[inline(never)]
    fn read_several(&mut self, view: &TcpView<'_>) {
        let all = view.options();
        self.ts = all.timestamps.map(Timestamps::of_option);
        if view.flags().contains(TcpFlags::SYN) {
            self.syn = SynOptions {
                mss: all.mss,
                window_scale: all.window_scale,
                sack_permitted: all.sack_permitted,
            };
        } else {
            self.sack = all.sack;
            self.acc_ecn = all.acc_ecn;
        }
    }
}

/// Agrees on the options that both the peer's SYN and we offer.
pub(crate) fn agree(t: &mut Tcb, peer: &SegmentOptions, now: Time) {
    t.conn.ts.begin(peer.ts, t.recv.nxt, now);
    t.conn.sack_on &= peer.syn.sack_permitted;
    match peer.syn.window_scale.filter(|_| t.recv.wscale_on) {
        Some(shift) => t.send.wscale = shift,
        None => {
            t.recv.wscale_on = false;
            t.recv.wscale = 0;
        }
    }
    let theirs = peer.syn.mss.map_or(MSS_DEFAULT, u32::from).max(MSS_MIN);
    t.send.mss = theirs.min(t.recv.mss) - each_segment_len(t);
}

/// Retransmissions of a SYN with all its options, if later ones go without.
const SYNS_WITH_OPTIONS: u8 = 2;

/// Whether our SYN has no option but the MSS now. An answer may still be to an earlier SYN: a peer has in its SYN-ACK
/// only options that were offered to it, and uses these from then on, so they are agreed on.
pub(crate) fn is_syn_bare(config: &TcpConfig, t: &Tcb) -> bool {
    config.syn_drops_options
        && t.conn.state == State::SynSent
        && t.send.retransmits > SYNS_WITH_OPTIONS
}

/// The connection agrees on no option but the MSS.
pub(crate) fn offer_none(t: &mut Tcb) {
    t.conn.sack_on = false;
    t.conn.ts.on = false;
    (t.recv.wscale_on, t.recv.wscale) = (false, 0);
}

/// Bytes of options that each segment carries.
pub(crate) fn each_segment_len(t: &Tcb) -> u32 {
    let timestamps = if t.conn.ts.on { TIMESTAMPS_LEN } else { 0 };
    timestamps + t.conn.ecn.option_len()
}

/// Whether SACK blocks have something to report. Data beside a SYN that crossed ours is no gap.
pub(crate) fn has_report(t: &Tcb) -> bool {
    t.conn.sack_on && t.recv.reass.has_report() && t.conn.state != State::SynReceived
}

/// Blocks that fit into 40 bytes (RFC 2018 3), and into a segment with `len` bytes of data.
fn blocks_max(t: &Tcb, len: u32) -> usize {
    let max = if t.conn.ts.on {
        3
    } else {
        SackBlocks::COUNT_MAX
    };
    let room = t.send.mss.saturating_sub(len + SACK_HEAD_LEN);
    max.min((room / SACK_BLOCK_LEN) as usize)
}

/// Blocks of a segment that should have the counts of AccECN too, which need so many bytes. They go before the third
/// block and later ones, unless these are news; the first two go before the counts (RFC 9768 3.2.3.3).
#[cold]
fn blocks_beside_counts(t: &Tcb, len: u32, counts: usize) -> usize {
    let timestamps = if t.conn.ts.on { TIMESTAMPS_LEN } else { 0 };
    let room = TcpOptions::LEN_MAX - counts - (timestamps + SACK_HEAD_LEN) as usize;
    let (max, beside) = (blocks_max(t, len), room / SACK_BLOCK_LEN as usize);
    match beside >= 2 && t.recv.reass.unreported() <= beside {
        true => max.min(beside),
        false => max,
    }
}

/// The options of our SYN or SYN-ACK.
#[cold]
pub(crate) fn of_syn(config: &TcpConfig, t: &mut Tcb, flags: TcpFlags, now: Time) -> TcpOptions {
    if t.conn.has_no_options() {
        return TcpOptions::default();
    }
    let mss = Some(t.recv.mss.min(65_535) as u16);
    if is_syn_bare(config, t) {
        return TcpOptions {
            mss,
            ..TcpOptions::default()
        };
    }
    let mut options = TcpOptions {
        mss,
        window_scale: t.recv.wscale_on.then_some(t.recv.wscale),
        sack_permitted: t.conn.sack_on,
        timestamps: t.conn.ts.option(now, flags.contains(TcpFlags::ACK)),
        ..TcpOptions::default()
    };
    if flags.contains(TcpFlags::ACK) && t.conn.ecn.accurate().is_some() {
        let room = TcpOptions::LEN_MAX - options.emitted_len();
        options.acc_ecn = t.conn.ecn.syn_ack_option(room);
    }
    options
}

/// Sets the options of another segment, with `len` bytes of data; `again`: a retransmission. A duplicate is reported
/// once, by this call (RFC 2883 4).
#[inline]
pub(crate) fn set(options: &mut TcpOptions, t: &mut Tcb, len: u32, again: bool, now: Time) {
    options.timestamps = t.conn.ts.option(now, true);
    if has_report(t) {
        let max = match t.conn.ecn.option_due_len() {
            0 => blocks_max(t, len),
            counts => blocks_beside_counts(t, len, counts),
        };
        options.sack = t.recv.reass.take_blocks(max);
    }
    if t.conn.ecn.accurate().is_some() {
        set_counts(options, t, len, again);
    }
}

#[inline(never)]
fn set_counts(options: &mut TcpOptions, t: &mut Tcb, len: u32, again: bool) {
    let reserved = t.conn.ecn.option_len() > 0;
    let wanted = !t.conn.has_no_options() && (!again || reserved);
    if wanted {
        let taken = options.emitted_len();
        // The room that the MSS, the header and the SACK blocks leave.
        let full = (t.send.mss + each_segment_len(t)) as usize;
        let room = full.saturating_sub(len.min(t.send.mss) as usize + taken);
        let room = room.min(TcpOptions::LEN_MAX - taken);
        options.acc_ecn = t.conn.ecn.option(room);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
