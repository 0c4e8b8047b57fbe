//! Servers on the host's side, each on a port that the system chose.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use super::{PATIENCE, wait_until};

/// A TCP server that gives each connection a thread.
pub(crate) struct TcpServer {
    addr: SocketAddr,
    accepted: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl TcpServer {
    /// Listens on 127.0.0.1.
    pub(crate) fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> TcpServer {
        TcpServer::start_at("127.0.0.1:0", serve)
    }

    /// Listens on `addr`.
    pub(crate) fn start_at(
        addr: &str,
        serve: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> TcpServer {
        let listener = TcpListener::bind(addr).unwrap_or_else(|e| panic!("{addr}: {e}"));
        let server = TcpServer {
            addr: listener.local_addr().expect("it is bound"),
            accepted: Arc::default(),
            over: Arc::default(),
        };
        let (accepted, over) = (Arc::clone(&server.accepted), Arc::clone(&server.over));
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                if over.load(Ordering::Acquire) {
                    break;
                }
                accepted.fetch_add(1, Ordering::AcqRel);
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(patient(stream)));
            }
        });
        server
    }

    /// A server whose connections each give a value, and the receiver of these values.
    pub(crate) fn telling<T: Send + 'static>(
        serve: impl Fn(TcpStream) -> T + Send + Sync + 'static,
    ) -> (TcpServer, Receiver<T>) {
        let (tell, told) = mpsc::channel();
        let server = TcpServer::start(move |stream| {
            // The listener is gone once the test has failed.
            let _ = tell.send(serve(stream));
        });
        (server, told)
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.addr.port()
    }

    /// How many connections it had.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes the accepting thread, which then sees the end.
        let _ = TcpStream::connect(self.addr);
    }
}

/// A connection whose reads and writes have a timeout.
pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    stream
        .set_write_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    stream
}

/// The value of a server's next connection.
pub(crate) fn next<T>(told: &Receiver<T>) -> T {
    told.recv_timeout(PATIENCE)
        .expect("a connection comes, and ends")
}

/// Waits for the first byte without taking it.
pub(crate) fn wait_for_data(stream: &TcpStream) {
    let peeked = stream.peek(&mut [0]);
    assert!(matches!(peeked, Ok(1)), "no data: {peeked:?}");
}

/// Sends back each datagram, on a port of 127.0.0.1 that it gives.
pub(crate) fn udp_echo() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let port = socket.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        loop {
            match socket.recv_from(&mut bytes) {
                Ok((len, from)) => {
                    let _ = socket.send_to(&bytes[..len], from);
                }
                // The error belongs to an earlier reply; the socket still works.
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(_) => return,
            }
        }
    });
    port
}

/// Ports that the system never chooses itself, because they are below or above its range of ephemeral ports: the first,
/// and their number. Where all are ephemeral, some that it seldom chooses.
fn fixed_ports() -> (u16, u16) {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range = range.expect("/proc is there");
    let mut ends = range.split_whitespace().filter_map(|end| end.parse().ok());
    let (low, high): (u16, u16) = ends.next().zip(ends.next()).expect("two numbers");
    match (low, high) {
        (13_000.., _) => (low - 12_000, 12_000),
        (_, ..64_000) => (high + 1, u16::MAX - high),
        _ => (20_000, 12_000),
    }
}

/// A closed port of 127.0.0.1, over UDP too, which no other test gets. A port that the system chose and has back would
/// not do: the system may give it to another test.
pub(crate) fn closed_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let (first, len) = fixed_ports();
    // Another test program may run beside this one.
    let start = std::process::id() * 97;
    let is_free = |port| {
        let at = ("127.0.0.1", port);
        TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok()
    };
    let next = || {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        first + ((start + u32::from(given)) % u32::from(len)) as u16
    };
    let port = (0..len)
        .map(|_| next())
        .find(|&port| is_free(port))
        .expect("a port is free");
    wait_until_closed(port);
    port
}

/// Waits until no process has a socket at this port of 127.0.0.1: one that another test starts has copies of all
/// descriptors of this process for a while, of those too that are closed here.
pub(crate) fn wait_until_closed(port: u16) {
    let addr = format!("0100007F:{port:04X}");
    let is_at_port = |row: &str| {
        // The local address is the second field, the state the fourth: 06 is TIME_WAIT, which is no socket.
        let fields: Vec<_> = row.split_whitespace().take(4).collect();
        fields.get(1) == Some(&&*addr) && fields.get(3) != Some(&"06")
    };
    let is_open = |protocol: &str| {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{protocol}"));
        table.expect("/proc is there").lines().any(is_at_port)
    };
    wait_until("a port to be closed", || !is_open("tcp") && !is_open("udp"));
}

/// Connects to a port of 127.0.0.1.
pub(crate) fn connect(port: u16) -> io::Result<TcpStream> {
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&addr, PATIENCE).map(patient)
}
