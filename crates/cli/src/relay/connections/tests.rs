//! A relay between clients and a server of another stack, in virtual time.

use kern::VirtualClock;
use mbuf::PoolConfig;
use mbuma::device::epair::EpairEnd;

use super::handshake_list::HANDSHAKE_MAX_TIME;
use super::*;
use crate::args::serve::TlsIdentity;
use crate::gateway::test_gateway;
use crate::tls::ServerTls;

const PIECE: [u8; 4096] = [7; 4096];
/// Bytes of the relay's clusters of each size.
const POOL: usize = 16 << 20;

struct RelayBench {
    clock: Arc<VirtualClock>,
    relayed: RelayedConnections,
    peers: Stack,
    server: TcpListener,
    _ends: (EpairEnd, EpairEnd),
}

impl RelayBench {
    /// A relay with few buffers to a server that is there.
    fn new() -> RelayBench {
        Self::with(128, RelayTls::default())
    }

    /// The same, of at most `max` clients.
    fn with(max: usize, tls: RelayTls) -> RelayBench {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let few = PoolConfig {
            mbufs_max: 64 << 10,
            cluster_bytes_max: POOL,
        };
        let ([relay, peers], ends) = test_gateway::joined(&clock, few);
        let at = |host, port| SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, host), port);
        let listener = relay.tcp_listen(at(2, 80), 128).expect("a free port");
        let server = peers.tcp_listen(at(1, 8080), 128).expect("a free port");
        let relayed =
            RelayedConnections::new(&relay, vec![listener], at(1, 8080).into(), None, max, tls);
        let listens = Nudge::new(LISTENER, &relayed.news.0);
        relayed.listeners[0].set_waker(Some(Waker::from(listens)));
        RelayBench {
            relayed,
            clock,
            peers,
            server,
            _ends: ends,
        }
    }

    /// Handles all that has happened.
    fn run(&mut self) {
        loop {
            self.peers.poll();
            self.relayed.stack.poll();
            let mut any = false;
            while let Ok(number) = self.relayed.news.1.try_recv() {
                match number {
                    LISTENER => self.listen(),
                    number => self.relayed.look_at(number),
                }
                any = true;
            }
            if !any {
                return;
            }
        }
    }

    /// Clients have come.
    fn listen(&mut self) {
        let listens = Nudge::new(LISTENER, &self.relayed.news.0);
        self.relayed.listeners[0].set_waker(Some(Waker::from(listens)));
        self.relayed.accept();
    }

    /// A client, which waits for nothing.
    fn dial(&mut self) -> TcpStream {
        self.dial_at(Ipv4Addr::new(192, 0, 2, 2))
    }

    /// The same, by another address of the relay.
    fn dial_at(&mut self, relay: Ipv4Addr) -> TcpStream {
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let to = SocketAddrV4::new(relay, 80);
        let client = self.peers.tcp_connect(any, to).expect("a free port");
        self.run();
        client
    }

    fn pass(&mut self, time: Duration) -> bool {
        self.clock.advance(time);
        let now = self.relayed.stack.now();
        self.relayed.retry(now);
        self.run();
        self.relayed.relieve_stalls(now)
    }

    /// A client, and the server's end of its connection.
    fn connect(&mut self) -> (TcpStream, TcpStream) {
        let client = self.dial();
        (client, self.server.accept().expect("the relay connects"))
    }

    /// The server sends as much as anything on the way takes.
    fn fill(&mut self, server: &TcpStream) {
        while server.send(&PIECE).is_ok() {
            self.run();
        }
    }
}

#[test]
fn clients_that_read_nothing_lose_their_buffers_to_others() {
    // Breaks when clients that read nothing keep the buffers of a relay, so that no other client is served; or when one
    // ends that reads, or any while there is room.
    let second = Duration::from_secs(1);
    let mut bench = RelayBench::new();
    let stalled: Vec<_> = (0..20).map(|_| bench.connect()).collect();
    let (reader, to_reader) = bench.connect();
    let all = stalled.iter().map(|(_, server)| server);
    for server in all.chain([&to_reader]) {
        bench.fill(server);
    }
    assert!((0..30).all(|_| !bench.pass(second)), "there is room");
    let most = vec![0; POOL / 8 * 7];
    let taken = mbuf::Chain::from_slice(bench.relayed.stack.pool(), &most);
    let mut buffer = vec![0; 256 << 10];
    let mut ended = Vec::new();
    for _ in 0..13 {
        ended.push(bench.pass(second));
        while reader.recv(&mut buffer).is_ok() {}
        bench.fill(&to_reader);
    }
    assert_eq!(ended.iter().filter(|any| **any).count(), 1, "{ended:?}");
    bench.run();
    assert!(stalled.iter().all(|(client, _)| client.error().is_some()));
    assert!(reader.error().is_none());
    drop(taken);
}

#[test]
fn a_client_beyond_the_limit_waits_for_the_end_of_another() {
    // Breaks when a relay has more clients than it may have, or one that waits gets its turn only if another comes.
    let mut bench = RelayBench::with(1, RelayTls::default());
    let (client, server) = bench.connect();
    let waits = bench.dial();
    assert!(bench.server.accept().is_err());
    drop((client, server));
    bench.run();
    assert!(bench.server.accept().is_ok());
    drop(waits);
}

#[test]
fn the_clients_of_each_address_have_their_turn() {
    // Breaks when a relay that is full serves clients of its second address only once none waits at the first.
    let mut bench = RelayBench::with(1, RelayTls::default());
    let second = Ipv4Addr::new(192, 0, 2, 8);
    let listener = bench.relayed.stack.tcp_listen((second, 80), 128);
    bench.relayed.listeners.push(listener.expect("a free port"));
    let (mut client, mut server) = bench.connect();
    let mut waiting: Vec<_> = (0..4).map(|_| Some(bench.dial())).collect();
    waiting.push(Some(bench.dial_at(second)));
    for (stream, name) in waiting.iter().flatten().zip(0..) {
        assert_eq!(stream.send(&[name]), Ok(1));
    }
    let mut served = Vec::new();
    for _ in 0..waiting.len() {
        drop((client, server));
        bench.run();
        server = bench.server.accept().expect("the next one");
        bench.run();
        let mut name = [0];
        assert_eq!(server.recv(&mut name), Ok(1));
        served.push(name[0]);
        let its = waiting[usize::from(name[0])].take();
        client = its.expect("each is served once");
    }
    assert!(served[..2].contains(&4), "{served:?}");
}

#[test]
fn handshakes_are_bounded_in_number_and_time() {
    // Breaks when clients that say nothing have all places of a relay with TLS, or keep theirs for ever.
    let addr = Ipv4Addr::LOCALHOST.into();
    let tls = ServerTls::of(&TlsIdentity::SelfSigned, &[addr], &[]).expect("a certificate");
    let mut bench = RelayBench::with(
        128,
        RelayTls {
            to_clients: Some(tls.config),
            handshakes_max: 2,
            to_server: None,
        },
    );
    let clients: Vec<_> = (0..3).map(|_| bench.dial()).collect();
    let open = || clients.iter().filter(|c| c.error().is_none()).count();
    assert_eq!(open(), 2);
    let relayed = &mut bench.relayed;
    let late = Instant::now() + HANDSHAKE_MAX_TIME;
    assert!(relayed.shaking.end_late(late, &mut relayed.table));
    assert_eq!(open(), 0);
}

#[test]
fn a_handshake_without_buffers_goes_on_when_there_are_some() {
    // Breaks when a handshake whose answer found no buffers ends after ten seconds: the client waits for the answer, so
    // no packet of its makes the relay try again.
    let addrs = [Ipv4Addr::LOCALHOST.into()];
    let tls = ServerTls::of(&TlsIdentity::SelfSigned, &addrs, &[]).expect("a certificate");
    let tls = RelayTls {
        to_clients: Some(tls.config),
        handshakes_max: 128,
        to_server: None,
    };
    let mut bench = RelayBench::with(128, tls);
    let client = bench.dial();
    let pool = bench.relayed.stack.pool().clone();
    let taken: Vec<_> =
        std::iter::from_fn(|| mbuf::Chain::from_slice(&pool, &[0; 100]).ok()).collect();
    let config = rustls::ClientConfig::builder_with_provider(crate::tls::suites())
        .with_safe_default_protocol_versions()
        .expect("the suites have some")
        .with_root_certificates(rustls::RootCertStore::empty());
    let mut config = config.with_no_client_auth();
    config.enable_secret_extraction = true;
    let name = "192.0.2.2".try_into().expect("an address");
    let mut client = TlsHandshake::client(client, Arc::new(config), name).expect("a connection");
    assert!(
        matches!(client.advance(), Ok(false)),
        "it waits for an answer"
    );
    bench.run();
    assert_eq!(bench.relayed.without_buffers.len(), 1);
    drop(taken);
    bench.pass(NO_BUFS_WAIT);
    assert!(client.tcp().recv(&mut [0; 99]).is_ok(), "an answer");
    assert!(bench.relayed.without_buffers.is_empty());
}

#[test]
fn both_sides_of_a_relay_that_ends_are_reset() {
    // Breaks when a client takes the part of an answer that it has for the whole one, because its connection ends like
    // one that was served: when the relay is stopped, or has moved nothing for too long.
    let mut bench = RelayBench::new();
    bench.relayed.idle = Some(Duration::from_secs(5));
    let ended: [fn(&mut RelayBench); 2] = [
        |bench| bench.relayed.abort_all(),
        |bench| {
            bench.pass(Duration::from_secs(6));
        },
    ];
    for end in ended {
        let (client, server) = bench.connect();
        server.send(b"the beginning of").expect("room");
        bench.run();
        assert_eq!(client.recv(&mut [0; 99]), Ok(16));
        end(&mut bench);
        bench.run();
        for side in [client, server] {
            assert_eq!(side.error(), Some(SocketError::Reset));
        }
    }
}

#[test]
fn the_client_of_a_server_that_is_not_there_is_reset() {
    // Breaks when clients wait for minutes, each in the place of another one, for a server that does not answer.
    let mut bench = RelayBench::new();
    bench.relayed.to.set_ip(Ipv4Addr::new(192, 0, 2, 9).into());
    let client = bench.dial();
    for _ in 0..9 {
        bench.pass(Duration::from_secs(1));
    }
    assert_eq!(client.error(), None);
    for _ in 0..2 {
        bench.pass(Duration::from_secs(1));
    }
    assert_eq!(client.error(), Some(SocketError::Reset));
}
