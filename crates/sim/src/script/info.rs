//! The figures of TCP_INFO by the names that scripts use, and the asserts about them.

use std::time::Duration;

use mbuma::socket::{RecoveryPhase, TcpInfo};
use mbuma::{State, TcpStream};

use super::calls::Problem;
use super::dialect::Dialect;
use super::syntax::{Expr, Field};

/// A figure of a connection by its name, such as `tcpi_snd_cwnd`. Linux counts the congestion window in segments, BSD
/// in bytes.
pub(super) fn figure(stream: &TcpStream, name: &str, dialect: Dialect) -> Option<i64> {
    let info = stream.info();
    let segments = |bytes: u32| match dialect {
        Dialect::Linux => i64::from(bytes / info.mss.max(1)),
        Dialect::Bsd => i64::from(bytes),
    };
    let micros = |d: Duration| d.as_micros() as i64;
    let millis = |d: Duration| d.as_millis() as i64;
    // Linux counts the data in the network in segments too.
    let packets = |bytes: u32| i64::from(bytes.div_ceil(info.mss.max(1)));
    Some(match name.strip_prefix("tcpi_")? {
        "state" => state(info.state, dialect),
        "snd_mss" => i64::from(info.mss),
        "snd_wscale" => i64::from(info.send_scale),
        "rcv_wscale" => i64::from(info.recv_scale),
        "advmss" => i64::from(info.announced_mss),
        "rcv_mss" => received_mss(&info),
        // Linux's figure is also its threshold for losses, and begins with three.
        "reordering" => i64::from(info.reordering.max(3)),
        "ca_state" => congestion_state(&info),
        "rtt" => info.rtt.map_or(0, micros),
        "rttvar" => micros(info.rtt_variance),
        "min_rtt" | "rttmin" => info.min_rtt.map_or(0, micros),
        "rto" => micros(info.timeout),
        "snd_cwnd" => segments(info.cwnd),
        "snd_ssthresh" => info.ssthresh.map_or(0x7fff_ffff, segments),
        "snd_wnd" => i64::from(info.snd_wnd),
        "unacked" => packets(info.in_flight + info.sacked + info.lost),
        "sacked" => packets(info.sacked),
        // Linux counts lost data also after its retransmission.
        "lost" if info.in_recovery => packets(info.lost) + packets(info.repairing),
        "lost" => packets(info.lost),
        "retrans" => packets(info.repairing),
        "bytes_retrans" => info.retransmitted.cast_signed(),
        "pacing_rate" => info.pacing_rate.map_or(-1, u64::cast_signed),
        "delivered_ce" => i64::from(info.ecn_delivered_ce),
        "received_ce" => i64::from(info.ecn_received_ce),
        "delivered_e0_bytes" => info.ecn_delivered_bytes.ect0.cast_signed(),
        "delivered_ce_bytes" => info.ecn_delivered_bytes.ce.cast_signed(),
        "delivered_e1_bytes" => info.ecn_delivered_bytes.ect1.cast_signed(),
        "received_e0_bytes" => info.ecn_received_bytes.ect0.cast_signed(),
        "received_ce_bytes" => info.ecn_received_bytes.ce.cast_signed(),
        "received_e1_bytes" => info.ecn_received_bytes.ect1.cast_signed(),
        "busy_time" => micros(info.busy),
        "rwnd_limited" => micros(info.window_limited),
        "sndbuf_limited" => micros(info.buffer_limited),
        "last_data_sent" => millis(info.since_sent),
        "last_data_recv" => millis(info.since_received),
        "last_ack_recv" => millis(info.since_heard),
        "options" => agreed_options(&info),
        "delivery_rate" => info.delivery_rate.cast_signed(),
        _ => return None,
    })
}

/// Linux assumes a size before the first segment (`tcp_initialize_rcv_mss`).
fn received_mss(info: &TcpInfo) -> i64 {
    let assumed = info.mss.min(info.announced_mss).min(536);
    let known = Some(info.received_mss).filter(|bytes| *bytes > 0);
    known.unwrap_or(assumed).into()
}

/// The bits of `tcpi_options`, which both systems number alike.
const OPTIONS: [(&str, i64); 4] = [
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
];

fn agreed_options(info: &TcpInfo) -> i64 {
    let agreed = [info.timestamps, info.sack, info.window_scaling, info.ecn];
    let bits = OPTIONS.iter().zip(agreed);
    bits.filter(|(_, on)| *on).map(|((_, bit), _)| bit).sum()
}

/// The number of `tcpi_ca_state` (Linux, `enum tcp_ca_state`): 0 open, 1 disorder, 2 a window that is reduced, 3
/// recovery, 4 after a timeout.
fn congestion_state(info: &TcpInfo) -> i64 {
    let is_disordered = info.sacked > 0 || info.lost > 0 || info.duplicate_acks > 0;
    match info.recovery_phase {
        RecoveryPhase::Open => i64::from(is_disordered),
        RecoveryPhase::Marked => 2,
        RecoveryPhase::Fast => 3,
        RecoveryPhase::Loss => 4,
    }
}

/// The number of a state in `tcpi_state`.
fn state(state: State, dialect: Dialect) -> i64 {
    let (linux, bsd) = match state {
        State::Established => (1, 4),
        State::SynSent => (2, 2),
        State::SynReceived | State::SynHeld => (3, 3),
        State::FinWait1 => (4, 6),
        State::FinWait2 => (5, 9),
        State::TimeWait => (6, 10),
        State::Closed => (7, 0),
        State::CloseWait => (8, 5),
        State::LastAck => (9, 8),
        State::Closing => (11, 7),
    };
    match dialect {
        Dialect::Linux => linux,
        Dialect::Bsd => bsd,
    }
}

/// The number of a constant that asserts compare figures with.
pub(super) fn constant(name: &str, dialect: Dialect) -> Option<i64> {
    Some(match name {
        "TCP_CA_Open" => 0,
        "TCP_CA_Disorder" => 1,
        "TCP_CA_CWR" => 2,
        "TCP_CA_Recovery" => 3,
        "TCP_CA_Loss" => 4,
        "TCP_INFINITE_SSTHRESH" => 0x7fff_ffff,
        // Data in SYNs (RFC 7413) is neither sent nor taken before the handshake ends.
        "TCPI_OPT_SYN_DATA" => 32,
        _ if name.starts_with("TCPI_OPT_") => OPTIONS.iter().find(|(known, _)| *known == name)?.1,
        _ => state(state_named(name)?, dialect),
    })
}

/// A state by a name of Linux or of BSD, with the prefix of either.
fn state_named(name: &str) -> Option<State> {
    let prefixes = ["TCP_", "TCPS_", "TCPI_"];
    let name = prefixes
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    Some(match name {
        "ESTABLISHED" => State::Established,
        "SYN_SENT" => State::SynSent,
        "SYN_RECV" | "SYN_RECEIVED" => State::SynReceived,
        "FIN_WAIT1" | "FIN_WAIT_1" => State::FinWait1,
        "FIN_WAIT2" | "FIN_WAIT_2" => State::FinWait2,
        "TIME_WAIT" => State::TimeWait,
        "CLOSE" | "CLOSED" => State::Closed,
        "CLOSE_WAIT" => State::CloseWait,
        "LAST_ACK" => State::LastAck,
        "CLOSING" => State::Closing,
        _ => return None,
    })
}

/// The fields of a `{tcpi_...=n}` that differ.
pub(super) fn differences(
    stream: &TcpStream,
    fields: &[Field],
    dialect: Dialect,
) -> Result<Vec<String>, Problem> {
    let mut wrong = Vec::new();
    for field in fields {
        let name = field.name.clone().unwrap_or_default();
        let want = match &field.value {
            Expr::Any => continue,
            Expr::Int(n) => *n,
            Expr::Name(constant_name) => constant(constant_name, dialect)
                .ok_or_else(|| Problem::Unsupported(format!("{constant_name} is not known")))?,
            other => return Err(Problem::Wrong(format!("{name} can't be {other}"))),
        };
        match figure(stream, &name, dialect) {
            Some(got) if got == want => {}
            Some(got) => wrong.push(format!("{name} is {got}, not {want}")),
            None => return Err(Problem::Unsupported(format!("the figure {name}"))),
        }
    }
    Ok(wrong)
}
