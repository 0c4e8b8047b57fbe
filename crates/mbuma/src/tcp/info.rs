//! The state of a TCP connection, for programs.

use std::time::Duration;

use kern::Time;

use crate::config::TcpConfig;
use crate::tcp::State;
use crate::tcp::pace;
use crate::tcp::pcb::Tcb;
use crate::tcp::recovery::RecoveryPhase;

/// Payload bytes by the mark of their packets' IP headers (RFC 9768 3.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EcnBytes {
    /// ECN-capable, ECT(0).
    pub ect0: u64,
    /// Congestion experienced.
    pub ce: u64,
    /// ECT(1).
    pub ect1: u64,
}

impl EcnBytes {
    fn of([ect0, ce, ect1]: [u64; 3]) -> Self {
        Self { ect0, ce, ect1 }
    }
}

/// Figures of one connection. Amounts are bytes.
#[doc(alias = "TCP_INFO")]
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct TcpInfo {
    /// Its state.
    pub state: State,
    /// Payload bytes a segment.
    pub mss: u32,
    /// The maximum segment size that this end announces (RFC 9293 3.7.1).
    #[doc(alias = "tcpi_advmss")]
    pub announced_mss: u32,
    /// The largest segment that came from the peer; 0 before the first with data.
    #[doc(alias = "tcpi_rcv_mss")]
    pub received_mss: u32,
    /// Smoothed round trip, once there was a sample (RFC 6298).
    #[doc(alias = "SRTT")]
    pub rtt: Option<Duration>,
    /// The variation of round trips (RFC 6298).
    #[doc(alias = "RTTVAR")]
    pub rtt_variance: Duration,
    /// The smallest round trip of the last minutes, once there was a sample.
    pub min_rtt: Option<Duration>,
    /// The present retransmission timeout, with its back-off (RFC 6298).
    #[doc(alias = "RTO")]
    pub timeout: Duration,
    /// The name of the congestion control algorithm.
    #[doc(alias = "TCP_CONGESTION")]
    pub congestion: &'static str,
    /// The phase of the algorithm, if it has named phases.
    pub congestion_phase: Option<&'static str>,
    /// Congestion window in bytes; in recovery, the window of the recovery.
    pub cwnd: u32,
    /// Slow start threshold in bytes, once there was a congestion event.
    pub ssthresh: Option<u32>,
    /// The peer's window in bytes.
    pub snd_wnd: u32,
    /// Bytes in flight: sent, and neither acknowledged, nor reported by SACK, nor considered lost.
    #[doc(alias = "pipe")]
    pub in_flight: u32,
    /// Bytes reported by SACK blocks, and not yet acknowledged.
    pub sacked: u32,
    /// Bytes considered lost, and not yet retransmitted.
    pub lost: u32,
    /// Bytes retransmitted, and in flight again.
    #[doc(alias = "tcpi_retrans")]
    pub repairing: u32,
    /// Bytes retransmitted since the connection was established.
    pub retransmitted: u64,
    /// Bytes delivered to the peer since the connection began; SYN and FIN count as one each.
    pub delivered: u64,
    /// Bytes per second that the path delivered, by the last sample; 0 before the first.
    pub delivery_rate: u64,
    /// Bytes per second at which new data leaves, if it is paced.
    #[doc(alias = "tcpi_pacing_rate")]
    pub pacing_rate: Option<u64>,
    /// The segments by which data was overtaken at most, up to 255. 0: the path was not seen to reorder; 1 too if only
    /// a needless retransmission showed that it does.
    #[doc(alias = "tcpi_reordering")]
    pub reordering: u8,
    /// Whether losses are being repaired.
    pub in_recovery: bool,
    /// Which repair is under way, after acknowledgements (RFC 5681 3.2) or a timeout (RFC 5681 3.1), or that the window
    /// is being reduced because of marks (RFC 3168 6.1.2).
    #[doc(alias = "tcpi_ca_state")]
    pub recovery_phase: RecoveryPhase,
    /// Duplicate acknowledgements in a row (RFC 5681 2), counted without SACK.
    pub duplicate_acks: u8,
    /// Both ends understand selective acknowledgements (RFC 2018); during the handshake, this end does.
    #[doc(alias = "TCPI_OPT_SACK")]
    pub sack: bool,
    /// Segments carry timestamps (RFC 7323 3).
    #[doc(alias = "TCPI_OPT_TIMESTAMPS")]
    pub timestamps: bool,
    /// Windows are scaled (RFC 7323 2); during the handshake, this end offers it.
    #[doc(alias = "TCPI_OPT_WSCALE")]
    pub window_scaling: bool,
    /// Bits by which windows in the peer's segments are shifted (RFC 7323 2.2).
    #[doc(alias = "tcpi_snd_wscale")]
    pub send_scale: u8,
    /// Bits by which windows in our segments are shifted; during the handshake, what this end offers.
    #[doc(alias = "tcpi_rcv_wscale")]
    pub recv_scale: u8,
    /// Both ends support ECN (RFC 3168); during the handshake, this end wants it.
    #[doc(alias = "TCPI_OPT_ECN")]
    pub ecn: bool,
    /// The feedback of marks is AccECN's (RFC 9768).
    pub ecn_accurate: bool,
    /// With AccECN: data is sent ECN-capable. False if the path changes the marks or their counts.
    pub ecn_capable: bool,
    /// With AccECN: our packets that arrived with congestion experienced, according to the peer.
    #[doc(alias = "tcpi_delivered_ce")]
    pub ecn_delivered_ce: u32,
    /// With AccECN: packets that arrived here with congestion experienced.
    #[doc(alias = "tcpi_received_ce")]
    pub ecn_received_ce: u32,
    /// With AccECN: our bytes by the mark with which they arrived, according to the options of the peer, if it sends
    /// them.
    #[doc(alias = "tcpi_delivered_e0_bytes")]
    pub ecn_delivered_bytes: EcnBytes,
    /// With AccECN: bytes by the mark with which they arrived here.
    #[doc(alias = "tcpi_received_e0_bytes")]
    pub ecn_received_bytes: EcnBytes,
    /// The time for which data waited to be sent or acknowledged, in all.
    #[doc(alias = "tcpi_busy_time")]
    pub busy: Duration,
    /// The part of it in which the peer's window held data back.
    #[doc(alias = "tcpi_rwnd_limited")]
    pub window_limited: Duration,
    /// The part of it in which the send buffer was full, and both windows would have taken more.
    #[doc(alias = "tcpi_sndbuf_limited")]
    pub buffer_limited: Duration,
    /// The time since data, a SYN or a FIN was last sent.
    #[doc(alias = "tcpi_last_data_sent")]
    pub since_sent: Duration,
    /// The time since data last arrived; before the first, since the connection began.
    #[doc(alias = "tcpi_last_data_recv")]
    pub since_received: Duration,
    /// The time since the last valid segment arrived.
    #[doc(alias = "tcpi_last_ack_recv")]
    pub since_heard: Duration,
    /// Bytes in the send buffer: sent and not acknowledged, or not sent yet.
    pub send_queue: usize,
    /// Bytes in the receive buffer that the program has not read.
    pub recv_queue: usize,
    /// Bytes of memory that these keep in use: mbufs and whole clusters.
    pub recv_pinned: usize,
    /// Bytes that were received out of order, and wait for the bytes before them.
    pub reass_queue: usize,
    /// Bytes of memory that these keep in use.
    pub reass_pinned: usize,
}

impl TcpInfo {
    pub(crate) fn of(t: &Tcb, config: &TcpConfig, now: Time) -> Self {
        let s = &t.send;
        let times = s.times(now);
        let accurate = t.conn.ecn.accurate();
        Self {
            state: t.conn.state,
            mss: s.mss,
            announced_mss: t.recv.mss.min(65_535),
            received_mss: t.recv.mss.min(t.recv.policy.largest.into()),
            rtt: s.rtt.smoothed(),
            rtt_variance: Duration::from_nanos(s.rtt.variance_ns()),
            min_rtt: s.reordering.min_rtt.get().map(Duration::from_nanos),
            timeout: s.rtt.timeout(config),
            congestion: s.cc.name(),
            congestion_phase: s.cc.phase(),
            cwnd: s.cwnd(),
            ssthresh: Some(s.window.ssthresh).filter(|bytes| *bytes != u32::MAX),
            snd_wnd: s.wnd,
            in_flight: s.sent.in_flight(),
            sacked: s.sent.sacked(),
            lost: s.sent.lost(),
            repairing: s.sent.resent(),
            retransmitted: s.recovery.resent_bytes(),
            delivered: s.rate.delivered(),
            delivery_rate: s.recovery.delivery_rate(),
            pacing_rate: pace::rate(t, config),
            reordering: s.reordering.degree(),
            in_recovery: s.recovery.phase().is_repair(),
            recovery_phase: s.recovery.phase(),
            duplicate_acks: s.recovery.dup_acks(),
            sack: t.conn.sack_on,
            timestamps: t.conn.ts.on,
            window_scaling: t.recv.wscale_on,
            send_scale: t.send.wscale,
            recv_scale: t.recv.wscale,
            ecn: t.conn.ecn.is_on(),
            ecn_accurate: accurate.is_some(),
            ecn_capable: accurate.is_some_and(|a| a.is_capable()),
            ecn_delivered_ce: accurate.map_or(0, |a| a.delivered_ce()),
            ecn_received_ce: accurate.map_or(0, |a| a.received.packets_ce()),
            ecn_delivered_bytes: EcnBytes::of(accurate.map_or([0; 3], |a| a.delivered_bytes())),
            ecn_received_bytes: EcnBytes::of(accurate.map_or([0; 3], |a| a.received.bytes())),
            busy: times.busy,
            window_limited: times.peer_window,
            buffer_limited: times.send_buffer,
            since_sent: now - s.sent_at,
            since_received: now - t.recv.policy.data_at,
            since_heard: now - t.conn.heard_at,
            send_queue: s.buf.claimed(),
            recv_queue: t.recv.buf.claimed(),
            recv_pinned: t.recv.buf.pinned(),
            reass_queue: t.recv.reass.len(),
            reass_pinned: t.recv.reass.pinned(),
        }
    }
}
