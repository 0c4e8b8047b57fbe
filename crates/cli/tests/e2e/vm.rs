//! `mbuma vm`: a virtual machine's network by a UNIX-domain socket. Most tests play the machine by hand, or with a
//! stack of their own; one boots a kernel.

mod driver_ring;
mod machine;
mod qemu;
mod shared_memory;
mod virtio_driver;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use mbuma::socket::SocketError;

use crate::common::needs::programs;
use crate::common::server::TcpServer;
use crate::common::{
    AS_NOBODY, MBUMA, PATIENCE, Running, Scratch, Stats, number, program, wait_until,
};
use machine::{Machine, Wire};

/// Starts `mbuma vm` at a socket of `scratch`'s, and gives it when it listens.
fn vm(scratch: &Scratch, options: &[&str]) -> Running {
    vm_at(scratch, "vm.sock", options)
}

/// The same at a socket of this name.
fn vm_at(scratch: &Scratch, name: &str, options: &[&str]) -> Running {
    let mut command = program(MBUMA);
    let socket = scratch.text(name);
    command.args(["vm", "--socket", &socket]).args(options);
    let vm = Running::start(command);
    assert_eq!(vm.wait_for("listening at"), socket);
    vm
}

fn end(vm: Running) -> String {
    vm.signal("TERM");
    let ended = vm.finish();
    assert_eq!((ended.code, ended.signal), (Some(0), None), "{ended:#?}");
    ended.err
}

/// A server that sends back all it gets.
fn echo_server() -> TcpServer {
    TcpServer::start(|mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut bytes) {
            if stream.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
    })
}

/// Has the machine at `addr` connect to an echo server of the host, by the gateway at `router`, and to a port that is
/// closed; then has a client come to its port 7777, which is published at `port`. Returns what is open.
fn cross_both_ways(
    machine: &Machine,
    addr: Ipv4Addr,
    router: Ipv4Addr,
    server: &TcpServer,
    port: u16,
) -> impl Sized + use<> {
    let there = SocketAddr::from((router, server.port()));
    let stream = machine.connect(there).expect("the host's loopback is open");
    for len in [1, 1000, 300_000] {
        let sent = crate::common::scratch::noise(len, len as u64);
        machine.send(&stream, &sent);
        assert!(machine.receive(&stream, len) == sent, "{len}");
    }
    drop(stream);
    let refused = machine.connect(SocketAddr::from((router, 9)));
    assert_eq!(refused.err(), Some(SocketError::Refused));

    let listener = machine.listen(SocketAddr::from((addr, 7777)));
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("it is published");
    client.write_all(b"hello").expect("it is connected");
    let accepted = listener.accept_blocking(Some(PATIENCE)).expect("a client");
    assert_eq!(machine.receive(&accepted, 5), b"hello");
    machine.send(&accepted, b"world");
    let mut answer = [0; 5];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"world");
    (accepted, listener, client)
}

#[test]
fn a_machine_gets_an_address_and_reaches_the_host() {
    // Breaks when a machine gets no lease, or the wrong one, or its connections do not cross in either direction; when
    // figures or captures do not know of it; or when the socket's name stays behind.
    let scratch = Scratch::new();
    let server = echo_server();
    let pcap = scratch.text("vm.pcapng");
    let port = free_port();
    let publish = format!("127.0.0.1:{port}:7777");
    let options = [
        "--host-loopback",
        "--hostname",
        "web",
        "--search",
        "example.org",
        "--mtu",
        "9000",
        "--pcap",
        &pcap,
        "--publish",
        &publish,
        "--stats=json",
    ];
    let vm = vm(&scratch, &options);
    let (wire, lease) = Wire::with_lease(&scratch.path("vm.sock"));
    let network = (lease.addr, lease.router, lease.dns);
    assert_eq!(
        network,
        (
            [10, 0, 2, 100].into(),
            [10, 0, 2, 2].into(),
            [10, 0, 2, 3].into()
        )
    );
    assert_eq!(
        (lease.mtu, &*lease.hostname, &*lease.domain),
        (9000, "web", "example.org")
    );

    let machine = Machine::start(wire, &lease);
    let open = cross_both_ways(&machine, lease.addr, lease.router, &server, port);

    let netstat = program(MBUMA)
        .args(["netstat", &vm.id().to_string(), "--json"])
        .output();
    let netstat = netstat.expect("it was built");
    assert!(netstat.status.success(), "{netstat:?}");
    drop(open);
    // Before the machine ends: packets to a machine that has ended are dropped.
    let stats = Stats::checked(&end(vm));
    machine.end();
    assert!(stats.number("dhcp_replies") >= 2);
    assert_eq!(stats.number("connections_out"), 1);
    assert_eq!(stats.number("connections_in"), 1);
    assert!(fs::metadata(pcap).expect("a capture").len() > 600_000);
    assert!(!scratch.path("vm.sock").exists());
}

#[test]
fn a_machine_without_ipv6_serves_clients_that_come_by_it() {
    // Breaks when a client of a published port's ::1 is reset because the machine has not taken its IPv6 address.
    let scratch = Scratch::new();
    let port = free_port();
    let vm = vm(&scratch, &["--publish", &format!("[::1]:{port}:7777")]);
    let (wire, lease) = Wire::with_lease(&scratch.path("vm.sock"));
    let machine = Machine::start(wire, &lease);
    let listener = machine.listen(SocketAddr::from((lease.addr, 7777)));
    let mut client = TcpStream::connect(("::1", port)).expect("it is published");
    client.write_all(b"hello").expect("it is connected");
    let accepted = listener.accept_blocking(Some(PATIENCE)).expect("a client");
    assert_eq!(machine.receive(&accepted, 5), b"hello");
    drop((accepted, listener, client));
    end(vm);
    machine.end();
}

#[test]
fn a_machine_that_asks_for_routers_hears_of_one() {
    // Breaks when a machine's router solicitation gets no answer, or one for another station.
    let scratch = Scratch::new();
    let vm = vm(&scratch, &["--mtu", "9000"]);
    let advert = Wire::with_lease(&scratch.path("vm.sock"))
        .0
        .ask_for_routers();
    assert_eq!(advert.mtu, 9000);
    assert_eq!(advert.prefix.to_string(), "fd00::");
    end(vm);
}

#[test]
fn a_machine_that_starts_again_finds_its_network() {
    // Breaks when mbuma ends with its machine, keeps something of the last one, lets two in at once, or refuses the
    // second one without a word.
    let scratch = Scratch::new();
    let vm = vm(&scratch, &[]);
    let path = scratch.path("vm.sock");
    for _ in 0..3 {
        let (wire, lease) = Wire::with_lease(&path);
        let mut second = UnixStream::connect(&path).expect("it listens");
        assert_eq!(second.read(&mut [0]).expect("it is closed"), 0);
        // It ends in the middle of a frame.
        wire.stream()
            .write_all(&[0, 0, 0, 60, 1, 2, 3])
            .expect("it is connected");
        assert_eq!(lease.addr.octets(), [10, 0, 2, 100]);
    }
    let err = end(vm);
    assert!(err.contains("a second machine was refused"), "{err}");
}

#[test]
fn a_hostile_machine_harms_itself_alone() {
    // Breaks when lengths and bytes that no correct machine sends stop the gateway, or let its memory grow without
    // bound.
    let scratch = Scratch::new();
    let vm = vm(&scratch, &[]);
    let path = scratch.path("vm.sock");
    let begins: [&[u8]; 6] = [
        &[0xff; 4],
        &[0x80, 0, 0, 0],
        &[0, 1, 0, 18],
        &[0; 4096],
        &[0, 0, 0, 1, 7],
        &[0, 0, 0, 13, 1, 2],
    ];
    let noise = crate::common::scratch::noise(1 << 20, 5);
    for begin in begins {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        // A refused connection ends while it is written to.
        let _ = stream
            .write_all(begin)
            .and_then(|()| stream.write_all(&noise));
    }
    // It asks without end, and reads no answer.
    let wire = Wire::connect(&path);
    let flood = wire.discover();
    let mut stream = wire.stream();
    stream.set_nonblocking(true).expect("a socket");
    for _ in 0..20_000 {
        // A part of a frame that is written makes the rest garbage: that is hostile, too.
        let _ = stream.write(&flood);
    }
    drop(wire);
    let (_, lease) = Wire::with_lease(&path);
    assert_eq!(lease.addr.octets(), [10, 0, 2, 100]);
    let status = fs::read_to_string(format!("/proc/{}/status", vm.gateway())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = number(peak.expect("a line").trim_end_matches("kB"));
    assert!(peak < 100_000, "{peak} kB");
    end(vm);
}

#[test]
fn a_gateway_that_hangs_is_ended_nevertheless() {
    // Breaks when a machine that holds its gateway process up (by memory that it shares, for example) makes mbuma deaf
    // to SIGTERM.
    for options in [
        &["--watchdog", "1"][..],
        &["--watchdog", "1", "--serve", "."],
    ] {
        let scratch = Scratch::new();
        let vm = vm(&scratch, options);
        vm.signal_gateway("STOP");
        vm.signal("TERM");
        let ended = vm.finish();
        assert!(
            ended.err.contains("after it was told to stop: killed"),
            "{ended:#?}"
        );
        assert!(ended.code.is_some_and(|code| code != 0), "{ended:#?}");
    }
}

#[test]
fn an_ordinary_user_serves_a_machine_without_rights() {
    // Breaks when `mbuma vm` needs root, or its gateway process keeps rights.
    needs!(programs(&["setpriv"]), crate::common::needs::root());
    let scratch = Scratch::new();
    let dir = scratch.path("run");
    fs::create_dir(&dir).expect("ours");
    std::os::unix::fs::chown(&dir, Some(65534), Some(65534)).expect("we are root");
    let socket = scratch.text("run/vm.sock");
    let copy = scratch.copy("mbuma", MBUMA.as_ref());
    let mut command = program(AS_NOBODY[0]);
    command
        .args(&AS_NOBODY[1..])
        .args([&copy, "vm", "--socket", &socket]);
    let vm = Running::start(command);
    vm.wait_for("listening at");
    let status = fs::read_to_string(format!("/proc/{}/status", vm.gateway())).expect("it runs");
    assert!(
        status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"),
        "{status}"
    );
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    assert_eq!(
        Wire::with_lease(socket.as_ref()).1.addr.octets(),
        [10, 0, 2, 100]
    );
    end(vm);
}

#[test]
fn the_place_of_another_socket_is_not_taken() {
    // Breaks when a second mbuma takes the socket of one that runs, or a killed one leaves a name that no other can
    // use.
    let scratch = Scratch::new();
    let first = vm(&scratch, &[]);
    let socket = scratch.text("vm.sock");
    let mut command = program(MBUMA);
    command.args(["vm", "--socket", &socket]);
    let second = Running::start(command).finish();
    assert_eq!(second.code, Some(125), "{second:#?}");
    assert!(second.err.contains("listening at"), "{second:#?}");
    first.signal("KILL");
    assert_eq!(first.finish().signal, Some(9));
    let third = vm_again(&socket);
    assert_eq!(
        Wire::with_lease(&scratch.path("vm.sock")).1.addr.octets(),
        [10, 0, 2, 100]
    );
    end(third);
}

/// Starts it at a socket that was left behind, once its last owner's processes are gone.
fn vm_again(socket: &str) -> Running {
    wait_until("the end of the killed one's processes", || {
        UnixStream::connect(socket).is_err()
    });
    let mut command = program(MBUMA);
    command.args(["vm", "--socket", socket]);
    let vm = Running::start(command);
    vm.wait_for("listening at");
    vm
}

/// A port that no socket has now.
pub(crate) fn free_port() -> u16 {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    probe.local_addr().expect("it is bound").port()
}
