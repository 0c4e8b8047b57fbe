//! Streams that end as they should not.

use mbuf::{Blank, Chain, ClusterSize};
use mbuma::State;
use mbuma::socket::{SpliceEnd, SpliceOptions, splice};
use mbuma::tls::{
    AwsLcAead, AwsLcSuite, DirectionKeys, KeySource, NONCE_LEN, TlsKeys, TlsRole, TlsVersion,
};

use super::*;

#[test]
fn a_reset_is_an_error_of_the_reader() {
    // Breaks if a connection that the peer ended at once looks like the end of its data.
    let mut wire = Wire::new();
    let (client, server) = ours(&mut wire, client_config(&[]), server_config());
    client.send(b"the beginning").expect("room");
    assert_eq!(receive(&wire, &server, 13), b"the beginning");
    client.abort();
    until(
        &wire,
        || !matches!(server.recv_chain(1), Err(e) if e.is_would_block()),
    );
    let ended = server.recv_chain(1).map(|_| ());
    assert_eq!(ended, Err(TlsError::Socket(SocketError::Reset)));
}

#[test]
fn a_peer_that_speaks_no_tls_is_told_so() {
    // Breaks if a handshake waits for more bytes after bytes that are no record, or sends no alert.
    let mut wire = Wire::new();
    let client = wire.client.take().expect("a connection");
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(request).expect("room");
    let tcp = wire.server.take().expect("a connection");
    until(&wire, || tcp.info().recv_queue == request.len());
    let mut server = TlsHandshake::server(tcp, Arc::new(server_config())).expect("a server");
    // One call must do: no event wakes the server again.
    let failed = server.advance().err();
    assert!(matches!(failed, Some(HandshakeError::Tls(_))), "{failed:?}");
    let mut alert = [0; 7];
    until(&wire, || client.recv(&mut alert).is_ok());
    assert_eq!((alert[0], alert[5]), (21, 2));
}

#[test]
fn a_client_that_trusts_another_certificate_ends_with_an_alert() {
    // Breaks if a server does not learn why a handshake failed.
    let mut wire = Wire::new();
    let roots = rustls::RootCertStore::empty();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder
        .with_safe_default_protocol_versions()
        .expect("both versions");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.enable_secret_extraction = true;
    let name = "server.test".try_into().expect("a name");
    let tcp = wire.client.take().expect("a connection");
    let mut client = TlsHandshake::client(tcp, Arc::new(config), name).expect("a client");
    let tcp = wire.server.take().expect("a connection");
    let mut server = TlsHandshake::server(tcp, Arc::new(server_config())).expect("a server");
    let (mut a, mut b) = (None, None);
    until(&wire, || {
        a = a.take().or_else(|| client.advance().err());
        b = b.take().or_else(|| server.advance().err());
        a.is_some() && b.is_some()
    });
    assert!(matches!(a, Some(HandshakeError::Tls(_))), "{a:?}");
    let alert = matches!(
        b,
        Some(HandshakeError::Tls(rustls::Error::AlertReceived(_)))
    );
    assert!(alert, "{b:?}");
}

#[test]
fn a_client_without_a_protocol_of_the_servers_is_told_so() {
    // RFC 7301 3.2: breaks if a server that fails sends one record of several, and not the alert, which is the last.
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut wire = Wire::new();
        let suites: Vec<_> = aws_lc_rs::ALL_CIPHER_SUITES.to_vec();
        let suites = suites.into_iter().filter(|s| s.version() == version);
        let mut config = client_config(&suites.collect::<Vec<_>>());
        config.alpn_protocols = vec![b"its own".to_vec()];
        let name = "server.test".try_into().expect("a name");
        let tcp = wire.client.take().expect("a connection");
        let mut client = TlsHandshake::client(tcp, Arc::new(config), name).expect("a client");
        let mut config = server_config();
        config.alpn_protocols = vec![b"another".to_vec()];
        let tcp = wire.server.take().expect("a connection");
        let mut server = TlsHandshake::server(tcp, Arc::new(config)).expect("a server");
        let (mut a, mut b) = (None, None);
        until(&wire, || {
            a = a.take().or_else(|| client.advance().err());
            b = b.take().or_else(|| server.advance().err());
            a.is_some() && b.is_some()
        });
        let told = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
        assert!(
            matches!(&a, Some(HandshakeError::Tls(e)) if *e == told),
            "{a:?}"
        );
    }
}

#[test]
fn a_dropped_stream_delivers_its_data_and_says_its_end() {
    // Breaks if a drop cuts off what is in the send buffer, or leaves close_notify out.
    let mut wire = Wire::new();
    let (client, server) = ours(&mut wire, client_config(&[]), server_config());
    let data = pattern(300_000);
    assert_eq!(server.send(&data), Ok(data.len()));
    drop(server);
    assert!(receive(&wire, &client, data.len()) == data);
    until(&wire, || {
        client.recv_chain(1).is_ok_and(|end| end.is_empty())
    });
}

#[test]
fn a_record_that_waits_for_a_buffer_is_not_the_end() {
    // Breaks if a reader takes the bytes behind a whole record, or the peer's end, for a stream that was cut off,
    // because the record found no buffer at first.
    for more in [true, false] {
        let mut wire = Wire::new();
        let (client, server) = ours(&mut wire, client_config(&[]), server_config());
        let data = pattern(16_000);
        client.send(&data).expect("room");
        if more {
            client.send(&data).expect("room");
        }
        client.shutdown(Shutdown::Write);
        wire.poll();
        let pool = wire.stacks[1].pool();
        let taken = std::iter::from_fn(|| Blank::new(pool, ClusterSize::K16).ok());
        let taken: Vec<_> = taken.collect();
        let no_bufs = TlsError::Socket(SocketError::NoBufs);
        for _ in 0..2 {
            assert_eq!(server.recv_chain(1).map(|_| ()), Err(no_bufs));
        }
        drop(taken);
        let len = data.len() * (1 + usize::from(more));
        assert_eq!(receive(&wire, &server, len).len(), len);
        assert!(server.recv_chain(1).is_ok_and(|end| end.is_empty()));
    }
}

#[test]
fn a_side_that_reads_no_more_sees_the_end() {
    // Breaks if `shutdown(Read)` is reported as a truncated stream, although the peer has truncated nothing.
    let mut wire = Wire::new();
    let (client, server) = ours(&mut wire, client_config(&[]), server_config());
    client.shutdown(Shutdown::Read);
    server.send(b"late").expect("room");
    wire.poll();
    for _ in 0..2 {
        assert!(client.recv_chain(1).is_ok_and(|end| end.is_empty()));
    }
    client.send(b"the other direction is open").expect("room");
    assert_eq!(receive(&wire, &server, 27).len(), 27);
}

#[test]
fn a_stream_that_was_not_read_is_reset() {
    // RFC 2525 2.17: breaks if a peer takes content for read that nothing read.
    let mut wire = Wire::new();
    let (client, server) = ours(&mut wire, client_config(&[]), server_config());
    client.send(b"x").expect("room");
    wire.poll();
    drop(server);
    let reset = Some(SocketError::Reset);
    until(&wire, || client.error() == reset);
}

#[test]
fn a_stream_that_ends_amid_a_record_is_reset() {
    // As above, for a part of a record.
    let mut wire = Wire::new();
    let tcp = wire.server.take().expect("a connection");
    let server = TlsStream::new(
        tcp,
        keys(TlsRole::Server, &Arc::default()),
        Default::default(),
    );
    let client = wire.client.take().expect("a connection");
    client.send(&[23, 3, 3, 0x40, 0, 1]).expect("room");
    wire.poll();
    drop(server);
    until(&wire, || client.error() == Some(SocketError::Reset));
}

#[test]
fn what_found_buffers_is_sent_though_the_rest_did_not() {
    // Breaks if a write that is half done is reported as not done: the program would send the first part again.
    let mut wire = Wire::new();
    let (client, server) = ours(&mut wire, client_config(&[]), server_config());
    let data = pattern(32_000);
    let pool = wire.stacks[0].pool();
    let taken = std::iter::from_fn(|| Chain::from_slice(pool, &data[..16_000]).ok());
    let mut taken: Vec<_> = taken.collect();
    drop(taken.pop());
    let sent = client.send(&data).expect("buffers for a part");
    assert!((1..data.len()).contains(&sent), "{sent}");
    drop(taken);
    assert_eq!(client.send(&data[sent..]), Ok(data.len() - sent));
    assert!(receive(&wire, &server, data.len()) == data);
}

/// Has no next keys. The count tells whether it is there.
struct Counted(#[expect(dead_code, reason = "its count is looked at")] Arc<()>);

impl KeySource for Counted {
    fn next_tx(&mut self) -> Result<DirectionKeys, TlsError> {
        Err(TlsError::Keys)
    }

    fn next_rx(&mut self) -> Result<DirectionKeys, TlsError> {
        Err(TlsError::Keys)
    }
}

/// Keys of one side; both sides have the same ones.
fn keys(role: TlsRole, count: &Arc<()>) -> TlsKeys {
    let key = |byte| {
        let aead = AwsLcAead::new(AwsLcSuite::Aes128Gcm, &[byte; 16]).expect("16 bytes");
        DirectionKeys::new(Box::new(aead), [byte; NONCE_LEN], 0)
    };
    let (tx, rx) = match role {
        TlsRole::Client => (1, 2),
        TlsRole::Server => (2, 1),
    };
    TlsKeys {
        version: TlsVersion::Tls13,
        role,
        tx: key(tx),
        rx: key(rx),
        source: Box::new(Counted(Arc::clone(count))),
    }
}

#[test]
fn the_keys_go_when_the_connection_is_done() {
    // Breaks if the keys of a connection stay in memory through TIME-WAIT, whichever comes first: TIME-WAIT or the
    // drop.
    for drop_first in [true, false] {
        let mut wire = Wire::new();
        let count = Arc::new(());
        let tcp = wire.client.take().expect("a connection");
        let client = TlsStream::new(tcp, keys(TlsRole::Client, &count), Default::default());
        let tcp = wire.server.take().expect("a connection");
        // A splice of the plain connection would send records back as content.
        let echo = splice(&tcp, &tcp, SpliceOptions::default()).expect("it is free");
        let server = TlsStream::new(tcp, keys(TlsRole::Server, &count), Default::default());
        assert_eq!(echo.outcome().map(|o| o.end), Some(SpliceEnd::Stopped));
        assert_eq!(Arc::strong_count(&count), 3);
        client.shutdown(Shutdown::Write);
        let mut client = Some(client);
        if drop_first {
            client = None;
        }
        until(&wire, || {
            server.recv_chain(1).is_ok_and(|end| end.is_empty())
        });
        drop(server);
        if let Some(client) = &client {
            until(&wire, || client.state() == State::TimeWait);
        }
        drop(client);
        until(&wire, || Arc::strong_count(&count) == 1);
    }
}
