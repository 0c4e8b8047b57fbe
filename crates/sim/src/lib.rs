#![doc = include_str!("../README.md")]
//! # The parts
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
//! thread, no real clock and no randomness but the seed's; [`Net::trace_hash`] proves it.
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
