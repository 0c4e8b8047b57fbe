//! The kernel's proxies: client, proxy and server are threads in three network namespaces, with veth pairs between.
//!
//! The client sends a sealed file's pages by sendfile(2) and the server discards with MSG_TRUNC, so that neither
//! copies, as with ours. Each connection has a thread in each place, with calls that wait. The threads live until the
//! process ends: it is started for one figure.
//!
//! Sources: splice(2), tcp(7) (MSG_TRUNC), veth(4).

use super::case::Case;
use crate::harness::namespace::ip;
use crate::harness::sys;
use crate::stream::figures::Figures;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create, sendfile};
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The work of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Splice,
    Copy,
}

/// Runs one for this time, from this network namespace, which no other process may use; the proxy's CPU is the second.
pub(crate) fn run(
    case: &Case,
    work: Work,
    cpus: (usize, usize),
    time: Duration,
) -> io::Result<Figures> {
    let proxy_cpu = if case.own_cpu { cpus.1 } else { cpus.0 };
    let received = Arc::new(AtomicU64::new(0));
    let streams = case.streams();

    let count = Arc::clone(&received);
    let server = Namespace::start(cpus.0, move || serve(streams, &count))?;
    server.join_by("veth2", BACK, "veth3", SERVER)?;
    server.begin()?;

    let client = Namespace::start(cpus.0, move || send(streams))?;
    client.join_by("veth1", FRONT, "veth0", CLIENT)?;
    // Threads that this thread starts from now on inherit its CPU.
    sys::pin(&[proxy_cpu])?;
    let listener = TcpListener::bind((FRONT, PORT))?;
    client.begin()?;
    for _ in 0..streams {
        let (front, _) = listener.accept()?;
        let back = TcpStream::connect((SERVER, PORT))?;
        thread::spawn(move || match work {
            Work::Splice => move_pages(&front, &back),
            Work::Copy => copy(front, back),
        });
    }
    // The measurement begins after slow start.
    thread::sleep(WARMUP);
    let (cpu, begin, before) = (sys::process_time(), Instant::now(), received.load(Relaxed));
    thread::sleep(time);
    let bytes = received.load(Relaxed) - before;
    Ok(Figures::of_stream(
        bytes,
        begin.elapsed(),
        sys::process_time() - cpu,
    ))
}

/// A thread in a network namespace of its own, which waits until its interface is there.
struct Namespace {
    thread: i32,
    /// Its interface: name and address.
    go: mpsc::Sender<(&'static str, Ipv4Addr)>,
    ready: mpsc::Receiver<io::Result<()>>,
}

impl Namespace {
    fn start(
        cpu: usize,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (tell, told) = mpsc::channel();
        let (go, gone) = mpsc::channel::<(&str, Ipv4Addr)>();
        let (say, ready) = mpsc::channel();
        thread::spawn(move || {
            let made = sys::new_network().and_then(|()| sys::pin(&[cpu]));
            let _ = tell.send(made.map(|()| sys::thread_id()));
            let Ok((name, addr)) = gone.recv() else {
                return;
            };
            let _ = say.send(interface(name, addr));
            // If this fails, no bytes arrive, and the figure is zero.
            if gone.recv().is_ok() {
                let _ = work();
            }
        });
        let thread = told.recv().map_err(io::Error::other)??;
        Ok(Self { thread, go, ready })
    }

    /// Joins it to this namespace by a veth pair.
    fn join_by(
        &self,
        here: &'static str,
        addr: Ipv4Addr,
        there: &'static str,
        peer: Ipv4Addr,
    ) -> io::Result<()> {
        let thread = self.thread;
        ip(&format!(
            "link add {here} type veth peer name {there} netns {thread}"
        ))?;
        interface(here, addr)?;
        let _ = self.go.send((there, peer));
        self.ready.recv().map_err(io::Error::other)?
    }

    /// Lets its work begin.
    fn begin(&self) -> io::Result<()> {
        self.go.send(("", CLIENT)).map_err(io::Error::other)
    }
}

/// Gives an interface its address and brings it up.
fn interface(name: &str, addr: Ipv4Addr) -> io::Result<()> {
    ip(&format!("addr add {addr}/24 dev {name}"))?;
    ip(&format!("link set {name} up"))
}

/// The server: it discards the data of each connection, and counts it.
fn serve(streams: usize, received: &Arc<AtomicU64>) -> io::Result<()> {
    let listener = TcpListener::bind((SERVER, PORT))?;
    for _ in 0..streams {
        let (stream, _) = listener.accept()?;
        let received = Arc::clone(received);
        thread::spawn(move || {
            let mut buf = vec![0; CHUNK];
            while let Ok((_, n)) = recv(&stream, buf.as_mut_slice(), RecvFlags::TRUNC)
                && n > 0
            {
                received.fetch_add(n as u64, Relaxed);
            }
        });
    }
    Ok(())
}

/// The client: it sends the pages of a file, over and over.
fn send(streams: usize) -> io::Result<()> {
    let file = Arc::new(memfd_create("lent", MemfdFlags::CLOEXEC)?);
    ftruncate(&file, CHUNK as u64)?;
    for _ in 0..streams {
        let stream = connect((FRONT, PORT))?;
        let file = Arc::clone(&file);
        thread::spawn(move || {
            let mut at = 0;
            loop {
                let left = CHUNK - at as usize;
                match sendfile(&stream, &file, Some(&mut at), left) {
                    Ok(_) => at %= CHUNK as u64,
                    Err(_) => return,
                }
            }
        });
    }
    Ok(())
}

/// Connects; the other side may not listen yet.
fn connect(to: (Ipv4Addr, u16)) -> io::Result<TcpStream> {
    let mut tries = 0;
    loop {
        match TcpStream::connect(to) {
            Err(_) if tries < TRIES => tries += 1,
            other => return other,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn move_pages(from: &TcpStream, to: &TcpStream) {
    let pipe = || -> io::Result<(OwnedFd, OwnedFd)> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // Without the right to a larger one, the usual 64 KiB.
        let _ = fcntl_setpipe_size(&write, CHUNK);
        Ok((read, write))
    };
    let Ok((read, write)) = pipe() else { return };
    let flags = SpliceFlags::MOVE | SpliceFlags::MORE;
    while let Ok(mut left) = splice(from, None, &write, None, CHUNK, flags)
        && left > 0
    {
        while left > 0 {
            match splice(&read, None, to, None, left, flags) {
                Ok(n) if n > 0 => left -= n,
                _ => return,
            }
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buf = vec![0; CHUNK];
    while let Ok(n) = from.read(&mut buf)
        && n > 0
        && to.write_all(&buf[..n]).is_ok()
    {}
}

use Ordering::Relaxed;

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FRONT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const BACK: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PORT: u16 = 5201;
/// Bytes of a call, and of a pipe.
const CHUNK: usize = 1 << 20;
/// Before the clock starts.
const WARMUP: Duration = Duration::from_millis(200);
/// Attempts to connect, a millisecond apart.
const TRIES: u32 = 1000;
