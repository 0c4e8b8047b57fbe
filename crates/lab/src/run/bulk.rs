//! One stream of bytes: which side sends, which receives, and when is counted.
//!
//! ```text
//!   |-- warm --|------------- counted -------------|- more -|   the sender sends
//!              |  the receiver's bytes are counted   |        |-- bytes in flight --| end of the stream
//! ```
//!
//! Windows and buffers grow before the count begins, and the sender goes on a little after its end, so both ends are
//! busy throughout. Invariant: a stream that stands still is given up after [`PATIENCE`], and the bytes until then
//! count: a stall is slow, not a failure.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the guest to the host.
    Up,
    /// From the host to the guest.
    Down,
}

/// When is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The warm-up, whose bytes do not count.
    pub(crate) warm: Duration,
    /// The time that counts, after it.
    pub(crate) counted: Duration,
}

impl Span {
    /// Of a reading of this length.
    pub(crate) fn of(reading: Duration) -> Self {
        let warm = reading / 5;
        Self {
            warm,
            counted: reading - warm,
        }
    }

    pub(crate) fn whole(self) -> Duration {
        self.warm + self.counted
    }

    /// Whether bytes at this time after the beginning count.
    pub(crate) fn counts(self, after: Duration) -> bool {
        after >= self.warm && after < self.whole()
    }
}

/// The bytes that a receiver got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Got {
    /// While it was counted.
    pub(crate) counted: u64,
    /// Ever.
    pub(crate) all: u64,
}

/// Sends for as long as it takes, then ends the stream that way.
pub(crate) fn send(mut to: &TcpStream, span: Span) -> io::Result<()> {
    let chunk = vec![0x5a; CHUNK];
    let begin = Instant::now();
    while begin.elapsed() < span.whole() + span.whole() / 20 {
        match to.write(&chunk) {
            Ok(_) => {}
            Err(e) if is_a_stall(&e) => break,
            Err(e) => return Err(e),
        }
    }
    to.shutdown(Shutdown::Write)
}

/// Receives to the end of the stream.
pub(crate) fn receive(mut from: &TcpStream, span: Span) -> io::Result<Got> {
    let mut chunk = vec![0; CHUNK];
    let mut got = Got::default();
    let begin = Instant::now();
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(got),
            Ok(n) => {
                got.all += n as u64;
                if span.counts(begin.elapsed()) {
                    got.counted += n as u64;
                }
            }
            Err(e) if is_a_stall(&e) => return Ok(got),
            Err(e) => return Err(e),
        }
    }
}

/// The settings of both ends of every connection: no Nagle, and a timeout.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn is_a_stall(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Bytes of a write and of a read.
const CHUNK: usize = 128 << 10;
/// The longest time without a byte.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
