//! The path's MTU, as ICMP errors report it (RFC 1191), with the checks against forged ones (RFC 5927 7).
//!
//! An error must quote a segment in flight (`input::control`) that is larger than the reported MTU. It takes effect at
//! once if no full-sized segment has arrived yet. Otherwise the path is known to carry such segments, and the error may
//! be forged: then it takes effect when the quoted data is considered lost, and is dropped when that data arrives (RFC
//! 5927 7.2). The connection then sends smaller segments, and retransmits the segments that were too large. After
//! [`TcpConfig::path_mtu_timeout`] it tries the interface's MTU again; a path that is still small causes another error.
//!
//! A *black hole* is a path that drops large packets without a report. Timeouts of full-sized segments indicate one
//! (RFC 8899 4.3), except with near peers, because the MTU of a link is known. Then, and when a report is old, the
//! [search](mod@search) finds the largest segment that passes.
//!
//! [`TcpConfig::path_mtu_timeout`]: crate::config::TcpConfig::path_mtu_timeout

use wire::{IpProto, Ipv6Header};

use super::options;
use super::pace::is_far;
use super::pcb::{DoubtedReport, PathMtu, Tcb};
use crate::batch::Batch;
use crate::icmp::input::Quoted;
use crate::inet::Ends;
use crate::network;

mod search;

pub(crate) use search::{MtuSearch, on_probe_sent, probe_len};

/// The smallest MTU that segments are made for. A path with a smaller one gets segments that routers may fragment.
const MTU_MIN: u16 = 296;

/// MTUs of links, for routers that do not report theirs (RFC 1191 7, table 7-1).
const PLATEAUS: [u16; 10] = [
    32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68,
];

/// A router reports that a packet of `packet_len` bytes is larger than `mtu`, which is 0 if the router does not report
/// it. True if the connection must retransmit.
pub(crate) fn reported(batch: &Batch<'_>, t: &mut Tcb, quoted: &Quoted, mtu: u16) -> bool {
    let packet_len = quoted.total_len;
    let mtu = match mtu {
        0 => next_plateau(packet_len),
        mtu => mtu,
    };
    if packet_len <= mtu {
        return false;
    }
    let report = DoubtedReport {
        seq: quoted.seq,
        mtu,
    };
    if t.send.mss_passes {
        let (una, mss) = (t.send.una, t.send.mss);
        let until = batch.now + batch.stack.tcp.config.path_mtu_timeout;
        let new = || Box::new(PathMtu::new(mss, until));
        let doubted = &mut t.send.path.get_or_insert_with(new).doubted;
        // Of two reports, the one with the earlier data is kept.
        let is_earlier =
            |known: &DoubtedReport| known.seq.before(report.seq) && known.seq.at_or_after(una);
        if !doubted.as_ref().is_some_and(is_earlier) {
            *doubted = Some(report);
        }
        return false;
    }
    believe(batch, t, &quoted.ends, mtu)
}

/// Before a turn to send: whether the data that the doubted report quotes was lost, or has arrived.
#[cold]
pub(crate) fn judge(batch: &Batch<'_>, t: &mut Tcb, ends: &Ends) {
    let Some(path) = &mut t.send.path else {
        return;
    };
    let Some(report) = path.doubted else {
        return;
    };
    let is_lost = t.send.sent.is_lost(report.seq);
    if is_lost || t.send.una.after(report.seq) {
        path.doubted = None;
        let mss = t.send.mss;
        t.send.path.take_if(|path| path.is_idle(mss));
    }
    if is_lost {
        believe(batch, t, ends, report.mtu);
    }
}

/// True if the connection must retransmit.
fn believe(batch: &Batch<'_>, t: &mut Tcb, ends: &Ends, mtu: u16) -> bool {
    let mtu_min = mtu_min(ends);
    network::path_mtu_reported(batch, IpProto::TCP, ends, mtu);
    let mss = mss_of(t, ends, mtu.max(mtu_min));
    let may_fragment = mtu < mtu_min;
    let known = t.send.path.as_ref().is_some_and(|path| path.may_fragment);
    let interface_mss = t
        .send
        .path
        .as_ref()
        .map_or(t.send.mss, |path| path.interface_mss);
    if mss >= t.send.mss && may_fragment <= known {
        return false;
    }
    let until = batch.now + batch.stack.tcp.config.path_mtu_timeout;
    t.send.path = Some(Box::new(PathMtu {
        may_fragment: may_fragment || known,
        ..PathMtu::new(interface_mss, until)
    }));
    t.send.set_mss(t.send.mss.min(mss));
    // The loss of a segment that was too large is no sign of congestion.
    t.send.sent.mark_all_lost();
    true
}

/// The largest segment of a connection that fits packets of `mtu` bytes.
fn mss_of(t: &Tcb, ends: &Ends, mtu: u16) -> u32 {
    u32::from(mtu) - network::tcp_headers_len(ends) - options::each_segment_len(t)
}

/// If the path of a new connection is known to be smaller than the link, its segments fit from the start.
pub(super) fn begin(batch: &Batch<'_>, t: &mut Tcb, ends: &Ends) {
    let Some(mtu) = network::path_mtu(batch, ends) else {
        return;
    };
    let mtu_min = mtu_min(ends);
    let mss = mss_of(t, ends, mtu.max(mtu_min));
    if mss < t.send.mss {
        let until = batch.now + batch.stack.tcp.config.path_mtu_timeout;
        t.send.path = Some(Box::new(PathMtu {
            may_fragment: mtu < mtu_min,
            ..PathMtu::new(t.send.mss, until)
        }));
        t.send.set_mss(mss);
    }
}

/// Segments are never made for less; no IPv6 link has less, and icmp6 has dropped such a report.
fn mtu_min(ends: &Ends) -> u16 {
    match ends {
        Ends::V4(_) => MTU_MIN,
        Ends::V6(..) => Ipv6Header::MTU_MIN,
    }
}

fn next_plateau(packet_len: u16) -> u16 {
    let smaller = PLATEAUS.iter().find(|plateau| **plateau < packet_len);
    smaller.copied().unwrap_or(MTU_MIN)
}

/// The retransmission timer has expired once more for the same data. After the second time in a row the path is
/// suspected to be a black hole, and segments get the size that every path carries. If the peer acknowledges none of
/// these either, the path is dead and not a black hole, and the segments get their former size.
pub(crate) fn on_timeout(batch: &Batch<'_>, t: &mut Tcb, ends: &Ends) {
    let headers = network::tcp_headers_len(ends) + options::each_segment_len(t);
    let base = u32::from(mtu_base(ends)) - headers;
    let is_full = t.send.sent.first_len() >= t.send.mss && t.send.mss > base;
    match (t.send.retransmits, &t.send.path) {
        (SUSPECTED_AFTER, None) if is_far(t) && is_full => {
            let until = batch.now + batch.stack.tcp.config.path_mtu_timeout;
            t.send.path = Some(Box::new(PathMtu {
                suspected: true,
                ..PathMtu::new(t.send.mss, until)
            }));
            t.send.set_mss(base);
            batch.stack.tcp.counters.black_holes.inc();
        }
        (SUSPECTED_AFTER, Some(path)) if path.search.has_found() && is_full => {
            // The path has become smaller than the result of the search.
            if let Some(path) = &mut t.send.path {
                (path.suspected, path.search) = (true, MtuSearch::default());
            }
            t.send.set_mss(base);
            batch.stack.tcp.counters.black_holes.inc();
        }
        (ACQUITTED_AFTER, Some(path)) if path.suspected => {
            let mss = path.interface_mss;
            t.send.path = None;
            t.send.set_mss(mss);
        }
        _ => {}
    }
}

/// Timeouts in a row after which a path is suspected, and after which the suspicion ends.
const SUSPECTED_AFTER: u8 = 2;
const ACQUITTED_AFTER: u8 = 4;

/// An MTU that every path should have (RFC 8899 5.1.2; RFC 8200 5 requires more for IPv6).
fn mtu_base(ends: &Ends) -> u16 {
    const MTU4_BASE: u16 = 1200;
    match ends {
        Ends::V4(_) => MTU4_BASE,
        Ends::V6(..) => Ipv6Header::MTU_MIN,
    }
}

/// Before a turn to send: once the time is over, tries larger segments again. If losses are detected by time, the
/// search tries them one by one; otherwise, or if no probe could be sent for so long, segments of the interface's MTU
/// are used at once.
#[cold]
pub(crate) fn expire(batch: &Batch<'_>, t: &mut Tcb) {
    let mss = t.send.mss;
    let Some(path) = &mut t.send.path else {
        return;
    };
    let searches = batch.stack.tcp.config.path_mtu_search && t.conn.sack_on && !path.may_fragment;
    let is_over = path.until <= batch.now;
    if is_over && (!searches || path.search.is_held_up()) {
        let mss = path.interface_mss;
        t.send.path = None;
        t.send.set_mss(mss);
        return;
    }
    if !searches {
        return;
    }
    if is_over {
        path.until = batch.now + batch.stack.tcp.config.path_mtu_timeout;
        path.search.begin(mss, path.interface_mss, true);
    }
    path.search.prepare(batch.now);
}

/// Data was acknowledged. If it contained a probe, a larger size is found. If the path was suspected and carries
/// smaller segments, the search begins here.
#[cold]
pub(crate) fn progressed(batch: &Batch<'_>, t: &mut Tcb) {
    let (una, mss) = (t.send.una, t.send.mss);
    let Some(path) = &mut t.send.path else {
        return;
    };
    if path.suspected && !path.search.is_on() && batch.stack.tcp.config.path_mtu_search {
        path.suspected = false;
        path.search.begin(mss, path.interface_mss, false);
    }
    if let Some(found) = path.search.on_ack(una) {
        batch.stack.tcp.counters.mtu_probes_acked.inc();
        if found >= path.interface_mss {
            t.send.path = None;
        }
        t.send.set_mss(found);
    }
}
