//! Linux's TCP as an end: a thread in a network namespace of its own, whose interface is a TAP without offloads.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_tcp_congestion;
use sim::Frame;

use super::super::designs::Algorithm;
use super::super::path::{MTU, Path};
use super::End;
use super::ours::{PORT, RECEIVER, sender};
use crate::harness::{namespace, sys, tap};

/// The longest time until a thread of a flow notices the end of the run.
const LOOK: Duration = Duration::from_millis(100);
/// The largest socket buffers, in bytes, as ours have: `tcp_rmem` and `tcp_wmem` count overhead too.
const BUFFERS: &str = "4096 131072 33554432";

/// The state that the threads of an end share with the thread that carries frames.
#[derive(Debug, Default)]
struct Told {
    /// The run is over. Relaxed, as the others: no data depends on the order.
    over: AtomicBool,
    received: Vec<AtomicU64>,
    timeouts: AtomicU64,
}

/// The work of the thread in its namespace.
#[derive(Clone, Copy)]
enum Role {
    Receive {
        flows: usize,
        ecn: bool,
    },
    Send {
        algorithm: Algorithm,
        flow: usize,
        ecn: bool,
    },
}

/// A namespace with its thread.
pub(super) struct LinuxEnd {
    /// Dropped before the thread is joined.
    tap: Option<File>,
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

impl LinuxEnd {
    pub(super) fn receiver(path: &Path) -> io::Result<Self> {
        let (flows, ecn) = (path.flows, path.has_ecn());
        Self::start(Role::Receive { flows, ecn })
    }

    pub(super) fn sender(algorithm: Algorithm, (path, flow): (&Path, usize)) -> io::Result<Self> {
        let ecn = path.has_ecn();
        Self::start(Role::Send {
            algorithm,
            flow,
            ecn,
        })
    }

    fn start(role: Role) -> io::Result<Self> {
        let flows = match role {
            Role::Receive { flows, .. } => flows,
            Role::Send { .. } => 0,
        };
        let told = Arc::new(Told {
            received: (0..flows).map(|_| AtomicU64::new(0)).collect(),
            ..Told::default()
        });
        let (ready, made) = mpsc::channel();
        let theirs = Arc::clone(&told);
        let thread = thread::spawn(move || {
            let prepared = prepare(role);
            let (tap, sockets) = match prepared {
                Ok(prepared) => prepared,
                Err(error) => return drop(ready.send(Err(error))),
            };
            // If no thread waits any more, the run has failed elsewhere.
            let _ = ready.send(Ok(tap));
            serve(role, sockets, &theirs);
        });
        let gone = |_| Err(io::Error::other("the thread of a namespace ended"));
        let tap = made.recv().unwrap_or_else(gone)?;
        Ok(Self {
            tap: Some(tap),
            told,
            thread: Some(thread),
        })
    }
}

/// Makes the namespace and its interface; for a receiver, its sockets too.
fn prepare(role: Role) -> io::Result<(File, Vec<TcpListener>)> {
    sys::new_network()?;
    let (addr, algorithm, ecn) = match role {
        Role::Receive { ecn, .. } => (RECEIVER, None, ecn),
        Role::Send {
            algorithm,
            flow,
            ecn,
        } => (sender(flow), Some(algorithm), ecn),
    };
    let tap = File::from(tap::make("wan0")?);
    rustix::io::ioctl_fionbio(&tap, true)?;
    namespace::ip("link set lo up")?;
    namespace::ip(&format!("addr add {addr}/24 dev wan0"))?;
    namespace::ip(&format!("link set wan0 mtu {MTU} up"))?;
    // Sets pacing for BBR; without tc, the kernel paces by itself.
    let _ = Command::new("tc")
        .args("qdisc replace dev wan0 root fq".split(' '))
        .output();
    for name in ["rmem", "wmem"] {
        fs::write(format!("/proc/sys/net/ipv4/tcp_{name}"), BUFFERS)?;
    }
    // Offered, or neither offered nor accepted.
    fs::write("/proc/sys/net/ipv4/tcp_ecn", if ecn { "1" } else { "0" })?;
    if let Some(algorithm) = algorithm {
        let there = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
        if !there.split_whitespace().any(|one| one == algorithm.name()) {
            let why = format!("this kernel has no {}", algorithm.name());
            return Err(io::Error::other(why));
        }
    }
    let sockets = match role {
        Role::Receive { flows, .. } => listen(flows)?,
        Role::Send { .. } => Vec::new(),
    };
    Ok((tap, sockets))
}

fn listen(flows: usize) -> io::Result<Vec<TcpListener>> {
    let listen = |flow| {
        let listener = TcpListener::bind((RECEIVER, PORT + flow as u16))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    (0..flows).map(listen).collect()
}

/// The work of the thread until the run is over. Threads that it starts are in its namespace.
fn serve(role: Role, sockets: Vec<TcpListener>, told: &Told) {
    thread::scope(|scope| {
        for (listener, received) in sockets.into_iter().zip(&told.received) {
            scope.spawn(move || receive(&listener, received, &told.over));
        }
        if let Role::Send {
            algorithm, flow, ..
        } = role
        {
            scope.spawn(move || send(algorithm, flow, &told.over));
        }
        while !told.over.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            note_timeouts(told);
        }
    });
}

fn receive(listener: &TcpListener, received: &AtomicU64, over: &AtomicBool) {
    let mut room = vec![0; 1 << 18];
    let mut stream: Option<TcpStream> = None;
    while !over.load(Ordering::Relaxed) {
        let Some(open) = &mut stream else {
            stream = listener.accept().ok().map(|(stream, _)| stream);
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        // The accepted socket blocks, although the listener does not.
        let _ = open.set_read_timeout(Some(LOOK));
        match open.read(&mut room) {
            Ok(0) => return,
            Ok(n) => drop(received.fetch_add(n as u64, Ordering::Relaxed)),
            Err(error) if is_pause(&error) => {}
            Err(_) => return,
        }
    }
}

fn send(algorithm: Algorithm, flow: usize, over: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect((RECEIVER, PORT + flow as u16)) else {
        return;
    };
    // For a socket, not for the namespace: that would need the algorithm to be allowed to every user.
    if set_tcp_congestion(&stream, algorithm.name()).is_err() {
        return;
    }
    let _ = stream.set_write_timeout(Some(LOOK));
    let data = vec![0; 1 << 17];
    while !over.load(Ordering::Relaxed) {
        match stream.write(&data) {
            Ok(_) => {}
            Err(error) if is_pause(&error) => {}
            Err(_) => return,
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn is_pause(error: &io::Error) -> bool {
    let kinds = [
        ErrorKind::WouldBlock,
        ErrorKind::TimedOut,
        ErrorKind::Interrupted,
    ];
    kinds.contains(&error.kind())
}

/// Sends the counter of this thread's namespace.
fn note_timeouts(told: &Told) {
    let timeouts = counter("TcpExt:", "TCPTimeouts");
    told.timeouts.store(timeouts, Ordering::Relaxed);
}

/// A counter of netstat's file, which has a line of names for each group, then a line of numbers.
fn counter(group: &str, name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (names, numbers) = (lines.next(), lines.next());
    let pairs = names
        .unwrap_or_default()
        .split(' ')
        .zip(numbers.unwrap_or_default().split(' '));
    let number = pairs.into_iter().find(|(one, _)| *one == name);
    number
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(0)
}

impl End for LinuxEnd {
    fn next_frame(&mut self) -> Option<Frame> {
        let mut room = [0; 2048];
        let n = self.tap.as_mut()?.read(&mut room).ok()?;
        Some(Frame::new(room[..n].to_vec()))
    }

    fn deliver(&mut self, frame: &Frame) {
        // A frame that the kernel does not take is lost, as on a link.
        let _ = self.tap.as_mut().map(|tap| tap.write(&frame.bytes));
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.tap.as_ref().map(AsFd::as_fd)
    }

    fn received(&self) -> Vec<u64> {
        let all = self.told.received.iter();
        all.map(|n| n.load(Ordering::Relaxed)).collect()
    }

    fn timeouts(&self) -> Option<u64> {
        Some(self.told.timeouts.load(Ordering::Relaxed))
    }
}

impl Drop for LinuxEnd {
    fn drop(&mut self) {
        self.told.over.store(true, Ordering::Relaxed);
        // Without its other end the interface vanishes, and the kernel drops data that still waits in a connection.
        self.tap = None;
        let ended = self.thread.take().map(JoinHandle::join);
        drop(ended);
    }
}
