//! Guests that share a network: `mbuma run --network NAME`, and `mbuma network`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::common::nameserver::{ANSWER, NameServer};
use crate::common::needs::{guests, programs, root};
use crate::common::server::{TcpServer, closed_port};
use crate::common::{
    MBUMA, PATIENCE, Running, Scratch, TAKE_ALL_DESCRIPTORS, output_of, program, wait_until,
    with_descriptors,
};

/// A name that no other test's network has, also in another run of this program beside it.
fn name(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// A guest of a network, with a shell script as COMMAND.
fn guest(network: &str, options: &[&str], script: &str) -> Command {
    let mut command = program(MBUMA);
    command
        .args(["run", "--network", network])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}

/// A guest that says `up`, and ends when its input does.
fn resident(network: &str, options: &[&str], script: &str) -> Running {
    let script = format!("{script}\necho up; read line || true");
    let running = Running::start(guest(network, options, &script));
    running.wait_for("up");
    running
}

/// Runs a guest to its end, which has to be a good one.
fn visit(network: &str, options: &[&str], script: &str) -> String {
    Running::start(guest(network, options, script))
        .finish()
        .good()
}

/// What `mbuma network inspect` says; nothing if there is no such network.
fn inspect(network: &str) -> Option<Value> {
    let out = program(MBUMA)
        .args(["network", "inspect", network])
        .output();
    let out = out.expect("it was built");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    out.status
        .success()
        .then(|| serde_json::from_str(&text).expect("JSON"))
}

/// Waits until the network is gone, and its processes too.
fn wait_for_end(network: &str, pid: u64) {
    wait_until("the network's end", || inspect(network).is_none());
    let status = format!("/proc/{pid}/stat");
    // Its parent may be a test that does not wait for it.
    let is_over = || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
    wait_until("the end of the network's process", is_over);
}

/// Files of a network's, in the two places where they may be.
fn files(network: &str) -> Vec<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("mbuma"));
    let temporary = std::fs::read_dir("/tmp").expect("/tmp is there").flatten();
    let temporary = temporary.map(|entry| entry.path());
    let temporary = temporary.filter(|dir| dir.to_string_lossy().starts_with("/tmp/mbuma-"));
    let dirs = session.into_iter().chain(temporary);
    let entries = dirs
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().contains(network))
        .collect()
}

fn pid_of(network: &str) -> u64 {
    let view = inspect(network).expect("it is there");
    view["pid"].as_u64().expect("a number")
}

/// A server on the host that says `hello`.
fn greeter() -> TcpServer {
    TcpServer::start(|mut stream| {
        let _ = std::io::Write::write_all(&mut stream, b"hello\n");
    })
}

const SERVE: &str = "mkdir -p /tmp; cd $(mktemp -d); echo page > index.html
    python3 -m http.server --bind :: 80 > /dev/null 2>&1 &
    until curl -s -o /dev/null http://127.0.0.1/; do sleep 0.1; done";

#[test]
fn guests_find_each_other_and_the_host() {
    // Breaks when a guest does not find another by its name, in either direction, or loses the way to the host; when
    // one of another network finds it; or when anything stays behind the last guest.
    needs!(
        guests(),
        programs(&["python3", "curl", "ping", "nc", "getent", "dig"])
    );
    let (blue, red) = (name("blue"), name("red"));
    let server = greeter();
    let web = resident(&blue, &["--hostname", "web", "--host-loopback"], SERVE);
    let view = inspect(&blue).expect("it is there");
    assert_eq!(view["guests"][0]["name"], "web", "{view}");
    assert_eq!(view["guests"][0]["addr"], "10.0.2.100", "{view}");
    assert_eq!(view["guests"][0]["addr6"], "fd00::100", "{view}");
    let script = format!(
        "ping -c 1 -W 20 web > /dev/null && echo pinged
         curl -sS http://web/
         getent hosts 10.0.2.100 | tr -s ' '
         ping -6 -c 1 -W 20 web > /dev/null && echo pinged over IPv6
         ping -6 -c 1 -W 20 fe80::100%tap0 > /dev/null && echo on the link
         curl -6 -sS http://web/
         getent hosts fd00::100 | tr -s ' '
         dig +tcp +short +tries=1 @10.0.2.3 web
         dig +tcp +short +tries=1 @fd00::3 web AAAA
         hostname
         nc -w 20 10.0.2.2 {} < /dev/null",
        server.port()
    );
    let out = visit(&blue, &["--hostname", "db"], &script);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(
        lines,
        [
            "pinged",
            "page",
            "10.0.2.100 web",
            "pinged over IPv6",
            "on the link",
            "page",
            "fd00::100 web",
            "10.0.2.100",
            "fd00::100",
            "db",
            "hello"
        ]
    );
    // Another network has the same addresses, and not the same guests.
    let other = resident(&red, &["--hostname", "other", "--dns", "127.0.0.1"], "");
    let script = "getent hosts web || echo no name; curl -sS -m 5 http://10.0.2.100/ 2>/dev/null || echo no guest";
    let out = Running::start(guest(&red, &[], script)).finish();
    assert_eq!(out.out, "no name\nno guest\n", "{out:?}");
    let (blue_pid, red_pid) = (pid_of(&blue), pid_of(&red));
    assert_ne!(blue_pid, red_pid);
    for running in [web, other] {
        assert_eq!(running.finish().code, Some(0));
    }
    wait_for_end(&blue, blue_pid);
    wait_for_end(&red, red_pid);
    assert_eq!((files(&blue), files(&red)), (vec![], vec![]));
}

#[test]
fn a_resolver_hears_no_guests_name_over_tcp() {
    // Breaks when questions about guests go to a resolver of the host because they come over TCP, others do not, or
    // clients that connect and say nothing keep a guest from asking.
    needs!(guests(), root(), programs(&["python3", "dig"]));
    on_test_host!();
    let resolver = NameServer::start("127.0.0.1");
    let network = name("names");
    let options = ["--hostname", "db", "--dns", "127.0.0.1"];
    let db = resident(&network, &options, "");
    let dig = "dig +tcp +short +tries=1 +time=20";
    let script =
        format!("{dig} @10.0.2.3 db; {dig} @10.0.2.3 -x 10.0.2.100; {dig} @10.0.2.3 db MX");
    assert_eq!(visit(&network, &[], &script), "10.0.2.100\ndb.\n");
    assert_eq!(resolver.connections(), 0);
    let script = format!("{dig} @fd00::3 host.example; {dig} @10.0.2.3 many.example | wc -l");
    assert_eq!(visit(&network, &[], &script), format!("{ANSWER}\n100\n"));
    assert_eq!(resolver.connections(), 2);
    let silent = "
import socket, sys
all = [socket.create_connection(('10.0.2.3', 53)) for _ in range(900)]
all[-1].sendall(bytes([0, 40, 1]))
print('up', flush=True)
sys.stdin.readline()";
    let scratch = Scratch::new();
    let silent = scratch.write("silent.py", silent.as_bytes());
    let flood = resident(&network, &[], &format!("python3 -I {silent} &\nsleep 3"));
    let script = format!("{dig} @10.0.2.3 db; {dig} @10.0.2.3 host.example");
    assert_eq!(
        visit(&network, &[], &script),
        format!("10.0.2.100\n{ANSWER}\n")
    );
    for running in [flood, db] {
        assert_eq!(running.finish().code, Some(0));
    }
}

#[test]
fn a_port_of_a_guest_is_published_while_it_lives() {
    // Breaks when a port leads to another guest than the one that published it, or stays when that has ended.
    needs!(guests(), programs(&["python3", "curl"]));
    let network = name("ports");
    let first = resident(&network, &["--hostname", "first"], "");
    let port = crate::vm::free_port();
    let publish = format!("{port}:80");
    let second = resident(&network, &["--publish", &publish], SERVE);
    let url = format!("http://127.0.0.1:{port}/");
    let fetch = || {
        program("curl")
            .args(["-sS", "-m", "30", &url])
            .output()
            .expect("curl is there")
    };
    assert_eq!(fetch().stdout, b"page\n");
    let taken = Running::start(guest(&network, &["--publish", &publish], "true")).finish();
    assert_eq!(taken.code, Some(125), "{taken:?}");
    assert_eq!(second.finish().code, Some(0));
    wait_until("the end of the port", || fetch().status.code() == Some(7));
    let pid = pid_of(&network);
    // Breaks when a guest takes what another one sends to its 127.0.0.1.
    let local = "cat /proc/sys/net/ipv4/conf/tap0/route_localnet";
    let among_others = Running::start(guest(&network, &[], local)).finish();
    assert_eq!(
        (among_others.good(), output_of(&[], local)),
        ("0\n".to_owned(), "1\n".to_owned())
    );
    // Breaks when a port is published of no guest, or of another one than was named.
    let third = resident(&network, &["--hostname", "third"], SERVE);
    let add = |publish: &str| {
        let mut command = program(MBUMA);
        command.args(["publish", "--pid", &pid.to_string(), "add", publish]);
        command.output().expect("it was built")
    };
    let unnamed = add(&publish);
    let why = String::from_utf8_lossy(&unnamed.stderr).into_owned();
    assert_eq!(unnamed.status.code(), Some(1), "{why}");
    assert!(why.contains("several guests"), "{why}");
    let view = inspect(&network).expect("it is there");
    let guests = view["guests"].as_array().expect("a list");
    let third_addr = guests.iter().find(|guest| guest["name"] == "third");
    let third_addr = third_addr.and_then(|guest| guest["addr"].as_str());
    let third_addr = third_addr.expect("it has joined");
    let named = add(&format!("{port}:{third_addr}:80"));
    assert!(named.status.success(), "{named:?}");
    assert_eq!(fetch().stdout, b"page\n");
    assert_eq!(third.finish().code, Some(0));
    assert_eq!(first.finish().code, Some(0));
    wait_for_end(&network, pid);
}

#[test]
fn a_client_of_a_guests_port_keeps_its_family() {
    // Breaks when a client of a network's port that came by ::1 is led to the guest's server of IPv4 although there is
    // one of IPv6, or a server of one family alone is not found.
    needs!(guests(), programs(&["python3"]));
    let network = name("families");
    let first = resident(&network, &[], "");
    let ports: [u16; 3] = std::array::from_fn(|_| crate::vm::free_port());
    let publish = ports.iter().zip(80..);
    let publish: Vec<_> = publish
        .map(|(port, inside)| format!("{port}:{inside}"))
        .collect();
    let options: Vec<_> = publish.iter().flat_map(|publish| ["-p", publish]).collect();
    let script = "import socket, threading
def serve(family, port):
    one = socket.create_server(('', port), family=family)
    while True:
        one.accept()[0].sendall(b'4' if family == socket.AF_INET else b'6')
both = (socket.AF_INET, socket.AF_INET6)
for family, port in [(both[0], 80), (both[1], 80), (both[0], 81), (both[1], 82)]:
    threading.Thread(target=serve, args=(family, port)).start()";
    let script = format!("python3 -I -S -c \"{script}\" &");
    let second = resident(&network, &options, &script);
    for (at, expected) in [("127.0.0.1", ["4", "4", "6"]), ("::1", ["6", "4", "6"])] {
        for (port, expected) in ports.into_iter().zip(expected) {
            let mut said = String::new();
            wait_until("the server", || {
                let client = std::net::TcpStream::connect((at, port));
                let read =
                    client.and_then(|mut c| std::io::Read::read_to_string(&mut c, &mut said));
                read.is_ok() && !said.is_empty()
            });
            assert_eq!(said, expected, "{at} {port}");
        }
    }
    assert_eq!(
        (second.finish().code, first.finish().code),
        (Some(0), Some(0))
    );
}

#[test]
fn killed_guests_leave_nothing_behind() {
    // Breaks when a killed run, or a killed network, leaves a process, a name or a guest that others wait for.
    needs!(guests(), programs(&["pgrep"]));
    let network = name("killed");
    let mark = format!("sleep 31536{}", std::process::id());
    let mut first = resident(&network, &["--hostname", "one"], "");
    let second = resident(&network, &["--hostname", "two"], &format!("{mark} &"));
    second.signal("KILL");
    assert_eq!(second.finish().signal, Some(9));
    let is_alone = || {
        inspect(&network)
            .is_some_and(|view| view["guests"].as_array().is_some_and(|g| g.len() == 1))
    };
    wait_until("the end of a killed guest", is_alone);
    let lives = || {
        program("pgrep")
            .args(["-f", &mark])
            .output()
            .expect("pgrep")
            .status
            .success()
    };
    wait_until("the end of its processes", || !lives());
    // Its name is free.
    assert_eq!(
        visit(&network, &["--hostname", "two"], "echo again"),
        "again\n"
    );
    let pid = pid_of(&network);
    crate::common::kill("KILL", &pid.to_string());
    wait_until("the end of its last guest", || first.has_ended());
    let ended = first.finish();
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.err.contains("network"), "{ended:?}");
    wait_for_end(&network, pid);
    // The names that it left are no obstacle.
    assert_eq!(visit(&network, &[], "echo anew"), "anew\n");
    wait_until("the end of its names", || files(&network).is_empty());
}

#[test]
fn a_network_that_does_not_answer_is_named() {
    // Breaks when the list leaves such a network out, or keeps its reader waiting.
    needs!(guests());
    let network = name("stopped");
    let first = resident(&network, &[], "true");
    let pid = pid_of(&network).to_string();
    crate::common::kill("STOP", &pid);
    let listed = program(MBUMA).args(["network", "ls"]).output();
    crate::common::kill("CONT", &pid);
    let listed = listed.expect("it was built");
    let err = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert!(!listed.status.success() && err.contains(&network), "{err}");
    assert!(listed.stdout.starts_with(b"NAME"), "{listed:?}");
    assert_eq!(first.finish().code, Some(0));
}

#[test]
fn the_process_of_a_network_holds_nothing_of_its_first_guest() {
    // Breaks when it keeps the directory, or a descriptor, of the command that began the network: a file system is
    // busy, or a lock held, until the last guest ends.
    needs!(guests(), root(), programs(&["flock"]));
    let (scratch, network) = (Scratch::new(), name("held"));
    let script = format!(
        "cd {}; exec 9>lock; flock 9; exec {MBUMA} run --network {network} --pcap frames -- \
         sh -c 'exec 9>&-; echo up; read line || true'",
        scratch.text("")
    );
    let mut command = program("sh");
    command.args(["-c", &script]);
    let running = Running::start(command);
    running.wait_for("up");
    let pid = pid_of(&network);
    let lock = std::fs::File::open(scratch.path("lock")).expect("it was made");
    lock.try_lock().expect("no process has it");
    assert!(scratch.path("frames").exists());
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("it runs");
    for pid in children.split_ascii_whitespace().chain([&*pid.to_string()]) {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).expect("it runs");
        assert_eq!(cwd, PathBuf::from("/"), "{pid}");
    }
    running.finish();
    wait_for_end(&network, pid);
}

#[test]
fn a_network_has_one_set_of_options_and_can_be_removed() {
    // Breaks when different options of a later guest are silently ignored, two guests have one name, or a network in
    // use is removed without `--force`.
    needs!(guests());
    let network = name("options");
    let mut first = resident(
        &network,
        &[
            "--cidr",
            "10.9.0.0/24",
            "--hostname",
            "one",
            "--mtu",
            "1400",
            "--ipv6-prefix",
            "fd12::/64",
        ],
        "",
    );
    let script = "ip -o addr show tap0 scope global | tr -s ' ' | cut -d' ' -f4
        cat /sys/class/net/tap0/mtu";
    let same = [
        "--cidr",
        "10.9.0.0/24",
        "--mtu",
        "1400",
        "--ipv6-prefix",
        "fd12::/64",
    ];
    let second = "10.9.0.101/24\nfd12::101/64\n1400\n";
    assert_eq!(visit(&network, &same, script), second);
    let third = "10.9.0.102/24\nfd12::102/64\n1400\n";
    assert_eq!(visit(&network, &[], script), third);
    for (options, why) in [
        (
            &["--mtu", "9000"][..],
            "other values of --cidr, --ipv6-prefix, --mtu",
        ),
        (&["--hostname", "ONE"], "called ONE"),
    ] {
        let refused = Running::start(guest(&network, options, "true")).finish();
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
    let list = program(MBUMA)
        .args(["network", "ls"])
        .output()
        .expect("it was built");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let of_ours = list.lines().find(|line| line.starts_with(&network));
    let words: Vec<_> = of_ours.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words.get(2..), Some(&["10.9.0.2/24", "1"][..]), "{list}");
    let remove = |options: &[&str]| {
        let command = program(MBUMA)
            .args(["network", "rm"])
            .args(options)
            .arg(&network)
            .output();
        command.expect("it was built").status.code()
    };
    assert_eq!(remove(&[]), Some(1));
    let pid = pid_of(&network);
    assert_eq!(remove(&["--force"]), Some(0));
    wait_until("the end of its guest", || first.has_ended());
    assert_eq!(first.finish().code, Some(125));
    wait_for_end(&network, pid);
    assert_eq!(remove(&[]), Some(1));
}

#[test]
fn guests_that_begin_and_end_at_once_meet_one_network() {
    // Breaks when two runs begin the same network twice, or one joins as it ends and fails.
    needs!(guests());
    let network = name("race");
    for _ in 0..3 {
        let all: Vec<_> = (0..4)
            .map(|_| Running::start(guest(&network, &[], "echo done")))
            .collect();
        for running in all {
            assert_eq!(
                running.with_patience(PATIENCE * 2).finish().good(),
                "done\n"
            );
        }
    }
    wait_until("the network's end", || inspect(&network).is_none());
}

#[test]
fn a_network_without_isolation_says_so() {
    // Breaks when only the process of the network says it, which has no standard error.
    needs!(guests());
    let network = name("open");
    let ended = Running::start(guest(&network, &["--no-sandbox"], "true")).finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.err.matches("--no-sandbox: ").count(), 1, "{ended:#?}");
}

#[test]
fn a_guest_for_which_there_is_no_descriptor_is_refused() {
    // Breaks when a guest starts whose TAP the network's gateway process could not take: it would have a network in
    // words only.
    needs!(guests(), programs(&["python3"]));
    let network = name("full");
    let server = TcpServer::start(|mut stream| drop(std::io::Read::read(&mut stream, &mut [0])));
    let script = format!(
        "exec python3 -I -u -c \"{TAKE_ALL_DESCRIPTORS}\" {}",
        server.port()
    );
    let first = guest(&network, &["--host-loopback"], &script);
    let first = Running::start(with_descriptors(256, &first));
    first.wait_for("up");
    let pid = pid_of(&network);
    let mut said = String::new();
    wait_until("a refusal", || {
        let visit = Running::start(guest(&network, &[], "true")).finish();
        said = visit.err;
        visit.code != Some(0)
    });
    assert!(
        said.contains("joining the network") && said.contains("open files"),
        "{said}"
    );
    first.finish();
    wait_for_end(&network, pid);
}

#[test]
fn the_port_of_the_last_guest_is_free_while_its_data_is_delivered() {
    // Breaks when a network that still delivers data of its last guest keeps that guest's port: the next run that
    // publishes it fails.
    needs!(guests(), programs(&["python3"]));
    let network = name("last");
    let (read, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let server = TcpServer::start(move |mut stream| {
        let _ = wait.lock().expect("one client").recv();
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let send = "import socket,sys; s=socket.create_connection((sys.argv[1], int(sys.argv[2])));
s.settimeout(1)
try:
    while True: s.send(bytes(65536))
except TimeoutError: print('full', flush=True)
sys.stdin.readline()";
    let script = format!(
        "exec python3 -I -u -c \"{send}\" 10.0.2.2 {}",
        server.port()
    );
    // The first may be closed before the network knows that its guest was the last.
    let ports = [closed_port(), closed_port()];
    let [first, second] = ports.map(|port| format!("127.0.0.1:{port}:80"));
    let options = ["--host-loopback", "-p", &first, "-p", &second];
    let last = Running::start(guest(&network, &options, &script));
    last.wait_for("full");
    let pid = pid_of(&network);
    last.finish().good();
    for port in ports {
        wait_until("a free port", || {
            std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()
        });
    }
    // A network that closes its ports by its end is gone soon.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    assert!(
        stat.is_ok_and(|stat| !stat.contains(") Z ")),
        "it still delivers"
    );
    drop(read);
    wait_for_end(&network, pid);
}

/// Says by ARP that it has the address of the first guest, and of the gateway; then pings the second guest, which has
/// received all that before.
const LIAR: &str = "
import os, socket, time
time.sleep(1.5)  # Linux takes no other answer for a second (locktime of arp(7))
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(('tap0', 0))
own = s.getsockname()[4]
for claimed in ('10.0.2.100', '10.0.2.2'):
    arp = bytes.fromhex('0001080006040002') + own + socket.inet_aton(claimed)
    arp += bytes(6) + socket.inet_aton('10.0.2.101')
    for _ in range(3):
        s.send(b'\\xff' * 6 + own + bytes.fromhex('0806') + arp)
os.execlp('ping', 'ping', '-q', '-c', '1', '-W', '20', '10.0.2.101')
";

#[test]
fn a_new_guest_is_known_by_its_addresses_at_once() {
    // Breaks when the gateway sends what is for a guest to another one that had its address before, by chance or to
    // listen: the new guest's server says nothing by itself.
    needs!(guests(), programs(&["python3", "ping", "ip"]));
    let network = name("before");
    let claim = "ip address add 10.0.2.102/24 dev tap0; ip address add fd00::102/64 dev tap0 nodad
        ping -q -c 1 -W 20 -I 10.0.2.102 10.0.2.2 > /dev/null";
    let first = resident(&network, &["-r"], claim);
    let send = "import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.sendto(b'from the second', ('fd00::102', 514))";
    let script = format!(
        "ping -q -c 1 -W 20 fd00::102 > /dev/null; echo up
         read line; python3 -I -S -c \"{send}\"; read line || true"
    );
    let mut second = Running::start(guest(&network, &[], &script));
    second.wait_for("up");
    let server = "import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 514))
print('up', flush=True)
for _ in range(2): print(s.recv(99).decode(), flush=True)";
    let port = crate::vm::free_port();
    let publish = format!("127.0.0.1:{port}:514/udp");
    let script = format!("exec python3 -I -S -c \"{server}\"");
    let third = Running::start(guest(&network, &["-p", &publish], &script));
    third.wait_for("up");
    let client = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let sent = client.send_to(b"from the host", ("127.0.0.1", port));
    sent.expect("the port is open");
    third.wait_for("from the host");
    second.say("");
    third.wait_for("from the second");
    assert_eq!(third.finish().code, Some(0));
    drop((first, second));
}

#[test]
fn no_guest_takes_the_address_of_another() {
    // Breaks when a guest that says that it has another one's address, or the gateway's, gets the frames for it.
    needs!(guests(), programs(&["python3", "ping"]));
    let network = name("liar");
    let first = resident(&network, &[], "true");
    let known = "awk '/^10.0.2.(100|2) / { print $1, $4 }' /proc/net/arp | sort | paste -s";
    let script = format!(
        "ping -q -c 1 -W 20 10.0.2.100 > /dev/null; ping -q -c 1 -W 20 10.0.2.2 > /dev/null
         echo known $({known}); read line; echo later $({known})"
    );
    let mut second = Running::start(guest(&network, &[], &script));
    let before = second.wait_for("known");
    assert_eq!(before.matches("10.0.2.").count(), 2, "{before}");
    let liar = format!("exec python3 -I -S -c \"{LIAR}\"");
    visit(&network, &["-r"], &liar);
    second.say("");
    assert_eq!(second.wait_for("later"), before);
    drop((first, second));
}
