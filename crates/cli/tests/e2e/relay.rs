//! `mbuma relay`: connections of one namespace reach a server in another.

use std::fs;

use crate::common::needs::{guests, ip6, programs, root};
use crate::common::scratch::noise;
use crate::common::test_host::{ip, shell};
use crate::common::{MBUMA, Running, Scratch, program};

/// `mbuma relay`, once clients may connect.
fn relaying(arguments: &[&str]) -> Running {
    let mut command = program(MBUMA);
    command.arg("relay").args(arguments);
    let running = Running::start(command);
    running.wait_for("relaying from");
    running
}

/// A client that speaks no TLS, and sends more after it was told so.
const PLAIN_CLIENT: &str = "
import socket
one = socket.create_connection(('10.0.3.2', 443), 20)
one.sendall(b'GET / HTTP/1.1' + b'x' * 4000)
said = b''
while part := one.recv(100):
    said += part
assert said[:1] == bytes([21]), said
one.sendall(bytes(1 << 20))
one.shutdown(socket.SHUT_WR)
assert one.recv(1) == b''
";

/// A client of TLS that reads the rest of an answer when it is told to.
const SLOW_CLIENT: &str = "
import socket, ssl
plain = socket.create_connection(('10.0.3.2', 443), 20)
one = ssl._create_unverified_context().wrap_socket(plain, suppress_ragged_eofs=False)
one.sendall(b'GET /file HTTP/1.0\\r\\n\\r\\n')
one.recv(1)
print('begun', flush=True)
input()
try:
    while one.recv(1 << 20): pass
    print('whole')
except OSError:
    print('cut')
";

#[test]
fn a_relay_ends_tls_for_a_server_without() {
    // Breaks when bytes are lost between TLS and a plain server, an end of either is not passed on, clients without TLS
    // reach the server, such a client gets a reset, which may overtake the alert that tells it why; or when the relay's
    // end looks like that of an answer.
    needs!(
        guests(),
        root(),
        programs(&["python3", "curl", "cmp", "openssl"])
    );
    on_test_host!();
    ip("netns add blue");
    let scratch = Scratch::new();
    let file = scratch.write("file", &noise(16 << 20, 22));
    let running = relaying(&[
        "--tls=self-signed",
        "in=/run/netns/blue,address=10.0.3.2/24,port=443",
        "to=10.0.3.1:8080",
    ]);
    let fingerprint = running.wait_for("the certificate's SHA-256 is");
    let mut server = program("ip");
    server.args([
        "netns",
        "exec",
        "blue",
        "python3",
        "-I",
        "-u",
        "-m",
        "http.server",
        "8080",
    ]);
    server.args(["--directory", &scratch.text("")]);
    let server = Running::start(server);
    server.wait_for("Serving HTTP");
    shell(&format!(
        "ip netns exec blue curl -ksS https://10.0.3.2/file | cmp - {file}
         ip netns exec blue curl -ksS --tls-max 1.2 https://10.0.3.2/file | cmp - {file}
         for n in 1 2 3 4 5 6 7 8; do ip netns exec blue curl -ksS https://10.0.3.2/file | cmp - {file} & done; wait
         ip netns exec blue openssl s_client -connect 10.0.3.2:443 </dev/null 2>/dev/null |
             openssl x509 -noout -fingerprint -sha256 | grep -q '={fingerprint}$'
         ! ip netns exec blue curl -sS http://10.0.3.2:443/file >{out} 2>/dev/null
         ! grep -q HTTP {out}
         ip netns exec blue python3 -I {plain}",
        out = scratch.text("out"),
        plain = scratch.write("plain.py", PLAIN_CLIENT.as_bytes()),
    ));
    let mut slow = program("ip");
    slow.args(["netns", "exec", "blue", "python3", "-I"])
        .arg(scratch.write("slow.py", SLOW_CLIENT.as_bytes()));
    let mut slow = Running::start(slow);
    slow.wait_for("begun");
    running.signal("TERM");
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    slow.say("");
    slow.wait_for("cut");
}

/// A server of files by HTTP/1.1 over TLS, which knows that protocol alone.
const TLS_SERVER: &str = "
import functools, http.server, ssl, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_):
        pass
handler = functools.partial(Handler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(('', 8443), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
context.set_alpn_protocols(['http/1.1'])
server.socket = context.wrap_socket(server.socket, server_side=True)
print('serving', flush=True)
server.serve_forever()
";

#[test]
fn a_relay_speaks_tls_to_a_server_that_it_believes() {
    // Breaks when the relay accepts any certificate, offers a client a protocol that the server does not speak, or
    // loses bytes between two connections with TLS.
    needs!(
        guests(),
        root(),
        programs(&["python3", "curl", "cmp", "openssl"])
    );
    on_test_host!();
    ip("netns add blue");
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("site")).expect("the temporary directory can be written");
    let file = scratch.write("site/file", &noise(8 << 20, 23));
    let [ca, cert, key] = ["ca.pem", "cert.pem", "key.pem"].map(|name| scratch.text(name));
    let names = scratch.write(
        "names",
        b"basicConstraints=CA:FALSE\nsubjectAltName=DNS:a.test\n",
    );
    shell(&format!(
        "made='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
         openssl req -x509 $made -days 2 -subj /CN=authority -keyout {key}.ca -out {ca} 2>/dev/null
         openssl req $made -subj /CN=a.test -keyout {key} -out {cert}.csr 2>/dev/null
         openssl x509 -req -days 2 -in {cert}.csr -CA {ca} -CAkey {key}.ca -set_serial 1 -extfile {names} \\
             -out {cert} 2>/dev/null"
    ));
    let listen = |n: u8| format!("in=/run/netns/blue,tap=r{n},address=10.0.{n}.2/24,port=80");
    let to = |n: u8, name: &str| format!("to=10.0.{n}.1:8443,tls={name}");
    let alpn = "--alpn=h2,http/1.1";
    let plain = relaying(&["--ca", &ca, &listen(3), &to(3, "a.test")]);
    let both = ["--ca", &ca, "--tls=self-signed", alpn];
    let both = relaying(&[&both[..], &[&listen(4), &to(4, "a.test")]].concat());
    let other = relaying(&["--ca", &ca, &listen(5), &to(5, "b.test")]);
    let untrusted = relaying(&[&listen(6), &to(6, "a.test")]);
    let mut server = program("ip");
    server.args(["netns", "exec", "blue", "python3", "-I", "-c", TLS_SERVER]);
    server.args([&scratch.text("site"), &cert, &key]);
    let server = Running::start(server);
    server.wait_for("serving");
    shell(&format!(
        "inside() {{ ip netns exec blue \"$@\"; }}
         inside curl -sS http://10.0.3.2/file | cmp - {file}
         for n in 1 2 3 4; do inside curl -sS http://10.0.3.2/file | cmp - {file} & done; wait
         inside curl -ksS --no-alpn https://10.0.4.2:80/file | cmp - {file}
         inside curl -ksS --http1.1 https://10.0.4.2:80/file | cmp - {file}
         ! inside curl -ksS --http2 https://10.0.4.2:80/file >{out} 2>/dev/null
         ! inside curl -sS http://10.0.5.2/file >{out} 2>/dev/null
         ! inside curl -sS http://10.0.6.2/file >{out} 2>/dev/null
         ! test -s {out}",
        out = scratch.text("out"),
    ));
    let ends = [
        (plain, ""),
        (both, "ALPN"),
        (other, "for name"),
        (untrusted, "UnknownIssuer"),
    ];
    for (running, said) in ends {
        running.signal("TERM");
        let ended = running.finish();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(ended.err.contains(said), "{ended:#?}");
    }
    let mut command = program(MBUMA);
    command.args(["relay", "--ca", &ca, &listen(3), "to=10.0.3.1:7"]);
    assert_eq!(Running::start(command).finish().code, Some(2));
}

#[test]
fn clients_of_one_namespace_reach_a_server_in_another() {
    // Breaks when bytes are lost between two interfaces, a refusal does not come back, or packets are routed beside.
    needs!(guests(), root(), programs(&["python3", "curl", "cmp"]));
    on_test_host!();
    ip("netns add blue");
    ip("netns add red");
    let scratch = Scratch::new();
    let file = scratch.write("file", &noise(32 << 20, 21));
    let running = relaying(&[
        "in=/run/netns/blue,address=10.0.3.2/24,port=80",
        "in=/run/netns/red,address=10.0.4.2/24,to=10.0.4.1:8080",
    ]);
    // No server yet: the client's connection is reset, while it is made (7), before its request (55), or after it (56).
    shell(
        "code=$(ip netns exec blue curl -s -o /dev/null -w '%{exitcode}' http://10.0.3.2/file || :)
         case $code in 7 | 55 | 56) ;; *) echo \"curl ended with $code\" >&2; exit 1 ;; esac",
    );
    let mut server = program("ip");
    server.args([
        "netns",
        "exec",
        "red",
        "python3",
        "-I",
        "-u",
        "-m",
        "http.server",
        "8080",
        "--directory",
    ]);
    server.arg(scratch.text(""));
    let server = Running::start(server);
    server.wait_for("Serving HTTP");
    shell(&format!(
        "ip netns exec blue curl -sS http://10.0.3.2/file | cmp - {file}
         for n in 1 2 3 4 5 6 7 8; do ip netns exec blue curl -sS http://10.0.3.2/file | cmp - {file} & done; wait
         ip -n blue route add 10.0.4.0/24 via 10.0.3.2
         test \"$(ip netns exec blue curl -s -m 2 -o /dev/null -w '%{{exitcode}}' http://10.0.4.1:8080/)\" = 28"
    ));
    running.signal("TERM");
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:#?}");
    assert!(
        ended.err.contains("10.0.4.1:8080: connection refused"),
        "{ended:#?}"
    );
    server.signal("TERM");
    server.finish();
}

#[test]
fn clients_and_servers_may_have_either_version_of_ip() {
    // Breaks when a side of a relay has no IPv6, or clients and server need the same version of IP.
    needs!(
        guests(),
        root(),
        ip6(),
        programs(&["python3", "curl", "cmp"])
    );
    on_test_host!();
    ip("netns add blue");
    ip("netns add red");
    let scratch = Scratch::new();
    let file = scratch.write("file", &noise(8 << 20, 24));
    let running = relaying(&[
        "in=/run/netns/blue,address=10.0.3.2/24,address=2001:db8:3::2/64,port=80",
        "in=/run/netns/red,address=2001:db8:4::2/64,to=[2001:db8:4::1]:8080",
    ]);
    // No server yet: see above.
    shell(
        "code=$(ip netns exec blue curl -s -o /dev/null -w '%{exitcode}' 'http://[2001:db8:3::2]/file' || :)
         case $code in 7 | 55 | 56) ;; *) echo \"curl ended with $code\" >&2; exit 1 ;; esac",
    );
    let serve = |namespace: &str, at: &str| {
        let mut server = program("ip");
        server.args(["netns", "exec", namespace, "python3", "-I", "-u", "-m"]);
        server.args(["http.server", "8080", "--bind", at, "--directory"]);
        server.arg(scratch.text(""));
        let server = Running::start(server);
        server.wait_for("Serving HTTP");
        server
    };
    let _over6 = serve("red", "2001:db8:4::1");
    // Clients of IPv6 with TLS, and a server of IPv4, by one interface.
    let tls = relaying(&[
        "--tls=self-signed",
        "in=/run/netns/blue,tap=r1,address=10.0.5.2/24,address=2001:db8:5::2/64,port=443",
        "to=10.0.5.1:8080",
    ]);
    let _over4 = serve("blue", "10.0.5.1");
    shell(&format!(
        "inside() {{ ip netns exec blue \"$@\"; }}
         for at in 10.0.3.2 '[2001:db8:3::2]'; do inside curl -sS http://$at/file | cmp - {file}; done
         for n in 1 2 3 4; do inside curl -sS 'http://[2001:db8:3::2]/file' | cmp - {file} & done; wait
         for at in 10.0.5.2 '[2001:db8:5::2]'; do inside curl -ksS https://$at/file | cmp - {file}; done
         test -z \"$(ip -n blue -6 route show default)\"
         ip -n blue -6 route add 2001:db8:4::/64 via 2001:db8:3::2
         test \"$(inside curl -s -m 2 -o /dev/null -w '%{{exitcode}}' 'http://[2001:db8:4::1]:8080/')\" = 28"
    ));
    tls.signal("TERM");
    assert_eq!(tls.finish().code, Some(0));
    running.signal("TERM");
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let places = "relaying from 10.0.3.2:80\nrelaying from [2001:db8:3::2]:80\n";
    assert_eq!(ended.out, places);
    let said = "[2001:db8:4::1]:8080: connection refused";
    assert!(ended.err.contains(said), "{ended:#?}");
    for [listen, to] in [
        [
            "tap=r0,address=2001:db8:3::2/64,port=80",
            "to=[2001:db8:4::1]:7",
        ],
        ["tap=r0,address=10.0.3.2/24,port=80", "to=[2001:db8:3::1]:7"],
        [
            "tap=r0,address=10.0.3.2/24,gateway=fe80::1,port=80",
            "to=[2001:db8:3::1]:7",
        ],
        [
            "tap=r0,address=2001:db8:3::2/64,port=80",
            "to=[2001:db8:3::2]:80",
        ],
    ] {
        let mut command = program(MBUMA);
        command.args(["relay", listen, to]);
        assert_eq!(
            Running::start(command).finish().code,
            Some(2),
            "{listen} {to}"
        );
    }
}

#[test]
fn it_ends_with_its_namespace_and_takes_no_mistakes() {
    // Breaks when the relay keeps a removed namespace alive for ever, or accepts a side without an address.
    needs!(guests(), root(), programs(&["nc"]));
    on_test_host!();
    ip("netns add blue");
    // Both sides in one namespace, by one interface.
    let running = relaying(&[
        "in=/run/netns/blue,address=10.0.3.2/24,port=80",
        "to=10.0.3.1:7",
    ]);
    let mut server = program("ip");
    server.args([
        "netns",
        "exec",
        "blue",
        "sh",
        "-c",
        "echo there | nc -N -l 10.0.3.1 7",
    ]);
    let server = Running::start(server);
    shell("sleep 0.5; test \"$(echo back | ip netns exec blue nc -N 10.0.3.2 80)\" = there");
    assert_eq!(server.finish().out, "back\n");
    ip("netns del blue");
    assert_eq!(running.finish().code, Some(0));
    // Breaks when a relay whose interface was deleted serves none, without a word.
    let running = relaying(&["tap=r7,address=10.0.3.2/24,port=80", "to=10.0.3.1:7"]);
    ip("link del r7");
    let ended = running.finish();
    assert_eq!(ended.code, Some(125), "{ended:#?}");
    assert!(ended.err.contains("r7"), "{ended:#?}");
    for [listen, to] in [
        ["tap=r0,port=80", "to=10.0.3.1:7"],
        // Each client would be connected to the relay, for ever.
        ["tap=r0,address=10.0.3.2/24,port=80", "to=10.0.3.2:80"],
    ] {
        let mut command = program(MBUMA);
        command.args(["relay", listen, to]);
        assert_eq!(Running::start(command).finish().code, Some(2), "{to}");
    }
    let mut command = program(MBUMA);
    command.args([
        "relay",
        "tap=r0,address=10.0.3.2/24,port=80",
        "to=10.0.4.1:7",
    ]);
    let refused = Running::start(command).finish();
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("gateway="), "{refused:#?}");
}
