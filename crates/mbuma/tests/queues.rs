//! An interface of several queues that a gateway's workers serve: a flow's packets leave by the queue of the worker
//! that serves it, whichever worker took its first packet in.

mod common;

use std::io;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex};

use common::net::{ALL, FOREIGN, OUR_MAC, PEER, PEER_MAC, US, arp_frame, at, ip_frame, udp};
use kern::VirtualCpus;
use mbuf::{Chain, Live, Mbufq, Packet};
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Config, DropReason, IfConfig, IfIndex, Stack};
use wire::{ArpPacket, IpProto, Ipv4Fields, SeqNum, TcpFields, TcpFlags, TcpHeader, TcpOptions};

const QUEUES: usize = 3;

/// A gateway, and the far ends of its queues.
struct Gateway {
    cpus: Arc<VirtualCpus>,
    stack: Stack,
    iface: IfIndex,
    peers: Vec<Pipe>,
}

impl Gateway {
    fn new() -> Self {
        let cpus = Arc::new(VirtualCpus::new(QUEUES));
        let config = Config {
            cpus: Arc::clone(&cpus) as _,
            giant: common::net::giant(),
            ..Config::from_system()
        };
        let stack = Stack::new(config).unwrap();
        let (ours, peers): (Vec<_>, Vec<_>) = (0..QUEUES)
            .map(|_| Pipe::pair(Capabilities::plain(1500)))
            .unzip();
        let devices = ours.into_iter().map(|d| Arc::new(d) as Arc<dyn Device>);
        let config = IfConfig {
            mac: Some(OUR_MAC),
            accept_any: true,
            ..IfConfig::new("many0").with_addr(US, 24)
        };
        let iface = stack.attach_queues(devices.collect(), config).unwrap();
        let gateway = Self {
            cpus,
            stack,
            iface,
            peers,
        };
        gateway.give(0, &arp_frame(&ArpPacket::request(PEER_MAC, PEER, US)));
        gateway.left_by();
        gateway
    }

    /// `cpu` takes a frame in.
    fn give(&self, cpu: usize, frame: &[u8]) {
        self.cpus.switch_to(cpu);
        let packet = Packet::from_slice(self.stack.pool(), frame, 0).unwrap();
        self.stack.input(self.iface, packet);
    }

    /// The queues that frames have left by.
    fn left_by(&self) -> Vec<usize> {
        let frames = |queue: &usize| {
            let mut rx = Mbufq::new();
            self.peers[*queue].receive(&mut rx, ALL).unwrap();
            !rx.is_empty()
        };
        (0..QUEUES).filter(frames).collect()
    }

    fn done(self) {
        let pool = self.stack.pool().clone();
        drop(self);
        assert_eq!(pool.live(), Live::NONE);
    }
}

fn to_foreign(protocol: IpProto) -> Ipv4Fields<'static> {
    Ipv4Fields {
        src: PEER,
        dst: FOREIGN,
        protocol,
        ..Ipv4Fields::default()
    }
}

fn syn(port: u16) -> Vec<u8> {
    let fields = TcpFields {
        src_port: port,
        dst_port: 80,
        seq: SeqNum(1),
        ack: SeqNum(0),
        flags: TcpFlags::SYN,
        window: 1000,
        urgent: 0,
        options: TcpOptions::default(),
    };
    let mut header = [0; TcpHeader::LEN];
    fields.emit(&mut header);
    let mut sum = wire::pseudo_header_v4(PEER, FOREIGN, IpProto::TCP, TcpHeader::LEN as u32);
    sum.add_bytes(&header);
    header[TcpHeader::CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.finish().to_be_bytes());
    ip_frame(&to_foreign(IpProto::TCP), &header)
}

#[test]
fn a_connection_leaves_by_the_queue_of_the_cpu_that_accepted_it() {
    // Breaks when a worker that takes a connection over from another has its packets come to the other for ever.
    let gateway = Gateway::new();
    let interceptor = gateway.stack.tcp_intercept(gateway.iface, 64).unwrap();
    let mut streams = Vec::new();
    for (port, (begun_by, accepted_by)) in (5000..).zip([(0, 0), (0, 1), (1, 0), (2, 1), (1, 2)]) {
        gateway.give(begun_by, &syn(port));
        assert!(gateway.left_by().is_empty(), "held");
        let incoming = interceptor.next().expect("it wants to be accepted");
        gateway.cpus.switch_to(accepted_by);
        streams.push(incoming.accept().unwrap());
        assert_eq!(gateway.left_by(), [accepted_by]);
        // The answer to a packet that was on its way to another.
        gateway.give(begun_by, &syn(port));
        assert_eq!(gateway.left_by(), [accepted_by], "begun by {begun_by}");
    }
    drop((streams, interceptor));
    gateway.done();
}

#[test]
fn a_connection_that_goes_on_to_another_cpu_leaves_by_its_queue() {
    // Breaks when a connection that another worker serves from now on still comes in by the first one's queue.
    let gateway = Gateway::new();
    let interceptor = gateway.stack.tcp_intercept(gateway.iface, 64).unwrap();
    gateway.give(0, &syn(5000));
    let stream = interceptor.next().expect("wanted").accept().unwrap();
    assert_eq!(gateway.left_by(), [0]);
    for cpu in [2, 1, 1, 0] {
        gateway.cpus.switch_to(cpu);
        stream.keep_to_this_cpu();
        assert!(gateway.left_by().is_empty(), "that says nothing");
        gateway.give(0, &syn(5000));
        assert_eq!(gateway.left_by(), [cpu]);
    }
    drop((stream, interceptor));
    gateway.done();
}

#[test]
fn a_gateways_datagrams_leave_by_the_queue_of_the_sending_cpu() {
    // Breaks when the worker that serves all datagrams is woken for each by another one.
    let gateway = Gateway::new();
    let all = gateway.stack.udp_bind_any(gateway.iface).unwrap();
    for port in 5000..5032 {
        let (from, to): (SocketAddrV4, SocketAddrV4) = (at(PEER, port), at(FOREIGN, 53));
        let cpu = usize::from(port) % QUEUES;
        gateway.give(
            0,
            &ip_frame(&to_foreign(IpProto::UDP), &udp(from, to, b"ask")),
        );
        let asked = all.recv().unwrap();
        gateway.cpus.switch_to(cpu);
        all.send_from(asked.payload, asked.dst, asked.src).unwrap();
        assert_eq!(gateway.left_by(), [cpu], "port {port}");
    }
    drop(all);
    gateway.done();
}

/// A device that has room for three frames at a time.
#[derive(Debug, Default)]
struct Narrow {
    /// The frames that it was offered, in each call.
    offered: Mutex<Vec<usize>>,
}

impl Device for Narrow {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(1500)
    }

    fn receive(&self, _rx: &mut Mbufq, _budget: Budget) -> io::Result<bool> {
        Ok(false)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        self.offered.lock().unwrap().push(tx.len());
        for _ in 0..3 {
            drop(tx.dequeue());
        }
        Ok(0)
    }
}

#[test]
fn no_frame_waits_in_the_stack_for_a_device() {
    // Breaks when frames that a full device does not take wait in the interface's queue: then round trips include the
    // time in that queue, and a sender needs a limit on its own data there (tcp_limit_output_bytes). As it is, the
    // queue is empty when a call returns, whatever the device does.
    let config = Config {
        giant: common::net::giant(),
        ..Config::from_system()
    };
    let stack = Stack::new(config).unwrap();
    let device = Arc::new(Narrow::default());
    let config = IfConfig {
        mac: Some(OUR_MAC),
        ..IfConfig::new("narrow0").with_addr(US, 24)
    };
    let iface = stack
        .attach(Arc::clone(&device) as Arc<dyn Device>, config)
        .unwrap();
    let request = arp_frame(&ArpPacket::request(PEER_MAC, PEER, US));
    stack.input(
        iface,
        Packet::from_slice(stack.pool(), &request, 0).unwrap(),
    );
    let socket = stack.udp_bind(SocketAddrV4::new(US, 0)).unwrap();
    device.offered.lock().unwrap().clear();
    let dropped = || -> u64 {
        let stats = stack.stats();
        let all = stats.dropped.iter();
        all.filter(|(r, _)| *r == DropReason::DeviceError)
            .map(|&(_, n)| n)
            .sum()
    };
    let before = dropped();
    let send = |bytes: usize| {
        let mut payload = Chain::new();
        payload
            .extend_from_slice(stack.pool(), &vec![0; bytes])
            .unwrap();
        socket.send_to(payload, SocketAddrV4::new(PEER, 9)).unwrap();
    };
    // Nine fragments.
    send(12_000);
    assert_eq!(*device.offered.lock().unwrap(), [9]);
    assert_eq!(dropped() - before, 6);
    // Breaks also when an administrator can't see on which interface frames are lost.
    let of_interfaces = stack.stats().interfaces;
    let of_interfaces: u64 = of_interfaces.iter().map(|one| one.output_dropped).sum();
    assert_eq!(of_interfaces, dropped());
    for _ in 0..3 {
        send(100);
        stack.poll();
    }
    assert_eq!(*device.offered.lock().unwrap(), [9, 1, 1, 1]);
    // Breaks also when the route that a socket keeps holds a device that was detached.
    stack.detach(iface);
    assert_eq!(Arc::strong_count(&device), 1);
    drop(socket);
    let pool = stack.pool().clone();
    drop(stack);
    assert_eq!(pool.live(), Live::NONE);
}
