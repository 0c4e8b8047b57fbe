//! `--tcp-trace FILE`: the figures of each TCP connection over time, as lines of JSON similar to qlog.
//!
//! Worker 0 looks at the stack's connections ten times a second, and writes a line about each whose figures have
//! changed since. So events between two looks are summed up, and a shorter connection may leave no line. A capture
//! (`--pcap`) has the packets.
//!
//! ```text
//!   {"qlog_format":"NDJSON",...}                                                   once
//!   {"time":312.7,"name":"recovery:metrics_updated","group_id":"...","data":{...}}   changed figures
//!   {"time":900.1,"name":"connectivity:connection_closed","group_id":"..."}          it is gone
//! ```
//!
//! Names and units are qlog's where it has some: times in milliseconds, windows in bytes, rates in bits per second.
//!
//! Invariants: at most [`CONNECTIONS_MAX`] connections are followed, and looking takes a twentieth of worker 0's time
//! at most.
//! Locks: each connection's, in turn.
//! Source: draft-ietf-quic-qlog-main-schema, -quic-events (recovery).

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use kern::Time;
use mbuma::socket::TcpInfo;
use serde::Serialize;

use super::capture_file::CaptureFile;
use super::shared::Shared;
use super::table::{SourceKind, Token};

/// The time between two looks, at least.
const EVERY: Duration = Duration::from_millis(100);
/// Looking takes at most this fraction of the time: one part in so many.
const SHARE: u32 = 20;
/// Connections that are followed at most.
const CONNECTIONS_MAX: usize = 4096;

/// Names the timer and the first turn.
const TOKEN: Token = Token::only(SourceKind::TcpTrace);

/// The two ends of a connection.
type Ends = (SocketAddr, SocketAddr);

/// The trace and its file.
pub(super) struct TcpTrace<W: Write = CaptureFile> {
    out: BufWriter<W>,
    began: Time,
    /// The figures that were last written of each connection.
    seen: HashMap<Ends, TraceFigures>,
    /// The file can't be written to any more.
    over: bool,
}

/// The figures of a connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct TraceFigures {
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt: Option<f64>,
    rtt_variance: f64,
    retransmission_timeout: f64,
    /// Bytes.
    congestion_window: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssthresh: Option<u32>,
    bytes_in_flight: u32,
    sacked: u32,
    lost: u32,
    /// Segments.
    reordering: u8,
    retransmitted: u64,
    delivered: u64,
    /// Bits per second.
    delivery_rate: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_rate: Option<u64>,
    congestion: &'static str,
    in_recovery: bool,
    state: String,
}

/// A line of the file.
#[derive(Serialize)]
struct TraceLine<'a> {
    time: f64,
    name: &'static str,
    group_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a TraceFigures>,
}

impl TcpTrace {
    /// Makes the file, like that of a capture; the first look is in the loop's first round.
    ///
    /// # Errors
    /// The file can't be made or written to.
    pub(super) fn create(path: &Path, shared: &Shared) -> io::Result<TcpTrace> {
        let trace = TcpTrace::new(CaptureFile::create(path)?, shared.now())?;
        shared.wake_for(TOKEN).wake();
        Ok(trace)
    }

    /// Looks at all connections, and sets the timer for the next look.
    pub(super) fn look(&mut self, shared: &mut Shared) {
        if self.over {
            return;
        }
        let began = Instant::now();
        // The file warns by itself, once.
        self.over = self.write(present(shared), shared.now()).is_err();
        shared.after(EVERY.max(SHARE * began.elapsed()), TOKEN);
    }

    /// The last figures, at the end.
    pub(super) fn close(&mut self, shared: &Shared) {
        if !self.over {
            self.over = self.write(present(shared), shared.now()).is_err();
        }
    }
}

/// The connections now.
fn present(shared: &Shared) -> impl Iterator<Item = (Ends, TcpInfo)> + use<> {
    let all = shared.stack.connections().into_iter();
    all.map(|one| ((one.local, one.peer), one.info))
}

impl<W: Write> TcpTrace<W> {
    fn new(out: W, began: Time) -> io::Result<Self> {
        let mut out = BufWriter::new(out);
        let head = serde_json::json!({
            "qlog_version": "0.4",
            "qlog_format": "NDJSON",
            "title": "mbuma --tcp-trace",
            "trace": { "common_fields": { "time_format": "relative", "reference_time": 0 } },
        });
        writeln!(out, "{head}")?;
        out.flush()?;
        Ok(Self {
            out,
            began,
            seen: HashMap::new(),
            over: false,
        })
    }

    /// Writes about the connections that have changed, and those that are gone.
    fn write(
        &mut self,
        connections: impl IntoIterator<Item = (Ends, TcpInfo)>,
        now: Time,
    ) -> io::Result<()> {
        let time = ms(now - self.began);
        let mut before = std::mem::take(&mut self.seen);
        for (ends, info) in connections {
            let (figures, old) = (TraceFigures::of(&info), before.remove(&ends));
            if old.is_none() && self.seen.len() + before.len() >= CONNECTIONS_MAX {
                continue;
            }
            if old.as_ref() != Some(&figures) {
                let name = "recovery:metrics_updated";
                self.line(time, name, &ends, Some(&figures))?;
            }
            self.seen.insert(ends, figures);
        }
        for ends in before.keys() {
            self.line(time, "connectivity:connection_closed", ends, None)?;
        }
        self.out.flush()
    }

    fn line(
        &mut self,
        time: f64,
        name: &'static str,
        (local, peer): &Ends,
        data: Option<&TraceFigures>,
    ) -> io::Result<()> {
        let line = TraceLine {
            time,
            name,
            group_id: format!("{local}-{peer}"),
            data,
        };
        serde_json::to_writer(&mut self.out, &line)?;
        self.out.write_all(b"\n")
    }
}

impl TraceFigures {
    fn of(info: &TcpInfo) -> Self {
        Self {
            smoothed_rtt: info.rtt.map(ms),
            min_rtt: info.min_rtt.map(ms),
            rtt_variance: ms(info.rtt_variance),
            retransmission_timeout: ms(info.timeout),
            congestion_window: info.cwnd,
            ssthresh: info.ssthresh,
            bytes_in_flight: info.in_flight,
            sacked: info.sacked,
            lost: info.lost,
            reordering: info.reordering,
            retransmitted: info.retransmitted,
            delivered: info.delivered,
            delivery_rate: info.delivery_rate.saturating_mul(8),
            pacing_rate: info.pacing_rate.map(|bytes| bytes.saturating_mul(8)),
            congestion: info.congestion,
            in_recovery: info.in_recovery,
            state: format!("{:?}", info.state),
        }
    }
}

/// Milliseconds, to the microsecond.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(port: u16, cwnd: u32) -> (Ends, TcpInfo) {
        let end = |last, port| SocketAddr::from(([10, 0, 2, last], port));
        let mut info = TcpInfo::default();
        (info.cwnd, info.rtt) = (cwnd, Some(Duration::from_micros(1500)));
        ((end(2, 80), end(100, port)), info)
    }

    fn lines(trace: &TcpTrace<Vec<u8>>) -> Vec<serde_json::Value> {
        let text = String::from_utf8(trace.out.get_ref().clone()).expect("text");
        let parse = |line| serde_json::from_str(line).expect("a line is JSON");
        text.lines().map(parse).collect()
    }

    #[test]
    fn a_line_follows_each_change_and_each_end() {
        // Breaks when a line is no JSON, a change or an end is left out, or what has not changed is written again.
        let mut trace = TcpTrace::new(Vec::new(), Time::from_secs(1)).expect("memory");
        let looks = [
            vec![connection(1, 10)],
            vec![connection(1, 10), connection(2, 10)],
            vec![connection(1, 20)],
        ];
        for (n, look) in looks.into_iter().enumerate() {
            let now = Time::from_millis(1100 + 100 * n as u64);
            trace.write(look, now).expect("memory");
        }
        let lines = lines(&trace);
        let told: Vec<_> = lines[1..]
            .iter()
            .map(|line| {
                let port = line["group_id"].as_str().expect("ends").ends_with(":2");
                let cwnd = line["data"]["congestion_window"].as_u64();
                (line["time"].as_f64().expect("a time"), port, cwnd)
            })
            .collect();
        assert_eq!(lines[0]["qlog_format"], "NDJSON");
        let expected = [
            (100.0, false, Some(10)),
            (200.0, true, Some(10)),
            (300.0, false, Some(20)),
            (300.0, true, None),
        ];
        assert_eq!(told, expected);
        assert_eq!(lines[1]["data"]["smoothed_rtt"], 1.5);
        assert_eq!(lines[4]["name"], "connectivity:connection_closed");
    }

    #[test]
    fn a_crowd_is_followed_in_part() {
        // Breaks when a guest that opens many connections makes the trace's memory, or its lines, grow without bound.
        let mut trace = TcpTrace::new(Vec::new(), Time::ZERO).expect("memory");
        let crowd = || (0..CONNECTIONS_MAX as u16 + 100).map(|port| connection(port, 10));
        for n in 1..3 {
            let now = Time::from_millis(100 * n);
            trace.write(crowd(), now).expect("memory");
        }
        assert_eq!(trace.seen.len(), CONNECTIONS_MAX);
        assert_eq!(lines(&trace).len(), 1 + CONNECTIONS_MAX);
    }
}
