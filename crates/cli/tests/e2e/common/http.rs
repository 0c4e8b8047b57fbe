//! A small HTTP/1.1 server for the host's side, and the requests that it answers.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::sockopt::set_socket_send_buffer_size;

use super::server::TcpServer;

/// Longer than any request's head here.
const HEAD_LEN_MAX: usize = 16 << 10;

/// The head of a request.
pub(crate) struct Request {
    /// GET, PUT and so on.
    pub(crate) method: String,
    /// The length of its body.
    pub(crate) len: usize,
    expects_continue: bool,
}

/// Reads a request's head, byte by byte, so that the body stays in the socket.
pub(crate) fn read_request(stream: &mut TcpStream) -> io::Result<Request> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
        assert!(head.len() < HEAD_LEN_MAX, "a head without an end");
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut words = text.split_whitespace();
    let mut word = || words.next().unwrap_or_default().to_owned();
    Ok(Request {
        method: word(),
        len: field(&text, "content-length").map_or(0, |value| value.parse().expect("a length")),
        expects_continue: field(&text, "expect").is_some(),
    })
}

/// A header field's value.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut values = lines.filter(|(n, _)| n.eq_ignore_ascii_case(name));
    values.next().map(|(_, value)| value.trim())
}

/// Answers one request, and closes.
pub(crate) fn respond(stream: &mut TcpStream, status: &str, body: &[u8]) -> io::Result<()> {
    let len = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

/// A server that gives `body` to every GET.
pub(crate) fn serve(body: Vec<u8>) -> TcpServer {
    TcpServer::start(move |mut stream| {
        // If a client goes away in the middle, the test decides whether that is an error.
        let _ = read_request(&mut stream).and_then(|_| respond(&mut stream, "200 OK", &body));
    })
}

/// A server of five bytes, and a script whose 500 connections, 16 at a time, print `200 1 5` each.
pub(crate) fn short_connections() -> (TcpServer, String) {
    let server = serve(b"short".to_vec());
    let script = format!(
        "curl -sS --no-progress-meter -Z --parallel-immediate --parallel-max 16 -H 'Connection: close' -o /dev/null \
         -w '%{{http_code}} %{{num_connects}} %{{size_download}}\\n' 'http://10.0.2.2:{}/[1-500]'",
        server.port()
    );
    (server, script)
}

/// Reads a request's body, and passes it on in pieces.
pub(crate) fn read_body(
    stream: &mut TcpStream,
    request: &Request,
    mut take: impl FnMut(&[u8]),
) -> io::Result<()> {
    if request.expects_continue {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut left = request.len;
    let mut piece = vec![0; 1 << 18];
    while left > 0 {
        let most = left.min(piece.len());
        let n = stream.read(&mut piece[..most])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        take(&piece[..n]);
        left -= n;
    }
    Ok(())
}

/// A server that answers every GET with a body that never ends.
pub(crate) struct Endless {
    server: TcpServer,
    sent: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
}

impl Endless {
    /// Starts it, with the kernel's choice of send buffers: up to 4 MiB for a stream.
    pub(crate) fn start() -> Endless {
        Self::begin(None)
    }

    /// The same for a thousand streams, whose send buffers take 512 KiB each. With the kernel's choice they would fill
    /// the memory that it allows for all of TCP (tcp_mem), and other connections of the host would stand still too.
    pub(crate) fn start_for_many() -> Endless {
        Self::begin(Some(1 << 18))
    }

    fn begin(send_buffer: Option<usize>) -> Endless {
        let (sent, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (count, ends) = (Arc::clone(&sent), Arc::clone(&ended));
        let server = TcpServer::start(move |mut stream| {
            let set = send_buffer.map_or(Ok(()), |n| set_socket_send_buffer_size(&stream, n));
            set.expect("any size is taken");
            let _ = pour(&mut stream, &count);
            ends.fetch_add(1, Ordering::AcqRel);
        });
        Endless {
            server,
            sent,
            ended,
        }
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    /// The number of bytes of bodies that it has sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// How many of its connections have come to an end.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }
}

fn pour(stream: &mut TcpStream, sent: &AtomicU64) -> io::Result<()> {
    read_request(stream)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
    let piece = vec![b'x'; 1 << 16];
    loop {
        stream.write_all(&piece)?;
        sent.fetch_add(piece.len() as u64, Ordering::AcqRel);
    }
}
