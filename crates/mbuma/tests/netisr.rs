//! Dispatch: at once, by the flow's CPU, or later; never out of order, never lost without being counted.

mod common;

use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::task::Waker;

use common::net::*;
use kern::VirtualCpus;
use mbuf::Live;
use mbuma::device::memory::Pipe;
use mbuma::device::tunnel::{self, TunnelEnd};
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Dispatch, DropReason, IfAddr, IfConfig, NetisrConfig, Protocol, UdpSocket, WorkStats};

/// A stack of `N` CPUs that this thread plays, whose IP packets wait at first.
fn deferred<const N: usize>() -> Lab {
    Lab::new(Setup {
        introduced: false,
        tune: |config| {
            config.cpus = Arc::new(VirtualCpus::new(N));
            config.netisr.dispatch = Dispatch::Deferred;
        },
        ..Setup::default()
    })
}

fn frames(frames: usize) -> Budget {
    Budget {
        frames,
        bytes: usize::MAX,
    }
}

/// Takes frames in, and handles no packet that waits.
fn take_in(lab: &Lab) {
    while lab.stack.poll_interface(lab.iface, ALL).unwrap() {}
}

fn of(lab: &Lab, protocol: Protocol) -> Vec<WorkStats> {
    let mut stats = lab.stack.netisr_stats();
    stats.retain(|s| s.protocol == protocol);
    stats
}

/// The sum over all CPUs.
fn sum(lab: &Lab, protocol: Protocol, what: fn(&WorkStats) -> u64) -> u64 {
    of(lab, protocol).iter().map(what).sum()
}

fn put_numbers(lab: &Lab, port: u16, numbers: std::ops::Range<u8>) {
    numbers.for_each(|n| lab.put(&udp_frame(port, at(US, 7), &[n])));
}

fn received(socket: &UdpSocket) -> Vec<u8> {
    std::iter::from_fn(|| socket.recv().ok())
        .map(|d| d.payload.to_vec()[0])
        .collect()
}

/// Breaks if queued packets are handled before a thread asks for them, or not then, or are miscounted.
#[test]
fn deferred_packets_wait_for_their_cpu() {
    let lab = deferred::<1>();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    put_numbers(&lab, 9, 0..5);
    take_in(&lab);
    assert!(socket.recv().is_err());
    assert_eq!(lab.stack.next_deadline(), Some(lab.stack.now()));
    assert!(lab.stack.netisr_waits(0));
    assert!(lab.stack.run_netisr(0, frames(2)), "three are left");
    assert_eq!(received(&socket), [0, 1]);
    put_numbers(&lab, 9, 5..6);
    take_in(&lab);
    assert!(!lab.stack.run_netisr(0, ALL));
    assert_eq!(
        received(&socket),
        [2, 3, 4, 5],
        "what was put back is first"
    );
    let stats = of(&lab, Protocol::Ip4)[0];
    assert_eq!((stats.queued, stats.handled, stats.direct), (6, 6, 0));
    assert_eq!((stats.high_water, stats.waiting, stats.moved), (5, 0, 0));
    assert_eq!(lab.stack.next_deadline(), None);
}

/// Breaks if a program that knows nothing of CPUs loses packets.
#[test]
fn poll_handles_what_waits() {
    let lab = deferred::<4>();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    put_numbers(&lab, 9, 0..5);
    lab.poll();
    assert_eq!(received(&socket), [0, 1, 2, 3, 4]);
}

/// Breaks if a queue is not bounded, or what it refuses is not counted.
#[test]
fn a_full_queue_drops() {
    let lab = Lab::new(Setup {
        introduced: false,
        tune: |config| {
            config.netisr = NetisrConfig {
                dispatch: Dispatch::Deferred,
                queue_max: 4,
            }
        },
        ..Setup::default()
    });
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    // More than one batch collects.
    put_numbers(&lab, 9, 0..70);
    take_in(&lab);
    assert_eq!(lab.dropped(DropReason::NetisrQueueFull), 66);
    let stats = of(&lab, Protocol::Ip4)[0];
    assert_eq!((stats.queued, stats.dropped, stats.high_water), (4, 66, 4));
    lab.poll();
    assert_eq!(received(&socket), [0, 1, 2, 3]);
}

/// Breaks if a packet that is dispatched directly overtakes one that waits.
#[test]
fn a_change_of_policy_overtakes_nothing() {
    for policy in [Dispatch::Direct, Dispatch::Hybrid] {
        let lab = deferred::<1>();
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        put_numbers(&lab, 9, 0..2);
        take_in(&lab);
        lab.stack.set_dispatch(Protocol::Ip4, policy);
        assert_eq!(lab.stack.dispatch(Protocol::Ip4), policy);
        put_numbers(&lab, 9, 2..3);
        take_in(&lab);
        assert!(socket.recv().is_err(), "it waits behind the others");
        assert!(!lab.stack.run_netisr(0, ALL));
        put_numbers(&lab, 9, 3..4);
        take_in(&lab);
        assert_eq!(received(&socket), [0, 1, 2, 3]);
        let stats = of(&lab, Protocol::Ip4)[0];
        assert_eq!((stats.queued, stats.direct + stats.hybrid), (3, 1));
    }
}

/// Breaks if hybrid dispatch handles another CPU's flow, or queues its own.
#[test]
fn hybrid_is_direct_at_home() {
    let cpus = Arc::new(VirtualCpus::new(2));
    // A function pointer can't capture; this one is asked for the CPUs of its own test.
    static CPUS: std::sync::OnceLock<Arc<VirtualCpus>> = std::sync::OnceLock::new();
    CPUS.set(Arc::clone(&cpus)).unwrap();
    let lab = Lab::new(Setup {
        introduced: false,
        tune: |config| {
            config.cpus = Arc::clone(CPUS.get().unwrap()) as _;
            config.netisr.dispatch = Dispatch::Hybrid;
        },
        ..Setup::default()
    });
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    for port in 100..164 {
        put_numbers(&lab, port, 0..2);
    }
    take_in(&lab);
    let here = received(&socket).len() as u64;
    assert!(here > 0 && here < 128, "the flows are spread: {here}");
    assert_eq!(sum(&lab, Protocol::Ip4, |s| s.hybrid), here);
    assert_eq!(sum(&lab, Protocol::Ip4, |s| s.moved), 128 - here);
    assert!(!lab.stack.netisr_waits(0) && lab.stack.netisr_waits(1));
    cpus.switch_to(1);
    assert!(!lab.stack.run_netisr(1, ALL));
    assert_eq!(received(&socket).len() as u64, 128 - here);
}

/// Breaks if a CPU is woken for each packet, or not at all, or by itself.
#[test]
fn a_cpu_is_woken_when_it_must() {
    let lab = deferred::<2>();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let woken = [(); 2].map(|()| Arc::new(Count::default()));
    for (cpu, count) in woken.iter().enumerate() {
        let waker = Waker::from(Arc::clone(count));
        lab.stack.set_cpu_waker(cpu, Some(waker));
    }
    let count = |cpu: usize| woken[cpu].get();
    for round in 1..=3 {
        for _ in 0..2 {
            // At last more than one batch collects.
            (100..164).for_each(|port| put_numbers(&lab, port, 0..round));
            take_in(&lab);
        }
        let woken = (count(0), count(1));
        assert_eq!(woken, (0, usize::from(round)), "it is CPU 0's turn");
        (0..2).for_each(|cpu| assert!(!lab.stack.run_netisr(cpu, ALL)));
    }
    assert_eq!(received(&socket).len(), 256, "its queue's limit");
    (0..2).for_each(|cpu| lab.stack.set_cpu_waker(cpu, None));
}

/// Breaks if packets of an interface that went are delivered, or vanish uncounted.
#[test]
fn what_waits_for_a_gone_interface_is_dropped() {
    let lab = deferred::<1>();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    put_numbers(&lab, 9, 0..5);
    take_in(&lab);
    lab.stack.detach(lab.iface);
    lab.stack.poll();
    assert!(socket.recv().is_err());
    assert_eq!(lab.dropped(DropReason::NoInterface), 5);
    assert_eq!(lab.stack.stats().received, 5);
    drop(socket);
    let pools = [lab.stack.pool().clone(), lab.pool.clone()];
    drop(lab);
    pools.iter().for_each(|p| assert_eq!(p.live(), Live::NONE));
}

/// Breaks if a stack that ends keeps what waits in it.
#[test]
fn a_stack_ends_with_packets_waiting() {
    let lab = deferred::<3>();
    (100..140).for_each(|port| put_numbers(&lab, port, 0..3));
    take_in(&lab);
    let pools = [lab.stack.pool().clone(), lab.pool.clone()];
    assert_ne!(pools[1].live(), Live::NONE);
    drop(lab);
    pools.iter().for_each(|p| assert_eq!(p.live(), Live::NONE));
}

/// Breaks if fragments of a datagram wait for different CPUs, or the whole is lost on its way to its own.
#[test]
fn fragments_meet_on_one_cpu() {
    let lab = deferred::<4>();
    let sockets: Vec<_> = (0..16)
        .map(|n| lab.stack.udp_bind(at(US, 100 + n)).unwrap())
        .collect();
    for n in 0..16_u16 {
        let data = udp(at(PEER, 9), at(US, 100 + n), &pattern_bytes(3000));
        for (i, piece) in data.chunks(1480).enumerate() {
            let fields = wire::Ipv4Fields {
                id: 1000 + n,
                frag_offset: (i * 1480) as u16,
                mf: i < 2,
                ..from_peer(US, wire::IpProto::UDP)
            };
            lab.put(&ip_frame(&fields, piece));
        }
    }
    take_in(&lab);
    let used = || {
        of(&lab, Protocol::Ip4)
            .iter()
            .filter(|s| s.queued > 0)
            .count()
    };
    assert_eq!(used(), 1, "the addresses are the same");
    lab.poll();
    assert!(used() > 1, "the ports are not");
    assert_eq!(sum(&lab, Protocol::Ip4, |s| s.queued), 16 * 4);
    for socket in &sockets {
        assert_eq!(socket.recv().unwrap().payload.to_vec(), pattern_bytes(3000));
    }
}

/// Breaks if packets to ourselves do not go by their own policy, or a connection to ourselves stalls.
#[test]
fn packets_to_ourselves_follow_their_own_policy() {
    for policy in Dispatch::ALL {
        let lab = deferred::<2>();
        lab.stack.set_dispatch(Protocol::Loopback, policy);
        let listener = lab.stack.tcp_listen(at(US, 80), 8).unwrap();
        let any = SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0);
        let stream = lab.stack.tcp_connect(any, at(US, 80)).unwrap();
        if policy == Dispatch::Direct {
            assert!(lab.stack.netisr_stats().iter().all(|s| s.waiting == 0));
        }
        lab.stack.poll();
        let accepted = listener.accept().expect("the handshake is done");
        let data = pattern_bytes(400_000);
        assert_eq!(stream.send(&data).unwrap(), data.len());
        stream.shutdown(std::net::Shutdown::Write);
        let (mut got, mut buf) = (Vec::new(), vec![0; 100_000]);
        while got.len() < data.len() {
            lab.stack.poll();
            let n = accepted.recv(&mut buf).unwrap();
            got.extend_from_slice(&buf[..n]);
        }
        assert!(got == data);
        let stats = of(&lab, Protocol::Loopback);
        let queued: u64 = stats.iter().map(|s| s.queued).sum();
        assert!(queued > 10, "{queued}");
        assert_eq!(queued, stats.iter().map(|s| s.handled).sum::<u64>());
        assert_eq!(
            stats.iter().filter(|s| s.queued > 0).count(),
            1,
            "one flow, both ways"
        );
    }
}

/// Breaks if a flow leaves by another queue than the one that has its CPU's number.
#[test]
fn a_flow_leaves_by_its_cpus_queue() {
    const QUEUES: usize = 4;
    let lab = deferred::<QUEUES>();
    let (ours, peers): (Vec<_>, Vec<_>) = (0..QUEUES)
        .map(|_| Pipe::pair(Capabilities::plain(1500)))
        .unzip();
    let (us, them) = ([10, 9, 0, 1].into(), [10, 9, 0, 2].into());
    let addr = IfAddr::new(us, 24);
    let config = IfConfig {
        mac: Some(OUR_MAC),
        addrs: vec![addr],
        ..IfConfig::new("many0")
    };
    let devices = ours.into_iter().map(|d| Arc::new(d) as Arc<dyn Device>);
    let iface = lab.stack.attach_queues(devices.collect(), config).unwrap();
    let give = |frame: &[u8]| {
        let packet = mbuf::Packet::from_slice(&lab.pool, frame, 0).unwrap();
        lab.stack.input(iface, packet);
    };
    let leaves_by = || {
        let frames = |pipe: &Pipe| {
            let mut rx = mbuf::Mbufq::new();
            pipe.receive(&mut rx, ALL).unwrap();
            rx.len()
        };
        let by: Vec<_> = (0..QUEUES).filter(|&q| frames(&peers[q]) > 0).collect();
        assert_eq!(by.len(), 1, "one frame, by one queue");
        by[0]
    };
    give(&arp_frame(&wire::ArpPacket::request(PEER_MAC, them, us)));
    lab.stack.poll();
    leaves_by();
    let socket = lab.stack.udp_bind(at(us, 7)).unwrap();
    for port in 100..132 {
        let datagram = udp(at(them, port), at(us, 7), b"ask");
        let fields = wire::Ipv4Fields {
            src: them,
            dst: us,
            protocol: wire::IpProto::UDP,
            ..wire::Ipv4Fields::default()
        };
        give(&ip_frame(&fields, &datagram));
        let waits: Vec<_> = (0..QUEUES).filter(|&c| lab.stack.netisr_waits(c)).collect();
        lab.stack.poll();
        let asked = socket.recv().unwrap();
        socket.send_to(lab.chain(b"answer"), asked.src).unwrap();
        assert_eq!(waits, [leaves_by()], "port {port}");
    }
}

/// Breaks if the fragments of a datagram leave by another queue than the rest of its flow, which they would overtake.
#[test]
fn fragments_leave_by_the_queue_of_their_flow() {
    const QUEUES: usize = 4;
    let lab = deferred::<QUEUES>();
    let (ours, ends): (Vec<_>, Vec<_>) = (0..QUEUES)
        .map(|_| tunnel::pair(lab.stack.pool(), 1500).unwrap())
        .unzip();
    let us4 = IpAddr::from([10, 9, 0, 1]);
    let us6 = IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, 1]);
    let config = IfConfig::new("many0").with_addr(us4, 24).with_addr(us6, 64);
    let devices = ours.into_iter().map(|d| Arc::new(d) as Arc<dyn Device>);
    let index = lab.stack.attach_queues(devices.collect(), config).unwrap();
    let left_by = || {
        let taken = |end: &TunnelEnd| std::iter::from_fn(|| end.take().unwrap()).count();
        ends.iter().map(taken).collect::<Vec<_>>()
    };
    left_by();
    let them6 = IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, 2]);
    for (us, them) in [(us4, IpAddr::from([10, 9, 0, 2])), (us6, them6)] {
        let socket = lab.stack.udp_bind(SocketAddr::new(us, 7)).unwrap();
        for port in 100..116 {
            let by = [100, 3000].map(|len| {
                let to = SocketAddr::new(them, port);
                socket.send_to(lab.chain(&pattern_bytes(len)), to).unwrap();
                left_by()
            });
            let three = by[0].iter().map(|one| 3 * one).collect::<Vec<_>>();
            assert_eq!(by[1], three, "port {port}");
        }
    }
    lab.stack.detach(index);
}
