//! The guest's programs: threads with sockets that wait, as most programs have.

use super::bulk::{self, Got, Span, Way};
use super::case::Job;
use super::found::Found;
use super::server::{ANSWER, Order, Ports, REQUEST};
use super::{downloads, lease, scan};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The servers' addresses for the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Servers {
    pub(crate) addr: IpAddr,
    pub(crate) ports: Ports,
}

impl Servers {
    /// Does a job for this time.
    pub(crate) fn ask(self, job: Job, reading: Duration) -> io::Result<Found> {
        let span = Span::of(reading);
        match job {
            Job::Bulk { way, streams } => self.streams(way, streams, span),
            Job::RoundTrips { beside } => self.round_trips(beside, span),
            Job::Downloads { streams } => {
                let addr = SocketAddr::from((self.addr, self.ports.downloads));
                let shares = downloads::read(addr, streams, reading)?;
                Ok(Found::of_downloads(&shares))
            }
            Job::Connects { clients } => Ok(self.connects(clients, span)),
            Job::Leases => Ok(Found::of_times(lease::leases(
                self.addr.is_ipv6(),
                reading,
            )?)),
            Job::Scan { way } => {
                let span = Span::of(reading / 2);
                let alone = self.streams(way, 1, span)?;
                let beside = scan::beside(|| self.streams(way, 1, span))?;
                Ok(beside.compared_with(&alone))
            }
            Job::Start => Err(io::Error::other("the host's side does that")),
        }
    }

    /// Whether they can be reached.
    pub(crate) fn answer(self) -> io::Result<()> {
        let stream = self.order(Order::Echo)?;
        round_trip(&stream, &mut [1])
    }

    fn streams(self, way: Way, streams: usize, span: Span) -> io::Result<Found> {
        let all_there = &Barrier::new(streams);
        let got = thread::scope(|scope| {
            let each = || scope.spawn(move || self.stream(way, span, Some(all_there)));
            let all: Vec<_> = (0..streams).map(|_| each()).collect();
            all.into_iter().map(joined).collect::<io::Result<Vec<_>>>()
        })?;
        Ok(Found::of_stream(&got, span))
    }

    fn stream(self, way: Way, span: Span, all_there: Option<&Barrier>) -> io::Result<Got> {
        let stream = self.connect(self.ports.orders);
        // A client that could not connect is waited for as well.
        all_there.map(Barrier::wait);
        let stream = stream?;
        match way {
            Way::Up => {
                Order::Receive(span).write(&stream)?;
                bulk::send(&stream, span)?;
                let mut numbers = [[0; 8]; 2];
                (&stream).read_exact(numbers.as_flattened_mut())?;
                let [counted, all] = numbers.map(u64::from_le_bytes);
                Ok(Got { counted, all })
            }
            Way::Down => {
                Order::Send(span).write(&stream)?;
                bulk::receive(&stream, span)
            }
        }
    }

    fn round_trips(self, beside: Option<Way>, span: Span) -> io::Result<Found> {
        thread::scope(|scope| {
            let bulk = beside.map(|way| scope.spawn(move || self.stream(way, span, None)));
            // Beside a stream they begin when that is under way: a tool may choose by it where to put them.
            let later = beside.map_or(Duration::ZERO, |_| span.warm);
            thread::sleep(later);
            let theirs = Span::of(span.whole() - later);
            let times = self.order(Order::Echo).and_then(|s| measure(&s, theirs));
            let got = bulk.map(joined).transpose()?;
            Ok(Found::of_round_trips(times?, got.as_slice(), span))
        })
    }

    fn connects(self, clients: usize, span: Span) -> Found {
        let all = thread::scope(|scope| {
            let all: Vec<_> = (0..clients)
                .map(|_| scope.spawn(|| self.pages(span)))
                .collect();
            all.into_iter()
                .map(|one| one.join().unwrap_or((Vec::new(), 1)))
                .fold((Vec::new(), 0), |all, one| {
                    ([all.0, one.0].concat(), all.1 + one.1)
                })
        });
        Found::of_connects(all.0, all.1, span)
    }

    /// Gets pages, one after the other: how long each that counts took to connect, in nanoseconds, and how many pages
    /// did not come.
    fn pages(self, span: Span) -> (Vec<u32>, u64) {
        let (mut times, mut failed) = (Vec::with_capacity(1 << 16), 0);
        let begin = Instant::now();
        while begin.elapsed() < span.whole() {
            match self.page() {
                Ok(took) if span.counts(begin.elapsed()) => times.push(nanos(took)),
                Ok(_) => {}
                Err(_) => failed += 1,
            }
        }
        (times, failed)
    }

    /// Gets a page. Returns how long it took to connect.
    fn page(self) -> io::Result<Duration> {
        let begin = Instant::now();
        let mut stream = self.connect(self.ports.pages)?;
        let took = begin.elapsed();
        stream.write_all(REQUEST)?;
        let (mut answer, mut len) = ([0; 2 * ANSWER.len()], 0);
        loop {
            match stream.read(&mut answer[len..])? {
                0 if answer[..len] == *ANSWER => return Ok(took),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => len += n,
            }
        }
    }

    fn order(self, order: Order) -> io::Result<TcpStream> {
        let stream = self.connect(self.ports.orders)?;
        order.write(&stream)?;
        Ok(stream)
    }

    fn connect(self, port: u16) -> io::Result<TcpStream> {
        let addr = SocketAddr::from((self.addr, port));
        let stream = TcpStream::connect_timeout(&addr, bulk::PATIENCE)?;
        bulk::prepare(&stream)?;
        Ok(stream)
    }
}

/// Round trips for as long as it takes: how long each took that counts, in nanoseconds.
fn measure(stream: &TcpStream, span: Span) -> io::Result<Vec<u32>> {
    let mut bytes = [0x5a; 64];
    let mut times = Vec::with_capacity(1 << 16);
    let begin = Instant::now();
    let mut last = begin;
    while last - begin < span.whole() {
        round_trip(stream, &mut bytes)?;
        let now = Instant::now();
        // By its end: a connection that stalls beyond the end is not lost.
        if now - begin >= span.warm {
            times.push(nanos(now - last));
        }
        last = now;
    }
    match times.is_empty() {
        true => Err(io::Error::other("no round trip ended in time")),
        false => Ok(times),
    }
}

pub(super) fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

fn round_trip(mut stream: &TcpStream, bytes: &mut [u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.read_exact(bytes)
}

fn joined<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let died = |_| Err(io::Error::other("a thread of the client died"));
    thread.join().unwrap_or_else(died)
}
