//! The clients, which are programs of others: wrk asks for a file again and again and throws it away; `openssl s_time`
//! connects, shakes hands and ends the connection.
//!
//! Invariant: a reading in which a request failed is none.
//!
//! Sources: wrk's SCRIPTING, openssl-s_time(1).

use super::case::{Case, Load};
use crate::harness::sys;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The end of wrk's run, as a line of numbers. Without the other functions that a script may have, wrk calls it once.
const SCRIPT: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("figures %d %d %d %d %.1f %.1f\n", summary.requests, summary.bytes, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99)))
end
"#;

/// The figures of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Answers {
    /// Those that came whole, or handshakes.
    pub(crate) count: u64,
    /// Bytes that came, heads of answers and parts of answers too.
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// From the request to the last byte; none if no answer came whole.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    /// CPU time of the client's programs, in per cent of one CPU.
    pub(crate) cpu_percent: f64,
}

/// Loads a server for a time, in whole seconds, from `cpu`. `scratch` is a directory for the script.
pub(crate) fn load(
    at: SocketAddr,
    case: &Case,
    time: Duration,
    cpu: usize,
    scratch: &Path,
) -> io::Result<Answers> {
    let seconds = (time.as_secs_f64().ceil() as u64).max(1);
    let before = sys::children_time();
    let answers = match case.load {
        Load::Requests => requests(at, case, seconds, cpu, scratch),
        Load::Handshakes | Load::SingleRequests => handshakes(at, case, seconds, cpu),
    }?;
    let took = sys::children_time().saturating_sub(before).as_secs_f64();
    Ok(Answers {
        cpu_percent: took / answers.seconds * 100.0,
        ..answers
    })
}

/// A command on this CPU whose output is read.
fn on_cpu(cpu: usize, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), program]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn requests(
    at: SocketAddr,
    case: &Case,
    seconds: u64,
    cpu: usize,
    scratch: &Path,
) -> io::Result<Answers> {
    let script = scratch.join("figures.lua");
    fs::write(&script, SCRIPT)?;
    let scheme = if case.tls { "https" } else { "http" };
    let mut command = on_cpu(cpu, "wrk");
    command.args(["--threads", "1", "--timeout", "60s"]);
    command.args(["--connections", &case.connections.to_string()]);
    command.args(["--duration", &format!("{seconds}s")]);
    command.arg("--script").arg(&script);
    command.arg(format!("{scheme}://{at}/{}", case.file()));
    let output = command.output()?;
    of_wrk(&said("wrk", &output)?)
}

/// The figures of the script's line.
pub(super) fn of_wrk(text: &str) -> io::Result<Answers> {
    let line = text.lines().find_map(|line| line.strip_prefix("figures "));
    let numbers: Vec<f64> = line
        .unwrap_or_default()
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [count, bytes, micros, failed, p50, p99] = numbers[..] else {
        return Err(io::Error::other("wrk gave no figures"));
    };
    if failed > 0.0 {
        return Err(io::Error::other(format!("{failed} requests failed")));
    }
    let of_answers = |us: f64| (count > 0.0).then_some(us);
    Ok(Answers {
        count: count as u64,
        bytes: bytes as u64,
        seconds: micros / 1e6,
        p50_us: of_answers(p50),
        p99_us: of_answers(p99),
        ..Answers::default()
    })
}

/// Handshakes without an earlier session, in as many programs as there are clients. wrk would resume sessions.
fn handshakes(at: SocketAddr, case: &Case, seconds: u64, cpu: usize) -> io::Result<Answers> {
    let begin = Instant::now();
    let start = |_| {
        let mut command = on_cpu(cpu, "openssl");
        command.args(["s_time", "-new", "-tls1_3", "-connect", &at.to_string()]);
        command.args(["-time", &seconds.to_string()]);
        if case.load == Load::SingleRequests {
            // In HTTP/1.0, so the connection ends behind the response.
            command.args(["-www", &format!("/{}", case.file())]);
        }
        command.stdout(Stdio::piped()).spawn()
    };
    let running = (0..case.connections)
        .map(start)
        .collect::<io::Result<Vec<_>>>()?;
    let mut count = 0;
    for one in running {
        count += of_s_time(&said("openssl s_time", &one.wait_with_output()?)?)?;
    }
    Ok(Answers {
        count,
        seconds: begin.elapsed().as_secs_f64(),
        ..Answers::default()
    })
}

/// The number of connections that `s_time` made.
pub(super) fn of_s_time(text: &str) -> io::Result<u64> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.split_once(" connections in "));
    let count = lines
        .next()
        .and_then(|(count, _)| count.trim().parse().ok());
    count.ok_or_else(|| io::Error::other("openssl s_time gave no figures"))
}

/// The standard output of a program that succeeded.
fn said(name: &str, output: &Output) -> io::Result<String> {
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(io::Error::other(format!("{name}: {}", output.status))),
    }
}
