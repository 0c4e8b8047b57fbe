//! Many downloads at once: their sum, and whether each gets its share.
//!
//! ```text
//!   |- connecting -|-- warm --|-- period --|-- period --|     one thread on either side serves all streams
//!                             | each stream's bytes are counted |
//! ```
//!
//! Each side gives each stream that is ready one call of at most [`CHUNK`] bytes in its turn, so that neither side
//! prefers a stream.

use super::bulk::{self, Span};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The bytes of each stream.
pub(crate) struct Shares {
    /// Bytes of each, period by period.
    by_period: Vec<Vec<u64>>,
    /// Bytes of all of them during the warm-up.
    warm: u64,
    counted: Duration,
}

impl Shares {
    /// Bytes of each stream, over all periods.
    fn totals(&self) -> impl Iterator<Item = u64> + '_ {
        let streams = self.by_period.first().map_or(0, Vec::len);
        (0..streams).map(|i| self.by_period.iter().map(|period| period[i]).sum())
    }

    /// Bits per nanosecond of all streams.
    pub(crate) fn gbps(&self) -> f64 {
        let bytes: u64 = self.totals().sum();
        bytes as f64 * 8.0 / self.counted.as_nanos().max(1) as f64
    }

    /// Bytes that came, counted or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.warm + self.totals().sum::<u64>()
    }

    /// Jain's fairness index: 1 if all streams brought the same, 1/n if one brought all bytes (Jain, Chiu and Hawe,
    /// DEC-TR-301, 1984).
    pub(crate) fn jain(&self) -> f64 {
        let all: Vec<f64> = self.totals().map(|bytes| bytes as f64).collect();
        let (sum, squares): (f64, f64) = (all.iter().sum(), all.iter().map(|x| x * x).sum());
        match squares > 0.0 {
            true => sum * sum / (all.len() as f64 * squares),
            false => 0.0,
        }
    }

    /// Per cent of the streams that brought bytes in every period.
    pub(crate) fn moving_percent(&self) -> f64 {
        let streams = self.by_period.first().map_or(0, Vec::len);
        let moved = |i: &usize| self.by_period.iter().all(|period| period[*i] > 0);
        100.0 * (0..streams).filter(moved).count() as f64 / streams.max(1) as f64
    }
}

/// When is counted in a reading of this length: periods of a second, two at least, after a second in which windows
/// grow; a short reading has one short period.
fn periods(reading: Duration) -> (Duration, Vec<Duration>) {
    match reading < SHORT {
        true => {
            let Span { warm, counted } = Span::of(reading);
            (warm, vec![counted])
        }
        false => {
            let count = reading.as_secs().max(2) as usize;
            (Duration::from_secs(1), vec![Duration::from_secs(1); count])
        }
    }
}

/// Sends to every client as fast as it reads, for as long as it stays.
pub(crate) fn serve(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let chunk = vec![0x5a; CHUNK];
    let mut ready = ReadySet::new()?;
    ready.watch(listener, LISTENER, EventFlags::IN)?;
    let mut clients: Vec<Option<TcpStream>> = Vec::new();
    loop {
        for index in ready.wait(None)? {
            if index == LISTENER {
                if let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    ready.watch(&stream, clients.len() as u64, EventFlags::OUT)?;
                    clients.push(Some(stream));
                }
                continue;
            }
            let client = &mut clients[index as usize];
            if client
                .as_mut()
                .is_some_and(|stream| is_over(&stream.write(&chunk)))
            {
                *client = None;
            }
        }
    }
}

/// Downloads from `addr` on this many streams.
pub(crate) fn read(addr: SocketAddr, streams: usize, reading: Duration) -> io::Result<Shares> {
    let mut ready = ReadySet::new()?;
    let mut all = Vec::with_capacity(streams);
    for index in 0..streams {
        let stream = TcpStream::connect_timeout(&addr, bulk::PATIENCE)?;
        stream.set_nonblocking(true)?;
        ready.watch(&stream, index as u64, EventFlags::IN)?;
        all.push(stream);
    }
    let (warm, periods) = periods(reading);
    let warm = read_for(warm, &mut ready, &mut all)?.0.iter().sum();
    let mut by_period = Vec::with_capacity(periods.len());
    let mut counted = Duration::ZERO;
    for period in periods {
        let (bytes, took) = read_for(period, &mut ready, &mut all)?;
        by_period.push(bytes);
        counted += took;
    }
    Ok(Shares {
        by_period,
        warm,
        counted,
    })
}

/// Reads for this time: the bytes of each stream, and the real time.
fn read_for(
    time: Duration,
    ready: &mut ReadySet,
    all: &mut [TcpStream],
) -> io::Result<(Vec<u64>, Duration)> {
    let mut chunk = vec![0; CHUNK];
    let mut bytes = vec![0; all.len()];
    let begin = Instant::now();
    while begin.elapsed() < time {
        for index in ready.wait(Some(time.saturating_sub(begin.elapsed())))? {
            let index = index as usize;
            let read = all[index].read(&mut chunk);
            if is_over(&read) {
                return Err(io::Error::other("a download ended before its time"));
            }
            bytes[index] += read.unwrap_or(0) as u64;
        }
    }
    Ok((bytes, begin.elapsed()))
}

/// Whether a stream that a call was made on is over: the other end is gone.
fn is_over(moved: &io::Result<usize>) -> bool {
    match moved {
        Ok(n) => *n == 0,
        Err(e) => e.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Sockets, and which of them are ready.
struct ReadySet {
    set: OwnedFd,
    events: Vec<Event>,
}

impl ReadySet {
    fn new() -> io::Result<Self> {
        Ok(Self {
            set: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::new(),
        })
    }

    fn watch(
        &self,
        socket: impl std::os::fd::AsFd,
        index: u64,
        flags: EventFlags,
    ) -> io::Result<()> {
        let data = EventData::new_u64(index);
        Ok(epoll::add(&self.set, socket, data, flags)?)
    }

    /// Waits for this time: the indices of the streams that are ready.
    fn wait(&mut self, at_most: Option<Duration>) -> io::Result<Vec<u64>> {
        let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
        self.events.clear();
        self.events.reserve(EVENTS_MAX);
        let list = rustix::buffer::spare_capacity(&mut self.events);
        epoll::wait(&self.set, list, at_most.as_ref())?;
        Ok(self.events.iter().map(|event| event.data.u64()).collect())
    }
}

/// Bytes of a write and of a read.
const CHUNK: usize = 128 << 10;
/// Events of a wait.
const EVENTS_MAX: usize = 256;
/// The listener's index.
const LISTENER: u64 = u64::MAX;
/// Readings that are shorter only show that streams move.
const SHORT: Duration = Duration::from_millis(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(by_period: &[&[u64]]) -> Shares {
        Shares {
            by_period: by_period.iter().map(|period| period.to_vec()).collect(),
            warm: 1,
            counted: Duration::from_nanos(8),
        }
    }

    #[test]
    fn a_stream_that_stands_still_shows() {
        // Breaks when streams that starve, for one period or for all, are as fair as others.
        let fair = shares(&[&[5, 5, 5, 5], &[5, 5, 5, 5]]);
        assert_eq!((fair.jain(), fair.moving_percent()), (1.0, 100.0));
        assert_eq!((fair.gbps(), fair.bytes()), (40.0, 41));
        let one = shares(&[&[5, 0, 0, 0], &[5, 0, 0, 0]]);
        assert_eq!((one.jain(), one.moving_percent()), (0.25, 25.0));
        let pause = shares(&[&[5, 5, 0, 5], &[5, 5, 10, 5]]);
        assert_eq!((pause.jain(), pause.moving_percent()), (1.0, 75.0));
        let nothing = shares(&[&[0, 0]]);
        assert_eq!((nothing.jain(), nothing.gbps()), (0.0, 0.0));
    }

    #[test]
    fn a_reading_has_whole_seconds() {
        // Breaks when a stall of a second cannot be seen because less than two seconds are counted.
        let (warm, all) = periods(Duration::from_secs(1));
        assert_eq!((warm.as_secs(), all.len()), (1, 2));
        assert_eq!(periods(Duration::from_secs(7)).1.len(), 7);
        assert_eq!(periods(Duration::from_millis(20)).1.len(), 1);
    }
}
