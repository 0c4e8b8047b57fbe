//! Files that are served from inside of the stack: `mbuma run --serve DIR`, and `mbuma serve DIR`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant, SystemTime};

use crate::common::needs::{guests, ip6, programs, root};
use crate::common::scratch::{noise, sha256};
use crate::common::test_host::{ip, shell};
use crate::common::{
    MBUMA, Running, Scratch, Stats, alone, mbuma, mbuma_python, output_of, output_of_python,
    program, wait_until,
};

/// A directory with a few files, all readable.
fn site() -> Scratch {
    let scratch = Scratch::new();
    let dir = scratch.path("site");
    fs::create_dir_all(dir.join("with index")).expect("the temporary directory can be written");
    fs::create_dir_all(dir.join("names/below")).expect("likewise");
    scratch.write("secret", b"secret\n");
    scratch.write("site/ten", b"0123456789");
    scratch.write("site/empty", b"");
    scratch.write("site/.hidden", b"hidden\n");
    scratch.write("site/with index/index.html", b"<p>index</p>\n");
    scratch.write("site/names/a & b.txt", b"a and b\n");
    // A file that was changed a moment before has a weak entity tag, so set an old time.
    let ten = fs::File::options()
        .append(true)
        .open(dir.join("ten"))
        .expect("our file");
    let past = SystemTime::now() - Duration::from_secs(3600);
    ten.set_modified(past).expect("our file");
    scratch
}

/// Runs a script in a guest that finds the site, and gives what it printed.
fn visit(scratch: &Scratch, script: &str) -> String {
    output_of(&["--serve", &scratch.text("site")], script)
}

const URL: &str = "http://10.0.2.2/files";

#[test]
fn files_are_served() {
    // Breaks when the example of the README does not work, or a byte of a file is lost, doubled or moved.
    needs!(guests(), programs(&["curl", "sha256sum"]));
    let scratch = site();
    let big = noise(48 << 20, 11);
    scratch.write("site/big", &big);
    let script = format!(
        "curl -sS {URL}/big | sha256sum
         curl -sS --limit-rate 64M {URL}/big | sha256sum
         curl -sS {URL}/ten; echo
         curl -sS {URL}/empty
         curl -sSL {URL}/with%20index
         curl -sS '{URL}/names/a%20%26%20b.txt'"
    );
    let out = visit(&scratch, &script);
    let lines: Vec<_> = out.lines().collect();
    let sum = sha256(|pipe| pipe.write_all(&big).expect("a pipe"));
    let expected = [
        format!("{sum}  -"),
        format!("{sum}  -"),
        "0123456789".into(),
        "<p>index</p>".into(),
        "a and b".into(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn answers_keep_to_http() {
    // Breaks when a valid or invalid request gets another answer than the standard requires.
    needs!(guests(), programs(&["curl", "nc"]));
    let scratch = site();
    let locked = scratch.write("site/locked", b"x");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).expect("our file");
    let status = "-o /dev/null -w '%{http_code} %{num_connects} %{size_download}\\n'";
    let script = format!(
        "curl -sS {status} {URL}/ten {status} {URL}/empty
         curl -sS {status} -I {URL}/ten
         curl -sS {status} {URL}/none {status} {URL}/ten/ {status} {URL}/locked {status} {URL}/names
         curl -sS {status} -d x {URL}/ten
         curl -sS {status} -H 'If-Modified-Since: Sat, 06 Nov 2094 08:49:37 GMT' {URL}/ten
         curl -sS {status} -r 20- {URL}/ten
         curl -sS -r 2-4 {URL}/ten; echo
         curl -sS -r -3 {URL}/ten; echo
         curl -sSi -r 0-1,5-6 {URL}/ten | tr -d '\\r' | grep -a -e ' bytes' -e byteranges -e ^01 -e ^56
         etag=$(curl -sSI {URL}/ten | tr -d '\\r' | sed -n 's/^ETag: //p')
         curl -sS {status} -H \"If-None-Match: $etag\" {URL}/ten
         curl -sS {status} -H \"If-Range: $etag\" -r 1-2 {URL}/ten
         printf 'GET /files/ten HTTP/1.1\\r\\nHost: x\\r\\n\\r\\nGET /files/ten HTTP/1.0\\r\\n\\r\\n' |
             nc -q 5 10.0.2.2 80 | grep -ac -e '^0123456789'
         printf 'what?\\r\\n\\r\\n' | nc -q 5 10.0.2.2 80 | head -n 1"
    );
    let out = visit(&scratch, &script);
    let lines: Vec<_> = out.lines().map(str::trim).collect();
    // An answer with a text has the length of the text.
    let expected = [
        "200 1 10",
        "200 0 0",
        "200 1 0",
        "404 1 14",
        "404 0 14",
        "403 0 14",
        "301 0 22",
        "405 1 23",
        "304 1 0",
        "416 1 26",
        "234",
        "789",
        "Content-Type: multipart/byteranges; boundary=mbuma-61c8e9f0d2b74a35",
        "Content-Range: bytes 0-1/10",
        "01",
        "Content-Range: bytes 5-6/10",
        "56",
        "304 1 0",
        "206 1 2",
        "2",
        "HTTP/1.1 400 Bad Request",
    ];
    assert_eq!(lines, expected, "{out}");
}

#[test]
fn a_directory_shows_its_names() {
    // Breaks when a name is missing, hidden names show, or a directory of many files is not served to its end.
    needs!(guests(), programs(&["curl"]));
    let scratch = site();
    let many = scratch.path("site/many");
    fs::create_dir_all(&many).expect("the temporary directory can be written");
    for n in 0..20_000 {
        fs::write(many.join(format!("file-{n}")), "").expect("likewise");
    }
    let script = format!(
        "curl -sS {URL}/ ; curl -sS {URL}/names/
         curl -sS {URL}/many/ | grep -c 'href=\"./file-'
         curl -sS --http1.0 {URL}/many/ | grep -c 'href=\"./file-'"
    );
    let out = visit(&scratch, &script);
    for entry in [
        "<a href=\"./names/\">names/</a>",
        "<a href=\"./with%20index/\">with index/</a>",
        "<a href=\"./a%20%26%20b.txt\">a &amp; b.txt</a>",
        "<a href=\"../\">",
        "<a href=\"./below/\">",
    ] {
        assert!(out.contains(entry), "{entry} is not in {out}");
    }
    assert!(!out.contains("hidden"), "{out}");
    assert!(out.ends_with("\n20000\n20000\n"), "{out}");
    let out = output_of(
        &["--serve", &scratch.text("site"), "--serve-no-listing"],
        &format!("curl -sS -o /dev/null -w '%{{http_code}}' {URL}/names/"),
    );
    assert_eq!(out, "403");
}

#[test]
fn nothing_outside_of_the_directory_is_served() {
    // Breaks when a path or a link leads out of the directory.
    needs!(guests(), programs(&["curl"]));
    let scratch = site();
    symlink("../secret", scratch.path("site/up")).expect("a link");
    symlink("/etc/passwd", scratch.path("site/absolute")).expect("a link");
    symlink("/", scratch.path("site/root")).expect("a link");
    symlink("ten", scratch.path("site/inside")).expect("a link");
    let script = format!(
        "for path in ../secret ..%2fsecret %2e%2e/secret names/../../secret up absolute root/etc/passwd .hidden \\
             //etc/passwd
         do curl -sS --path-as-is -o /dev/null -w '%{{http_code}} ' \"{URL}/$path\"; done
         curl -sS {URL}/inside"
    );
    let out = visit(&scratch, &script);
    assert_eq!(out, "400 400 400 400 404 404 404 404 404 0123456789");
}

#[test]
fn a_compressed_file_goes_to_clients_that_take_it() {
    // Breaks when a client gets bytes that it can't read, or an old state of the file.
    needs!(guests(), programs(&["curl", "gzip"]));
    let scratch = site();
    let text = "a text that repeats itself, ".repeat(2000);
    scratch.write("site/text.css", text.as_bytes());
    let zipped = program("gzip")
        .args(["-9", "-k", &scratch.text("site/text.css")])
        .status();
    assert!(zipped.expect("gzip is there").success());
    let script = format!(
        "curl -sS {URL}/text.css | wc -c
         curl -sS --compressed {URL}/text.css | wc -c
         curl -sSI -H 'Accept-Encoding: gzip' {URL}/text.css | tr -d '\\r' | grep -e ^Content-E -e ^Content-T -e ^Vary
         curl -sSI -H 'Accept-Encoding: gzip;q=0' {URL}/text.css | tr -d '\\r' | grep -e ^Content-E -e ^Vary
         touch -d '1 hour' {}
         curl -sSI -H 'Accept-Encoding: gzip' {URL}/text.css | grep -c -e ^Content-E -e ^Vary
         true",
        scratch.text("site/text.css")
    );
    let out = visit(&scratch, &script);
    let len = text.len();
    let expected = format!(
        "{len}\n{len}\nContent-Encoding: gzip\nVary: Accept-Encoding\nContent-Type: text/css; charset=utf-8\n\
         Vary: Accept-Encoding\n0\n"
    );
    assert_eq!(out, expected);
}

#[test]
fn requests_are_logged() {
    // Breaks when a request is missing from the log, or a log reader can't read the line.
    needs!(guests(), programs(&["curl"]));
    let scratch = site();
    let log = scratch.text("log");
    let args = [
        "--serve",
        &scratch.text("site"),
        "--serve-log",
        &log,
        "--stats=json",
    ];
    let script = format!(
        "curl -sS -A agent -e ref {URL}/ten {URL}/none >/dev/null; curl -sS http://10.0.2.2/ >/dev/null"
    );
    let ended = Running::start(mbuma(&args, &script)).finish();
    let stats = Stats::checked(&ended.err);
    assert_eq!(stats.number("file_requests"), 2);
    assert_eq!(stats.number("status_requests"), 1);
    assert_eq!(stats.number("log_lines_lost"), 0);
    let text = fs::read_to_string(&log).expect("the log");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("10.0.2.100 - - ["), "{text}");
    assert!(
        lines[0].ends_with("\"GET /files/ten HTTP/1.1\" 200 10 \"ref\" \"agent\""),
        "{text}"
    );
    assert!(
        lines[1].contains("\"GET /files/none HTTP/1.1\" 404 14 "),
        "{text}"
    );
}

#[test]
fn a_log_that_takes_no_lines_is_reported() {
    // Breaks when a full disk ends the access log in silence.
    needs!(guests(), programs(&["curl"]));
    let scratch = site();
    let site = scratch.text("site");
    let args = ["--serve", &*site, "--serve-log", "/dev/full"];
    let script = format!("curl -sS {URL}/ten");
    let ended = Running::start(mbuma(&args, &script)).finish();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.err.matches("access log").count(), 1, "{ended:?}");
    // Breaks when mbuma wants a reader of the FIFO before it starts.
    let fifo = scratch.text("fifo");
    shell(&format!("mkfifo {fifo}"));
    let args = ["--serve", &*site, "--serve-log", &fifo];
    let script = format!("curl -sS {URL}/ten; head -n 1 {fifo}");
    let ended = Running::start(mbuma(&args, &script)).finish();
    assert!(ended.out.contains("GET /files/ten"), "{ended:?}");
}

/// Begins to fetch a file, waits until it is shorter, and reads on.
const SHRINKS: &str = "
import os, socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
s.connect(('10.0.2.2', 80))
s.sendall(b'GET /files/shrinks HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
head = s.recv(1000)
os.truncate(sys.argv[1], 100)
got = len(head)
try:
    while True:
        n = len(s.recv(1 << 16))
        got += n
        if not n:
            print('an end like any other')
            break
except ConnectionResetError:
    print('reset')
print(got < 64 << 20)
t = socket.create_connection(('10.0.2.2', 80))
t.sendall(b'GET /files/shrinks HTTP/1.0\\r\\n\\r\\n')
print(b'Content-Length: 100' in t.recv(1000))
";

#[test]
fn a_file_that_shrinks_ends_its_connection() {
    // Breaks when the response has made-up bytes, the client takes the part for the whole file, or other clients are
    // affected.
    needs!(guests(), programs(&["python3"]));
    let scratch = site();
    let path = scratch.write("site/shrinks", &noise(64 << 20, 5));
    let out = output_of_python(&["--serve", &scratch.text("site")], SHRINKS, &[&path]);
    assert_eq!(out, "reset\nTrue\nTrue\n");
}

/// Connections that send their head slowly, that read nothing, or that read a byte a second; then an ordinary client.
const ATTACKS: &str = "
import resource, socket, time, sys
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
count = int(sys.argv[1])
def connect():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(20)
    s.connect(('10.0.2.2', 80))
    return s
slow = [connect() for _ in range(count)]
for s in slow:
    s.sendall(b'GET /files/big HTTP/1.1\\r\\nHost: x\\r\\nX: ')
deaf = [connect() for _ in range(200)]
for s in deaf:
    s.sendall(b'GET /files/big HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' * 20)
begun = time.monotonic()
for n in range(12):
    for s in slow:
        try:
            s.sendall(b'x')
        except OSError:
            pass
    for s in deaf[:100]:
        s.recv(1)
    t = socket.create_connection(('10.0.2.2', 80))
    t.settimeout(20)
    asked = time.monotonic()
    t.sendall(b'GET /files/ten HTTP/1.0\\r\\n\\r\\n')
    answer = b''
    while piece := t.recv(4096):
        answer += piece
    assert answer.endswith(b'0123456789'), answer
    assert time.monotonic() - asked < 5
    time.sleep(max(0, begun + n + 1 - time.monotonic()))
late = 0
for s in slow:
    try:
        late += b' 408 ' in s.recv(1000)
    except OSError:
        late += 1
print(late == count)
print('ready')
sys.stdin.readline()
";

#[test]
fn slow_clients_are_bounded() {
    // Breaks when clients that send or read slowly take memory without bound, or shut others out.
    needs!(guests(), programs(&["python3"]));
    let _heavy = alone();
    let scratch = site();
    scratch.write("site/big", &noise(16 << 20, 7));
    let args = ["--serve", &scratch.text("site")];
    let begun = Instant::now();
    let running = Running::start(mbuma_python(&args, ATTACKS, &["500"]));
    let mut running = running.with_patience(Duration::from_secs(120));
    running.wait_for("ready");
    let status = fs::read_to_string(format!("/proc/{}/status", running.gateway()));
    let status = status.expect("the gateway process");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = resident
        .and_then(|text| text.trim().trim_end_matches(" kB").parse().ok())
        .expect("a number of KiB");
    assert!(kib < 150 << 10, "{kib} KiB, after {:?}", begun.elapsed());
    running.say("");
    assert_eq!(running.finish().good(), "True\nready\n");
}

/// `mbuma serve`, once it serves.
fn serving(arguments: &[&str]) -> Running {
    let mut command = program(MBUMA);
    command.arg("serve").args(arguments);
    let running = Running::start(command);
    running.wait_for("serving at");
    running
}

#[test]
fn an_interface_of_the_host_serves() {
    // Breaks when the host can't reach a server on its own interface, or the server is a gateway, or outlives its
    // signal.
    needs!(guests(), root(), programs(&["curl", "ping"]));
    on_test_host!();
    let scratch = site();
    let dir = scratch.text("site");
    let place = ["--tap", "srv0", "--address", "192.0.2.2/24"];
    let server = serving(&[&[&*dir, "--status", "--stats=json"], &place[..]].concat());
    // Breaks when two programs have one TAP, each with a part of the flows.
    let mut second = program(MBUMA);
    second.args(["serve", &dir, "--tap", "srv0", "--address", "192.0.2.3/24"]);
    let second = Running::start(second).finish();
    assert_eq!(second.code, Some(125), "{second:#?}");
    assert!(second.err.contains("another program uses"), "{second:#?}");
    shell(
        "test \"$(curl -sS http://192.0.2.2/ten)\" = 0123456789
         curl -sS http://192.0.2.2/ | grep -q 'with%20index/'
         curl -sS http://192.0.2.2/.mbuma/ | grep -q 'requests for files'
         curl -sS http://192.0.2.2/.mbuma/metrics | grep -q '^mbuma_file_requests_total 2'
         ping -q -c 1 -W 5 192.0.2.2
         test \"$(curl -s -o /dev/null -w '%{exitcode}' http://192.0.2.2:81/)\" = 7
         ip route add 198.51.100.0/24 via 192.0.2.2
         test \"$(curl -s -m 2 -o /dev/null -w '%{exitcode}' http://198.51.100.1/)\" = 28",
    );
    server.signal("TERM");
    let ended = server.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    Stats::checked(&ended.err);
    shell("test ! -e /sys/class/net/srv0");
    // Breaks when it serves at an address where the host itself answers, and each client is refused.
    let mut own = program(MBUMA);
    own.args([
        "serve",
        &dir,
        "--tap",
        "srv1",
        "--address",
        "203.0.113.2/24",
    ]);
    shell("ip address add 203.0.113.2/32 dev lo");
    let own = Running::start(own).finish();
    assert_eq!(own.code, Some(125), "{own:#?}");
    assert!(own.err.contains("choose another"), "{own:#?}");
    // Breaks when it serves in a network that the host has by another interface, where nothing reaches it.
    shell("ip link add v0 type veth peer name v1");
    shell("ip address add 198.18.5.9/24 dev v0; ip link set v0 up; ip link set v1 up");
    let mut taken = program(MBUMA);
    taken.args(["serve", &dir, "--tap", "srv1", "--address", "198.18.5.2/24"]);
    let taken = Running::start(taken).finish();
    assert_eq!(taken.code, Some(125), "{taken:#?}");
    assert!(taken.err.contains("another interface has"), "{taken:#?}");
    // Breaks when root's directory is served to no client, without a word.
    shell(&format!("chmod 700 {dir}"));
    let server = serving(&[&[&*dir], &place[..]].concat());
    server.signal("INT");
    let ended = server.finish();
    assert!(ended.err.contains("chmod o+x"), "{ended:#?}");
    let server = serving(&[&[&*dir], &place[..]].concat());
    shell("test \"$(curl -s -o /dev/null -w '%{http_code}' http://192.0.2.2/.mbuma/)\" = 404");
    // The server has no port on the host. Breaks if it opens one whose clients are all refused.
    for verb in [&["add", "18080:80"][..], &["list"]] {
        let mut command = program(MBUMA);
        command.arg("publish").args(verb);
        command.args(["--pid", &server.id().to_string()]);
        let refused = Running::start(command).finish();
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains("has no guest"), "{refused:?}");
    }
    server.signal("INT");
    assert_eq!(server.finish().code, Some(0));
}

#[test]
fn a_server_has_addresses_of_both_versions_of_ip() {
    // Breaks when a client of IPv6 finds no server, its first packet waits for probes, the server is a gateway of IPv6,
    // or a certificate lacks an address.
    needs!(
        guests(),
        root(),
        ip6(),
        programs(&["curl", "ping", "openssl"])
    );
    on_test_host!();
    let scratch = site();
    let dir = scratch.text("site");
    let v6 = ["--address", "2001:db8::2/64"];
    let both = ["--tap", "srv0", "--address", "192.0.2.2/24"];
    let server = serving(&[&[&*dir, "--status"], &both[..], &v6[..]].concat());
    shell(
        "test \"$(curl -sS 'http://[2001:db8::2]/ten')\" = 0123456789
         test -z \"$(ip -6 address show dev srv0 tentative)\"
         test -z \"$(ip -6 route show default)\"
         test \"$(curl -sS http://192.0.2.2/ten)\" = 0123456789
         curl -sS 'http://[2001:db8::2]/.mbuma/metrics' | grep -q '^mbuma_file_requests_total 2'
         ping -q -c 1 -W 5 2001:db8::2
         ping -q -c 1 -W 5 fe80::6d:c0ff:fe00:202%srv0
         ip -6 address add 2001:db8:7::1/128 dev lo nodad
         test \"$(curl -sS --interface 2001:db8:7::1 'http://[2001:db8::2]/ten')\" = 0123456789
         test \"$(curl -s -o /dev/null -w '%{exitcode}' 'http://[2001:db8::2]:81/')\" = 7
         ip route add 2001:db8:9::/64 via 2001:db8::2
         test \"$(curl -s -m 2 -o /dev/null -w '%{exitcode}' 'http://[2001:db8:9::1]/')\" = 28",
    );
    server.signal("TERM");
    let ended = server.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let places = "serving at http://192.0.2.2/\nserving at http://[2001:db8::2]/\n";
    assert_eq!(ended.out, places);
    // IPv6 alone, and TLS.
    let alone = ["--tls=self-signed", "--tap", "srv1", "--port", "8443"];
    let server = serving(&[&[&*dir], &alone[..], &v6[..]].concat());
    shell("test \"$(curl -ksS 'https://[2001:db8::2]:8443/ten')\" = 0123456789");
    server.signal("TERM");
    assert_eq!(server.wait_for("serving at"), "https://[2001:db8::2]:8443/");
    assert_eq!(server.finish().code, Some(0));
    let server = serving(&[&[&*dir, "--tls=self-signed"], &both[..], &v6[..]].concat());
    shell(
        "names=$(openssl s_client -connect '[2001:db8::2]:443' </dev/null 2>/dev/null |
             openssl x509 -noout -ext subjectAltName)
         echo \"$names\" | grep -q 'IP Address:192.0.2.2, IP Address:2001:DB8:0:0:0:0:0:2'",
    );
    server.signal("TERM");
    assert_eq!(server.finish().code, Some(0));
    // An address of the host's own; and an interface without IPv6.
    shell("ip -6 address add 2001:db8:5::2/128 dev lo nodad");
    let own = ["--tap", "srv1", "--address", "2001:db8:5::2/64"];
    for (options, code, said) in [
        (&own[..], 125, "choose another"),
        (&[&own[..], &["--mtu", "1000"]].concat(), 2, "at least 1280"),
        (
            &[&own[..], &["--gateway", "192.0.2.1"]].concat(),
            2,
            "there is an address",
        ),
    ] {
        let mut command = program(MBUMA);
        command.args(["serve", &dir]).args(options);
        let refused = Running::start(command).finish();
        assert_eq!(refused.code, Some(code), "{refused:#?}");
        assert!(refused.err.contains(said), "{refused:#?}");
    }
}

#[test]
fn a_server_in_a_bridge_is_reached_over_ipv6() {
    // Breaks when a server does not report its groups to a bridge, which then sends it no solicitation, or uses an
    // address that a router of the link advertises.
    needs!(guests(), root(), ip6(), programs(&["curl"]));
    on_test_host!();
    ip("netns add blue");
    shell(
        "ip -n blue link add br0 type bridge mcast_snooping 1 mcast_querier 1
         ip -n blue tuntap add name tap0 mode tap multi_queue
         ip -n blue link set tap0 master br0 up
         ip -n blue address add 10.0.2.7/24 dev br0
         ip -n blue address add fd00::7/64 dev br0 nodad
         ip -n blue link set br0 up",
    );
    let scratch = site();
    let server = serving(&[&scratch.text("site"), "--in", "/run/netns/blue"]);
    shell(
        "ip netns exec blue sh -ec '
         test \"$(curl -sS http://10.0.2.2/ten)\" = 0123456789
         sleep 3
         test \"$(curl -sS -m 10 http://[fd00::2]/ten)\" = 0123456789
         bridge mdb show dev br0 | grep -q ff02::1:ff00:2'",
    );
    server.signal("TERM");
    let ended = server.finish();
    assert_eq!(ended.code, Some(0));
    let places = "serving at http://10.0.2.2/\nserving at http://[fd00::2]/\n";
    assert_eq!(ended.out, places);
}

#[test]
fn an_interface_of_a_namespace_serves() {
    // Breaks when a namespace gets more than the server, the server lets ports be published, or it does not end with
    // the namespace.
    needs!(guests(), root(), ip6(), programs(&["curl"]));
    on_test_host!();
    ip("netns add blue");
    let scratch = site();
    let dir = scratch.text("site");
    let server = serving(&[
        &dir,
        "--in",
        "/run/netns/blue",
        "--port",
        "8080",
        "--no-listing",
    ]);
    shell(
        "ip netns exec blue sh -ec '
         test \"$(curl -sS http://10.0.2.2:8080/ten)\" = 0123456789
         test \"$(curl -sS http://[fd00::2]:8080/ten)\" = 0123456789
         test \"$(curl -sS -o /dev/null -w %{http_code} http://10.0.2.2:8080/)\" = 403
         test -z \"$(ip route show default; ip -6 route show default)\"'",
    );
    let mut publish = program(MBUMA);
    let pid = server.id().to_string();
    publish.args(["publish", "add", "--pid", &pid, "18080:80"]);
    let refused = Running::start(publish).finish();
    assert_eq!(refused.code, Some(1), "{refused:#?}");
    ip("netns del blue");
    let ended = server.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}

#[test]
fn a_tap_of_a_namespace_that_is_there_is_served() {
    // Breaks when `serve` and `relay` refuse a TAP that the namespace's owner made, change it, or take it away at their
    // end; or when one that another program uses is shared with it.
    needs!(guests(), root(), programs(&["curl"]));
    on_test_host!();
    ip("netns add blue");
    shell(
        "ip -n blue tuntap add name tap0 mode tap multi_queue
         ip -n blue address add 10.0.2.7/24 dev tap0
         ip -n blue link set tap0 mtu 1400 up",
    );
    let scratch = site();
    let dir = scratch.text("site");
    let server = serving(&[&dir, "--in", "/run/netns/blue"]);
    shell("test \"$(ip netns exec blue curl -sS http://10.0.2.2/ten)\" = 0123456789");
    for arguments in [
        &["serve", &dir, "--in", "/run/netns/blue"][..],
        &[
            "relay",
            "in=/run/netns/blue,address=10.0.2.9/24,port=80",
            "to=10.0.2.2:80",
        ],
    ] {
        let mut second = program(MBUMA);
        second.args(arguments);
        let second = Running::start(second).finish();
        assert_eq!(second.code, Some(125), "{second:#?}");
        assert!(second.err.contains("no free TAP"), "{second:#?}");
    }
    server.signal("TERM");
    assert_eq!(server.finish().code, Some(0));
    let mut relay = program(MBUMA);
    relay.args([
        "relay",
        "in=/run/netns/blue,address=10.0.2.9/24,port=80",
        "to=10.0.2.7:8080",
    ]);
    let relay = Running::start(relay);
    relay.wait_for("relaying from");
    shell(
        "ip netns exec blue sh -ec '
         echo there | nc -N -l 10.0.2.7 8080 >/dev/null & sleep 0.5
         test \"$(echo back | nc -N 10.0.2.9 80)\" = there'",
    );
    relay.signal("TERM");
    assert_eq!(relay.finish().code, Some(0));
    shell(
        "test \"$(ip -n blue -4 -o address show dev tap0 | grep -c 10.0.2.)\" = 1
         ip -n blue link show dev tap0 | grep -q 'mtu 1400'
         test -z \"$(ip -n blue route show default)\"",
    );
}

#[test]
fn a_server_ends_when_its_responses_have_gone() {
    // Breaks when a signal cuts a response off, or connections that wait for a request keep the server.
    needs!(guests(), root(), programs(&["curl", "nc"]));
    on_test_host!();
    let scratch = site();
    let big = noise(24 << 20, 3);
    scratch.write("site/big", &big);
    let copy = scratch.text("copy");
    let dir = scratch.text("site");
    let server = serving(&[&dir, "--tap", "srv0", "--address", "192.0.2.2/24"]);
    let mut idle = program("nc");
    idle.args(["192.0.2.2", "80"]);
    let idle = Running::start(idle);
    let mut fetch = program("curl");
    fetch.args([
        "-sS",
        "--limit-rate",
        "12M",
        "-o",
        &copy,
        "http://192.0.2.2/big",
    ]);
    let fetch = Running::start(fetch);
    wait_until("a part of the file", || {
        fs::metadata(&copy).is_ok_and(|file| file.len() > 1 << 20)
    });
    server.signal("TERM");
    assert_eq!(server.finish().code, Some(0));
    fetch.finish().good();
    assert!(
        fs::read(&copy).expect("the copy") == big,
        "the copy differs"
    );
    idle.finish();
}

#[test]
fn mistakes_in_the_options_are_said() {
    // Breaks when a place is missing and the server serves nowhere, or a missing directory is found too late.
    let run = |arguments: &[&str]| {
        let mut command = program(MBUMA);
        command.arg("serve").args(arguments);
        Running::start(command).finish()
    };
    let ended = run(&["/"]);
    assert!(
        ended.code == Some(2) && ended.err.contains("--in") && ended.err.contains("--tap"),
        "{ended:#?}"
    );
    assert_eq!(run(&["/", "--tap", "srv0"]).code, Some(2));
    assert_eq!(
        run(&["/", "--tap", "srv0", "--address", "192.0.2.0/24"]).code,
        Some(2)
    );
    let ended = Running::start(mbuma(&["--serve", "/nonexistent"], "echo ran")).finish();
    assert_eq!((ended.code, &*ended.out), (Some(125), ""), "{ended:#?}");
    assert!(ended.err.contains("/nonexistent"), "{ended:#?}");
}
