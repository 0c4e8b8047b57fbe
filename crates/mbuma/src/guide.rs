//! The common tasks of a program, each with an example that runs.
//!
//! | task | here | larger example |
//! |---|---|---|
//! | join two stacks in one process | [two stacks](#two-stacks-over-an-epair) | `examples/jails.rs` |
//! | accept and open connections | [TCP](#tcp-client-and-server) | `examples/echo.rs`, on a TAP |
//! | exchange datagrams | [UDP](#udp), [with groups](#groups) | |
//! | see packets and figures | [captures and figures](#captures-and-figures) | |
//! | wait in tasks, not in threads | [futures and tokio](#futures-and-tokio) | |
//! | carry IP packets: a VPN | [`device::tunnel`](crate::device::tunnel) | `examples/tunnel.rs` |
//! | carry frames or packets in any other way | [a device of your own](#a-device-of-your-own), [driven by a runtime](#a-device-that-a-runtime-drives) | |
//! | encrypt | [TLS](#tls) | |
//! | send files | [files](#files) | |
//! | forward from one connection to another | [splices](#splices) | |
//! | decide about a connection before the stack accepts it | [`Stack::tcp_intercept`](crate::Stack::tcp_intercept) | |
//! | drive stacks by threads | [`runtime`](crate::runtime) | `examples/runtime.rs` |
//! | test in virtual time | [the crate's page](crate#in-virtual-time) | the crate `sim` |
//!
//! # Names in std and tokio
//! | there | here |
//! |---|---|
//! | `TcpListener::bind`, `UdpSocket::bind` | [`Stack::tcp_listen`](crate::Stack::tcp_listen), [`Stack::udp_bind`](crate::Stack::udp_bind) |
//! | `TcpStream::connect`, `connect_timeout` | [`Stack::tcp_connect_blocking`](crate::Stack::tcp_connect_blocking) |
//! | the same of tokio | [`Stack::tcp_connect_async`](crate::Stack::tcp_connect_async) |
//! | `set_read_timeout`, `set_write_timeout`, options of `socket2` | [`TcpStream::set_options`](crate::TcpStream::set_options) |
//! | `try_clone`, `into_split` | [`TcpStream::split`](crate::TcpStream::split); `Read` and `Write` also take `&TcpStream` |
//! | `set_nonblocking` | none: [`send`](crate::TcpStream::send) and [`recv`](crate::TcpStream::recv) never wait, `.._blocking` and `.._async` do |
//! | `copy_bidirectional` | [`TcpStream::relay`](crate::TcpStream::relay), then `wait_async` |
//! | `UdpSocket::connect`, `send`, `recv` | [`connect`](crate::UdpSocket::connect), [`send`](crate::UdpSocket::send), [`recv_from`](crate::UdpSocket::recv_from) |
//! | SO_REUSEPORT | [`Stack::tcp_listen_shared`](crate::Stack::tcp_listen_shared), [`Stack::udp_bind_shared`](crate::Stack::udp_bind_shared) |
//! | SO_BINDTODEVICE of a listener | [`Stack::tcp_listen_on`](crate::Stack::tcp_listen_on) |
//! | `set_linger`, TCP_QUICKACK | [`TcpSocketOptions`](crate::TcpSocketOptions): `linger`, `quick_ack` |
//! | `peek_from`, `set_recv_buffer_size` | the same; there is no send buffer |
//! | IP_DONTFRAG, IP_MTU_DISCOVER; IP_PKTINFO | [`set_dont_fragment`](crate::UdpSocket::set_dont_fragment); [`Datagram::interface`](crate::socket::Datagram) |
//! | UDP_SEGMENT, UDP_GRO | [`send_segmented`](crate::UdpSocket::send_segmented), [`send_train`](crate::UdpSocket::send_train), [`set_recv_segmented`](crate::UdpSocket::set_recv_segmented) |
//! | `join_multicast_v4`, `join_multicast_v6` | [`UdpSocket::join_group`](crate::UdpSocket::join_group) |
//! | `readable`, `poll_read_ready` | [`TcpStream::poll_readable`](crate::TcpStream::poll_readable) |
//!
//! # Rules that hold everywhere
//! - Lengths, sizes and windows are in bytes. A [`Time`](crate::Time) counts nanoseconds of the stack's clock. A field
//!   that counts something else says so.
//! - A timeout of `None` is none, unless [`TcpSocketOptions`](crate::TcpSocketOptions) set one for the socket.
//! - An operation that can't proceed now returns its error `WouldBlock`; [`socket`](crate::socket) lists the ways to
//!   wait. Each operation has a small error type, which `?` converts into [`mbuma::Error`](crate::Error) and into
//!   [`std::io::Error`]; those of sockets with the errno of the kernel's sockets.
//! - An address is a `SocketAddr`, a pair such as `([192, 0, 2, 1], 80)` or `(Ipv4Addr::LOCALHOST, 80)`, or text
//!   ([`IntoEndpoint`](crate::socket::IntoEndpoint)).
//! - Dropping a handle closes its socket. A connection still delivers the bytes in its send buffer;
//!   [`abort`](crate::TcpStream::abort) resets it instead.
//! - A [`Chain`](crate::buf::Chain) is a list of buffers. Programs that pass chains copy nothing; programs that pass
//!   slices copy once.
//! - The stack looks up no names, and runs on Linux only.
//!
//! | feature | adds |
//! |---|---|
//! | `tokio` | `AsyncRead` and `AsyncWrite` for [`TcpStream`](crate::TcpStream) and its halves, `TlsStream` and `UnixStream` |
//! | `tls` | handshakes by rustls (`socket::TlsHandshake`); records are in the stack in any case |
//! | `vhost-user` | a network card for a virtual machine (`device::vhost_user`) |
//!
//! # Two stacks over an epair
//! With [`Input::Direct`](crate::device::epair::Input) the thread that sends also runs the input of the other stack, so
//! these examples need no other thread. An end that is dropped takes its interface out of the stack, so a program keeps
//! both. Each example begins with these lines, which it does not show.
//! ```
//! use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! use mbuma::{Config, IfConfig, Stack};
//! let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
//! let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! let interface = |n: u8| IfConfig::new("epair0").with_addr([192, 0, 2, n], 24);
//! a.attach(&left, interface(1), Input::Direct)?;
//! b.attach(&right, interface(2), Input::Direct)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! Here no thread runs the timers, so nothing that was lost would be sent again. A program calls
//! [`Stack::poll`](crate::Stack::poll), again at the time that this returns; or a [`Runtime`](crate::Runtime) does
//! ([example](crate::runtime)).
//!
//! # TCP client and server
//! The halves of a connection are `Read` and `Write`; dropping the writer sends the FIN.
//! ```
//! use std::io::{Read, Write};
//!
//! # use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! # use mbuma::{Config, IfConfig, Stack};
//! # let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
//! # let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! # let interface = |n: u8| IfConfig::new("epair0").with_addr([192, 0, 2, n], 24);
//! # a.attach(&left, interface(1), Input::Direct)?;
//! # b.attach(&right, interface(2), Input::Direct)?;
//! let listener = right.tcp_listen("192.0.2.2:80", 128)?;
//! let server = std::thread::spawn(move || -> std::io::Result<u64> {
//!     let (mut reader, mut writer) = listener.accept_blocking(None)?.split();
//!     std::io::copy(&mut reader, &mut writer)
//! });
//!
//! let (mut reader, mut writer) = left.tcp_connect_blocking("192.0.2.2:80", None)?.split();
//! writer.write_all(b"hello")?;
//! drop(writer);
//! let mut answer = String::new();
//! reader.read_to_string(&mut answer)?;
//! assert_eq!(answer, "hello");
//! assert_eq!(server.join().expect("it does not panic")?, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # UDP
//! A datagram to send is bytes, which are copied, or a chain of the stack's pool, which is moved. A received one is
//! copied into a buffer (`recv_from`), or given as its chain (`recv`).
//! ```
//! # use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! # use mbuma::{Config, IfConfig, Stack};
//! # let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
//! # let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! # let interface = |n: u8| IfConfig::new("epair0").with_addr([192, 0, 2, n], 24);
//! # a.attach(&left, interface(1), Input::Direct)?;
//! # b.attach(&right, interface(2), Input::Direct)?;
//! let server = right.udp_bind("192.0.2.2:53")?;
//! let client = left.udp_bind("0.0.0.0:0")?;
//! client.send_to(b"question", "192.0.2.2:53")?;
//!
//! let question = server.recv_blocking(None)?;
//! assert_eq!(question.payload.to_vec(), b"question");
//! server.send_to(b"answer", question.src)?;
//! let mut buf = [0; 1500];
//! let (n, from) = client.recv_from_blocking(&mut buf, None)?;
//! assert_eq!((&buf[..n], from), (&b"answer"[..], server.local_addr()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Groups
//! A socket joins a group on an interface. The interface by which a datagram leaves for a group, or for a link-local
//! address, is the scope id of the address, [`IfIndex::number`](crate::IfIndex::number); for groups without one it is
//! set by [`UdpSocket::set_multicast_interface`](crate::UdpSocket::set_multicast_interface). Several members with one
//! port are bound by [`Stack::udp_bind_shared`](crate::Stack::udp_bind_shared).
//! ```
//! use std::net::{Ipv6Addr, SocketAddrV6};
//!
//! # use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! # use mbuma::{Config, IfConfig, Stack};
//! # let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
//! # let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! let interface = |n| IfConfig::new("epair0").with_addr(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n), 64);
//! let here = a.attach(&left, interface(1), Input::Direct)?;
//! let there = b.attach(&right, interface(2), Input::Direct)?;
//!
//! let group: Ipv6Addr = "ff02::1234".parse()?;
//! let receiver = right.udp_bind((Ipv6Addr::UNSPECIFIED, 5004))?;
//! receiver.join_group(there, group)?;
//! let sender = left.udp_bind((Ipv6Addr::UNSPECIFIED, 0))?;
//! sender.send_to(b"tick", SocketAddrV6::new(group, 5004, 0, here.number()))?;
//! assert_eq!(receiver.recv_blocking(None)?.payload.to_vec(), b"tick");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Captures and figures
//! A [`Capture`](crate::device::capture::Capture) around a device writes its frames for Wireshark. The figures of a
//! stack have names and explanations for a page of metrics.
//! ```
//! # use std::io;
//! # use std::sync::Arc;
//! use std::time::{Duration, SystemTime};
//! use mbuma::device::capture::Capture;
//! use mbuma::{Clock, IfConfig, MonotonicClock, Stack};
//! # use mbuma::buf::Mbufq;
//! # use mbuma::device::{Budget, Capabilities, Device};
//! # #[derive(Debug)]
//! # struct Nothing;
//! # impl Device for Nothing {
//! #     fn capabilities(&self) -> Capabilities { Capabilities::plain(1500) }
//! #     fn receive(&self, _: &mut Mbufq, _: Budget) -> io::Result<bool> { Ok(false) }
//! #     fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> { Ok(std::iter::from_fn(|| tx.dequeue()).count()) }
//! # }
//! # let (device, file) = (Nothing, Vec::new());
//! # let stack = Stack::new(mbuma::Config::from_system())?;
//! let clock = MonotonicClock::new();
//! let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?; // the clock reads zero now
//! let capture = Capture::new(device, "tun0", file, Arc::new(clock), began)?;
//! stack.attach(Arc::new(capture), IfConfig::new("tun0").with_addr([192, 0, 2, 1], 24))?;
//!
//! let stats = stack.stats();
//! for (figure, value) in stats.tcp.figures() {
//!     println!("# HELP tcp_{} {}\ntcp_{0} {value}", figure.name, figure.help);
//! }
//! for (reason, packets) in &stats.dropped {
//!     println!("packets_dropped{{reason=\"{reason}\"}} {packets}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Futures and tokio
//! With the feature `tokio`, TCP connections and their halves, TLS connections and streams of UNIX sockets implement
//! tokio's `AsyncRead` and `AsyncWrite`. A `TcpStream` has std's `Read` and `Write` too, and a `shutdown` of its own,
//! which hides tokio's: call `AsyncWriteExt::shutdown(&mut stream)`, or split the connection as here. hyper takes a
//! connection in hyper-util's `TokioIo`; for the traits of the crate `futures`, use `compat` of tokio-util.
//! ```
//! # #[cfg(feature = "tokio")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! # use mbuma::{Config, IfConfig, Stack};
//! # let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
//! # let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! # let interface = |n: u8| IfConfig::new("epair0").with_addr([192, 0, 2, n], 24);
//! # a.attach(&left, interface(1), Input::Direct)?;
//! # b.attach(&right, interface(2), Input::Direct)?;
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! runtime.block_on(async {
//!     let listener = right.tcp_listen("192.0.2.2:80", 128)?;
//!     let client = async {
//!         let (mut reader, mut writer) = left.tcp_connect_async("192.0.2.2:80").await?.split();
//!         writer.write_all(b"hello").await?;
//!         drop(writer);
//!         let mut answer = String::new();
//!         reader.read_to_string(&mut answer).await?;
//!         Ok::<_, Box<dyn std::error::Error>>(answer)
//!     };
//!     let server = async {
//!         let (mut reader, mut writer) = listener.accept_async().await?.split();
//!         tokio::io::copy(&mut reader, &mut writer).await?;
//!         Ok::<_, Box<dyn std::error::Error>>(())
//!     };
//!     let (answer, served) = tokio::join!(client, server);
//!     served?;
//!     assert_eq!(answer?, "hello");
//!     Ok(())
//! })
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! # A device of your own
//! A [`Device`](crate::device::Device) moves packets in batches. This one keeps IP packets as vectors: `inward` for the
//! stack, `outward` from it. It offers no offloads, so each packet that it gets is complete.
//! ```
//! use std::collections::VecDeque;
//! use std::io;
//! use std::sync::{Arc, Mutex};
//! use mbuma::buf::{MbufPool, Mbufq, Packet};
//! use mbuma::device::{Budget, Capabilities, Device, Medium};
//! use mbuma::{Config, IfConfig, Stack};
//!
//! #[derive(Debug)]
//! struct Carrier {
//!     pool: MbufPool,
//!     inward: Mutex<VecDeque<Vec<u8>>>,
//!     outward: Mutex<VecDeque<Vec<u8>>>,
//! }
//!
//! impl Device for Carrier {
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::plain(1420)
//!     }
//!
//!     fn medium(&self) -> Medium {
//!         Medium::Ip // without this, frames begin with an Ethernet header
//!     }
//!
//!     fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
//!         let mut inward = self.inward.lock().expect("no thread panics with it");
//!         for _ in 0..budget.frames {
//!             let Some(bytes) = inward.pop_front() else { break };
//!             // With no room for headers before them. Without buffers a packet is lost, as on a wire.
//!             if let Ok(packet) = Packet::from_slice(&self.pool, &bytes, 0) {
//!                 rx.enqueue(packet);
//!             }
//!         }
//!         Ok(!inward.is_empty())
//!     }
//!
//!     fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
//!         let mut outward = self.outward.lock().expect("no thread panics with it");
//!         while let Some(packet) = tx.dequeue() {
//!             outward.push_back(packet.to_vec());
//!         }
//!         Ok(0) // packets that were refused for good
//!     }
//! }
//!
//! let mut ends = Vec::new();
//! for host in [1, 2] {
//!     let stack = Stack::new(Config::from_system())?;
//!     let (inward, outward) = Default::default();
//!     let carrier = Arc::new(Carrier { pool: stack.pool().clone(), inward, outward });
//!     let config = IfConfig::new("carrier0").with_addr([10, 0, 0, host], 24);
//!     let index = stack.attach(carrier.clone(), config)?;
//!     ends.push((stack, carrier, index));
//! }
//! let listener = ends[1].0.tcp_listen("10.0.0.2:80", 128)?;
//! let stream = ends[0].0.tcp_connect("0.0.0.0:0", "10.0.0.2:80")?;
//! stream.send(b"hello")?;
//! let budget = Budget { frames: 64, bytes: 1 << 20 };
//! for round in 0..6 {
//!     let (from, to) = (&ends[round % 2], &ends[1 - round % 2]);
//!     let packets = std::mem::take(&mut *from.1.outward.lock().expect("as above"));
//!     to.1.inward.lock().expect("as above").extend(packets);
//!     to.0.poll_interface(to.2, budget)?;
//!     to.0.poll();
//! }
//! assert_eq!(listener.accept()?.recv(&mut [0; 16])?, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! [`device::capture`](crate::device::capture) and [`device::impair`](crate::device::impair) wrap any device.
//!
//! # A device that a runtime drives
//! A device that is also `AsFd` is an interface of a stack of a [`Runtime`](crate::Runtime): a worker polls it while
//! its descriptor is readable. This one carries IP packets as datagrams of a UNIX socket.
//! ```
//! use std::io;
//! use std::os::fd::{AsFd, BorrowedFd};
//! use std::os::unix::net::UnixDatagram;
//! use mbuma::Runtime;
//! use mbuma::buf::{MbufPool, Mbufq, Packet};
//! use mbuma::device::{Budget, Capabilities, Device, Medium};
//!
//! #[derive(Debug)]
//! struct Link {
//!     pool: MbufPool,
//!     socket: UnixDatagram,
//! }
//!
//! impl AsFd for Link {
//!     fn as_fd(&self) -> BorrowedFd<'_> {
//!         self.socket.as_fd()
//!     }
//! }
//!
//! impl Device for Link {
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::plain(1420)
//!     }
//!
//!     fn medium(&self) -> Medium {
//!         Medium::Ip
//!     }
//!
//!     fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
//!         let mut bytes = [0; 1420];
//!         for _ in 0..budget.frames {
//!             let len = match self.socket.recv(&mut bytes) {
//!                 Ok(len) => len,
//!                 Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
//!                 Err(e) => return Err(e),
//!             };
//!             if let Ok(packet) = Packet::from_slice(&self.pool, &bytes[..len], 0) {
//!                 rx.enqueue(packet);
//!             }
//!         }
//!         Ok(true)
//!     }
//!
//!     fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
//!         let mut refused = 0;
//!         while let Some(packet) = tx.dequeue() {
//!             // A full socket loses packets, as a wire does.
//!             refused += usize::from(self.socket.send(&packet.to_vec()).is_err());
//!         }
//!         Ok(refused)
//!     }
//! }
//!
//! let runtime = Runtime::new()?;
//! let (left, right) = UnixDatagram::pair()?;
//! let mut stacks = Vec::new();
//! for (addr, socket) in [("10.0.0.1/24", left), ("10.0.0.2/24", right)] {
//!     socket.set_nonblocking(true)?;
//!     let stack = runtime.stack().build()?;
//!     let link = Link { pool: stack.pool().clone(), socket };
//!     stack.add_interface(link).name("link0").addr(addr.parse()?).up()?;
//!     stacks.push(stack);
//! }
//! let listener = stacks[1].tcp_listen("10.0.0.2:80", 128)?;
//! let stream = stacks[0].tcp_connect_blocking("10.0.0.2:80", None)?;
//! stream.send_blocking(b"hello", None)?;
//! assert_eq!(listener.accept_blocking(None)?.recv_blocking(&mut [0; 16], None)?, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # TLS
//! rustls makes the handshake, and the stack seals and opens the records. The configuration must let rustls hand the
//! keys over.
//! ```no_run
//! # #[cfg(feature = "tls")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//! use mbuma::socket::TlsHandshake;
//! use mbuma::rustls::{ClientConfig, RootCertStore};
//!
//! # use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! # use mbuma::{Config, IfConfig, Stack};
//! # let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
//! # let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! # let interface = |n: u8| IfConfig::new("epair0").with_addr([192, 0, 2, n], 24);
//! # a.attach(&left, interface(1), Input::Direct)?;
//! # b.attach(&right, interface(2), Input::Direct)?;
//! let roots = RootCertStore::empty(); // add those that the program trusts
//! let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
//! config.enable_secret_extraction = true;
//!
//! let limit = Some(Duration::from_secs(10));
//! let tcp = left.tcp_connect_blocking("192.0.2.2:443", limit)?;
//! let handshake = TlsHandshake::client(tcp, Arc::new(config), "example.org".try_into()?)?;
//! let stream = handshake.finish_blocking(limit)?;
//! stream.send_blocking(b"GET / HTTP/1.0\r\n\r\n", limit)?;
//! let mut answer = [0; 4096];
//! let _len = stream.recv_blocking(&mut answer, limit)?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tls"))]
//! # fn main() {}
//! ```
//!
//! # Files
//! A job names a range of a file, with a header and a trailer if there are any. It continues where the last call
//! stopped.
//! ```
//! use std::fs::File;
//! use std::sync::Arc;
//! use mbuma::socket::SendFile;
//!
//! # use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! # use mbuma::{Config, IfConfig, Stack};
//! # let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
//! # let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! # let interface = |n: u8| IfConfig::new("epair0").with_addr([192, 0, 2, n], 24);
//! # a.attach(&left, interface(1), Input::Direct)?;
//! # b.attach(&right, interface(2), Input::Direct)?;
//! let listener = right.tcp_listen("192.0.2.2:80", 128)?;
//! let client = left.tcp_connect_blocking("192.0.2.2:80", None)?;
//! let server = listener.accept_blocking(None)?;
//!
//! let file = Arc::new(File::open("Cargo.toml")?);
//! let mut job = SendFile::new(file, 0..9).with_header("the head: ");
//! server.send_file_blocking(&mut job, None)?;
//! let mut received = [0; 32];
//! let len = client.recv_blocking(&mut received, None)?;
//! assert_eq!(&received[..len], b"the head: [package]");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Splices
//! [`relay`](crate::socket::relay) joins two connections in both directions, and [`splice`](crate::socket::splice())
//! one direction; no thread of the program is woken for the bytes.
//! ```
//! use std::time::Duration;
//!
//! # use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! # use mbuma::{Config, IfConfig, Stack};
//! # let (left, right) = (Stack::new(Config::from_system())?, Stack::new(Config::from_system())?);
//! # let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! # let interface = |n: u8| IfConfig::new("epair0").with_addr([192, 0, 2, n], 24);
//! # a.attach(&left, interface(1), Input::Direct)?;
//! # b.attach(&right, interface(2), Input::Direct)?;
//! // A client on the left, a server on the left too, and the proxy between them on the right.
//! let (front, back) = (right.tcp_listen("192.0.2.2:80", 128)?, left.tcp_listen("192.0.2.1:8080", 128)?);
//! let client = left.tcp_connect_blocking("192.0.2.2:80", None)?;
//! let accepted = front.accept_blocking(None)?;
//! let onward = right.tcp_connect_blocking("192.0.2.1:8080", None)?;
//! let server = back.accept_blocking(None)?;
//!
//! let relay = accepted.relay(onward, Some(Duration::from_secs(300)))?;
//! client.send_blocking(b"through", None)?;
//! assert_eq!(server.recv_blocking(&mut [0; 16], None)?, 7);
//! assert_eq!(relay.moved(), [7, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
