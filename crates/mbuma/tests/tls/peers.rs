//! One side is ours, the other one rustls with records of its own, over a plain connection.

use std::sync::mpsc;

use mbuf::{Blank, ClusterSize};

use super::*;

/// A rustls connection that reads and writes a connection of the stack.
struct Other<C> {
    tls: C,
    tcp: TcpStream,
    got: Vec<u8>,
    closed: bool,
}

/// The calls that both kinds of rustls' connections have.
trait Common {
    fn write_tls(&mut self, to: &mut dyn Write) -> std::io::Result<usize>;
    fn wants_write(&self) -> bool;
    fn take(&mut self, from: &mut dyn Read) -> Result<usize, rustls::Error>;
    fn read_plain(&mut self, to: &mut Vec<u8>) -> bool;
}

macro_rules! common {
    ($kind:ty) => {
        impl Common for $kind {
            fn write_tls(&mut self, to: &mut dyn Write) -> std::io::Result<usize> {
                (**self).write_tls(to)
            }
            fn wants_write(&self) -> bool {
                (**self).wants_write()
            }
            fn take(&mut self, from: &mut dyn Read) -> Result<usize, rustls::Error> {
                let n = self.read_tls(from).expect("bytes in memory");
                self.process_new_packets()?;
                Ok(n)
            }
            fn read_plain(&mut self, to: &mut Vec<u8>) -> bool {
                let mut buf = [0; 20_000];
                loop {
                    match self.reader().read(&mut buf) {
                        Ok(0) => return true,
                        Ok(n) => to.extend_from_slice(&buf[..n]),
                        Err(_) => return false,
                    }
                }
            }
        }
    };
}

common!(ClientConnection);
common!(ServerConnection);

impl<C: Common> Other<C> {
    fn new(tls: C, tcp: TcpStream) -> Self {
        Self {
            tls,
            tcp,
            got: Vec::new(),
            closed: false,
        }
    }

    fn advance(&mut self) -> Result<(), rustls::Error> {
        while self.tls.wants_write() && self.tcp.send_space() > 20_000 {
            let mut out = Vec::new();
            self.tls.write_tls(&mut out).expect("memory");
            assert_eq!(self.tcp.send(&out), Ok(out.len()));
        }
        if let Ok(bytes) = self.tcp.recv_chain(usize::MAX) {
            let bytes = bytes.to_vec();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                self.tls.take(&mut rest)?;
                self.closed |= self.tls.read_plain(&mut self.got);
            }
        }
        Ok(())
    }
}

fn with_client(wire: &mut Wire, config: ClientConfig) -> (Other<ClientConnection>, TlsStream) {
    let name = "server.test".try_into().expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut client = Other::new(tls, wire.client.take().expect("a connection"));
    let tcp = wire.server.take().expect("a connection");
    let mut server = TlsHandshake::server(tcp, Arc::new(server_config())).expect("a server");
    until(wire, || {
        client.advance().expect("the client goes on");
        let done = server.advance().expect("the server goes on");
        done && !client.tls.is_handshaking()
    });
    (client, server.finish().expect("keys"))
}

fn with_server(
    wire: &mut Wire,
    config: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (TlsStream, Other<ServerConnection>) {
    let tls = ServerConnection::new(Arc::clone(server)).expect("a server");
    let mut server = Other::new(tls, wire.server.take().expect("a connection"));
    let name = "server.test".try_into().expect("a name");
    let tcp = wire.client.take().expect("a connection");
    let mut client = TlsHandshake::client(tcp, Arc::clone(config), name).expect("a client");
    until(wire, || {
        server.advance().expect("the server goes on");
        let done = client.advance().expect("the client goes on");
        done && !server.tls.is_handshaking()
    });
    (client.finish().expect("keys"), server)
}

#[test]
fn rustls_reads_what_we_send_and_we_read_what_it_sends() {
    // Breaks if the records of the two sides differ in any suite: in sizes, numbers, types.
    for suite in aws_lc_rs::ALL_CIPHER_SUITES {
        if !format!("{suite:?}").contains("RSA") {
            let mut wire = Wire::new();
            let (mut client, server) = with_client(&mut wire, client_config(&[*suite]));
            let down = pattern(3_000_000);
            let (mut sent, mut up) = (0, Vec::new());
            client
                .tls
                .writer()
                .write_all(&pattern(60_000))
                .expect("memory");
            until(&wire, || {
                sent += server.send(&down[sent..]).unwrap_or(0);
                client.advance().expect("records of TLS");
                if let Ok(data) = server.recv_chain(usize::MAX) {
                    up.extend(data.to_vec());
                }
                client.got.len() == down.len() && up.len() == 60_000
            });
            assert!(client.got == down && up == pattern(60_000), "{suite:?}");
        }
    }
}

#[test]
fn handshake_messages_may_come_in_many_records() {
    // Breaks if a side takes the first record of a message for the next one, and so parses it for ever.
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let mut config = client_config(&[]);
        config.max_fragment_size = Some(64);
        let mut wire = Wire::new();
        let (client, stream) = with_client(&mut wire, config);
        drop((client, stream));
        drop(wire);
        let mut config = server_config();
        config.max_fragment_size = Some(64);
        let mut wire = Wire::new();
        let client = Arc::new(client_config(&[]));
        let (stream, server) = with_server(&mut wire, &client, &Arc::new(config));
        drop((stream, server));
        drop(wire);
        done.send(()).expect("the test waits");
    });
    let ended = ended.recv_timeout(Duration::from_secs(120));
    assert_eq!(ended, Ok(()), "neither handshake goes on");
}

#[test]
fn a_message_that_never_ends_is_refused() {
    // Breaks if a client fills this side's memory with small pieces of one message.
    let mut wire = Wire::new();
    let client = wire.client.take().expect("a connection");
    let tcp = wire.server.take().expect("a connection");
    let mut server = TlsHandshake::server(tcp, Arc::new(server_config())).expect("a server");
    // A ClientHello of 65,000 bytes, a byte in each record.
    let hello = [1, 0, 0xfd, 0xe8].into_iter().chain(std::iter::repeat(0));
    let pieces: Vec<u8> = hello
        .take(30_000)
        .flat_map(|byte| [22, 3, 1, 0, 1, byte])
        .collect();
    let (mut sent, mut failed) = (0, None);
    until(&wire, || {
        sent += client.send(&pieces[sent..]).unwrap_or(0);
        failed = server.advance().err();
        failed.is_some()
    });
    let too_large = rustls::InvalidMessage::HandshakePayloadTooLarge;
    let is_it = matches!(
        &failed,
        Some(HandshakeError::Tls(rustls::Error::InvalidMessage(why))) if *why == too_large
    );
    assert!(is_it, "{failed:?}");
}

#[test]
fn keys_change_under_traffic_with_rustls() {
    // Breaks if a KeyUpdate of either side is not followed by the other, or a request is not answered.
    let mut wire = Wire::new();
    let (mut client, server) = with_client(&mut wire, client_config(&[]));
    for n in 1..=6_usize {
        client.tls.refresh_traffic_keys().expect("TLS 1.3");
        client.tls.writer().write_all(b"data").expect("memory");
        server.update_key(true).expect("TLS 1.3");
        server.send(b"data").expect("room");
        let mut up = 0;
        until(&wire, || {
            client.advance().expect("records of TLS");
            up += server.recv_chain(usize::MAX).map_or(0, |data| data.len());
            up == 4 && client.got.len() == 4 * n
        });
    }
    assert!(server.counts().rx_updates >= 6 && server.counts().tx_updates >= 6);
}

#[test]
fn tickets_reach_the_library() {
    // Breaks if a server's tickets behind the handshake are lost: the second handshake is then a full one.
    let (config, server) = (Arc::new(client_config(&[])), Arc::new(server_config()));
    for round in 0..2 {
        let mut wire = Wire::new();
        let (client, mut other) = with_server(&mut wire, &config, &server);
        other.tls.writer().write_all(b"hello").expect("memory");
        let mut got = 0;
        until(&wire, || {
            other.advance().expect("records of TLS");
            got += client.recv_chain(usize::MAX).map_or(0, |data| data.len());
            got == 5
        });
        let kind = other.tls.handshake_kind();
        let resumed = kind == Some(rustls::HandshakeKind::Resumed);
        assert_eq!(resumed, round == 1, "{kind:?}");
    }
}

#[test]
fn close_notify_of_either_side_is_understood() {
    // Breaks if rustls sees our end as a cut, or we see its end as one.
    let mut wire = Wire::new();
    let (mut client, server) = with_client(&mut wire, client_config(&[]));
    server.shutdown(Shutdown::Write);
    until(&wire, || {
        client.advance().expect("records of TLS");
        client.closed
    });
    client.tls.send_close_notify();
    until(&wire, || {
        client.advance().expect("records of TLS");
        server.recv_chain(1).is_ok_and(|end| end.is_empty())
    });
}

#[test]
fn a_reader_needs_no_further_bytes_for_what_has_come() {
    // Breaks if a read looks for bytes in the receive buffer alone: then content of an opened record, a whole record
    // that found no buffer, and an end that was read wait for bytes that never come.
    let mut wire = Wire::new();
    let (mut client, server) = with_client(&mut wire, client_config(&[]));
    let data = pattern(16_000);
    client.tls.writer().write_all(&data).expect("memory");
    client.advance().expect("records of TLS");
    wire.poll();
    let pool = wire.stacks[1].pool();
    let taken = std::iter::from_fn(|| Blank::new(pool, ClusterSize::K16).ok());
    let taken: Vec<_> = taken.collect();
    let no_bufs = TlsError::Socket(SocketError::NoBufs);
    assert_eq!(server.recv_chain(1).map(|_| ()), Err(no_bufs));
    drop(taken);
    let mut got = Vec::new();
    while got.len() < data.len() {
        got.extend(server.recv_chain(5000).expect("content").to_vec());
    }
    assert!(got == data);
    client.tls.send_close_notify();
    client.advance().expect("records of TLS");
    wire.poll();
    for _ in 0..2 {
        assert!(server.recv_chain(1).is_ok_and(|end| end.is_empty()));
    }
}

#[test]
fn a_stream_that_is_cut_off_is_told_from_one_that_ends() {
    // Breaks if a FIN without close_notify passes for the end of the data: an attacker could shorten it. Our direction
    // goes on.
    let mut wire = Wire::new();
    let (mut client, server) = with_client(&mut wire, client_config(&[]));
    client
        .tls
        .writer()
        .write_all(b"the beginning")
        .expect("memory");
    client.advance().expect("records of TLS");
    client.tcp.shutdown(Shutdown::Write);
    assert_eq!(receive(&wire, &server, 13), b"the beginning");
    for _ in 0..2 {
        assert_eq!(server.recv_chain(1).map(|_| ()), Err(TlsError::Truncated));
    }
    server.send(b"answer").expect("room");
    until(&wire, || {
        client.advance().expect("records of TLS");
        client.got == b"answer"
    });
}

#[test]
fn a_record_that_was_changed_ends_both_directions() {
    // Breaks if something behind a record with a wrong tag is delivered, or the peer is not told.
    let mut wire = Wire::new();
    let (mut client, server) = with_client(&mut wire, client_config(&[]));
    client.tls.writer().write_all(b"changed").expect("memory");
    let mut out = Vec::new();
    client.tls.write_tls(&mut out).expect("memory");
    *out.last_mut().expect("a record") ^= 1;
    client.tcp.send(&out).expect("room");
    client.tls.writer().write_all(b"late").expect("memory");
    client.advance().expect("nothing came");
    let bad = TlsError::Protocol(mbuma::tls::TlsAlert::BAD_RECORD_MAC);
    assert_eq!(server.recv_chain(100).map(|_| ()), Err(bad));
    assert_eq!(server.recv_chain(100).map(|_| ()), Err(bad));
    assert!(server.send(b"no more").is_err());
    let mut told = None;
    until(&wire, || {
        told = client.advance().err();
        told.is_some()
    });
    let description = rustls::AlertDescription::BadRecordMac;
    assert_eq!(told, Some(rustls::Error::AlertReceived(description)));
}
