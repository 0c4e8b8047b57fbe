//! `mbuma vm --vhost-user`: machines whose front-end is the crate `vhost`, and whose driver is the test's.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::fs::ftruncate;

use super::machine::{Machine, Wire};
use super::virtio_driver::SharingMachine;
use super::{cross_both_ways, echo_server, end, free_port, vm};
use crate::common::scratch::noise;
use crate::common::server::TcpServer;
use crate::common::{Scratch, Stats};

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
const MTU: u16 = 1500;

fn machine(scratch: &Scratch, offloads: bool) -> Machine {
    let sharing = SharingMachine::connect(&scratch.path("vm.sock"), offloads);
    Machine::with(ADDR, |pool| sharing.driver(MTU, offloads, pool))
}

#[test]
fn machines_that_share_memory_reach_the_host() {
    // Breaks when connections of a machine do not cross in either direction, with or without offloads of its driver, or
    // when bytes that no front-end sends stop the gateway.
    let scratch = Scratch::new();
    let server = echo_server();
    let port = free_port();
    let publish = format!("127.0.0.1:{port}:7777");
    for offloads in [true, false] {
        let vm = vm(
            &scratch,
            &[
                "--vhost-user",
                "--host-loopback",
                "--mtu",
                "1500",
                "--publish",
                &publish,
                "--stats=json",
            ],
        );
        let mut stranger = UnixStream::connect(scratch.path("vm.sock")).expect("it listens");
        // A connection that is ended while it is written to is right, too.
        let _ = stranger.write_all(&noise(10_000, 1));
        drop(stranger);
        let machine = machine(&scratch, offloads);
        drop(cross_both_ways(&machine, ADDR, ROUTER, &server, port));
        // Before the machine: what is sent to one that is gone is dropped on its way out.
        let stats = Stats::checked(&end(vm));
        machine.end();
        assert_eq!(stats.number("connections_out"), 1);
        assert_eq!(stats.number("connections_in"), 1);
    }
}

#[test]
fn a_machine_that_starts_again_at_once_is_taken_in() {
    // Breaks when the isolated process cannot see that a front-end has gone before it has read the last messages: the
    // next one, of the same machine, is then turned away.
    const OWNER: [u32; 3] = [3, 1, 0];
    const FEATURES: [u32; 3] = [1, 1, 0];
    let scratch = Scratch::new();
    let vm = vm(&scratch, &["--vhost-user"]);
    let connect = || UnixStream::connect(scratch.path("vm.sock")).expect("it listens");
    let bytes = |message: [u32; 3]| message.map(u32::to_ne_bytes).concat();
    let mut first = connect();
    let sent = first.write_all(&bytes(OWNER).repeat(8000));
    sent.expect("it is taken in");
    drop(first);
    let mut second = connect();
    // Where it is turned away, writing may fail already.
    let _ = second.write_all(&bytes(FEATURES));
    let answer = second.read_exact(&mut [0; 20]);
    answer.expect("an answer");
    drop(second);
    end(vm);
}

#[test]
fn memory_that_is_taken_away_ends_its_network_with_a_word() {
    // Breaks when a front-end that truncates the memory it shared ends mbuma without a message, or does not end it.
    let scratch = Scratch::new();
    let vm = vm(&scratch, &["--vhost-user"]);
    let mut sharing = SharingMachine::connect(&scratch.path("vm.sock"), true);
    let ring = sharing.ring_to_device();
    ftruncate(&sharing.file, 0).expect("it is ours");
    // From here on the machine must not touch it either.
    ring.kick();
    let ended = vm.finish();
    assert_eq!(ended.code, Some(125), "{ended:#?}");
    assert!(ended.err.contains("it was taken away"), "{ended:#?}");
}

#[test]
fn a_signal_that_was_sent_is_no_memory_that_was_taken() {
    // Breaks when `kill -BUS` is reported as a fault of a machine, or the process stays alive after it.
    let scratch = Scratch::new();
    let vm = vm(&scratch, &["--vhost-user"]);
    // A machine is served: the handler is there.
    let sharing = SharingMachine::connect(&scratch.path("vm.sock"), true);
    vm.signal_gateway("BUS");
    let ended = vm.finish();
    assert_eq!(ended.code, Some(125), "{ended:#?}");
    assert!(!ended.err.contains("it was taken away"), "{ended:#?}");
    drop(sharing);
}

#[test]
#[ignore = "a measurement: alone, and with --nocapture"]
fn rates_beside_a_stream() {
    // Shows how much a machine sends by memory that it shares, and by a stream, in turns.
    const BYTES: usize = 512 << 20;
    for round in 0..3 {
        for shares in [false, true] {
            let scratch = Scratch::new();
            let sink = TcpServer::start(|mut stream| {
                let mut bytes = vec![0; 1 << 18];
                let mut rest = BYTES;
                while let Ok(n @ 1..) = stream.read(&mut bytes) {
                    rest -= n;
                    if rest == 0 {
                        let _ = stream.write_all(b".");
                    }
                }
            });
            let mut options = vec!["--host-loopback", "--mtu", "1500"];
            options.extend(shares.then_some("--vhost-user"));
            let vm = vm(&scratch, &options);
            let machine = match shares {
                true => machine(&scratch, true),
                false => {
                    let (wire, lease) = Wire::with_lease(&scratch.path("vm.sock"));
                    Machine::start(wire, &lease)
                }
            };
            let there = SocketAddr::from((ROUTER, sink.port()));
            let stream = machine.connect(there).expect("it listens");
            let chunk = noise(1 << 20, 3);
            let begin = Instant::now();
            (0..BYTES / chunk.len()).for_each(|_| machine.send(&stream, &chunk));
            machine.receive(&stream, 1);
            let rate = BYTES as f64 * 8e-9 / begin.elapsed().as_secs_f64();
            eprintln!("round {round}, shares memory: {shares}: {rate:.2} Gbit/s");
            drop(stream);
            machine.end();
            end(vm);
        }
    }
}
