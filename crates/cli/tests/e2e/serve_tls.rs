//! `mbuma serve --tls` and clients of other TLS libraries, and clients without TLS.

use std::fs;

use crate::common::needs::{guests, programs, root};
use crate::common::scratch::noise;
use crate::common::test_host::shell;
use crate::common::{MBUMA, Running, Scratch, Stats, program};

/// A directory with a small and a large file.
fn site() -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("site")).expect("the temporary directory can be written");
    scratch.write("site/ten", b"0123456789");
    scratch.write("site/big", &noise(24 << 20, 31));
    scratch
}

/// A server of the site at 192.0.2.2, once it serves.
fn serving(scratch: &Scratch, options: &[&str]) -> Running {
    let mut command = program(MBUMA);
    command.args(["serve", &scratch.text("site"), "--tap", "srv0"]);
    command.args(["--address", "192.0.2.2/24", "--stats=json"]);
    command.args(options);
    let running = Running::start(command);
    running.wait_for("serving at https://192.0.2.2/");
    running
}

/// Ends it, and gives its figures.
fn ended(server: Running) -> Stats {
    server.signal("TERM");
    let ended = server.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(!ended.err.contains("PRIVATE KEY") && !ended.out.contains("PRIVATE KEY"));
    Stats::checked(&ended.err)
}

/// A script of Python's with a server of the site to talk to, and what it prints.
fn python(source: &str, args: &[&str]) -> String {
    let mut command = program("python3");
    command.args(["-I", "-c", source]).args(args);
    Running::start(command).finish().good()
}

/// A certificate with a key of this kind, as openssl makes them.
fn certificate(scratch: &Scratch, kind: &str) -> [String; 2] {
    let [cert, key] = ["cert", "key"].map(|part| scratch.text(&format!("{part}.pem")));
    shell(&format!(
        "openssl req -x509 -newkey {kind} -noenc -keyout {key} -out {cert} -days 2 -subj /CN=test \
         -addext subjectAltName=IP:192.0.2.2 2>/dev/null"
    ));
    [cert, key]
}

const PYTHON: &str = "
import hashlib, socket, ssl, sys
context = ssl._create_unverified_context()
def get(path):
    with context.wrap_socket(socket.create_connection(('192.0.2.2', 443))) as s:
        s.settimeout(60)
        s.sendall(b'GET ' + path + b' HTTP/1.0\\r\\n\\r\\n')
        pieces = []
        while piece := s.recv(65536):
            pieces.append(piece)
        return b''.join(pieces).split(b'\\r\\n\\r\\n', 1)[1]
assert get(b'/ten') == b'0123456789'
assert get(b'/big') == open(sys.argv[1], 'rb').read()
";

#[test]
fn clients_of_tls_get_every_byte() {
    // Breaks when the example of the README does not work, a byte is lost, doubled or moved under TLS, or the printed
    // fingerprint is not that of the certificate.
    needs!(
        guests(),
        root(),
        programs(&["curl", "wget", "openssl", "python3", "cmp"])
    );
    on_test_host!();
    let scratch = site();
    let server = serving(&scratch, &["--tls=self-signed"]);
    let fingerprint = server.wait_for("the certificate's SHA-256 is");
    let big = scratch.text("site/big");
    shell(&format!(
        "curl -ksS https://192.0.2.2/big | cmp - {big}
         curl -ksS --limit-rate 48M https://192.0.2.2/big | cmp - {big}
         curl -ksS --tls-max 1.2 https://192.0.2.2/big | cmp - {big}
         test \"$(curl -ksS -r 3-5 https://192.0.2.2/ten)\" = 345
         test \"$(curl -ksS --http1.0 -r 3-5 https://192.0.2.2/ten)\" = 345
         test \"$(curl -ksS -w '%{{num_connects}}' -o /dev/null https://192.0.2.2/ten -o /dev/null \
             https://192.0.2.2/big)\" = 10
         curl -ksS https://192.0.2.2/ | grep -q 'ten<'
         for n in 1 2 3 4 5 6 7 8; do curl -ksS https://192.0.2.2/big | cmp - {big} & done; wait
         wget -q --no-check-certificate -O - https://192.0.2.2/big | cmp - {big}
         openssl s_client -connect 192.0.2.2:443 -alpn h2,http/1.1 </dev/null >{out} 2>/dev/null
         grep -q 'ALPN protocol: http/1.1' {out}
         openssl x509 -in {out} -noout -fingerprint -sha256 | grep -q '={fingerprint}$'
         openssl x509 -in {out} -noout -checkip 192.0.2.2 | grep -q 'does match'
         test \"$(curl -s -o /dev/null -w '%{{exitcode}}' http://192.0.2.2/ten)\" = 7",
        out = scratch.text("out"),
    ));
    python(PYTHON, &[&big]);
    let stats = ended(server);
    assert!(stats.number("tls_handshakes") >= 18);
    assert_eq!(stats.number("tls_handshakes_failed"), 0);
}

#[test]
fn every_suite_serves_with_either_kind_of_key() {
    // Breaks when a suite's keys, nonces or lengths are not those of OpenSSL, or a kind of key in a file can't be used.
    needs!(guests(), root(), programs(&["openssl", "cmp"]));
    on_test_host!();
    let scratch = site();
    let modern = "TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256";
    for (kind, name) in [
        ("rsa:2048", "RSA"),
        ("ec -pkeyopt ec_paramgen_curve:P-256", "ECDSA"),
    ] {
        let [cert, key] = certificate(&scratch, kind);
        let server = serving(&scratch, &["--tls", &cert, &key]);
        let old = [
            "AES128-GCM-SHA256",
            "AES256-GCM-SHA384",
            "CHACHA20-POLY1305",
        ];
        let old = old.map(|suite| format!("ECDHE-{name}-{suite}")).join(" ");
        shell(&format!(
            "ask() {{
                 printf 'GET /big HTTP/1.0\\r\\n\\r\\n' |
                     openssl s_client -connect 192.0.2.2:443 -CAfile {cert} -verify_return_error -quiet \
                         -ign_eof \"$@\" \
                         2>/dev/null | tail -c {len} | cmp - {big}
             }}
             for suite in {modern}; do ask -tls1_3 -ciphersuites $suite; done
             for suite in {old}; do ask -tls1_2 -cipher $suite; done
             ask -tls1_3 -groups P-384
             ask -tls1_2 -groups P-256",
            len = 24 << 20,
            big = scratch.text("site/big"),
        ));
        ended(server);
    }
}

/// A client with OpenSSL that changes its key and requests a new key of the server, before and during a response.
const KEY_UPDATE: &str = "
import subprocess, sys
client = subprocess.Popen(['openssl', 's_client', '-connect', '192.0.2.2:443', '-tls1_3', '-msg'],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
seen = b''
def until(count, word):
    global seen
    while seen.count(word) < count:
        piece = client.stdout.read1(65536)
        assert piece, seen[-1000:]
        seen += piece
until(2, b'NewSessionTicket')
for n in range(1, 6):
    for letter, answers in ((b'k', 0), (b'K', 1)):
        sent, heard = (b'%b TLS 1.3, Handshake [length 0005], KeyUpdate' % way for way in (b'>>>', b'<<<'))
        before = seen.count(sent), seen.count(heard)
        client.stdin.write(letter + b'\\n')
        client.stdin.flush()
        until(before[0] + 1, sent)
        until(before[1] + answers, heard)
    client.stdin.write(b'GET /ten HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
    client.stdin.flush()
    until(n, b'0123456789')
client.stdin.close()
client.kill()
";

#[test]
fn keys_change_as_often_as_the_client_asks() {
    // Breaks when the two sides have different keys after a KeyUpdate, or a request for one is not answered.
    needs!(guests(), root(), programs(&["openssl", "python3"]));
    on_test_host!();
    let scratch = site();
    let server = serving(&scratch, &["--tls=self-signed"]);
    python(KEY_UPDATE, &[]);
    ended(server);
}

/// Clients that break the rules of TLS, or leave in the middle; then an ordinary one.
const HOSTILE: &str = "
import os, random, socket, ssl, struct
context = ssl._create_unverified_context()
def connect():
    s = socket.create_connection(('192.0.2.2', 443))
    s.settimeout(60)
    return s
def good():
    with context.wrap_socket(connect()) as s:
        s.sendall(b'GET /ten HTTP/1.0\\r\\n\\r\\n')
        answer = b''
        while piece := s.recv(65536):
            answer += piece
        assert answer.endswith(b'0123456789'), answer
def rest(s):
    answer = b''
    try:
        while piece := s.recv(65536):
            answer += piece
    except ConnectionResetError:
        pass
    s.close()
    return answer
def hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname='x')
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()
# Plain HTTP, noise, lengths that lie, and a record that no handshake has: an alert, and the end.
draw = random.Random(7)
for garbage in (b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', draw.randbytes(4000),
                b'\\x16\\x03\\x01\\xff\\xff' + b'x' * 70000,
                b'\\x17\\x03\\x03\\x00\\x05hello', b'\\x16\\x03\\x01\\x00\\x04\\x01\\xff\\xff\\xff' * 1000):
    s = connect()
    try:
        s.sendall(garbage)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    answer = rest(s)
    assert answer == b'' or answer[:2] == b'\\x15\\x03', answer
# A changed and a shortened hello, at each of many places; leaving with a FIN and with a reset.
first = hello()
for n in range(200):
    s = connect()
    cut = draw.randrange(len(first))
    part = bytearray(first[:cut] if n % 2 else first)
    if part:
        part[draw.randrange(len(part))] ^= 1 << draw.randrange(8)
    s.sendall(part)
    if n % 4 == 0:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.close()
good()
# The server's flight was read, and the client's ends in each of its parts, with a FIN or a reset.
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    context.maximum_version = version
    for cut in range(0, 160, 8):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname='x')
        s = connect()
        flights = 0
        while flights < 2:
            try:
                tls.do_handshake()
                flights = 2
            except ssl.SSLWantReadError:
                flights += outgoing.pending > 0
            if flights < 2:
                s.sendall(outgoing.read())
                incoming.write(s.recv(65536))
        s.sendall(outgoing.read()[:cut])
        if cut % 16:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        s.close()
    good()
# The handshake is done, and then the client sends no records, or a changed one, or leaves amid a response.
for n in range(20):
    raw = connect()
    s = context.wrap_socket(raw)
    if n % 2:
        s.sendall(b'GET /big HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
        s.recv(1000)
    else:
        fd = os.dup(s.fileno())
        os.write(fd, b'\\x17\\x03\\x03\\x00\\x40' + draw.randbytes(64))
        os.close(fd)
        try:
            while s.recv(65536):
                pass
        except ssl.SSLError as e:
            assert 'BAD_RECORD_MAC' in str(e).upper().replace(' ', '_'), e
    s.close()
good()
# Handshakes that never end, more than may be under way.
held = []
for n in range(2500):
    s = connect()
    s.sendall(first[:20 + n % 100])
    held.append(s)
    if n % 250 == 0:
        good()
good()
";

#[test]
fn clients_that_break_tls_harm_only_themselves() {
    // Breaks when garbage in place of a handshake or of records ends the server, is answered with anything but an
    // alert, or handshakes that never end shut others out.
    needs!(guests(), root(), programs(&["python3"]));
    on_test_host!();
    let scratch = site();
    let server = serving(&scratch, &["--tls=self-signed"]);
    let mut command = program("sh");
    command.args(["-c", "ulimit -n 8000; exec python3 -I -c \"$0\"", HOSTILE]);
    Running::start(command).finish().good();
    let stats = ended(server);
    assert!(stats.number("tls_handshakes_failed") >= 1000);
}

#[test]
fn mistakes_in_certificates_are_said_before_clients_come() {
    // Breaks when a server begins that can't serve, or a message shows a key.
    needs!(guests(), root(), programs(&["openssl"]));
    on_test_host!();
    let scratch = site();
    let [cert, key] = certificate(&scratch, "rsa:2048");
    let other = Scratch::new();
    let [_, stranger] = certificate(&other, "rsa:2048");
    let run = |options: &[&str]| {
        let mut command = program(MBUMA);
        command.args(["serve", &scratch.text("site"), "--tap", "srv0"]);
        command.args(["--address", "192.0.2.2/24"]).args(options);
        Running::start(command).finish()
    };
    for (code, options) in [
        (2, &["--tls", &*cert][..]),
        (2, &["--tls", "self-signed", &*key]),
        (125, &["--tls", "/nonexistent", &*key]),
        (125, &["--tls", &*cert, &*cert]),
        (125, &["--tls", &*key, &*key]),
        (125, &["--tls", &*cert, &*stranger]),
    ] {
        let ended = run(options);
        assert_eq!(ended.code, Some(code), "{options:?} {ended:#?}");
        assert!(
            ended.err.contains("--tls") || ended.err.contains(options[1]),
            "{ended:#?}"
        );
        let key = fs::read_to_string(&key).expect("a key");
        assert!(
            !key.lines().any(|line| ended.err.contains(line)),
            "{ended:#?}"
        );
    }
}
