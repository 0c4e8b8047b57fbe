//! A site whose clients are another stack of this process, in virtual time.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use kern::{Clock, Time, VirtualClock};
use mbuf::{Chain, Live, PoolConfig};
use mbuma::device::epair::EpairEnd;
use mbuma::runtime::{LocalTasks, Readiness, WorkerContext, run_round};
use mbuma::socket::{MaybeTlsStream, TlsAbout, TlsStream};
use mbuma::tls::{
    AwsLcAead, AwsLcSuite, DirectionKeys, KeySource, NONCE_LEN, TlsError, TlsKeys, TlsRole,
    TlsVersion,
};
use mbuma::{SocketError, Stack, TcpSocketOptions, TcpStream};

use super::connection::HEAD_MAX_TIME;
use super::handshakes::HANDSHAKE_MAX_TIME;
use super::respond::Source;
use super::sending::{SendProgress, Sending};
use super::*;
use crate::args::serve::TlsIdentity;
use crate::files::{NamesRoom, ServedTree};
use crate::gateway::test_gateway;
use crate::http::listing;
use crate::http::plan::{self, Terms};
use crate::tls::ServerTls;

/// Connections that the site serves at once.
const CONNECTIONS: usize = 256;

struct SiteBench {
    dir: PathBuf,
    clock: Arc<VirtualClock>,
    server: SiteTasks,
    clients: Stack,
    _ends: (EpairEnd, EpairEnd),
}

/// A worker that serves a site.
struct SiteTasks {
    shared: Shared,
    web: Web,
    /// The number of turns so far.
    turns: u64,
}

impl LocalTasks for SiteTasks {
    fn context(&mut self) -> &mut WorkerContext {
        &mut self.shared.context
    }

    fn event(&mut self, _key: u64, _readiness: Readiness) {}

    fn timer(&mut self, key: u64) {
        self.web.timer(&mut self.shared, Token::from_number(key));
    }

    fn turn(&mut self, key: u64) {
        self.turns += 1;
        let token = Token::from_number(key);
        match token.kind() {
            Some(SourceKind::HttpListener) => self.web.accept(&mut self.shared),
            _ => self.web.turn(&mut self.shared, token, Gauges::default()),
        }
    }

    fn turns_end(&mut self) {
        self.web.end_round(&mut self.shared);
    }
}

impl SiteBench {
    /// A site with one file.
    fn new(name: &str) -> SiteBench {
        Self::with_pool(name, PoolConfig::default())
    }

    /// The same; the server's buffers have these limits.
    fn with_pool(name: &str, pool: PoolConfig) -> SiteBench {
        Self::with(name, pool, |_| {})
    }

    /// The same, with a changed site.
    fn with(name: &str, pool: PoolConfig, change: impl FnOnce(&mut WebSite)) -> SiteBench {
        let dir = std::env::temp_dir().join(format!("mbuma-web-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("the temporary directory can be written");
        fs::write(dir.join("ten"), "0123456789").expect("likewise");
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let ([server, clients], ends) = test_gateway::joined(&clock, pool);
        let worker_clock: Arc<dyn Clock> = clock.clone();
        let shared = test_gateway::shared_of(server, &worker_clock);
        let mut site = site(&dir, &shared.stack);
        change(&mut site);
        let site = Arc::new(site);
        let web = Web::new(&shared, &site);
        for listener in &site.listeners {
            listener.set_waker(Some(web.accept_wake().waker()));
        }
        SiteBench {
            dir,
            clock,
            server: SiteTasks {
                shared,
                web,
                turns: 0,
            },
            clients,
            _ends: ends,
        }
    }

    fn connect(&self) -> TcpStream {
        self.connect_to(80)
    }

    fn connect_to(&self, port: u16) -> TcpStream {
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let server = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), port);
        self.clients
            .tcp_connect(any, server)
            .expect("a port is free")
    }

    /// Runs rounds of the loop until no task has work.
    fn run(&mut self) {
        loop {
            self.clients.poll();
            self.server.shared.stack.poll();
            let before = self.server.turns;
            let round = run_round(&mut self.server, Some(Duration::ZERO));
            assert!(round.is_ok(), "{round:?}");
            if self.server.turns == before {
                return;
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
        self.run();
    }

    /// The answer to a request on this connection, while no time passes for the site. A reader thread may have to find
    /// the file.
    fn ask(&mut self, client: &TcpStream) -> String {
        self.ask_for(client, "/ten")
    }

    fn ask_for(&mut self, client: &TcpStream, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.send(request.as_bytes()), Ok(request.len()));
        let begin = Instant::now();
        let mut answer = [0; 1024];
        loop {
            self.run();
            match client.recv(&mut answer) {
                Ok(n) => return String::from_utf8_lossy(&answer[..n]).into_owned(),
                Err(e) => assert_eq!(e, SocketError::WouldBlock),
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "no answer");
            std::thread::yield_now();
        }
    }

    /// Lets reader threads find what was asked for, and sends it, until nothing happens for a while.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 20 {
            let before = self.server.turns;
            self.run();
            quiet = if self.server.turns == before {
                quiet + 1
            } else {
                0
            };
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether a new client gets the file.
    fn serves(&mut self) -> bool {
        let client = self.connect();
        self.run();
        let answer = self.ask(&client);
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("0123456789")
    }

    /// Bytes of buffers that the server's stack has in use.
    fn used(&self) -> usize {
        self.server.shared.stack.pool().stats().bytes_used()
    }
}

impl Drop for SiteBench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Serves the files of a directory below this path.
fn responder(dir: &std::path::Path, storage: &FileStorage, prefix: &'static str) -> Responder {
    let fixed = SharedFixed::new(test_gateway::fixed());
    let files = SiteFiles {
        cache: storage.cache.clone(),
        names_room: NamesRoom::default(),
        tree: ServedTree::open(dir).expect("our directory"),
        prefix,
        listing: true,
    };
    Responder::new(fixed, None, Some(files))
}

fn site(dir: &std::path::Path, stack: &Stack) -> WebSite {
    let storage = FileStorage::new(16, 1 << 20);
    let at = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 80);
    WebSite {
        listeners: vec![stack.tcp_listen(at, 128).expect("the port is free")],
        responder: responder(dir, &storage, ""),
        tls: None,
        storage,
        log: None,
        connections_max: CONNECTIONS,
        handshakes_max: (CONNECTIONS / 4).max(1),
        drains: false,
    }
}

#[test]
fn ten_thousand_slow_clients_take_bounded_memory_and_shut_none_out() {
    // Breaks when clients that never end their requests (Slowloris) take memory without bound, keep a place for longer
    // than a request may take, or keep others from being served.
    let mut bench = SiteBench::new("slow");
    assert!(bench.serves());
    let before = bench.used();
    let mut slow = Vec::new();
    for n in 0..10_000 {
        let client = bench.connect();
        bench.run();
        client
            .send(b"GET /ten HTTP/1.1\r\nHost: x\r\nX-")
            .expect("room");
        slow.push(client);
        if n % 100 == 0 {
            bench.pass(Duration::from_millis(10));
            assert!(bench.serves(), "beside {n}");
            assert!(bench.server.web.len() <= CONNECTIONS);
        }
    }
    bench.run();
    assert_eq!(bench.server.web.len(), CONNECTIONS);
    let used = bench.used() - before;
    assert!(used < CONNECTIONS * 4096, "{used} bytes");
    // Each of the others got a reset.
    let open = slow.iter().filter(|client| client.error().is_none());
    assert_eq!(open.count(), CONNECTIONS);
    // A byte from time to time does not count as progress.
    let patience = bench.clock.now() + HEAD_MAX_TIME;
    while bench.clock.now() < patience {
        bench.pass(Duration::from_secs(1));
        for client in &slow {
            // Ended connections take no memory.
            let _ = client.send(b"x");
        }
        bench.run();
        assert!(bench.serves());
    }
    bench.pass(Duration::from_secs(1));
    let told = slow.iter().filter(|client| {
        let mut answer = [0; 1024];
        let n = client.recv(&mut answer).unwrap_or(0);
        answer[..n].starts_with(b"HTTP/1.1 408")
    });
    // One connection was ended for another client.
    assert_eq!(told.count(), CONNECTIONS - 1);
    drop(slow);
    // Time for all that waits: connections that linger, and those in TIME-WAIT.
    (0..200).for_each(|_| bench.pass(Duration::from_secs(1)));
    assert_eq!(bench.server.web.len(), 0);
    let pools = [&bench.server.shared.stack, &bench.clients].map(|stack| stack.pool().clone());
    drop(bench);
    assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
}

#[test]
fn clients_that_take_few_bytes_shut_no_new_client_out() {
    // Breaks when a client that has not sent its first request yet ends before one to which a response is sent,
    // although that one takes a few bytes a minute: the new client of a busy site would never get its answer.
    let mut bench = SiteBench::new("dribble");
    let file = fs::File::create(bench.dir.join("large")).expect("our directory");
    file.set_len(64 << 20).expect("a sparse file");
    let mut slow = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = bench.connect();
        bench.run();
        client
            .send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
            .expect("room");
        slow.push(client);
    }
    bench.settle();
    // The first look at each sees the bytes that filled its client's window.
    slow.extend((0..CONNECTIONS / 8).map(|_| bench.connect()));
    bench.run();
    for _ in 0..20 {
        bench.pass(Duration::from_millis(10));
        let client = bench.connect();
        // Others connect, and one takes bytes, before its request comes.
        for n in 0..10 {
            bench.pass(Duration::from_millis(10));
            slow.push(bench.connect());
            let _ = slow[n].recv(&mut [0; 2]);
        }
        bench.pass(Duration::from_millis(10));
        assert!(bench.ask(&client).ends_with("0123456789"));
    }
    assert_eq!(bench.server.web.len(), CONNECTIONS);
}

#[test]
fn a_client_that_takes_its_last_bytes_ends_after_idle_ones() {
    // Breaks when a connection ends in the middle of a response because all of it lies in the send buffer.
    let mut bench = SiteBench::new("tail");
    let body = vec![b'x'; 100_000];
    fs::write(bench.dir.join("body"), &body).expect("our directory");
    let mut connected = || {
        let client = bench.connect();
        bench.run();
        client
    };
    let idle: Vec<_> = (1..CONNECTIONS).map(|_| connected()).collect();
    let client = connected();
    let ask = b"GET /body HTTP/1.1\r\nHost: x\r\n\r\n";
    client.set_buffers(8192, 8192);
    assert_eq!(client.send(ask), Ok(ask.len()));
    bench.settle();
    for client in &idle {
        assert!(bench.ask(client).ends_with("0123456789"));
    }
    let (mut got, mut bytes) = (0, [0; 4096]);
    for n in 0.. {
        assert!(n < 1000, "{got} bytes");
        bench.pass(Duration::from_millis(1));
        let others = [bench.connect(), bench.connect()];
        bench.run();
        match client.recv(&mut bytes) {
            Ok(n) => got += n,
            Err(e) => assert_eq!(e, SocketError::WouldBlock),
        }
        drop(others);
        if got >= body.len() {
            return;
        }
    }
}

#[test]
fn a_client_on_a_slow_line_gets_all_of_its_last_response() {
    // Breaks when a connection ends half a minute after all of its response lies in the send buffer, though the client
    // takes it.
    take_slowly("line", b"GET /body HTTP/1.0\r\n\r\n", |_| {});
}

#[test]
fn a_server_that_ends_leaves_a_kept_connection_its_last_response() {
    // Breaks when a connection that waits for another request ends though its client has not taken all of the last
    // response.
    let ask = b"GET /body HTTP/1.1\r\nHost: x\r\n\r\n";
    take_slowly("end", ask, |bench| {
        bench.server.web.drain(&mut bench.server.shared);
        assert_eq!(bench.server.web.draining(), 1);
    });
}

/// Asks for a large file, and takes it slowly; `then` runs once all of the response lies in the send buffer.
fn take_slowly(name: &str, ask: &[u8], then: impl FnOnce(&mut SiteBench)) {
    let mut bench = SiteBench::with(name, PoolConfig::default(), |site| site.drains = true);
    let body = vec![b'x'; 60_000];
    fs::write(bench.dir.join("body"), &body).expect("our directory");
    let small = TcpSocketOptions {
        recv_buffer: Some(8192),
        ..TcpSocketOptions::default()
    };
    let client = (bench.clients).tcp_connect_with("0.0.0.0:0", "192.0.2.2:80", &small);
    let client = client.expect("a port is free");
    bench.run();
    assert_eq!(client.send(ask), Ok(ask.len()));
    // The thread that reads the file may come late.
    let begin = Instant::now();
    while bench.server.web.unsent() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "no response");
        bench.settle();
    }
    then(&mut bench);
    let (mut got, mut bytes) = (0, [0; 2048]);
    loop {
        (0..10).for_each(|_| bench.pass(Duration::from_secs(1)));
        match client.recv(&mut bytes) {
            Ok(0) => break,
            taken => got += taken.expect("it is there"),
        }
    }
    assert!(got > body.len(), "{got} bytes");
}

#[test]
fn a_burst_of_clients_is_accepted() {
    // Breaks when clients beyond those of one turn wait until another one comes.
    let mut bench = SiteBench::new("burst");
    let clients: Vec<_> = (0..ACCEPT_MAX + 20).map(|_| bench.connect()).collect();
    bench.run();
    assert_eq!(bench.server.web.len(), clients.len());
}

#[test]
fn requests_that_come_together_are_answered_in_several_turns() {
    // Breaks when those beyond the requests of one turn get no answer, or one client's turn does not end.
    const ASKED: usize = 100;
    let mut bench = SiteBench::new("pipelined");
    let client = bench.connect();
    bench.run();
    let answer = bench.ask(&client);
    let before = bench.server.turns;
    let requests = b"GET /ten HTTP/1.1\r\nHost: x\r\n\r\n".repeat(ASKED);
    assert_eq!(client.send(&requests), Ok(requests.len()));
    bench.settle();
    let mut answers = vec![0; 2 * ASKED * answer.len()];
    let n = client.recv(&mut answers).expect("answers");
    assert_eq!(n, ASKED * answer.len());
    let turns = bench.server.turns - before;
    assert!(turns >= ASKED as u64 / 10, "{turns} turns");
}

#[test]
fn the_head_of_a_later_request_has_as_little_time() {
    // Breaks when a client that was served once may send its next head a byte a minute.
    let mut bench = SiteBench::new("later");
    let client = bench.connect();
    bench.run();
    bench.ask(&client);
    let patience = bench.clock.now() + HEAD_MAX_TIME;
    while bench.clock.now() < patience {
        client.send(b"G").expect("room");
        bench.pass(Duration::from_secs(1));
    }
    bench.pass(Duration::from_secs(1));
    let mut answer = [0; 1024];
    let n = client.recv(&mut answer).expect("an answer");
    assert!(answer[..n].starts_with(b"HTTP/1.1 408"));
}

#[test]
fn only_what_is_below_the_prefix_is_served() {
    // Breaks when a longer name is taken for the directory's.
    let mut bench = SiteBench::new("below");
    let dir = bench.dir.clone();
    let mut below = SiteBench::with("below-served", PoolConfig::default(), |site| {
        site.responder = responder(&dir, &site.storage, "/files");
    });
    for (path, status) in [
        ("/files/ten", "200"),
        ("/filesx", "404"),
        ("/filesx/ten", "404"),
    ] {
        let client = below.connect();
        below.run();
        let answer = below.ask_for(&client, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}");
    }
    bench.run();
}

#[test]
fn handshakes_are_bounded_in_number_and_time() {
    // Breaks when silent clients of a site with TLS have more places than handshakes may have, or keep them.
    let addr = Ipv4Addr::LOCALHOST.into();
    let tls = ServerTls::of(&TlsIdentity::SelfSigned, &[addr], &[]).expect("a certificate");
    let mut bench = SiteBench::with("silent", PoolConfig::default(), |site| {
        (site.tls, site.handshakes_max) = (Some(tls.config), 4);
    });
    let clients: Vec<_> = (0..6).map(|_| bench.connect()).collect();
    bench.run();
    let open = || clients.iter().filter(|c| c.error().is_none()).count();
    assert_eq!(open(), 4);
    bench.pass(HANDSHAKE_MAX_TIME);
    assert_eq!(open(), 0);
}

#[test]
fn a_file_that_is_replaced_between_two_requests_is_served_as_it_is() {
    // Breaks when a client gets a state of the file that was over before its request.
    let mut bench = SiteBench::new("replaced");
    assert!(bench.serves() && bench.serves() && bench.serves());
    fs::write(bench.dir.join("new"), "another one").expect("our directory");
    fs::rename(bench.dir.join("new"), bench.dir.join("ten")).expect("our directory");
    let client = bench.connect();
    bench.run();
    assert!(bench.ask(&client).ends_with("another one"));
    fs::remove_file(bench.dir.join("ten")).expect("our file");
    assert!(bench.ask(&client).starts_with("HTTP/1.1 404"));
}

#[test]
fn requests_of_one_round_are_answered_each_with_its_own_part() {
    // Breaks when requests that share a read get each other's bytes, or responses without heads.
    let mut bench = SiteBench::new("together");
    assert!(bench.serves());
    let clients: Vec<_> = (0..8).map(|_| bench.connect()).collect();
    bench.run();
    for (n, client) in clients.iter().enumerate() {
        let ask = format!("GET /ten HTTP/1.1\r\nHost: x\r\nRange: bytes={n}-8\r\n\r\n");
        assert_eq!(client.send(ask.as_bytes()), Ok(ask.len()));
    }
    let begin = Instant::now();
    let mut answers = vec![String::new(); clients.len()];
    while answers.iter().any(String::is_empty) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{answers:?}");
        bench.run();
        for (client, answer) in clients.iter().zip(&mut answers) {
            let mut bytes = [0; 1024];
            if let Ok(n) = client.recv(&mut bytes) {
                *answer += &String::from_utf8_lossy(&bytes[..n]);
            }
        }
        std::thread::yield_now();
    }
    for (n, answer) in answers.iter().enumerate() {
        assert!(answer.starts_with("HTTP/1.1 206"), "{answer}");
        let body = answer.split("\r\n\r\n").nth(1);
        assert_eq!(body, "012345678".get(n..), "{answer}");
    }
}

#[test]
fn names_of_a_large_directory_are_read_by_a_thread() {
    // Breaks when a worker reads a directory, and waits for its disk, or a listing loses names between two reads.
    const NAMES: usize = 1500;
    let mut bench = SiteBench::new("names");
    let many = bench.dir.join("many");
    fs::create_dir(&many).expect("our directory");
    for n in 0..NAMES {
        fs::write(many.join(format!("name-{n}.")), "").expect("likewise");
    }
    let client = bench.connect();
    bench.run();
    let request = b"GET /many/ HTTP/1.0\r\n\r\n";
    assert_eq!(client.send(request), Ok(request.len()));
    let begin = Instant::now();
    let (mut page, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        bench.pass(Duration::from_millis(1));
        match client.recv(&mut bytes) {
            Ok(0) => break,
            Ok(n) => page.extend_from_slice(&bytes[..n]),
            Err(e) => assert_eq!(e, SocketError::WouldBlock),
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "no end");
        std::thread::yield_now();
    }
    let page = String::from_utf8_lossy(&page);
    assert!(page.starts_with("HTTP/1.1 200") && page.ends_with(listing::END));
    for n in 0..NAMES {
        assert!(page.contains(&format!("\"./name-{n}.\"")), "{n}");
    }
    assert_eq!(bench.server.shared.counters.file_reads, 1);
}

#[test]
fn a_client_that_stops_reading_a_response_keeps_no_connection() {
    // Breaks when a connection is closed while its client takes nothing of a response that is all in the send buffer:
    // without an owner it keeps its bytes, and a place among the stack's connections, for nine minutes more.
    for half_closed in [false, true] {
        stop_reading(half_closed);
    }
}

/// A client reads nothing of a response; `half_closed`: it has sent its end, too.
fn stop_reading(half_closed: bool) {
    const LEN: u64 = 1_500_000;
    let mut bench = SiteBench::new("unread");
    fs::write(bench.dir.join("ten"), vec![b'x'; LEN as usize]).expect("our directory");
    let client = bench.connect();
    bench.run();
    let request = b"GET /ten HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(client.send(request), Ok(request.len()));
    if half_closed {
        client.shutdown(std::net::Shutdown::Write);
    }
    let begin = Instant::now();
    while bench.server.shared.counters.http_bytes < LEN {
        assert!(begin.elapsed() < Duration::from_secs(60), "no response");
        bench.run();
        std::thread::yield_now();
    }
    let unread = |bench: &SiteBench| bench.server.shared.stack.connections();
    assert!(
        unread(&bench)
            .iter()
            .any(|connection| connection.info.send_queue > 0)
    );
    (0..120).for_each(|_| bench.pass(Duration::from_secs(1)));
    assert_eq!(client.error(), Some(SocketError::Reset));
    assert_eq!(unread(&bench).len(), 0);
}

/// Keys that are not changed.
struct LastKeys;

impl KeySource for LastKeys {
    fn next_tx(&mut self) -> Result<DirectionKeys, TlsError> {
        Err(TlsError::Keys)
    }

    fn next_rx(&mut self) -> Result<DirectionKeys, TlsError> {
        Err(TlsError::Keys)
    }
}

/// TLS without a handshake, the same key in both directions.
fn tls(tcp: TcpStream, role: TlsRole) -> TlsStream {
    let key = || {
        let aead = AwsLcAead::new(AwsLcSuite::Aes128Gcm, &[7; 16]).expect("a key of this length");
        DirectionKeys::new(Box::new(aead), [1; NONCE_LEN], 0)
    };
    let keys = TlsKeys {
        version: TlsVersion::Tls13,
        role,
        tx: key(),
        rx: key(),
        source: Box::new(LastKeys),
    };
    TlsStream::new(tcp, keys, TlsAbout::default())
}

#[test]
fn a_response_over_tls_waits_for_buffers_and_keeps_its_bytes() {
    // Breaks when the connection ends, or bytes are lost or repeated, because no mbuf is free when the response's bytes
    // are cut into records: for each number of free mbufs.
    let pool = PoolConfig {
        mbufs_max: 200,
        ..PoolConfig::default()
    };
    let mut bench = SiteBench::with_pool("buffers", pool);
    let at = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 443);
    let listener = bench.server.shared.stack.tcp_listen(at, 1);
    let listener = listener.expect("the port is free");
    let client = bench.connect_to(443);
    bench.run();
    let served = listener.accept().expect("a client");
    let (client, served) = (
        tls(client, TlsRole::Client),
        MaybeTlsStream::Tls(tls(served, TlsRole::Server)),
    );
    let body: String = (0..40_000)
        .map(|n| char::from(b'a' + (n % 23) as u8))
        .collect();
    let storage = FileStorage::new(1, 0);
    let mut waits = 0;
    for free in 0..16 {
        let pool = bench.server.shared.stack.pool().clone();
        let mut held: Vec<_> = std::iter::from_fn(|| Chain::from_slice(&pool, b"x").ok()).collect();
        held.truncate(held.len() - free);
        let page = plan::page(
            "text/plain",
            body.clone(),
            &Terms::of_none(SystemTime::now()),
        );
        let mut sending = Sending::new((page, Source::Plan));
        let (mut progress, mut got) = (None, Vec::new());
        let limit = bench.clock.now() + Duration::from_secs(60);
        while progress != Some(SendProgress::All) || (got.len() as u64) < sending.sent() {
            let (info, error) = (client.info(), served.error());
            let (sent, now) = (sending.sent(), bench.clock.now());
            assert!(
                now < limit,
                "{free} free: {progress:?}, {sent} sent, {error:?}, {info:?}"
            );
            if progress != Some(SendProgress::All) {
                let wake = bench.server.web.accept_wake();
                let (shared, mut budget) = (&mut bench.server.shared, usize::MAX);
                let pushed = sending.push(&served, shared, &storage, &wake, &mut budget);
                progress = Some(pushed.expect("the connection goes on"));
            }
            waits += u32::from(progress == Some(SendProgress::NoBufs));
            // Delayed acknowledgements, and output that waited for an mbuf.
            bench.pass(Duration::from_millis(200));
            held.clear();
            while let Ok(chain) = client.recv_chain(usize::MAX) {
                got.extend(chain.to_vec());
            }
        }
        let text = String::from_utf8_lossy(&got);
        assert!(
            text.starts_with("HTTP/1.1 200") && text.ends_with(&body),
            "{free} free"
        );
    }
    assert!(waits > 1, "{waits} waits");
}
