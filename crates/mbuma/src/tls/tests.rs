//! The record layer with an AEAD that encrypts nothing, so that a test can read each byte.

mod others_bugs;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use mbuf::{Chain, Live, MbufPool, OwnedPages, Pages, PoolConfig};
use proptest::prelude::*;

use super::*;
use crate::sockbuf::{SealError, Sealer, StreamBuf};

/// Which nonces were used to seal, by key.
type Nonces = Arc<Mutex<HashSet<(u8, [u8; NONCE_LEN])>>>;

/// Adds a tag that depends on key, nonce and associated data, and leaves the text as it is.
struct PlainAead {
    key: u8,
    records_max: u64,
    nonces: Nonces,
}

impl PlainAead {
    fn tag(&self, nonce: [u8; NONCE_LEN], aad: &[u8], text: &[u8]) -> [u8; TAG_LEN] {
        let mut tag = [self.key; TAG_LEN];
        let all = nonce.iter().chain(aad).chain(text);
        for (at, byte) in all.enumerate() {
            tag[at % TAG_LEN] = tag[at % TAG_LEN].wrapping_mul(31).wrapping_add(*byte);
        }
        tag
    }
}

impl Aead for PlainAead {
    fn records_max(&self) -> u64 {
        self.records_max
    }

    fn explicit_nonce_len(&self) -> usize {
        8
    }

    fn seal_in_place(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AeadFailed> {
        let is_new = self.nonces.lock().unwrap().insert((self.key, nonce));
        assert!(is_new, "a nonce is used twice");
        Ok(self.tag(nonce, aad, text))
    }

    fn open_in_place(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8],
    ) -> Result<(), AeadFailed> {
        let is_it = self.tag(nonce, aad, text) == tag;
        is_it.then_some(()).ok_or(AeadFailed)
    }
}

/// Keys by their number; both sides have the same ones.
struct Numbered {
    tx: u8,
    rx: u8,
    records_max: u64,
    nonces: Nonces,
    tickets: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Numbered {
    fn keys(&self, key: u8) -> DirectionKeys {
        let aead = PlainAead {
            key,
            records_max: self.records_max,
            nonces: Arc::clone(&self.nonces),
        };
        DirectionKeys::new(Box::new(aead), [key; NONCE_LEN], 0)
    }
}

impl KeySource for Numbered {
    fn next_tx(&mut self) -> Result<DirectionKeys, TlsError> {
        self.tx += 1;
        Ok(self.keys(self.tx))
    }

    fn next_rx(&mut self) -> Result<DirectionKeys, TlsError> {
        self.rx += 1;
        Ok(self.keys(self.rx))
    }

    fn on_ticket(&mut self, body: &[u8]) {
        self.tickets.lock().unwrap().push(body.to_vec());
    }
}

/// No next keys.
#[cfg(feature = "tls")]
pub(super) struct NoKeys;

#[cfg(feature = "tls")]
impl KeySource for NoKeys {
    fn next_tx(&mut self) -> Result<DirectionKeys, TlsError> {
        Err(TlsError::Keys)
    }

    fn next_rx(&mut self) -> Result<DirectionKeys, TlsError> {
        Err(TlsError::Keys)
    }
}

/// A session, its send buffer, and what it has received.
struct Side {
    session: TlsSession,
    buf: StreamBuf,
    got: Vec<u8>,
    error: Option<TlsError>,
    tickets: Arc<Mutex<Vec<Vec<u8>>>>,
}

struct World {
    pool: MbufPool,
    client: Side,
    server: Side,
}

impl World {
    fn new(version: TlsVersion, records_max: u64) -> Self {
        let nonces = Nonces::default();
        let side = |role, tx, rx| {
            let tickets = Arc::default();
            let source = Numbered {
                tx,
                rx,
                records_max,
                nonces: Arc::clone(&nonces),
                tickets: Arc::clone(&tickets),
            };
            let keys = TlsKeys {
                version,
                role,
                tx: source.keys(tx),
                rx: source.keys(rx),
                source: Box::new(source),
            };
            Side {
                session: TlsSession::new(keys),
                buf: StreamBuf::new(1 << 20),
                got: Vec::new(),
                error: None,
                tickets,
            }
        };
        Self {
            pool: MbufPool::new(PoolConfig::default()).unwrap(),
            client: side(TlsRole::Client, 10, 100),
            server: side(TlsRole::Server, 100, 10),
        }
    }

    fn v13() -> Self {
        Self::new(TlsVersion::Tls13, 1 << 24)
    }
}

impl Side {
    fn send(&mut self, pool: &MbufPool, bytes: &[u8]) {
        let plain = Chain::from_slice(pool, bytes).unwrap();
        let record = self.session.frame_data(plain.into()).unwrap();
        self.flush_outbox();
        self.buf.append_record(record);
    }

    fn flush_outbox(&mut self) {
        for record in self.session.take_outbox() {
            self.buf.append_record(record);
        }
    }

    /// All that it would send.
    fn wire(&mut self, pool: &MbufPool) -> Vec<u8> {
        self.flush_outbox();
        let len = self.buf.ready();
        self.buf
            .map_ready(pool, len, Some(&mut self.session))
            .unwrap();
        assert!(self.buf.is_valid());
        let mut out = vec![0; len];
        assert!(self.buf.copy_to(0, &mut out));
        self.buf.trim_front(len);
        out
    }

    fn take(&mut self, pool: &MbufPool, wire: &[u8]) {
        let mut rest = wire;
        while let (Some(head), None) = (rest.first_chunk::<HEADER_LEN>(), self.error) {
            let taken = self.session.header(*head).and_then(|header| {
                let end = HEADER_LEN + header.len();
                let Some(body) = rest.get(HEADER_LEN..end) else {
                    rest = &[];
                    return Ok(());
                };
                rest = &rest[end..];
                let body = Chain::from_slice(pool, body).unwrap();
                let data = self.session.receive(pool, header, &body)?;
                self.got.extend(data.to_vec());
                Ok(())
            });
            self.error = taken.err();
        }
    }
}

/// Makes records that no sender of ours would.
#[derive(Clone, Copy)]
struct Forge {
    version: TlsVersion,
    key: u8,
    seq: u64,
}

impl Forge {
    /// The client's, before anything was sent.
    fn client(version: TlsVersion) -> Self {
        let (key, seq) = (10, 0);
        Self { version, key, seq }
    }

    fn server() -> Self {
        let (version, key, seq) = (TlsVersion::Tls13, 100, 0);
        Self { version, key, seq }
    }

    /// Any content under any type.
    fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        match self.version {
            TlsVersion::Tls13 => self.inner(&[content, &[kind]].concat()),
            TlsVersion::Tls12 => {
                let mut aad = self.seq.to_be_bytes().to_vec();
                aad.extend([kind, 3, 3]);
                aad.extend((content.len() as u16).to_be_bytes());
                let explicit = [0x55; 8];
                let mut nonce = [self.key; NONCE_LEN];
                nonce[4..].copy_from_slice(&explicit);
                let body = [&explicit[..], content, &self.tag(nonce, &aad, content)].concat();
                self.framed(kind, &body)
            }
        }
    }

    /// A record of TLS 1.3 whose encrypted text, the type included, is `inner`.
    fn inner(&mut self, inner: &[u8]) -> Vec<u8> {
        let mut aad = vec![23, 3, 3];
        aad.extend(((inner.len() + TAG_LEN) as u16).to_be_bytes());
        let mut nonce = [self.key; NONCE_LEN];
        for (to, byte) in nonce[4..].iter_mut().zip(self.seq.to_be_bytes()) {
            *to ^= byte;
        }
        let tag = self.tag(nonce, &aad, inner);
        self.framed(23, &[inner, &tag].concat())
    }

    fn tag(&self, nonce: [u8; NONCE_LEN], aad: &[u8], text: &[u8]) -> [u8; TAG_LEN] {
        let aead = PlainAead {
            key: self.key,
            records_max: 0,
            nonces: Nonces::default(),
        };
        aead.tag(nonce, aad, text)
    }

    fn framed(&mut self, kind: u8, body: &[u8]) -> Vec<u8> {
        self.seq += 1;
        let len = (body.len() as u16).to_be_bytes();
        [&[kind, 3, 3][..], &len, body].concat()
    }
}

fn pass(world: &mut World) {
    for _ in 0..4 {
        let wire = world.client.wire(&world.pool);
        world.server.take(&world.pool, &wire);
        let wire = world.server.wire(&world.pool);
        world.client.take(&world.pool, &wire);
    }
}

#[test]
fn data_goes_both_ways_and_close_notify_ends_it() {
    // Breaks if a direction uses the other's key, or the end is no end.
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let mut world = World::new(version, 1 << 24);
        world.client.send(&world.pool, b"request");
        world.server.send(&world.pool, b"response");
        pass(&mut world);
        world.server.session.close();
        let end = world.server.wire(&world.pool);
        let inner_type = usize::from(version == TlsVersion::Tls13);
        let at = end.len() - TAG_LEN - inner_type - 2;
        assert_eq!(end[at..at + 2], [1, 0], "a warning");
        world.client.take(&world.pool, &end);
        pass(&mut world);
        assert_eq!(world.server.got, b"request");
        assert_eq!(world.client.got, b"response");
        assert_eq!(world.client.session.end(), Some(StreamEnd::Clean));
        assert!(world.server.session.may_frame().is_err());
        world
            .client
            .send(&world.pool, b"the other direction is open");
        pass(&mut world);
        assert_eq!(world.server.got.len(), 7 + 27);
    }
}

#[test]
fn a_full_record_is_one_cluster() {
    // Breaks if a full record takes more than one mbuf, or its length is not what was said when it was framed.
    let mut world = World::v13();
    let full = world.client.session.content_max();
    assert_eq!(full, 16_384 - 22);
    let content = vec![7; full];
    let plain = Chain::from_slice(&world.pool, &content).unwrap();
    let record = world.client.session.frame_data(plain.into()).unwrap();
    let sealed = world.client.session.seal(&world.pool, &record).unwrap();
    assert_eq!((sealed.mbufs(), sealed.len()), (1, record.wire_len));
    assert_eq!(sealed.len(), 16_384);
    assert_eq!(world.client.session.content_for(2 * 16_384), 2 * full);
    assert_eq!(world.client.session.content_for(16_384 + 22), full);
    assert_eq!(world.client.session.content_for(16_384 + 23), full + 1);
}

#[test]
fn sealing_never_writes_to_its_source() {
    // Breaks if pages that others see are encrypted in place (SA-26:26 of FreeBSD, #1217 of Tempesta).
    let mut world = World::v13();
    let content: Vec<u8> = (0..12_000).map(|n| (n % 251) as u8).collect();
    let mut owned = OwnedPages::new(&world.pool, 3).unwrap();
    owned.write_at(0, &content).unwrap();
    let pages = Pages::from(owned);
    let plain = Chain::from_pages(&world.pool, &pages, 5, 11_000).unwrap();
    let record = world.client.session.frame_data(plain).unwrap();
    world.client.buf.append_record(record);
    let wire = world.client.wire(&world.pool);
    world.server.take(&world.pool, &wire);
    assert_eq!(world.server.got, content[5..11_005]);
    let mut after = vec![0; 12_000];
    pages.source().read(0, 0, &mut after).unwrap();
    assert_eq!(after, content);
}

#[test]
fn opening_never_writes_to_received_bytes() {
    // Breaks if a record is decrypted where it lies, which may be the sender's own cluster.
    let mut world = World::v13();
    let wire = Forge::client(TlsVersion::Tls13).record(23, &[9; 3000]);
    let head = *wire.first_chunk::<HEADER_LEN>().unwrap();
    let mut body = Chain::from_slice(&world.pool, &wire[HEADER_LEN..]).unwrap();
    let shared = body.share_all().unwrap();
    let header = world.server.session.header(head).unwrap();
    let data = world
        .server
        .session
        .receive(&world.pool, header, &body)
        .unwrap();
    assert_eq!(data.to_vec(), [9; 3000]);
    assert_eq!(shared.to_vec(), wire[HEADER_LEN..]);
}

#[test]
fn keys_change_in_the_order_of_the_stream() {
    // Breaks if what was framed before a KeyUpdate is sealed under the next key, or what was framed behind it is not.
    let mut world = World::v13();
    for n in 0..5_u8 {
        world.client.send(&world.pool, &[n; 100]);
        world.client.session.update_key(n == 2).unwrap();
        world.client.flush_outbox();
        world.client.send(&world.pool, &[n; 50]);
        pass(&mut world);
    }
    assert_eq!(world.server.error, None);
    assert_eq!(world.server.got.len(), 5 * 150);
    assert_eq!(world.client.session.counts().tx_updates, 5);
    // One of them asked for the server's.
    assert_eq!(world.server.session.counts().tx_updates, 1);
    assert_eq!(world.client.session.counts().rx_updates, 1);
    world.server.send(&world.pool, b"answer");
    pass(&mut world);
    assert_eq!(world.client.got, b"answer");
}

#[test]
fn many_requests_for_a_key_are_answered_once() {
    // Breaks if a peer that reads nothing can fill the send buffer with answers.
    let mut world = World::v13();
    for _ in 0..20 {
        world.client.session.update_key(true).unwrap();
        let wire = world.client.wire(&world.pool);
        world.server.take(&world.pool, &wire);
        world.server.flush_outbox();
    }
    assert_eq!(world.server.error, None);
    assert_eq!(world.server.buf.claimed(), 5 + 5 + 1 + 16);
}

#[test]
fn a_key_is_changed_before_it_is_worn_out() {
    // Breaks if more records are sealed under a key than it may seal. TLS 1.2 can't change it, and says so.
    let mut world = World::new(TlsVersion::Tls13, 10);
    for _ in 0..20 {
        world.client.send(&world.pool, b"x");
        world.client.send(&world.pool, b"y");
        pass(&mut world);
    }
    assert_eq!(world.server.error, None);
    assert_eq!(world.server.got.len(), 40);
    assert!(world.client.session.counts().tx_updates >= 1);

    let mut old = World::new(TlsVersion::Tls12, 10);
    for _ in 0..10 {
        old.client.send(&old.pool, b"x");
    }
    assert_eq!(old.client.session.may_frame(), Err(TlsError::KeyWornOut));
}

#[test]
fn a_wrong_record_ends_the_stream_with_its_alert() {
    // Breaks if a record that RFC 8446 5 and 6 forbid is delivered or skipped, or a later record is delivered.
    type Case = (&'static str, TlsAlert, fn(&mut Forge) -> Vec<u8>);
    let cases: [Case; 19] = [
        ("tag", TlsAlert::BAD_RECORD_MAC, |forge| {
            let mut wire = forge.record(23, b"data");
            *wire.last_mut().unwrap() ^= 1;
            wire
        }),
        ("text", TlsAlert::BAD_RECORD_MAC, |forge| {
            let mut wire = forge.record(23, b"data");
            wire[6] ^= 1;
            wire
        }),
        ("shorter than a tag", TlsAlert::BAD_RECORD_MAC, |_| {
            [&[23, 3, 3, 0, 15][..], &[0; 15]].concat()
        }),
        ("nothing but a tag", TlsAlert::BAD_RECORD_MAC, |_| {
            [&[23, 3, 3, 0, 16][..], &[0; 16]].concat()
        }),
        ("major version", TlsAlert::PROTOCOL_VERSION, |_| {
            vec![23, 2, 3, 0, 20]
        }),
        ("minor version", TlsAlert::PROTOCOL_VERSION, |_| {
            vec![23, 3, 1, 0, 20]
        }),
        ("outer type", TlsAlert::UNEXPECTED_MESSAGE, |_| {
            vec![22, 3, 3, 0, 20]
        }),
        ("no type at all", TlsAlert::UNEXPECTED_MESSAGE, |_| {
            vec![99, 3, 3, 0, 20]
        }),
        ("too long", TlsAlert::RECORD_OVERFLOW, |_| {
            vec![23, 3, 3, 0x41, 1]
        }),
        ("all padding", TlsAlert::UNEXPECTED_MESSAGE, |forge| {
            // The content is zeros and so is the type.
            forge.inner(&[0; 40])
        }),
        (
            "change_cipher_spec",
            TlsAlert::UNEXPECTED_MESSAGE,
            |forge| forge.record(20, &[1]),
        ),
        ("content too long", TlsAlert::RECORD_OVERFLOW, |forge| {
            forge.record(23, &[1; 16_385])
        }),
        ("unknown type", TlsAlert::UNEXPECTED_MESSAGE, |forge| {
            forge.record(24, b"heartbeat")
        }),
        ("empty handshake", TlsAlert::UNEXPECTED_MESSAGE, |forge| {
            forge.record(22, b"")
        }),
        ("alert of one byte", TlsAlert::DECODE_ERROR, |forge| {
            forge.record(21, &[2])
        }),
        (
            "ticket to a server",
            TlsAlert::UNEXPECTED_MESSAGE,
            |forge| forge.record(22, &[4, 0, 0, 0]),
        ),
        ("key update of 2", TlsAlert::ILLEGAL_PARAMETER, |forge| {
            forge.record(22, &[24, 0, 0, 1, 2])
        }),
        (
            "key update and more",
            TlsAlert::UNEXPECTED_MESSAGE,
            |forge| forge.record(22, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0]),
        ),
        (
            "data inside of a message",
            TlsAlert::UNEXPECTED_MESSAGE,
            |forge| {
                let begun = forge.record(22, &[24, 0]);
                [begun, forge.record(23, b"data")].concat()
            },
        ),
    ];
    for (name, alert, make) in cases {
        let mut world = World::v13();
        let mut forge = Forge::client(TlsVersion::Tls13);
        let wire = make(&mut forge);
        let late = forge.record(23, b"late");
        world.server.take(&world.pool, &[wire, late].concat());
        assert_eq!(
            world.server.error,
            Some(TlsError::Protocol(alert)),
            "{name}"
        );
        assert!(world.server.got.is_empty(), "{name}");
        let said = world.server.wire(&world.pool);
        world.client.take(&world.pool, &said);
        assert_eq!(
            world.client.error,
            Some(TlsError::PeerAlert(alert)),
            "{name}"
        );
        assert!(world.server.session.may_frame().is_err(), "{name}");
    }
}

#[test]
fn nothing_comes_inside_of_a_message() {
    // RFC 8446 5.1: breaks if an empty record, or an alert, between two parts of a message is taken.
    for (kind, content) in [(23, &b""[..]), (21, &[1, 90])] {
        let mut world = World::v13();
        let mut forge = Forge::client(TlsVersion::Tls13);
        let begun = forge.record(22, &[24, 0]);
        let between = forge.record(kind, content);
        let wire = [begun, between, forge.record(22, &[0, 1, 0])].concat();
        world.server.take(&world.pool, &wire);
        let bad = TlsError::Protocol(TlsAlert::UNEXPECTED_MESSAGE);
        assert_eq!(world.server.error, Some(bad), "type {kind}");
    }
}

#[test]
fn only_tls_1_2_has_errors_that_are_warnings() {
    // RFC 5246 7.2.2, RFC 8446 6: breaks if a warning ends a connection of TLS 1.2, or an error of TLS 1.3 does not
    // because it says that it is a warning.
    for (version, error) in [
        (TlsVersion::Tls12, None),
        (TlsVersion::Tls13, Some(TlsError::PeerAlert(TlsAlert(40)))),
    ] {
        let mut world = World::new(version, 1 << 24);
        let alert = Forge::client(version).record(21, &[1, 40]);
        world.server.take(&world.pool, &alert);
        assert_eq!(world.server.error, error);
    }
}

#[test]
fn a_side_that_has_said_its_end_is_asked_for_a_key_and_goes_on() {
    // Breaks if a request for a new key ends the receiving direction of a side that may answer nothing any more.
    let mut world = World::v13();
    world.server.session.close();
    world.client.session.update_key(true).unwrap();
    world.client.send(&world.pool, b"more");
    pass(&mut world);
    assert_eq!(world.server.error, None);
    assert_eq!(world.server.got, b"more");
    assert_eq!(world.client.session.end(), Some(StreamEnd::Clean));
}

#[test]
fn padding_is_taken_off() {
    // Breaks if the type is searched for from the wrong end or off by one: lengths 0 and 1 of content, and padding.
    let mut world = World::v13();
    let mut forge = Forge::client(TlsVersion::Tls13);
    // As long as a record may be, nearly all of it padding.
    let long = [b"ab\x17".to_vec(), vec![0; (1 << 14) - 2]].concat();
    for (inner, content) in [
        (&b"ab\x17"[..], &b"ab"[..]),
        (&long, b"ab"),
        (b"ab\x17\0\0\0", b"ab"),
        (b"\0\x17\0", b"\0"),
        (b"\x17", b""),
        (b"\x17\0", b""),
    ] {
        let wire = forge.inner(inner);
        world.server.take(&world.pool, &wire);
        assert_eq!(world.server.error, None);
        assert_eq!(std::mem::take(&mut world.server.got), content);
    }
}

#[test]
fn records_without_data_are_bounded() {
    // Breaks if a peer can keep this side busy with records that carry nothing.
    let mut world = World::v13();
    let mut forge = Forge::client(TlsVersion::Tls13);
    for _ in 0..32 {
        world.server.take(&world.pool, &forge.record(23, b""));
    }
    assert_eq!(world.server.error, None);
    world.server.take(&world.pool, &forge.record(23, b"data"));
    for _ in 0..32 {
        world.server.take(&world.pool, &forge.record(21, &[1, 90]));
    }
    assert_eq!(world.server.error, None);
    world.server.take(&world.pool, &forge.record(23, b""));
    assert!(world.server.error.is_some());
}

#[test]
fn a_handshake_message_may_be_cut_and_tickets_may_follow_each_other() {
    // Breaks if a ticket in three records is lost, or the second of two in one record is.
    let mut world = World::v13();
    let ticket = [&[4, 0, 0, 6][..], b"ticket"].concat();
    let mut forge = Forge::server();
    for part in [&ticket[..3], &ticket[3..7], &ticket[7..]] {
        world.client.take(&world.pool, &forge.record(22, part));
    }
    let two = [ticket.clone(), ticket].concat();
    world.client.take(&world.pool, &forge.record(22, &two));
    assert_eq!(world.client.error, None);
    assert_eq!(
        *world.client.tickets.lock().unwrap(),
        vec![b"ticket".to_vec(); 3]
    );
}

#[test]
fn a_second_handshake_of_tls_1_2_is_refused_by_a_warning() {
    // Breaks if a ClientHello to a server, or a HelloRequest to a client, inside of a connection ends it, or is not
    // answered.
    let to_server = Forge::client(TlsVersion::Tls12);
    let to_client = Forge {
        key: 100,
        ..to_server
    };
    let mut world = World::new(TlsVersion::Tls12, 1 << 24);
    for (side, mut forge, request) in [
        (&mut world.server, to_server, &[1, 0, 0, 1, 7][..]),
        (&mut world.client, to_client, &[0, 0, 0, 0]),
    ] {
        side.take(&world.pool, &forge.record(22, request));
        side.take(&world.pool, &forge.record(23, b"data"));
        assert_eq!(side.error, None);
        assert_eq!(side.got, b"data");
        let said = side.wire(&world.pool);
        assert_eq!((said[0], &said[13..15]), (21, &[1, 100][..]));
    }
}

#[test]
fn further_handshakes_of_tls_1_2_are_no_stream_of_warnings() {
    // Breaks if a peer that reads nothing fills the send buffer with refusals: a record has room for 4,096 requests,
    // and data between the records makes them count as no idle ones.
    let mut world = World::new(TlsVersion::Tls12, 1 << 24);
    let mut forge = Forge::client(TlsVersion::Tls12);
    let requests = [1, 0, 0, 0].repeat(4096);
    for _ in 0..3 {
        world.server.take(&world.pool, &forge.record(23, b"data"));
        world.server.take(&world.pool, &forge.record(22, &requests));
    }
    // The refusal, and the reason of the end.
    assert_eq!(world.server.session.take_outbox().len(), 2);
    let bad = TlsError::Protocol(TlsAlert::UNEXPECTED_MESSAGE);
    assert_eq!(world.server.error, Some(bad));
}

#[test]
fn a_message_that_is_not_taken_is_refused_at_its_head() {
    // Breaks if a client can make a server keep 64 KiB a connection, beside its receive buffer, for a message that is
    // refused later.
    use TlsVersion::{Tls12, Tls13};
    let cases = [
        (Tls13, 1, TlsAlert::UNEXPECTED_MESSAGE),
        (Tls13, 4, TlsAlert::UNEXPECTED_MESSAGE),
        (Tls13, 24, TlsAlert::DECODE_ERROR),
        (Tls12, 1, TlsAlert::DECODE_ERROR),
        (Tls12, 11, TlsAlert::UNEXPECTED_MESSAGE),
    ];
    for (version, kind, alert) in cases {
        let mut world = World::new(version, 1 << 24);
        let head = Forge::client(version).record(22, &[kind, 0, 0xff, 0xff]);
        world.server.take(&world.pool, &head);
        let refused = Some(TlsError::Protocol(alert));
        assert_eq!(world.server.error, refused, "{version:?}, {kind}");
    }
}

#[test]
fn records_under_the_old_key_fail_behind_a_key_update() {
    // Breaks if the key to open with does not change at once.
    let mut world = World::v13();
    let mut forge = Forge::client(TlsVersion::Tls13);
    world
        .server
        .take(&world.pool, &forge.record(22, &[24, 0, 0, 1, 0]));
    assert_eq!(world.server.error, None);
    world.server.take(&world.pool, &forge.record(23, b"old"));
    let bad = TlsError::Protocol(TlsAlert::BAD_RECORD_MAC);
    assert_eq!(world.server.error, Some(bad));
}

#[test]
fn a_record_for_which_there_is_no_buffer_is_sealed_later() {
    // Breaks if a failed attempt uses a number up, or seals.
    let world = World::v13();
    let mut client = world.client;
    let tiny = PoolConfig {
        mbufs_max: 1,
        ..PoolConfig::default()
    };
    let none = MbufPool::new(tiny).unwrap();
    let _taken: Vec<_> = std::iter::from_fn(|| Chain::from_slice(&none, &[0; 4000]).ok()).collect();
    client.send(&world.pool, &[1; 5000]);
    let failed = client.buf.map_ready(&none, 1, Some(&mut client.session));
    assert!(matches!(failed, Err(SealError::NoBufs)), "{failed:?}");
    assert_eq!(client.session.counts().sealed, 0);
    assert!(client.buf.is_valid());
    let wire = client.wire(&world.pool);
    let mut server = world.server;
    server.take(&world.pool, &wire);
    assert_eq!(server.got, [1; 5000]);
}

#[test]
fn answers_to_the_peer_wait_for_no_buffer() {
    // Breaks if a request for a new key, or for another handshake, ends the connection because the record that brought
    // it has taken the last buffer: the peer would see a FIN for no reason, and a splice would wait for buffers for
    // ever.
    let asks = [
        (TlsVersion::Tls13, [24, 0, 0, 1, 1].as_slice()),
        (TlsVersion::Tls12, &[1, 0, 0, 0]),
    ];
    for (version, ask) in asks {
        let mut world = World::new(version, 1 << 24);
        let tiny = MbufPool::new(PoolConfig {
            mbufs_max: 1,
            ..PoolConfig::default()
        });
        let tiny = tiny.unwrap();
        let all = std::iter::from_fn(|| Chain::from_slice(&tiny, &[0]).ok());
        let mut all: Vec<_> = all.collect();
        drop(all.pop());
        let wire = Forge::client(version).record(22, ask);
        let (head, body) = wire.split_first_chunk::<HEADER_LEN>().unwrap();
        let body = Chain::from_slice(&world.pool, body).unwrap();
        let server = &mut world.server.session;
        let header = server.header(*head).unwrap();
        let received = server.receive(&tiny, header, &body).map(|data| data.len());
        assert_eq!((received, server.end()), (Ok(0), None));
        let answer = world.server.wire(&world.pool);
        assert!(!answer.is_empty());
        world.client.take(&world.pool, &answer);
        assert_eq!(world.client.error, None);
        world.server.send(&world.pool, b"goes on");
        pass(&mut world);
        assert_eq!(world.client.got, b"goes on");
    }
}

proptest! {
    #[test]
    fn no_wire_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..600), is_13 in any::<bool>()) {
        // Breaks if a length or a type from the wire reaches an index.
        let version = if is_13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let mut world = World::new(version, 1 << 24);
        world.server.take(&world.pool, &bytes);
        for kind in 18..=25 {
            let mut world = World::new(version, 1 << 24);
            let mut forge = Forge::client(version);
            let (one, two) = bytes.split_at(bytes.len() / 2);
            let wire = [forge.record(kind, one), forge.record(kind, two)].concat();
            world.server.take(&world.pool, &wire);
            let said = world.server.wire(&world.pool);
            world.client.take(&world.pool, &said);
        }
    }

    #[test]
    fn what_is_sent_is_received(cuts in prop::collection::vec((0..40_000_usize, any::<bool>(), any::<bool>()), 1..20)) {
        // Breaks if bytes are lost, doubled or put out of order by any mix of lengths, key updates and directions; and
        // leaks.
        let mut world = World::v13();
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        for (n, (len, by_client, update)) in cuts.into_iter().enumerate() {
            let (side, all) = match by_client {
                true => (&mut world.client, &mut to_server),
                false => (&mut world.server, &mut to_client),
            };
            let full = side.session.content_max();
            let content = vec![n as u8; len];
            for part in content.chunks(full) {
                side.send(&world.pool, part);
            }
            all.extend(content);
            if update {
                side.session.update_key(len % 2 == 0).unwrap();
                side.flush_outbox();
            }
            if len % 3 == 0 {
                pass(&mut world);
            }
        }
        pass(&mut world);
        prop_assert_eq!(world.client.error.or(world.server.error), None);
        prop_assert!(world.server.got == to_server && world.client.got == to_client);
        let World { pool, client, server } = world;
        drop((client, server));
        prop_assert_eq!(pool.live(), Live::NONE);
    }
}
