//! A client that connects, asks for a short page, reads it and closes, over and over: the loop that seed 003 found its
//! stalls with, between two stacks in one process.
//!
//! Locks: none.

use super::Design;
use super::histogram::Histogram;
use super::joined::{ANY, Joined, SERVER, unpark, wait};
use mbuma::{SocketError, Stack, State, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The results.
pub(crate) struct Loops {
    /// From connecting to the end of the answer.
    pub(crate) took: Histogram,
    /// Loops that did not end in [`PATIENCE`], or with an error.
    pub(crate) failed: u64,
    /// How often the threads of the two directions were woken.
    pub(crate) wakeups: u64,
}

/// Runs the loop for this time.
pub(crate) fn run(design: Design, time: Duration) -> Loops {
    let joined = Joined::new(design, 1500);
    let listener = joined
        .server
        .tcp_listen(SERVER, 64)
        .expect("a new stack has the port free");
    let stop = AtomicBool::new(false);
    let (mut took, mut failed) = (Histogram::new(), 0);
    thread::scope(|scope| {
        let server = scope.spawn(|| serve(&joined.server, &listener, &stop));
        let begin = Instant::now();
        while begin.elapsed() < time {
            let start = Instant::now();
            match get(&joined.client) {
                true => took.add(start.elapsed().as_nanos() as u64),
                false => failed += 1,
            }
        }
        stop.store(true, Ordering::Release);
        server.thread().unpark();
    });
    let wakeups = joined.wakeups();
    Loops {
        took,
        failed,
        wakeups,
    }
}

/// One loop. Returns whether the whole page arrived.
fn get(stack: &Stack) -> bool {
    let until = Instant::now() + PATIENCE;
    let Ok(stream) = stack.tcp_connect(ANY, SERVER) else {
        return false;
    };
    stream.set_waker(Some(unpark()));
    stream.set_nodelay(true);
    let connected = || !matches!(stream.state(), State::SynSent);
    if !wait(stack, until, connected) || stream.send(REQUEST).is_err() {
        return false;
    }
    let mut page = 0;
    let mut ended = false;
    wait(stack, until, || {
        ended = read(&stream, |bytes| page += bytes.len());
        ended
    });
    ended && page == PAGE.len()
}

/// Reads the available bytes; returns whether the stream has ended.
fn read(stream: &TcpStream, mut each: impl FnMut(&[u8])) -> bool {
    let mut buf = [0; 2048];
    loop {
        match stream.recv(&mut buf) {
            Ok(0) => return true,
            Ok(n) => each(&buf[..n]),
            Err(SocketError::WouldBlock) => return false,
            Err(_) => return true,
        }
    }
}

/// Answers one connection after the other.
fn serve(stack: &Stack, listener: &TcpListener, stop: &AtomicBool) {
    let waker = unpark();
    listener.set_waker(Some(waker.clone()));
    let mut open: Vec<(TcpStream, usize)> = Vec::new();
    let far = Instant::now() + Duration::from_secs(24 * 3600);
    wait(stack, far, || {
        while let Ok(stream) = listener.accept() {
            stream.set_waker(Some(waker.clone()));
            stream.set_nodelay(true);
            open.push((stream, 0));
        }
        open.retain_mut(|(stream, asked)| {
            let gone = read(stream, |bytes| *asked += bytes.len());
            let whole = *asked >= REQUEST.len();
            if whole {
                // A page fits the send buffer; dropping the stream sends it, and the end after it.
                let _ = stream.send(PAGE);
                stream.shutdown(std::net::Shutdown::Write);
            }
            !whole && !gone
        });
        stop.load(Ordering::Acquire)
    });
    listener.set_waker(None);
}

const REQUEST: &[u8] = b"GET / HTTP/1.0\r\nHost: 192.0.2.2\r\n\r\n";
/// About the size of a web server's first page.
const PAGE: &[u8] = &[b'x'; 600];
/// The time that a loop may take.
const PATIENCE: Duration = Duration::from_secs(5);
