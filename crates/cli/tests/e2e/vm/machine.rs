//! A virtual machine, played: its DHCP client by hand, then a stack of its own.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kern::{MonotonicClock, Random};
use mbuf::{Live, MbufPool};
use mbuma::device::Device;
use mbuma::device::frame_stream::FrameStream;
use mbuma::runtime::Runtime;
use mbuma::socket::SocketError;
use mbuma::{Config, IfConfig, Stack, TcpListener, TcpStream};
use wire::dhcp4_option as option;
use wire::{
    ALL_ROUTERS, Dhcp4Header, Dhcp4Type, Dhcp4Writer, EtherHeader, EtherType, Icmp6Header, IpProto,
    Ipv4Fields, Ipv4Header, Ipv6Fields, Ipv6Header, MacAddr, NdpMessage, NdpOption, NdpOptions,
    NeighborMessage, UdpHeader, link_local_of, pseudo_header_v4, pseudo_header_v6,
};

use crate::common::{PATIENCE, wait_until};

const MAC: MacAddr = MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
/// The headers before a message.
const HEADERS: usize = EtherHeader::LEN + Ipv4Header::LEN + UdpHeader::LEN;

/// The machine's end of the socket.
pub(super) struct Wire {
    stream: UnixStream,
    /// The transaction id of its questions. Replies to those of another machine may still come.
    xid: u32,
}

/// The values of the lease.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) addr: Ipv4Addr,
    pub(super) router: Ipv4Addr,
    pub(super) dns: Ipv4Addr,
    pub(super) mtu: u16,
    pub(super) hostname: String,
    pub(super) domain: String,
}

impl Wire {
    /// Connects and gets a lease. A process that another test starts has a copy of its sockets for a moment; so the
    /// machine before may seem to be there, and this one is refused.
    pub(super) fn with_lease(path: &Path) -> (Wire, Lease) {
        let mut leased = None;
        wait_until("a connection that is not refused", || {
            let mut wire = Wire::connect(path);
            leased = wire.lease().ok().map(|lease| (wire, lease));
            leased.is_some()
        });
        leased.expect("it was waited for")
    }

    pub(super) fn connect(path: &Path) -> Wire {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let xid = COUNT.fetch_add(1, Ordering::Relaxed);
        Wire { stream, xid }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Asks for an address and takes it, as a client that knows nothing does.
    fn lease(&mut self) -> io::Result<Lease> {
        let offer = self.ask(&self.discover(), Dhcp4Type::Offer)?;
        let (offered, server) = read(&offer, |header, options| {
            let server = options.addr(option::SERVER_ID).expect("a server");
            (header.your_addr(), server)
        });
        let request = self.message(&[
            (option::MESSAGE_TYPE, &[Dhcp4Type::Request as u8]),
            (option::REQUESTED_ADDRESS, &offered.octets()),
            (option::SERVER_ID, &server.octets()),
        ]);
        let acknowledged = self.ask(&request, Dhcp4Type::Ack)?;
        Ok(read(&acknowledged, |header, options| {
            assert_eq!(header.your_addr(), offered);
            let text =
                |number| String::from_utf8_lossy(options.get(number).unwrap_or(b"")).into_owned();
            Lease {
                addr: offered,
                router: options.addr(option::ROUTER).expect("a router"),
                dns: options.addr(option::DNS).expect("a name server"),
                mtu: options.u16(option::INTERFACE_MTU).expect("an MTU"),
                hostname: text(option::HOST_NAME),
                domain: text(option::DOMAIN_NAME),
            }
        }))
    }

    /// A DISCOVER as it goes through the socket.
    pub(super) fn discover(&self) -> Vec<u8> {
        self.message(&[(option::MESSAGE_TYPE, &[Dhcp4Type::Discover as u8])])
    }

    /// Sends a message and gives the reply of this kind.
    fn ask(&mut self, message: &[u8], kind: Dhcp4Type) -> io::Result<Vec<u8>> {
        self.stream.write_all(message)?;
        loop {
            let frame = self.read_frame()?;
            // The gateway may also ask for the owner of an address.
            let reply = frame.get(HEADERS..).unwrap_or_default();
            if self.is_reply(reply, kind) {
                check_sums(&frame);
                return Ok(reply.to_vec());
            }
        }
    }

    fn is_reply(&self, reply: &[u8], kind: Dhcp4Type) -> bool {
        Dhcp4Header::parse_reply(reply).is_ok_and(|(header, options)| {
            header.xid() == self.xid && options.message_type() == Some(kind)
        })
    }

    /// A client's message, in a frame behind its length.
    fn message(&self, options: &[(u8, &[u8])]) -> Vec<u8> {
        let mut payload = [0; 600];
        let mut writer = Dhcp4Writer::new(&mut payload, &Dhcp4Header::request(self.xid, MAC));
        for (number, value) in options {
            assert!(writer.put(*number, value));
        }
        let len = writer.finish();
        let mut frame = vec![0; HEADERS + len];
        EtherHeader::new(MacAddr::BROADCAST, MAC, EtherType::IPV4).emit(&mut frame);
        let ip = Ipv4Fields {
            payload_len: (UdpHeader::LEN + len) as u16,
            protocol: IpProto::UDP,
            dst: Ipv4Addr::BROADCAST,
            ..Ipv4Fields::default()
        };
        ip.emit(&mut frame[EtherHeader::LEN..]);
        let udp = UdpHeader::new(68, 67, (UdpHeader::LEN + len) as u16);
        udp.emit(&mut frame[HEADERS - UdpHeader::LEN..]);
        frame[HEADERS..].copy_from_slice(&payload[..len]);
        [&(frame.len() as u32).to_be_bytes()[..], &frame].concat()
    }

    fn read_frame(&mut self) -> io::Result<Vec<u8>> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len)?;
        let mut frame = vec![0; u32::from_be_bytes(len) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }
}

/// What a router advertised.
#[derive(Debug)]
pub(super) struct Advert {
    pub(super) prefix: Ipv6Addr,
    pub(super) mtu: u32,
}

impl Wire {
    /// Asks for routers, and gives what the first one that answers says.
    pub(super) fn ask_for_routers(&mut self) -> Advert {
        let solicit = NeighborMessage::router_solicit(Some(MAC));
        let (src, dst) = (link_local_of(MAC), ALL_ROUTERS);
        let len = Icmp6Header::LEN + solicit.body().len();
        let pseudo = pseudo_header_v6(src, dst, IpProto::ICMPV6, len as u32);
        let header = Icmp6Header::new(solicit.message, pseudo, [solicit.body()]);
        let at = EtherHeader::LEN + Ipv6Header::LEN;
        let mut frame = vec![0; at + Icmp6Header::LEN];
        EtherHeader::new(MacAddr::from_ipv6_multicast(dst), MAC, EtherType::IPV6).emit(&mut frame);
        let ip = Ipv6Fields {
            payload_len: len as u16,
            next: IpProto::ICMPV6,
            hop_limit: 255,
            src,
            dst,
            ..Ipv6Fields::default()
        };
        ip.emit(&mut frame[EtherHeader::LEN..]);
        header.emit(&mut frame[at..]);
        frame.extend(solicit.body());
        let sent = [&(frame.len() as u32).to_be_bytes()[..], &frame].concat();
        self.stream.write_all(&sent).expect("it is connected");
        loop {
            let frame = self.read_frame().expect("an answer");
            let Some((header, body)) = frame
                .get(at..)
                .and_then(|icmp| Icmp6Header::parse(icmp).ok())
            else {
                continue;
            };
            let is_to_us = frame.starts_with(&MAC.0);
            let message = NdpMessage::parse(header.kind(), header.rest(), body);
            if let (true, Ok(NdpMessage::RouterAdvert(_, options))) = (is_to_us, message) {
                return Advert::of(options);
            }
        }
    }
}

impl Advert {
    fn of(options: NdpOptions<'_>) -> Advert {
        let mut advert = Advert {
            prefix: Ipv6Addr::UNSPECIFIED,
            mtu: 0,
        };
        for option in options.iter() {
            match option {
                NdpOption::Prefix(prefix) => advert.prefix = prefix.prefix,
                NdpOption::Mtu(mtu) => advert.mtu = mtu,
                _ => {}
            }
        }
        advert
    }
}

/// Looks at a reply.
fn read<T>(reply: &[u8], look: impl FnOnce(&Dhcp4Header, wire::Dhcp4Options<'_>) -> T) -> T {
    let (header, options) = Dhcp4Header::parse_reply(reply).expect("a reply");
    assert_eq!(header.client_mac(), MAC);
    look(header, options)
}

/// The machine reads raw frames, so their checksums must be complete.
fn check_sums(frame: &[u8]) {
    let packet = &frame[EtherHeader::LEN..];
    let ip = Ipv4Header::parse(packet).expect("IPv4");
    assert!(ip.checksum_ok());
    let udp = &packet[ip.header_len()..ip.total_len()];
    let mut sum = pseudo_header_v4(ip.src(), ip.dst(), IpProto::UDP, udp.len() as u32);
    sum.add_bytes(udp);
    assert!(sum.is_valid(), "a UDP checksum that is not whole");
    assert!(UdpHeader::parse(udp).expect("UDP").0.has_checksum());
}

/// A stack at the machine's end of the socket.
pub(super) struct Machine {
    runtime: Runtime,
    stack: Stack,
    index: mbuma::IfIndex,
}

impl Machine {
    pub(super) fn start(wire: Wire, lease: &Lease) -> Machine {
        Machine::with(lease.addr, |pool| {
            FrameStream::connected(wire.stream, lease.mtu, pool).expect("descriptors")
        })
    }

    /// A machine at this address, with the card that is made for its buffers.
    pub(super) fn with<D: Device + AsFd + 'static>(
        addr: Ipv4Addr,
        card: impl FnOnce(&MbufPool) -> D,
    ) -> Machine {
        let runtime = Runtime::with_workers(1).expect("descriptors");
        let mut config = Config::new(Arc::new(MonotonicClock::new()), Random::from_os());
        config.cpus = runtime.cpus();
        let stack = Stack::new(config).expect("address space");
        let device = Arc::new(card(stack.pool()));
        let config = IfConfig {
            mac: Some(MAC),
            ..IfConfig::new("eth0").with_addr(addr, 24)
        };
        let index = stack
            .attach(Arc::clone(&device) as _, config)
            .expect("an MTU that is large enough");
        let watched = runtime.add_queue(&stack, index, 0, device.as_fd());
        watched.expect("descriptors");
        Machine {
            runtime,
            stack,
            index,
        }
    }

    pub(super) fn connect(&self, to: SocketAddr) -> Result<TcpStream, SocketError> {
        let stream = self.stack.tcp_connect((Ipv4Addr::UNSPECIFIED, 0), to)?;
        stream.connected_blocking(Some(PATIENCE))?;
        Ok(stream)
    }

    pub(super) fn listen(&self, at: SocketAddr) -> TcpListener {
        self.stack.tcp_listen(at, 8).expect("a port of ours")
    }

    pub(super) fn send(&self, stream: &TcpStream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let sent = stream.send_blocking(bytes, Some(PATIENCE));
            bytes = &bytes[sent.expect("it is connected")..];
        }
    }

    pub(super) fn receive(&self, stream: &TcpStream, len: usize) -> Vec<u8> {
        let mut all = vec![0; len];
        let mut at = 0;
        while at < len {
            let n = stream.recv_blocking(&mut all[at..], Some(PATIENCE));
            at += n.expect("more to come");
        }
        all
    }

    /// Ends it; all its buffers are given back.
    pub(super) fn end(self) {
        let pool = self.stack.pool().clone();
        self.runtime.remove_interface(&self.stack, self.index);
        self.stack.detach(self.index);
        self.runtime.shutdown();
        drop(self.stack);
        assert_eq!(pool.live(), Live::NONE);
    }
}
