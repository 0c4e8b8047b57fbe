//! Seeded networks of stacks in virtual time, over bad wires.
//!
//! ```text
//!   app        traffic whose every byte is known           scenario   draws all of it from a seed
//!    |
//!   Stack      the same code as in production
//!    |
//!   port       a device: offloads, shapes of mbufs
//!    |
//!   wire       loss, duplication, reordering, corruption, truncation, delay, rate
//!    |
//!   port, or a peer that a test drives by hand
//! ```
//!
//! A [`Net`] has one clock, which jumps from event to event, and one queue of events. There is no
//! thread, no real clock and no randomness but the seed's, so that a seed replays a run bit for bit;
//! [`Net::trace_hash`] proves it.
//!
//! # Example
//! ```
//! use std::net::{Ipv4Addr, SocketAddrV4};
//! use std::time::Duration;
//! use sim::{Link, Net, PortConfig};
//!
//! let mut net = Net::new(1);
//! let wire = net.wire(Link::delay(Duration::from_millis(10)));
//! let (a, b) = (net.stack(), net.stack());
//! net.plug(a, wire, Ipv4Addr::new(10, 0, 0, 1), &PortConfig::plain(1500));
//! net.plug(b, wire, Ipv4Addr::new(10, 0, 0, 2), &PortConfig::plain(1500));
//!
//! let server = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 80);
//! let listener = net.at(b).tcp_listen(server, 16)?;
//! let client = net.at(a).tcp_connect(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), server)?;
//! client.send(b"hello")?;
//! net.run_for(Duration::from_millis(100));
//! let accepted = listener.accept().expect("100 ms are several round trips");
//! assert_eq!(accepted.recv_chain(100)?.to_vec(), b"hello");
//! # Ok::<(), mbuma::socket::SocketError>(())
//! ```
//!
//! Read in this order: [`Net`], [`Wire`], [`Port`], [`app`], [`scenario`].
#![forbid(unsafe_code)]

pub mod app;
mod card;
mod event;
mod family;
mod frame;
mod net;
mod pattern;
mod peer;
mod port;
mod ready;
pub mod scenario;
pub mod script;
mod trace;
mod virtual_cpu_set;
mod wire;

pub use crate::wire::Wire;
pub use event::{AppId, CableId, NodeId, PeerId, WireId};
pub use frame::{Frame, Shape};
pub use mbuma::device::impair::{
    Burst, Faults, Lateness, LinkConfig as Link, LinkCounts, LinkEvent,
};
pub use net::Net;
pub use pattern::Pattern;
pub use peer::{IcmpSeen, Peer, Segment, icmp6_kind};
pub use port::{Port, PortConfig};
pub use trace::Trace;
