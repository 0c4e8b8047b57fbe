//! TLS records over bad wires: lost, doubled, late and changed packets, in virtual time.
//!
//! Keys are given to both ends, without a handshake. With the null AEAD the text is in the clear and the tag binds it
//! to nonce and place; with the feature `tls` the same runs over aws-lc-rs' AEADs. Each AEAD notes under which nonce it
//! seals, for the whole run: a second time is a failure at once. So a retransmission that seals anew is found, in
//! whatever order.
//!
//! `TLS_SEEDS=A..B` looks at other seeds, and at no others.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kern::Random;
use mbuf::{Chain, Live};
use mbuma::SocketError;
use mbuma::socket::{TlsAbout, TlsStream};
use mbuma::tls::{
    Aead, AeadFailed, DirectionKeys, KeySource, NONCE_LEN, TAG_LEN, TlsError, TlsKeys, TlsRole,
    TlsVersion,
};
use sim::{Faults, Lateness, Link, Net, NodeId, PortConfig};

/// Seeds that a usual run looks at.
const SEEDS: u64 = 24;
/// Seeds that found something: more records than a key may seal were framed before the window let its successor go out.
const FOUND: [u64; 2] = [118, 371];
/// Bytes that each side sends.
const LEN: usize = 400_000;
/// The number of each side's first key.
const CLIENT_KEYS: u32 = 1;
const SERVER_KEYS: u32 = 1 << 30;
/// Records of a key: few, so that keys change by themselves.
const RECORDS_MAX: u64 = 30;

/// The nonces that were sealed with, by key.
type Nonces = Arc<Mutex<HashSet<(u32, [u8; NONCE_LEN])>>>;

/// An AEAD that is watched.
struct WatchedAead {
    key: u32,
    nonces: Nonces,
    inner: Option<Box<dyn Aead>>,
}

impl WatchedAead {
    fn tag(&self, nonce: [u8; NONCE_LEN], aad: &[u8], text: &[u8]) -> [u8; TAG_LEN] {
        let mut tag = [self.key as u8; TAG_LEN];
        for (at, byte) in nonce.iter().chain(aad).chain(text).enumerate() {
            let to = &mut tag[at % TAG_LEN];
            *to = to.wrapping_mul(31).wrapping_add(*byte);
        }
        tag
    }
}

impl Aead for WatchedAead {
    fn records_max(&self) -> u64 {
        RECORDS_MAX
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
        let is_new = self
            .nonces
            .lock()
            .expect("no panic")
            .insert((self.key, nonce));
        assert!(is_new, "a nonce is used twice under one key");
        match &self.inner {
            None => Ok(self.tag(nonce, aad, text)),
            Some(aead) => aead.seal_in_place(nonce, aad, text),
        }
    }

    fn open_in_place(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
        tag: &[u8],
    ) -> Result<(), AeadFailed> {
        match &self.inner {
            None if self.tag(nonce, aad, text) == tag => Ok(()),
            None => Err(AeadFailed),
            Some(aead) => aead.open_in_place(nonce, aad, text, tag),
        }
    }
}

/// Which AEAD is below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cipher {
    Null,
    #[cfg(feature = "tls")]
    Real(mbuma::tls::AwsLcSuite),
}

impl Cipher {
    fn aead(self, key: u32) -> Option<Box<dyn Aead>> {
        #[cfg(feature = "tls")]
        if let Cipher::Real(suite) = self {
            let len = match suite {
                mbuma::tls::AwsLcSuite::Aes128Gcm => 16,
                _ => 32,
            };
            let bytes = key.to_be_bytes().repeat(len / 4);
            let aead = mbuma::tls::AwsLcAead::new(suite, &bytes).expect("a key");
            return Some(Box::new(aead));
        }
        let _ = key;
        None
    }
}

/// Keys by their number, the same on both sides.
struct Numbered {
    tx: u32,
    rx: u32,
    cipher: Cipher,
    nonces: Nonces,
}

impl Numbered {
    fn keys(&self, key: u32) -> DirectionKeys {
        let aead = WatchedAead {
            key,
            nonces: Arc::clone(&self.nonces),
            inner: self.cipher.aead(key),
        };
        DirectionKeys::new(Box::new(aead), [key as u8; NONCE_LEN], 0)
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
}

/// One end, what it has sent and what it has received.
struct End {
    tls: TlsStream,
    sent: usize,
    got: Vec<u8>,
    closed: bool,
    ended: bool,
}

impl End {
    fn new(tls: TlsStream) -> End {
        End {
            tls,
            sent: 0,
            got: Vec::new(),
            closed: false,
            ended: false,
        }
    }

    /// Sends and reads as much as it can; changes keys now and then.
    fn turn(&mut self, out: &[u8], random: &mut Random, updates: bool) {
        if self.sent < out.len() {
            let most = 1 + random.below(60_000) as usize;
            let rest = &out[self.sent..];
            match self.tls.send(&rest[..rest.len().min(most)]) {
                Ok(n) => {
                    self.sent += n;
                    if updates && random.below(4) == 0 {
                        self.tls.update_key(random.below(2) == 0).expect("TLS 1.3");
                    }
                }
                Err(e) => assert!(e.is_would_block(), "{e}"),
            }
        } else if !self.closed {
            self.tls.shutdown(Shutdown::Write);
            self.closed = true;
        }
        while !self.ended {
            match self.tls.recv_chain(1 + random.below(100_000) as usize) {
                Ok(data) if data.is_empty() => self.ended = true,
                Ok(data) => self.got.extend(data.to_vec()),
                Err(e) if e.is_would_block() => break,
                Err(e) => panic!("{e}"),
            }
        }
    }
}

fn addr(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, node + 1)
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::from_seed(seed);
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// A network of two stacks over a bad wire, and a connection between them with keys.
struct World {
    net: Net,
    nodes: [NodeId; 2],
    ends: [End; 2],
}

impl World {
    fn new(seed: u64, faults: Faults, version: TlsVersion, cipher: Cipher) -> World {
        let mut net = Net::new(seed);
        let wire = net.wire(Link {
            faults,
            ..Link::delay(Duration::from_millis(2))
        });
        let nodes = [net.stack(), net.stack()];
        for (n, node) in (0..).zip(nodes) {
            net.plug(node, wire, addr(n), &PortConfig::plain(1500));
        }
        let at = SocketAddrV4::new(addr(1), 443);
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let listener = net
            .at(nodes[1])
            .tcp_listen(at, 1)
            .expect("the port is free");
        let client = net
            .at(nodes[0])
            .tcp_connect(any, at)
            .expect("a port is free");
        let server = (0..60_000).find_map(|_| {
            net.run_for(Duration::from_millis(10));
            listener.accept().ok()
        });
        let nonces = Nonces::default();
        let end = |tcp, role, tx, rx| {
            let source = Numbered {
                tx,
                rx,
                cipher,
                nonces: Arc::clone(&nonces),
            };
            let keys = TlsKeys {
                version,
                role,
                tx: source.keys(tx),
                rx: source.keys(rx),
                source: Box::new(source),
            };
            End::new(TlsStream::new(tcp, keys, TlsAbout::default()))
        };
        let server = server.expect("a connection");
        let ends = [
            end(client, TlsRole::Client, CLIENT_KEYS, SERVER_KEYS),
            end(server, TlsRole::Server, SERVER_KEYS, CLIENT_KEYS),
        ];
        World { net, nodes, ends }
    }

    /// Runs until both have all; fails after half an hour of virtual time.
    fn exchange(&mut self, out: &[Vec<u8>; 2], random: &mut Random, updates: bool) {
        for _ in 0..900_000 {
            for (end, out) in self.ends.iter_mut().zip(out) {
                end.turn(out, random, updates);
            }
            if self.ends.iter().all(|end| end.ended && end.closed) {
                return;
            }
            self.net.run_for(Duration::from_millis(2));
        }
        panic!("the streams do not end");
    }

    /// All is given back.
    fn done(self) {
        let World {
            mut net,
            nodes,
            ends,
        } = self;
        drop(ends);
        net.heal();
        net.run_for(Duration::from_secs(200));
        for node in nodes {
            assert_eq!(net.at(node).pool().live(), Live::NONE, "buffers are left");
        }
    }
}

/// The seeds of this run, `usual` ones if no others are asked for.
fn seeds(usual: u64) -> impl Iterator<Item = u64> {
    let asked = std::env::var("TLS_SEEDS").ok().map(|text| {
        let (first, end) = text.split_once("..").expect("seeds are A..B");
        let seeds: std::ops::Range<u64> =
            first.parse().expect("a number")..end.parse().expect("a number");
        assert!(!seeds.is_empty(), "no seeds: {text}");
        seeds
    });
    let found = if asked.is_none() { &FOUND[..] } else { &[] };
    asked.unwrap_or(0..usual).chain(found.iter().copied())
}

/// Each seed: both directions, with keys that change by themselves and by the program.
fn exchange_over_bad_wires(cipher: Cipher, usual: u64) {
    for seed in seeds(usual) {
        let mut random = Random::from_seed(seed);
        let share = |random: &mut Random, most: u64| random.below(most) as f64 / 1000.0;
        let faults = Faults {
            loss: share(&mut random, 40),
            duplicate: share(&mut random, 40),
            reorder: share(&mut random, 100),
            late: Lateness::UpTo(Duration::from_millis(20)),
            corrupt: share(&mut random, 10),
            ..Faults::default()
        };
        let mut world = World::new(seed, faults, TlsVersion::Tls13, cipher);
        let out = [0, 1].map(|side| pattern(LEN / 2 + random.below(LEN as u64 / 2) as usize, side));
        world.exchange(&out, &mut random, true);
        let [client, server] = &world.ends;
        assert!(
            client.got == out[1] && server.got == out[0],
            "seed {seed} {cipher:?}"
        );
        for (end, other) in [(client, server), (server, client)] {
            let (ours, theirs) = (end.tls.counts(), other.tls.counts());
            assert_eq!(ours.sealed, theirs.opened, "seed {seed}");
            assert_eq!(ours.tx_updates, theirs.rx_updates, "seed {seed}");
        }
        world.done();
    }
}

#[test]
fn every_byte_arrives_over_bad_wires_and_no_record_is_sealed_twice() {
    // Breaks if a retransmission seals anew, a key changes at another place for the two sides, or bytes are lost,
    // doubled or moved by any mix of loss, order and key updates.
    exchange_over_bad_wires(Cipher::Null, SEEDS);
}

#[cfg(feature = "tls")]
#[test]
fn the_same_holds_with_the_ciphers_of_tls() {
    // Breaks as the test above, for faults that the null AEAD hides, such as encryption in place.
    use mbuma::tls::AwsLcSuite;
    for suite in [
        AwsLcSuite::Aes128Gcm,
        AwsLcSuite::Aes256Gcm,
        AwsLcSuite::ChaCha20Poly1305,
    ] {
        exchange_over_bad_wires(Cipher::Real(suite), SEEDS / 6);
    }
}

#[test]
fn a_key_of_tls_1_2_seals_as_many_records_as_it_may() {
    // Breaks if a direction goes on under a worn-out key, or its end is not told: what was sent before it arrives.
    for seed in 0..4 {
        let faults = Faults {
            loss: 0.02,
            ..Faults::default()
        };
        let mut world = World::new(seed, faults, TlsVersion::Tls12, Cipher::Null);
        let out = pattern(1 << 20, seed);
        let (mut sent, mut worn_out) = (0, false);
        for _ in 0..100_000 {
            match world.ends[0].tls.send(&out[sent..]) {
                Ok(n) => sent += n,
                Err(TlsError::KeyWornOut) => worn_out = true,
                Err(e) => assert!(e.is_would_block(), "{e}"),
            }
            world.ends[1].turn(&[], &mut Random::from_seed(seed), false);
            if worn_out && world.ends[1].got.len() == sent {
                break;
            }
            world.net.run_for(Duration::from_millis(2));
        }
        assert!(worn_out && sent > 0);
        assert!(world.ends[1].got == out[..sent], "seed {seed}");
        assert_eq!(world.ends[0].tls.counts().sealed, RECORDS_MAX);
        world.done();
    }
}

#[test]
fn a_connection_that_is_reset_gives_a_clear_error_and_all_buffers_back() {
    // Breaks if a reset at any moment looks like an end, or leaves records, sealed or not.
    for seed in seeds(SEEDS) {
        let mut random = Random::from_seed(seed);
        let faults = Faults {
            loss: 0.01,
            ..Faults::default()
        };
        let mut world = World::new(seed, faults, TlsVersion::Tls13, Cipher::Null);
        let out = pattern(1 << 20, seed);
        let mut sent = 0;
        for _ in 0..random.below(60) {
            sent += world.ends[0].tls.send(&out[sent..]).unwrap_or(0);
            if random.below(2) == 0
                && let Ok(data) = world.ends[1].tls.recv_chain(50_000)
            {
                world.ends[1].got.extend(Chain::to_vec(&data));
            }
            world.net.run_for(Duration::from_millis(1));
        }
        world.ends[0].tls.abort();
        let mut error = None;
        for _ in 0..120_000 {
            match world.ends[1].tls.recv_chain(usize::MAX) {
                Ok(data) => {
                    assert!(!data.is_empty(), "seed {seed}: a reset is no end");
                    world.ends[1].got.extend(data.to_vec());
                }
                Err(e) if e.is_would_block() => world.net.run_for(Duration::from_millis(5)),
                Err(e) => {
                    error = Some(e);
                    break;
                }
            }
            if random.below(50) == 0 {
                // The reset itself may be lost: the next segment of this side causes another one.
                _ = world.ends[1].tls.send(b"x");
            }
        }
        assert_eq!(
            error,
            Some(TlsError::Socket(SocketError::Reset)),
            "seed {seed}"
        );
        let got = &world.ends[1].got;
        assert!(*got == out[..got.len()], "seed {seed}");
        world.done();
    }
}
