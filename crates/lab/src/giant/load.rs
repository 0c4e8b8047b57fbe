//! The programs: the traffic of clients and servers, over any joint.
//!
//! Invariants: a program ends, also if the other side does not answer: sockets wait for [`PATIENCE`] at most. A
//! client's time is taken from when all its threads are there to when the last client has its last answer.
//! Locks: none. Sources: netperf; super-smack, as seed 002 used it.

use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// One end of a conversation. Calls sleep.
pub(crate) trait Talk: Send {
    /// Says all of it.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits for bytes; 0 is the end.
    fn recv(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Says no more.
    fn finish(&mut self) -> io::Result<()>;
}

/// A client's end and its server's.
pub(crate) type Pair = (Box<dyn Talk>, Box<dyn Talk>);

/// The time for which a socket waits for the other side.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The results of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Done {
    /// Bytes, requests or queries.
    pub(crate) count: u64,
    pub(crate) time: Duration,
    /// The time of each request or query, in nanoseconds.
    pub(crate) latencies: Vec<u32>,
}

/// One side sends for this time, 64 KiB a call; the other receives.
pub(crate) fn stream((mut client, mut server): Pair, time: Duration) -> io::Result<Done> {
    let begin = Instant::now();
    let count = thread::scope(|scope| -> io::Result<u64> {
        let sends = scope.spawn(move || {
            let chunk = vec![0x5a; CHUNK];
            while begin.elapsed() < time {
                client.send(&chunk)?;
            }
            client.finish()
        });
        let mut buf = vec![0; CHUNK];
        let mut count = 0;
        loop {
            match server.recv(&mut buf)? {
                0 => break,
                n => count += n as u64,
            }
        }
        joined(sends).map(|()| count)
    })?;
    Ok(Done {
        count,
        time: begin.elapsed(),
        latencies: Vec::new(),
    })
}

/// A byte there and a byte back, for this time.
pub(crate) fn requests((mut client, mut server): Pair, time: Duration) -> io::Result<Done> {
    thread::scope(|scope| {
        let answers = scope.spawn(move || {
            let mut byte = [0];
            while server.recv(&mut byte)? > 0 && byte[0] != LAST {
                server.send(&byte)?;
            }
            Ok(())
        });
        let begin = Instant::now();
        let mut latencies = Vec::with_capacity(1 << 16);
        let mut last = begin;
        while last - begin < time {
            client.send(&[1])?;
            if client.recv(&mut [0])? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let now = Instant::now();
            latencies.push(nanos(now - last));
            last = now;
        }
        // Datagrams have no end: the last one says so.
        client.send(&[LAST])?;
        joined(answers)?;
        Ok(Done {
            count: latencies.len() as u64,
            time: last - begin,
            latencies,
        })
    })
}

/// Each client asks its server `each` times; all of them at once.
pub(crate) fn queries(pairs: Vec<Pair>, each: usize) -> io::Result<Done> {
    let all_there = &Barrier::new(pairs.len() + 1);
    thread::scope(|scope| {
        let mut clients = Vec::new();
        let mut servers = Vec::new();
        for (client, server) in pairs {
            servers.push(scope.spawn(move || serve(server, each)));
            clients.push(scope.spawn(move || {
                all_there.wait();
                ask(client, each)
            }));
        }
        all_there.wait();
        // The clients take the time: this thread may have a CPU again only when they are done.
        let (mut first, mut last) = (None::<Instant>, None::<Instant>);
        let mut done = Done::default();
        for client in clients {
            let (begin, end, latencies) = joined(client)?;
            first = Some(first.map_or(begin, |t| t.min(begin)));
            last = last.max(Some(end));
            done.count += latencies.len() as u64;
            done.latencies.extend(latencies);
        }
        servers.into_iter().try_for_each(joined)?;
        done.time = last
            .zip(first)
            .map_or(done.time, |(end, begin)| end - begin);
        Ok(done)
    })
}

fn ask(mut server: Box<dyn Talk>, times: usize) -> io::Result<(Instant, Instant, Vec<u32>)> {
    let mut latencies = Vec::with_capacity(times);
    let (mut query, mut answer) = ([0; QUERY], [0; ANSWER]);
    let begin = Instant::now();
    let mut last = begin;
    for n in 0..times {
        query[..8].copy_from_slice(&(n as u64).to_le_bytes());
        server.send(&query)?;
        fill(&mut *server, &mut answer)?;
        // The client checks the received bytes.
        black_box(work(&answer));
        let now = Instant::now();
        latencies.push(nanos(now - last));
        last = now;
    }
    Ok((begin, last, latencies))
}

fn serve(mut client: Box<dyn Talk>, times: usize) -> io::Result<()> {
    let (mut query, mut answer) = ([0; QUERY], [0; ANSWER]);
    for _ in 0..times {
        fill(&mut *client, &mut query)?;
        // It parses the query, finds the row, and lays it out.
        let mut row = work(&query);
        for piece in answer.chunks_mut(8) {
            row = work(&row.to_le_bytes()).wrapping_add(row);
            piece.copy_from_slice(&row.to_le_bytes());
        }
        client.send(&answer)?;
    }
    Ok(())
}

/// Receives all of `buf`.
fn fill(from: &mut dyn Talk, buf: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buf.len() {
        match from.recv(&mut buf[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => filled += n,
        }
    }
    Ok(())
}

/// Work on bytes: FNV-1a, whose every step waits for the one before.
fn work(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let died = |_| Err(io::Error::other("a thread of the program died"));
    thread.join().unwrap_or_else(died)
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

/// Bytes a call of a stream.
const CHUNK: usize = 64 << 10;
/// Bytes of a query and of its answer.
const QUERY: usize = 64;
const ANSWER: usize = 512;
/// The byte of the last request.
const LAST: u8 = 0xff;
