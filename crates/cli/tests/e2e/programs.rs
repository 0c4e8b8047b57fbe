//! Programs that people run, as clients of the host's servers and as servers that the host reaches, over both versions
//! of IP.

use std::fs;
use std::io::{Read, Write};

use crate::common::nameserver::{ANSWER, NameServer};
use crate::common::needs::{guests, ip6, programs, root};
use crate::common::scratch::noise;
use crate::common::server::TcpServer;
use crate::common::test_host::{make_tun, resolve_with, shell};
use crate::common::{AS_NOBODY, MBUMA, Running, Scratch, mbuma, output_of, program};

/// The host's loopback, as the guest knows it.
const HOST: &str = "10.0.2.2 fd00::2";

/// Runs a script, as a server of the host that ends with the test.
fn host(script: &str) -> Running {
    let mut command = program("sh");
    command.args(["-c", script]);
    Running::start(command)
}

/// The output of a script in a guest that may reach the host's loopback.
fn guest(script: &str) -> String {
    output_of(&["--host-loopback"], script)
}

/// A shell's loop that runs a command until it succeeds, silently.
fn until(command: &str) -> String {
    format!("until {{ {command}; }} >/dev/null 2>&1; do sleep 0.05; done")
}

#[test]
fn git_clones_a_repository_whole() {
    // Breaks when a clone loses bytes, or does not end.
    needs!(guests(), ip6(), programs(&["git"]));
    on_test_host!();
    let scratch = Scratch::new();
    let dir = scratch.text("");
    scratch.write("big", &noise(1 << 20, 3));
    shell(&format!(
        "cd {dir}; export HOME={dir}; git init -q repo; cp big repo/; cd repo; git add big
         git -c user.name=a -c user.email=a@example commit -q -m one"
    ));
    let daemon = "git daemon --reuseaddr --export-all --listen=127.0.0.1 --listen=::1";
    let _server = host(&format!(
        "HOME={dir} exec {daemon} --base-path={dir} {dir}/repo"
    ));
    let ready = until("git ls-remote git://10.0.2.2/repo");
    let script = format!(
        "cd {dir}; export HOME={dir}; git config --global --add safe.directory '*'; {ready}
         for at in 10.0.2.2 '[fd00::2]'; do
             rm -rf copy; git clone -q git://$at/repo copy && cmp big copy/big && echo whole
         done"
    );
    assert_eq!(guest(&script), "whole\nwhole\n");
}

#[test]
fn ssh_logs_in() {
    // Breaks when a session of many small packets both ways does not begin or end, or its output is cut off.
    needs!(
        guests(),
        root(),
        ip6(),
        programs(&["ssh", "sshd", "ssh-keygen"])
    );
    on_test_host!();
    let scratch = Scratch::new();
    let dir = scratch.text("");
    shell(&format!(
        "mkdir -p /run/sshd; chmod 700 {dir}; cd {dir}
         for key in host user; do ssh-keygen -q -t ed25519 -N '' -f $key; done"
    ));
    let options = format!(
        "-o HostKey={dir}/host -o AuthorizedKeysFile={dir}/user.pub -o StrictModes=no -o UsePAM=no \
         -o PermitRootLogin=yes -o ListenAddress=127.0.0.1 -o ListenAddress=::1"
    );
    let _server = host(&format!(
        "exec /usr/sbin/sshd -D -q -p 2222 -f /dev/null {options}"
    ));
    let ssh = format!(
        "ssh -q -F /dev/null -p 2222 -i {dir}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -l root"
    );
    let ready = until(&format!("{ssh} 10.0.2.2 true"));
    let script = format!(
        "{ready}; for at in {HOST}; do echo in | {ssh} $at 'cat; seq 100000 | tail -n 1'; done"
    );
    assert_eq!(guest(&script), "in\n100000\nin\n100000\n");
}

#[test]
fn nginx_serves_in_both_directions() {
    // Breaks when a web server of the host or of the guest is not reached over one version of IP, or a byte is lost.
    needs!(guests(), ip6(), programs(&["nginx", "curl"]));
    on_test_host!();
    let scratch = Scratch::new();
    let dir = scratch.text("");
    let big = scratch.write("big", &noise(8 << 20, 5));
    let server = |listen: &str| {
        let config = format!(
            "user root root; daemon off; master_process off; pid {dir}/pid; error_log {dir}/log; events {{}}
             http {{ access_log off; server {{ {listen} root {dir}; }}
                     client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c;
                     uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e; }}"
        );
        let config = scratch.write("nginx.conf", config.as_bytes());
        format!("exec nginx -e {dir}/log -c {config}")
    };
    let running = host(&server("listen 127.0.0.1:8081; listen [::1]:8081;"));
    let ready = until("curl -sf http://10.0.2.2:8081/big");
    let fetch = |at: &str| format!("curl -sS http://{at}/big | cmp - {big}");
    let both = ["10.0.2.2:8081", "[fd00::2]:8081"].map(fetch).join(" && ");
    assert_eq!(guest(&format!("{ready}; {both} && echo whole")), "whole\n");
    drop(running);
    let script = server("listen 8082; listen [::]:8082;");
    let _guest = Running::start(mbuma(&["--publish", "8082:8082"], &script));
    let ready = until("curl -sf http://127.0.0.1:8082/big");
    let both = ["127.0.0.1:8082", "[::1]:8082"].map(fetch).join(" && ");
    shell(&format!("{ready}; {both}"));
}

#[test]
fn redis_answers_in_both_directions() {
    // Breaks when small requests and answers on a connection that stays open do not come.
    let used = ["redis-server", "redis-cli"];
    needs!(guests(), ip6(), programs(&used));
    on_test_host!();
    let server = "exec redis-server --save '' --dir /run --protected-mode no --loglevel warning";
    let running = host(&format!("{server} --port 6401 --bind 127.0.0.1 ::1"));
    let ready = until("redis-cli -h 10.0.2.2 -p 6401 ping | grep -q PONG");
    let ask = "for i in 1 2 3; do echo incr n; done | redis-cli -h $at";
    let script = format!("{ready}; for at in {HOST}; do {ask} -p 6401; done");
    assert_eq!(guest(&script), "1\n2\n3\n4\n5\n6\n");
    drop(running);
    let script = format!("{server} --port 6402 --bind 0.0.0.0 ::");
    let _guest = Running::start(mbuma(&["--publish", "6402:6402"], &script));
    let ready = until("redis-cli -p 6402 ping | grep -q PONG");
    let ask = format!("for at in 127.0.0.1 ::1; do {ask} -p 6402; done");
    shell(&format!(
        "{ready}; test \"$({ask} | tr '\\n' ' ')\" = '1 2 3 4 5 6 '"
    ));
}

#[test]
fn postgres_answers_in_both_directions() {
    // Breaks when a database of the host or of the guest is not reached, also for an ordinary user, whom it must run
    // as.
    const BIN: &str = "/usr/lib/postgresql";
    let versions = || fs::read_dir(BIN).map_err(|e| format!("{BIN}: {e}"));
    let used = ["psql", "setpriv"];
    needs!(guests(), root(), ip6(), programs(&used));
    needs!(versions().map(drop));
    on_test_host!();
    needs!(make_tun("666"));
    let bin = versions().ok().and_then(|all| all.flatten().next());
    let bin = bin.expect("a version").path().join("bin");
    let bin = bin.display();
    let scratch = Scratch::new();
    let copy = scratch.copy("mbuma", std::path::Path::new(MBUMA));
    let dir = scratch.text("db");
    let nobody = AS_NOBODY.join(" ");
    shell(&format!(
        "mkdir {dir}; chown 65534:65534 {dir}
         {nobody} {bin}/initdb -D {dir} -A trust -U me --no-sync --no-locale >/dev/null
         echo 'host all all all trust' >>{dir}/pg_hba.conf"
    ));
    let server = |port: u16, at: &str| {
        format!("{bin}/postgres -D {dir} -p {port} -k '' -F -h '{at}' 2>/dev/null")
    };
    let running = host(&format!("exec {nobody} {}", server(5433, "127.0.0.1,::1")));
    let ask = "psql -U me -d postgres -Atc 'select sum(n) from generate_series(1, 100000) n' -h";
    let ready = until(&format!("{ask} 10.0.2.2 -p 5433"));
    let script = format!("{ready}; for at in {HOST}; do {ask} $at -p 5433; done");
    assert_eq!(guest(&script), "5000050000\n5000050000\n");
    shell(&format!("kill -INT $(head -n 1 {dir}/postmaster.pid)"));
    running.finish();
    let publish = format!("{nobody} {copy} run --publish 5434:5434 -- ");
    let _guest = host(&format!("exec {publish}{}", server(5434, "*")));
    let ready = until(&format!("{ask} 127.0.0.1 -p 5434"));
    let both = format!("for at in 127.0.0.1 ::1; do {ask} $at -p 5434; done | sort -u");
    shell(&format!("{ready}; test \"$({both})\" = 5000050000"));
}

#[test]
fn node_is_client_and_server() {
    // Breaks when a runtime that asks for events by its own loop, and listens on one socket for both versions, gets no
    // answer.
    needs!(guests(), ip6(), programs(&["node", "curl"]));
    on_test_host!();
    let scratch = Scratch::new();
    let server = "const [port, ...hosts] = process.argv.slice(2)
        for (const host of hosts) require('http').createServer((q, s) => s.end('node\\n')).listen(port, host)";
    let client = "for (const url of process.argv.slice(2))
        require('http').get(url, r => r.on('data', text => process.stdout.write(text)))";
    let server = scratch.write("server.js", server.as_bytes());
    let client = scratch.write("client.js", client.as_bytes());
    let running = host(&format!("exec node {server} 8083 127.0.0.1 ::1"));
    let ready = until("curl -sf http://10.0.2.2:8083/ && curl -sf http://[fd00::2]:8083/");
    let both = "http://10.0.2.2:8083/ http://[fd00::2]:8083/";
    assert_eq!(
        guest(&format!("{ready}; node {client} {both}")),
        "node\nnode\n"
    );
    drop(running);
    let script = format!("exec node {server} 8084 ::");
    let _guest = Running::start(mbuma(&["--publish", "8084:8084"], &script));
    let ready = until("curl -sf http://127.0.0.1:8084/");
    shell(&format!(
        "{ready}; test \"$(curl -sf http://127.0.0.1:8084/ http://[::1]:8084/ | tr '\\n' ' ')\" = 'node node '"
    ));
}

#[test]
fn a_static_go_program_resolves_names_and_connects() {
    // Breaks when a program without the C library, which reads resolv.conf and asks by itself, finds no name or no
    // host.
    needs!(guests(), root(), ip6(), programs(&["go"]));
    on_test_host!();
    let scratch = Scratch::new();
    let source = "package main
import (\"fmt\"; \"io\"; \"net\"; \"os\")
func main() {
    fmt.Println(net.LookupHost(\"host.example\"))
    for _, at := range os.Args[1:] {
        c, err := net.Dial(\"tcp\", at)
        if err != nil { fmt.Println(err); continue }
        fmt.Fprintln(c, \"hello\")
        c.(*net.TCPConn).CloseWrite()
        all, err := io.ReadAll(c)
        fmt.Print(string(all), err, \"\\n\")
    }
}
";
    let source = scratch.write("main.go", source.as_bytes());
    let built = scratch.text("static");
    shell(&format!(
        "CGO_ENABLED=0 GOFLAGS= GO111MODULE=off go build -o {built} {source}"
    ));
    let echo = |mut stream: std::net::TcpStream| {
        let mut all = Vec::new();
        let _ = stream
            .read_to_end(&mut all)
            .and_then(|_| stream.write_all(&all));
    };
    let _servers = ["127.0.0.1:7001", "[::1]:7001"].map(|at| TcpServer::start_at(at, echo));
    let _names = NameServer::start("127.0.0.1");
    resolve_with("nameserver 127.0.0.1\n");
    let said = guest(&format!("{built} 10.0.2.2:7001 [fd00::2]:7001"));
    assert_eq!(
        said,
        format!("[{ANSWER}] <nil>\nhello\n<nil>\nhello\n<nil>\n")
    );
}
