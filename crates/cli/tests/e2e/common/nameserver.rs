//! A name server for the host's side: every name has addresses, some have too many for a datagram.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::server::TcpServer;

/// The address of every name.
pub(crate) const ANSWER: &str = "192.0.2.77";
/// How many addresses names that begin with this have. Their answers come over TCP.
pub(crate) const MANY: (&[u8], u16) = (b"many", 100);

/// Bytes before the question (RFC 1035, 4.1.1).
const HEADER_LEN: usize = 12;
/// The question's type and class.
const QUESTION_TAIL_LEN: usize = 4;
const TYPE_A: [u8; 2] = [0, 1];

/// A name server on a port of an address, over UDP and TCP.
pub(crate) struct NameServer {
    tcp: TcpServer,
    udp_questions: Arc<AtomicUsize>,
}

impl NameServer {
    /// Starts one on port 53.
    pub(crate) fn start(addr: &str) -> NameServer {
        NameServer::start_at(&format!("{addr}:53"))
    }

    /// Starts one on the port that is given behind the address.
    pub(crate) fn start_at(at: &str) -> NameServer {
        let socket = UdpSocket::bind(at).unwrap_or_else(|e| panic!("{at}: {e}"));
        let tcp = TcpServer::start_at(at, |mut stream| {
            // If a client goes away in the middle, the test decides whether that is an error.
            let _ = answer_stream(&mut stream);
        });
        let udp_questions = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&udp_questions);
        thread::spawn(move || {
            let mut bytes = [0; 1500];
            while let Ok((len, from)) = socket.recv_from(&mut bytes) {
                count.fetch_add(1, Ordering::AcqRel);
                let reply = answer(&bytes[..len], Transport::Datagram);
                let _ = reply.map(|reply| socket.send_to(&reply, from));
            }
        });
        NameServer { tcp, udp_questions }
    }

    /// How many questions came in datagrams.
    pub(crate) fn udp_questions(&self) -> usize {
        self.udp_questions.load(Ordering::Acquire)
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.tcp.accepted()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Transport {
    Datagram,
    Stream,
}

/// Answers questions on one connection, each after two bytes of length.
fn answer_stream(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut question = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut question)?;
        let reply = answer(&question, Transport::Stream).ok_or(io::ErrorKind::InvalidData)?;
        let len = u16::try_from(reply.len()).expect("a reply is short");
        stream.write_all(&len.to_be_bytes())?;
        stream.write_all(&reply)?;
    }
}

/// The reply to a question.
fn answer(message: &[u8], transport: Transport) -> Option<Vec<u8>> {
    let name = message.get(HEADER_LEN..)?;
    let name_len = name.iter().position(|&b| b == 0)? + 1;
    let question = name.get(..name_len + QUESTION_TAIL_LEN)?;
    let is_many = question.get(1..)?.starts_with(MANY.0);
    let truncated = is_many && transport == Transport::Datagram;
    let answers = match (question.get(name_len..name_len + 2)? == TYPE_A, truncated) {
        (false, _) | (_, true) => 0,
        (true, false) if is_many => MANY.1,
        (true, false) => 1,
    };
    let mut reply = message.get(..2)?.to_vec();
    // A response, recursion desired and available; or a truncated one, so that the client asks again over TCP.
    reply.extend([if truncated { 0x83 } else { 0x81 }, 0x80, 0, 1]);
    reply.extend(answers.to_be_bytes());
    reply.extend([0; 4]);
    reply.extend(question);
    for _ in 0..answers {
        // The question's name, type A, class IN, a minute, four bytes.
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        let ip: std::net::Ipv4Addr = ANSWER.parse().ok()?;
        reply.extend(ip.octets());
    }
    Some(reply)
}
