//! The servers on the host's loopback: the first sends, receives or echoes, as its client orders, the second gives
//! pages, the third sends to many clients at once.
//!
//! They are threads that wait in calls, and end with their process.
//!
//! A client of the first sends an [`Order`]: one byte for the kind, and the counted time. The
//! server answers a stream from the client with the number of bytes that it received.

use super::bulk::{self, Got, Span};
use super::downloads;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Where they listen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    /// The first of them.
    pub(crate) orders: u16,
    /// The one with pages.
    pub(crate) pages: u16,
    /// The port that sends to each client that connects.
    pub(crate) downloads: u16,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Receive, and report the number of bytes.
    Receive(Span),
    /// Send.
    Send(Span),
    /// Send back the received bytes.
    Echo,
}

/// Starts them, at every address there is, of IPv6 or of IPv4; `ports` of 0 are any that are free. Gives the congestion
/// control that they send with.
pub(crate) fn start(ip6: bool, ports: Ports) -> io::Result<(Ports, String)> {
    let any: IpAddr = match ip6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    let orders = TcpListener::bind((any, ports.orders))?;
    let pages = TcpListener::bind((any, ports.pages))?;
    let downloads = TcpListener::bind((any, ports.downloads))?;
    for listener in [&orders, &pages, &downloads] {
        // A namespace may not choose it for all its sockets on every machine. An algorithm that the kernel lacks is
        // not set.
        let _ = rustix::net::sockopt::set_tcp_congestion(listener, "cubic");
    }
    let ports = Ports {
        orders: orders.local_addr()?.port(),
        pages: pages.local_addr()?.port(),
        downloads: downloads.local_addr()?.port(),
    };
    for _ in 0..PAGE_THREADS {
        let pages = pages.try_clone()?;
        thread::spawn(move || for_each(&pages, |stream| drop(page(stream))));
    }
    let congestion = rustix::net::sockopt::tcp_congestion(&downloads)?;
    // Without it its clients fail, and report that.
    thread::spawn(move || drop(downloads::serve(&downloads)));
    thread::spawn(move || {
        for_each(&orders, |stream| {
            // A client that fails reports it.
            thread::spawn(move || drop(obey(&stream)));
        });
    });
    Ok((ports, congestion))
}

fn for_each(listener: &TcpListener, mut serve: impl FnMut(TcpStream)) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => serve(stream),
            // Too many descriptors, or a client that has left: the next call may succeed.
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn obey(mut stream: &TcpStream) -> io::Result<()> {
    bulk::prepare(stream)?;
    match Order::read(stream)? {
        Order::Receive(span) => {
            let Got { counted, all } = bulk::receive(stream, span)?;
            stream.write_all(&[counted.to_le_bytes(), all.to_le_bytes()].concat())
        }
        Order::Send(span) => bulk::send(stream, span),
        Order::Echo => echo(stream),
    }
}

fn echo(mut stream: &TcpStream) -> io::Result<()> {
    let mut buf = [0; 16 << 10];
    loop {
        match stream.read(&mut buf)? {
            0 => return Ok(()),
            n => stream.write_all(&buf[..n])?,
        }
    }
}

/// Reads a request, answers, closes.
fn page(mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(bulk::PATIENCE))?;
    let mut request = [0; 4096];
    match stream.read(&mut request)? {
        0 => Ok(()),
        _ => stream.write_all(ANSWER),
    }
}

impl Order {
    /// Says it to the server.
    pub(crate) fn write(self, mut to: &TcpStream) -> io::Result<()> {
        let (kind, span) = match self {
            Self::Receive(span) => (b'r', span),
            Self::Send(span) => (b's', span),
            Self::Echo => (b'e', Span::of(Duration::ZERO)),
        };
        let mut bytes = vec![kind];
        for time in [span.warm, span.counted] {
            bytes.extend((time.as_nanos() as u64).to_le_bytes());
        }
        to.write_all(&bytes)
    }

    fn read(mut from: &TcpStream) -> io::Result<Self> {
        let (mut kind, mut warm, mut counted) = ([0; 1], [0; 8], [0; 8]);
        from.read_exact(&mut kind)?;
        from.read_exact(&mut warm)?;
        from.read_exact(&mut counted)?;
        let time = |bytes| Duration::from_nanos(u64::from_le_bytes(bytes));
        let span = Span {
            warm: time(warm),
            counted: time(counted),
        };
        match &kind {
            b"r" => Ok(Self::Receive(span)),
            b"s" => Ok(Self::Send(span)),
            b"e" => Ok(Self::Echo),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The request to the server of pages.
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
/// Its answer: 128 bytes.
pub(crate) const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\nConnection: close\r\n\r\n\
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n";
/// Clients that are served at once.
const PAGE_THREADS: usize = 16;
