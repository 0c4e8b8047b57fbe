#![doc = include_str!("../README.md")]
//! `examples/echo.rs` is that server with the commands to try it. The [guide] has an example for each common task: UDP,
//! futures and tokio, a device of your own, TLS, files, splices; and the rules for units, timeouts and errors.
//!
//! # Layers
//! ```text
//!        program                    program
//!           |  TcpStream, UdpSocket    ^
//!           v                          |
//!        [socket]  sockbufs: chains of mbufs
//!           |                          ^
//!   [tcp::output]  shares clusters  [tcp::steps]   [udp] [icmp] [icmp6]
//!           |                          ^
//!   [ip4, ip6: output] -> [route]   [ip4, ip6: input] -> reassemble
//!           |                          ^
//!   [ether::output] -> [arp, nd]    [netisr] at once, or by the flow's CPU
//!           |                          ^
//!        [ifnet] queue              [ether::input]
//!           |                          ^
//!        [device] TAP, tunnel, epair, bridge, frame stream, vhost-user: batches of packets, offloads first
//! ```
//!
//! A [`Stack`] is an owned handle: no globals, no threads, clock or randomness of its own. Time and
//! entropy come in through [`Config`], frames through [`device::Device`], and the embedder
//! drives it with [`Stack::poll_interface`] and [`Stack::poll`]. So the same code runs in the tool,
//! in a program, and in the simulator, where a seed replays a run exactly.
//!
//! # In virtual time
//! Two stacks, joined in memory by a bad link. A round takes a millisecond of the clock; each run with these seeds is
//! the same:
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use mbuma::device::{Budget, Capabilities, impair::Impaired, memory::Pipe};
//! use mbuma::{Clock, Config, IfConfig, Random, Stack, Time, VirtualClock};
//!
//! let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
//! let stack = |seed| Stack::new(Config::new(clock.clone(), Random::from_seed(seed)));
//! let (client, server) = (stack(1)?, stack(2)?);
//! let (near, far) = Pipe::pair(Capabilities::plain(1500));
//! let link = "delay=10ms,loss=20%".parse()?;
//! let near = Impaired::new(near, [link, link], client.pool(), clock.clone(), Random::from_seed(3));
//! let config = |host| IfConfig::new("pipe0").with_addr([192, 0, 2, host], 24);
//! let here = client.attach(Arc::new(near), config(1))?;
//! let there = server.attach(Arc::new(far), config(2))?;
//!
//! let listener = server.tcp_listen("192.0.2.2:80", 128)?;
//! let stream = client.tcp_connect("0.0.0.0:0", "192.0.2.2:80")?; // from any address and port
//! stream.send(&[7; 10_000])?;
//! drop(stream); // what is in its send buffer is still delivered
//! let budget = Budget { frames: 64, bytes: 1 << 20 };
//! let (mut accepted, mut received) = (None, 0);
//! loop {
//!     for (stack, index) in [(&client, here), (&server, there)] {
//!         stack.poll_interface(index, budget)?;
//!         stack.poll();
//!     }
//!     accepted = accepted.or(listener.accept().ok());
//!     match accepted.as_ref().map(|end| end.recv(&mut [0; 4096])) {
//!         Some(Ok(0)) => break,
//!         Some(Ok(len)) => received += len,
//!         _ => clock.advance(Duration::from_millis(1)), // nothing yet
//!     }
//!     assert!(clock.now() < Time::from_secs(60));
//! }
//! assert_eq!(received, 10_000);
//! assert!(client.stats().tcp.retransmitted_segments > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Any number of stacks live in one process, as jails do: joined by an [epair](device::epair), by a
//! [bridge](device::bridge), or by a stack between that [forwards](Stack::set_forwarding). Each can talk to
//! itself at 127.0.0.1 from the start. `cargo run -p mbuma --example jails` shows them.
//!
//! A program without a loop of its own lets a [`runtime::Runtime`] drive its stacks: N threads, which sleep when there
//! is nothing to do.
//!
//! Threads of one program talk through the same buffers without a network: [`unix`].
//!
//! Where to read next: `stack/enter` and `batch` (one entry into the stack), then follow a packet by file names:
//! `ether/input`, `dispatch`, `protosw`, `ip4/input`, `tcp/input`, `tcp/steps`; `tcp/output`, `ip4/output`,
//! `ether/output`, `ifnet`.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::missing_errors_doc)]
#![forbid(unsafe_code)]

// Layers, top to bottom: a module uses its own layer and those below it. `protosw` and `state` are plain lists, which
// lower layers use though they name higher ones. `cargo xtask tidy` checks it.

pub mod guide;

pub mod runtime;

pub mod unix;

pub mod socket;

mod stack;

mod protosw;

mod tcp;

mod udp;

mod icmp;
mod icmp6;
mod network;

mod ip4;
mod ip6;

mod ether;

mod dispatch;

mod ip;

mod batch;

mod state;

mod netisr;
mod route;

mod ifnet;

pub mod device;
mod neighbour;

pub mod tls;

mod sockbuf;

mod giant;
mod park;
mod waiters;

mod config;

mod drops;
#[cfg(all(test, not(shuttle)))]
#[path = "../tests/common/empty_at_end.rs"]
mod empty_at_end;
mod error;
mod faults;
mod inet;
mod one_or_many;
mod spread;

pub use config::{
    AccEcnOptionUse, Config, Dispatch, EcnMode, IcmpAborts, NagleForm, NetisrConfig, Protocol,
    TcpConfig,
};
pub use device::tap::Tap;
pub use drops::DropReason;
pub use error::{Error, Result, SocketError};
#[cfg(any(feature = "planted-bugs", shuttle))]
pub use faults::StackFault;
pub use giant::{ComponentKind, ComponentStats, GiantStats};
pub use ifnet::source_filter::SourceFilter;
pub use ifnet::{Autoconf, IfAddr, IfConfig, IfIndex, IfStats, TemporaryPolicy};
pub use inet::policy_table::{PolicyError, PolicyRow, PolicyTable};
pub use ip::IcmpError;
pub use netisr::WorkStats;
pub use route::{RouteEntry, RouteError, RouteKind};
pub use runtime::Runtime;
pub use socket::{TcpListener, TcpStream, UdpSocket};
pub use stack::{
    AddrError, InterfaceBuilder, IntoInterface, Membership, Neighbour, RxQueue, Stack, StackStats,
    TcpConnection,
};
pub use tcp::cc as congestion;
pub use tcp::{State, TcpHistogram, TcpListenerInfo, TcpSocketOptions, TcpStats};
pub use udp::UdpSocketInfo;
pub use unix::{UnixDatagram, UnixListener, UnixSeqpacket, UnixStream};

// Types of other crates in this crate's signatures, so that a program depends on this crate alone.
pub use kern::{
    CalloutId, Clock, Cpu, Cpus, Figure, Giant, MonotonicClock, OneCpu, Random, Taskqueue, Time,
    Unit, VirtualClock, VirtualCpus, Workers,
};
/// Network buffers: the whole crate of [`Chain`](mbuf::Chain), [`Packet`](mbuf::Packet) and
/// [`MbufPool`](mbuf::MbufPool).
pub use mbuf as buf;
/// The types of a handshake's configuration: the whole crate, so that its version fits.
#[cfg(feature = "tls")]
pub use rustls;
pub use uma::{Census, ZoneError, ZoneStats};
pub use wire::MacAddr;
