//! mbuma in the place of slirp4netns, by the command lines that engines use (podman, buildah, rootlesskit).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::needs::{guests, ip6, programs, root};
use crate::common::server::{closed_port, connect, udp_echo};
use crate::common::test_host::{ip, make_neighbour, make_tun, resolve_with, shell};
use crate::common::{AS_NOBODY, MBUMA, Running, Scratch, http, output_of, program, wait_until};

/// mbuma under another name.
fn link(scratch: &Scratch, name: &str) -> String {
    symlink(MBUMA, scratch.path(name)).expect("a link");
    scratch.text(name)
}

/// A shell that becomes what `line` says, so that its descriptors are those of the line.
fn start(line: &str) -> Running {
    let mut command = program("sh");
    command.args(["-c", &format!("exec {line}")]);
    Running::start(command)
}

/// The output of a script in the network namespace `blue`.
fn in_blue(script: &str) -> String {
    let mut command = program("ip");
    command.args(["netns", "exec", "blue", "sh", "-ec", script]);
    Running::start(command).finish().good()
}

/// Makes a namespace called blue, and a link of this name to mbuma.
fn blue(name: &str) -> (Scratch, String) {
    ip("netns add blue");
    let scratch = Scratch::new();
    let link = link(&scratch, name);
    (scratch, link)
}

fn wait_for_ready(file: &str) {
    wait_until("readiness", || {
        fs::read(file).is_ok_and(|said| said == b"1")
    });
}

#[test]
fn a_line_of_podmans_gets_a_network() {
    // Breaks when podman, with mbuma as its slirp4netns, has no network, or the host's loopback is open.
    needs!(guests(), root(), programs(&["curl"]));
    on_test_host!();
    let (scratch, slirp) = blue("slirp4netns");
    let ready = scratch.text("ready");
    let server = http::serve(b"page".to_vec());
    let mut running = start(&format!(
        "{slirp} --disable-host-loopback --mtu=65520 --enable-sandbox --enable-seccomp --enable-ipv6 -c -e 3 -r 4 \
         --netns-type=path /run/netns/blue tap0 3<&0 4>{ready}"
    ));
    wait_for_ready(&ready);
    let out = in_blue("ip -6 -o addr show dev tap0");
    assert!(
        ip6().is_err() || out.contains("inet6 fd00::100/64"),
        "{out}"
    );
    let out = in_blue("cat /sys/class/net/tap0/mtu; curl -sS http://10.0.2.2/ | tail -n 1");
    assert_eq!(out, "65520\n</html>\n");
    let refused = in_blue(&format!(
        "curl -sS http://10.0.2.2:{}/ 2>&1 || echo refused",
        server.port()
    ));
    assert!(refused.contains("refused"), "{refused}");
    assert!(!running.has_ended());
    // The engine's monitor closes its end of --exit-fd with the container.
    assert_eq!(running.finish().code, Some(0));
}

#[test]
fn a_tap_that_is_there_is_served_and_left_as_it_is() {
    // Breaks when rootlesskit (docker rootless, nerdctl, k3s), which makes and configures the interface itself, finds
    // it configured, busy or gone.
    needs!(guests(), root(), programs(&["curl"]));
    on_test_host!();
    let (scratch, slirp) = blue("slirp4netns");
    let ready = scratch.text("ready");
    let server = http::serve(b"page".to_vec());
    for kind in ["", "multi_queue"] {
        in_blue(&format!(
            "ip tuntap add name tap0 mode tap {kind}; ip link set tap0 up"
        ));
        let _ = fs::remove_file(&ready);
        let running = start(&format!(
            "{slirp} --mtu 1500 -r 3 --cidr 10.9.0.0/24 --netns-type path /run/netns/blue tap0 3>{ready}"
        ));
        wait_for_ready(&ready);
        assert_eq!(
            in_blue("ip -4 -o addr show dev tap0; ip route"),
            "",
            "configured"
        );
        let out = in_blue(&format!(
            "ip addr add 10.9.0.100/24 dev tap0; ip route add default via 10.9.0.2
             curl -sS http://10.9.0.2/ | tail -n 1; curl -sS http://10.9.0.2:{}/",
            server.port()
        ));
        // Unless an option forbids it, a guest of slirp4netns reaches the host's loopback.
        assert_eq!(out, "</html>\npage");
        running.signal("TERM");
        assert_eq!(running.finish().code, Some(0));
        in_blue(&format!("ip tuntap del name tap0 mode tap {kind}"));
    }
}

#[test]
fn a_users_engine_gets_a_network_too() {
    // Breaks when a line of buildah's takes a right that an ordinary user does not have.
    needs!(guests(), root(), programs(&["setpriv", "nsenter"]));
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    let slirp = scratch.copy("slirp4netns", Path::new(MBUMA));
    let ready = scratch.write("ready", b"");
    let as_user = AS_NOBODY.join(" ");
    let holder = start(&format!("{as_user} unshare -Urn sh -c 'echo ready; cat'"));
    holder.wait_for("ready");
    let pid = holder.id();
    let running = start(&format!(
        "{as_user} {slirp} --mtu 65520 -r 3 -c {pid} tap0 3>{ready}"
    ));
    wait_for_ready(&ready);
    let out = program("nsenter")
        .args([
            "-t",
            &pid.to_string(),
            "-n",
            "ip",
            "-4",
            "-o",
            "addr",
            "show",
            "dev",
            "tap0",
        ])
        .output()
        .expect("nsenter is there");
    assert!(
        String::from_utf8_lossy(&out.stdout).contains("10.0.2.100/24"),
        "{out:?}"
    );
    holder.finish();
    assert_eq!(running.finish().code, Some(0), "it ends with the process");
}

#[test]
fn connections_come_from_the_outbound_address() {
    // Breaks when connections of a host with two networks or a VPN come from the wrong address, or the isolation
    // forbids to bind.
    needs!(guests(), root(), programs(&["python3"]));
    on_test_host!();
    make_neighbour();
    ip("addr add 198.51.100.7/24 dev near0");
    let (scratch, slirp) = blue("slirp4netns");
    let ready = scratch.text("ready");
    let source = "
import socket
l = socket.create_server(('198.51.100.2', 7000)); u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(('198.51.100.2', 7001)); print('listening', flush=True)
s, peer = l.accept(); s.sendall(peer[0].encode()); s.close()
_, peer = u.recvfrom(10); u.sendto(peer[0].encode(), peer)
";
    let script = scratch.write("server.py", source.as_bytes());
    for outbound in ["198.51.100.7", "near0"] {
        let server = start(&format!("ip netns exec far python3 -I -S {script}"));
        server.wait_for("listening");
        let _ = fs::remove_file(&ready);
        let running = start(&format!(
            "{slirp} -c --macaddress=02:00:00:00:00:aa --outbound-addr={outbound} -r 3 --netns-type=path \
             /run/netns/blue 3>{ready}"
        ));
        wait_for_ready(&ready);
        let client = "
import socket
s = socket.create_connection(('198.51.100.2', 7000)); print(s.recv(100).decode())
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.settimeout(5)
u.sendto(b'?', ('198.51.100.2', 7001)); print(u.recv(100).decode())
";
        let client = scratch.write("client.py", client.as_bytes());
        let addr = if outbound == "near0" {
            "198.51.100.1"
        } else {
            outbound
        };
        assert_eq!(
            in_blue(&format!("python3 -I -S {client}")),
            format!("{addr}\n{addr}\n")
        );
        assert_eq!(
            in_blue("cat /sys/class/net/tap0/address"),
            "02:00:00:00:00:aa\n"
        );
        running.signal("TERM");
        assert_eq!(running.finish().code, Some(0));
        server.finish().good();
    }
    shell("ip netns del far");
}

/// Whether a daemon has ended; on a test host no process may wait for it.
fn has_ended(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn pasta_of_rootlesskit_goes_to_the_background_once_ready() {
    // Breaks when rootlesskit waits for ever for its pasta, or goes on before there is a network.
    needs!(guests(), root(), programs(&["curl"]));
    on_test_host!();
    let (scratch, pasta) = blue("pasta");
    for line in ["--version", "--host-lo-to-ns-lo --version"] {
        let said = start(&format!("{pasta} {line}")).finish().good();
        assert!(said.contains("mbuma"), "{said}");
    }
    let pid_file = scratch.text("pid");
    let line = "--stderr --ns-ifname=tap0 --mtu=65520 --config-net --address=10.0.2.100 --netmask=24 \
                --gateway=10.0.2.2 --dns-forward=10.0.2.3 --no-map-gw --ipv4-only --tcp-ports=none --udp-ports=none \
                --tcp-ns=none --udp-ns=none";
    // It ends, and no process holds its output open.
    let whole = format!("{pasta} {line} --pid {pid_file} --netns /run/netns/blue");
    assert_eq!(start(&whole).finish().good(), "");
    let out = in_blue("ip -4 -o addr show dev tap0; curl -sS http://10.0.2.2/ | tail -n 1");
    assert!(
        out.contains("10.0.2.100/24") && out.contains("</html>"),
        "{out}"
    );
    let again = start(&whole).finish();
    assert_eq!(again.code, Some(125), "the name is taken: {again:?}");
    let pid = fs::read_to_string(&pid_file).expect("a pid file");
    crate::common::kill("TERM", pid.trim());
    wait_until("its end", || has_ended(&pid));
}

#[test]
fn pasta_of_podman_shares_the_hosts_address_and_ends_with_the_name() {
    // Breaks when podman 5 finds other addresses than pasta gives, cannot reach the host's neighbours or the host, or
    // keeps a process for each container that ended.
    needs!(guests(), root(), programs(&["curl"]));
    on_test_host!();
    make_neighbour();
    ip("route add default via 198.51.100.2");
    // Python's server asks for its own name, and a closed port answers at once.
    resolve_with("nameserver 127.0.0.1\n");
    let (scratch, pasta) = blue("pasta");
    let server = "python3 -I -S -u -m http.server 8000 --directory /run/netns";
    let far = start(&format!("ip netns exec far {server}"));
    far.wait_for("Serving");
    let near = start(&server.replace("8000", "8000 --bind 198.51.100.1"));
    near.wait_for("Serving");
    let hosts_own = start(&server.replace("8000", "8001 --bind 127.0.0.1"));
    hosts_own.wait_for("Serving");
    let (port, pid_file) = (closed_port(), scratch.text("pid"));
    let line = format!(
        "{pasta} --config-net -t 127.0.0.1/{port}-{port}:80-80 -u none -T none -U none --dns-forward 169.254.1.1 \
         --no-map-gw --quiet --map-guest-addr 169.254.1.2 --map-host-loopback 169.254.1.3 --pid {pid_file} \
         --netns /run/netns/blue"
    );
    assert_eq!(start(&line).finish().good(), "");
    let addrs = in_blue("ip -4 -o addr show dev near0; ip route");
    assert!(
        addrs.contains("198.51.100.1/") && addrs.contains("default via 198.51.100.2"),
        "{addrs}"
    );
    // Breaks when the guest takes another host's address for a broadcast.
    assert!(!addrs.contains("brd"), "{addrs}");
    for host in ["198.51.100.2:8000", "169.254.1.2:8000", "169.254.1.3:8001"] {
        let out = in_blue(&format!("curl -sS http://{host}/ | grep -c blue"));
        assert_eq!(out, "1\n", "{host}");
    }
    let published = start(&format!(
        "ip netns exec blue {}",
        server.replace("8000", "80")
    ));
    published.wait_for("Serving");
    let page = start(&format!("curl -sS http://127.0.0.1:{port}/"))
        .finish()
        .good();
    assert!(page.contains("blue"), "{page}");
    let pid = fs::read_to_string(&pid_file).expect("a pid file");
    ip("netns del blue");
    wait_until("its end", || has_ended(&pid));
}

/// Asks the echo server at this port of 127.0.0.1.
const ASK_BY_UDP: &str = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(60)
for said in (b'one', b'two'):
    s.sendto(said, ('127.0.0.1', int(sys.argv[1])))
    print(s.recv(9).decode())
";

#[test]
fn pasta_forwards_ports_of_the_loopback_and_follows_those_that_listen() {
    // Breaks when an ordinary user's `-T` or `-U` does not reach the host's loopback, `auto` misses a server that
    // begins or keeps a port whose server has ended, or a port that was found in one direction is followed back in the
    // other.
    needs!(guests(), root(), programs(&["setpriv", "nsenter", "curl"]));
    on_test_host!();
    needs!(make_tun("666"));
    let scratch = Scratch::new();
    let pasta = scratch.copy("pasta", Path::new(MBUMA));
    let ask = scratch.write("ask.py", ASK_BY_UDP.as_bytes());
    let as_user = AS_NOBODY.join(" ");
    let holder = start(&format!("{as_user} unshare -Urn sh -c 'echo ready; cat'"));
    holder.wait_for("ready");
    let inside = format!("nsenter -t {} -n", holder.id());
    let (page, echo) = (http::serve(b"page".to_vec()), udp_echo());
    let running = start(&format!(
        "{as_user} {pasta} -f --config-net -t auto -u none -T auto -U 5001:{echo} {}",
        holder.id()
    ));
    // The host's server is there from the first look on.
    let url = |at: &str| format!("http://{at}:{}/", page.port());
    let curl = |at: &str| start(&format!("{inside} curl -sS -g {}", url(at))).finish();
    wait_until("the first look", || curl("127.0.0.1").code == Some(0));
    for at in ["127.0.0.1", "[::1]"] {
        assert!(
            ip6().is_err() && at != "127.0.0.1" || curl(at).out == "page",
            "{at}"
        );
    }
    let answered = start(&format!("{inside} python3 -I {ask} 5001")).finish();
    assert_eq!(answered.good(), "one\ntwo\n");
    // Both verbs list the ports of the loopback, each once.
    let mbuma = scratch.copy("mbuma", Path::new(MBUMA));
    let ports =
        [(5001, echo, "udp"), (page.port(), page.port(), "tcp")].map(|(guest, host, proto)| {
            format!("guest's loopback:{guest} -> host's loopback:{host}/{proto}\n")
        });
    let listed = |verb: &str| {
        let listed = start(&format!("{as_user} {mbuma} {verb}")).finish().good();
        assert!(
            ports.iter().all(|port| listed.matches(port).count() == 1),
            "{listed}"
        );
    };
    listed(&format!("publish list --pid {}", running.id()));
    listed(&format!("netstat {}", running.id()));
    let port = closed_port();
    assert!(connect(port).is_err(), "no server yet");
    let server = start(&format!(
        "{inside} python3 -I -S -u -m http.server {port} --bind 127.0.0.1 --directory {}",
        scratch.text("")
    ));
    server.wait_for("Serving");
    let get = format!("curl -sS http://127.0.0.1:{port}/ask.py");
    wait_until("the port of the guest's server", || {
        start(&get).finish().code == Some(0)
    });
    let file = start(&get).finish().good();
    assert_eq!(file, ASK_BY_UDP, "from the guest's 127.0.0.1");
    server.signal("KILL");
    server.finish();
    wait_until("the end of its port", || connect(port).is_err());
    assert!(
        connect(page.port()).is_ok(),
        "the host's own server is still there"
    );
    holder.finish();
    assert_eq!(running.finish().code, Some(0), "it ends with the process");
}

#[test]
fn pasta_gives_the_hosts_address_of_ipv6_too() {
    // Breaks when a guest of pasta's has no IPv6 where its host has, cannot reach the host's neighbours, the host's
    // loopback or the host by the addresses that mean them, or is not reached over IPv6 from the host itself.
    needs!(guests(), root(), ip6(), programs(&["curl"]));
    on_test_host!();
    crate::ip6::make_neighbour6();
    ip("-6 route add default via fe80::1 dev near0");
    resolve_with("nameserver 127.0.0.1\n");
    let (scratch, pasta) = blue("pasta");
    let server = "python3 -I -S -u -m http.server 8000 --directory /run/netns";
    let bound = |at: &str| server.replace("8000", &format!("8000 --bind {at}"));
    let far = start(&format!("ip netns exec far {}", bound("::")));
    far.wait_for("Serving");
    let near: Vec<_> = ["2001:db8:1::1", "::1"]
        .map(|at| start(&bound(at)))
        .into_iter()
        .inspect(|server| drop(server.wait_for("Serving")))
        .collect();
    let pid_file = scratch.text("pid");
    let line = format!(
        "{pasta} --config-net -t 8080:80 -u none -T none -U none --map-guest-addr 2001:db8:5::5 --quiet \
         --pid {pid_file} --netns /run/netns/blue"
    );
    assert_eq!(start(&line).finish().good(), "");
    let addrs = in_blue("ip -6 -o addr show dev near0; ip -6 route show default");
    assert!(
        addrs.contains("2001:db8:1::1/128") && addrs.contains("default via fe80::1 dev near0"),
        "{addrs}"
    );
    for host in ["2001:db8:1::2", "2001:db8:5::5", "fe80::1%25near0"] {
        let out = in_blue(&format!(
            "curl -sS -g 'http://[{host}]:8000/' | grep -c blue"
        ));
        assert_eq!(out, "1\n", "{host}");
    }
    let published = start(&format!(
        "ip netns exec blue {}",
        bound("::").replace("8000", "80")
    ));
    published.wait_for("Serving");
    let page = start("curl -sS -g http://[::1]:8080/").finish().good();
    assert!(page.contains("blue"), "{page}");
    // The same addresses for a guest of `run`. Breaks if it has none of the host's, or no way to the host's neighbours.
    let script =
        "ip -6 -o addr show dev tap0; curl -sS -g 'http://[2001:db8:1::2]:8000/' | grep -c blue";
    let out = output_of(&["--ipv6-prefix", "host"], script);
    assert!(
        out.contains("2001:db8:1::1/128") && out.ends_with("\n1\n"),
        "{out}"
    );
    drop(near);
    let pid = fs::read_to_string(&pid_file).expect("a pid file");
    ip("netns del blue");
    wait_until("its end", || has_ended(&pid));
}
