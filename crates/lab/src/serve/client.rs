//! A client: a thread for each connection, which asks for the file again and again and throws it away.
//!
//! Invariant: an answer counts if its status is 200 and its body has the file's length.

use crate::harness::pinned;
use crate::run::found::Found;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that one read takes at most.
const READ_MAX: usize = 256 << 10;
/// Bytes of a head at most.
const HEAD_MAX: usize = 4096;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks for `path` over this many connections for a time, from `cpu`.
pub(crate) fn fetch(
    at: SocketAddr,
    path: &str,
    connections: usize,
    time: Duration,
    cpu: usize,
) -> io::Result<Found> {
    let begin = Instant::now();
    // Threads run on the CPU of the thread that starts them.
    let all = pinned::run(cpu, || {
        thread::scope(|scope| {
            let one = || scope.spawn(|| connection(at, path, begin + time));
            let all: Vec<_> = (0..connections).map(|_| one()).collect();
            let died = |_| Err(io::Error::other("a client died"));
            let all = all.into_iter().map(|one| one.join().unwrap_or_else(died));
            all.collect::<io::Result<Vec<_>>>()
        })
    })?;
    let took = begin.elapsed().as_secs_f64();
    let bytes = all.iter().map(|one| one.bytes).sum();
    let mut ns: Vec<u64> = all.into_iter().flat_map(|one| one.ns).collect();
    ns.sort_unstable();
    let quantile = |part: f64| {
        let at = (ns.len() as f64 * part) as usize;
        ns.get(at).map(|ns| *ns as f64 / 1e3)
    };
    Ok(Found {
        bytes,
        gbps: Some(bytes as f64 * 8e-9 / took),
        per_s: Some(ns.len() as f64 / took),
        p50_us: quantile(0.5),
        p99_us: quantile(0.99),
        ..Found::default()
    })
}

/// The answers that came over one connection.
#[derive(Default)]
struct Answers {
    bytes: u64,
    /// How long each took.
    ns: Vec<u64>,
}

/// One connection, at least one answer.
fn connection(at: SocketAddr, path: &str, until: Instant) -> io::Result<Answers> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: lab\r\n\r\n");
    let mut buf = vec![0; READ_MAX];
    let mut answers = Answers::default();
    loop {
        let asked = Instant::now();
        stream.write_all(request.as_bytes())?;
        answers.bytes += answer(&mut stream, &mut buf)?;
        answers.ns.push(asked.elapsed().as_nanos() as u64);
        if Instant::now() >= until {
            return Ok(answers);
        }
    }
}

/// Reads one answer, and throws its body away; gives the body's length.
fn answer(stream: &mut TcpStream, buf: &mut [u8]) -> io::Result<u64> {
    let mut got = 0;
    let (head, len) = loop {
        let n = stream.read(buf.get_mut(got..).unwrap_or_default())?;
        got += n;
        let text = buf.get(..got).unwrap_or_default();
        let end = text
            .windows(4)
            .take(HEAD_MAX)
            .position(|w| w == b"\r\n\r\n");
        match end {
            Some(end) => break (end + 4, length(text.get(..end).unwrap_or_default())?),
            None if n == 0 || got > HEAD_MAX => return Err(ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    };
    let mut left = len.saturating_sub((got - head) as u64);
    while left > 0 {
        let most = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        match stream.read(buf.get_mut(..most).unwrap_or_default())? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => left -= n as u64,
        }
    }
    Ok(len)
}

/// The body's length, by a head whose status is 200.
pub(super) fn length(head: &[u8]) -> io::Result<u64> {
    let text = String::from_utf8_lossy(head);
    if !text.starts_with("HTTP/1.1 200 ") {
        let status = text.lines().next().unwrap_or_default().to_owned();
        return Err(io::Error::other(format!("the server answered {status}")));
    }
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let value = lengths
        .next()
        .and_then(|(_, value)| value.trim().parse().ok());
    value.ok_or_else(|| io::Error::other("an answer without a length"))
}
