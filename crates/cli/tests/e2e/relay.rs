//! `mbuma relay`: connections of one namespace reach a server in another.

use crate::common::island::{ip, shell};
use crate::common::needs::{an_island, guests, programs, root};
use crate::common::scratch::noise;
use crate::common::{MBUMA, Running, Scratch, program};

/// `mbuma relay`, once clients may connect.
fn relaying(arguments: &[&str]) -> Running {
    let mut command = program(MBUMA);
    command.arg("relay").args(arguments);
    let running = Running::start(command);
    running.wait_for("relaying from");
    running
}

#[test]
fn a_relay_ends_tls_for_a_server_without() {
    // Breaks when bytes are lost between TLS and a plain server, an end of either is not passed on, or clients without TLS reach
    // the server.
    needs!(
        guests(),
        root(),
        an_island(),
        programs(&["python3", "curl", "cmp", "openssl"])
    );
    on_an_island!();
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
         ! grep -q HTTP {out}",
        out = scratch.text("out"),
    ));
    running.signal("TERM");
    let ended = running.finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}

#[test]
fn clients_of_one_namespace_reach_a_server_in_another() {
    // Breaks when bytes are lost between two interfaces, a refusal does not come back, or packets are routed beside.
    needs!(
        guests(),
        root(),
        an_island(),
        programs(&["python3", "curl", "cmp"])
    );
    on_an_island!();
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
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{ended:#?}");
    server.signal("TERM");
    server.finish();
}

#[test]
fn it_ends_with_its_namespace_and_takes_no_mistakes() {
    // Breaks when a namespace that was removed is held for ever, or a side without an address is taken.
    needs!(guests(), root(), an_island(), programs(&["nc"]));
    on_an_island!();
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
    let mut command = program(MBUMA);
    command.args(["relay", "tap=r0,port=80", "to=10.0.3.1:7"]);
    assert_eq!(Running::start(command).finish().code, Some(2));
}
