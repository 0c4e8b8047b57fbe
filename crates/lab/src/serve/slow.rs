//! Clients that never end their requests (Slowloris): each begins one, and sends a byte of a field from time to time.
//!
//! Invariants: a thread of its own visits each client once in [`CIRCLE`]; one whose connection has ended connects
//! again. The thread ends with its owner. A reading for which the server kept too few of them is none.

use crate::harness::sys;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time between two bytes of a client. Both servers give a request ten seconds for its head, so a client that
/// connects in one circle is found connected in the next two, and not in the third.
const CIRCLE: Duration = Duration::from_secs(4);
/// Clients are visited in groups, so that they end and begin evenly over the time.
const GROUPS: u32 = 500;
/// How often a client is found connected, on average, in three circles at least.
const KEPT: f64 = 0.9;
/// The time for a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// The begin of a request.
const BEGIN: &[u8] = b"GET / HTTP/1.1\r\nHost: lab\r\nX-Slow: ";

/// The clients, from the end of their first circle on.
pub(crate) struct SlowClients {
    count: usize,
    /// How many were found connected, over the last three whole circles.
    kept: Arc<AtomicUsize>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl SlowClients {
    /// Connects all of them, from `cpu`, and keeps on.
    pub(crate) fn start(at: SocketAddr, count: usize, cpu: usize) -> io::Result<Self> {
        sys::raise_descriptors(count as u64 + 100)?;
        let mut this = Self {
            count,
            kept: Arc::default(),
            stops: Arc::default(),
            thread: None,
        };
        let (kept, stops) = (Arc::clone(&this.kept), Arc::clone(&this.stops));
        let work = move || {
            sys::pin(&[cpu])?;
            visit(at, count, &kept, &stops)
        };
        this.thread = Some(thread::spawn(work));
        let begin = Instant::now();
        // In the first circle they connect, in the second one they are found so.
        while begin.elapsed() < 2 * CIRCLE + PATIENCE {
            thread::sleep(Duration::from_millis(100));
            if this.check().is_ok() {
                return Ok(this);
            }
        }
        this.check().map(|()| this)
    }

    /// Fails if the server has shut them out.
    pub(crate) fn check(&self) -> io::Result<()> {
        were_kept(self.kept.load(Ordering::Relaxed), self.count)
    }
}

impl Drop for SlowClients {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        // Its error is that of the check.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Fails if visits in three circles found few clients connected.
pub(super) fn were_kept(kept: usize, count: usize) -> io::Result<()> {
    match (kept as f64) < KEPT * count as f64 {
        true => Err(io::Error::other(format!(
            "the server shuts slow clients out: {kept} of {} visits found one connected",
            3 * count
        ))),
        false => Ok(()),
    }
}

/// The thread's work.
fn visit(at: SocketAddr, count: usize, kept: &AtomicUsize, stops: &AtomicBool) -> io::Result<()> {
    let mut clients: Vec<Option<TcpStream>> = Vec::new();
    clients.resize_with(count, || None);
    let group = count.div_ceil(GROUPS as usize).max(1);
    let (mut next, mut last) = (Instant::now(), [0; 3]);
    while !stops.load(Ordering::Relaxed) {
        let mut found = 0;
        for some in clients.chunks_mut(group) {
            if stops.load(Ordering::Relaxed) {
                return Ok(());
            }
            for client in some {
                match client.as_mut().is_some_and(goes_on) {
                    true => found += 1,
                    false => *client = begun(at),
                }
            }
            next += CIRCLE / GROUPS;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        last = [found, last[0], last[1]];
        kept.store(last.iter().sum(), Ordering::Relaxed);
    }
    Ok(())
}

/// A client with the begin of its request; none if the server does not take it.
fn begun(at: SocketAddr) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE).ok()?;
    stream.set_nonblocking(true).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.write_all(BEGIN).ok()?;
    Some(stream)
}

/// Sends one byte more; whether the server still waits for them.
fn goes_on(stream: &mut TcpStream) -> bool {
    let waits = matches!(stream.read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock);
    waits && stream.write_all(b"x").is_ok()
}
