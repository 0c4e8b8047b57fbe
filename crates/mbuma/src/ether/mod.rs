//! Ethernet: frames in and out, segments merged before IP ([`lro`]), the stations' addresses ([`arp`], [`nd`]) and
//! groups ([`igmp`], [`mld`]).
//!
//! Sources: RFC 894 and RFC 2464 (IP over Ethernet), RFC 1122 section 2.

pub(crate) mod anycast;
pub(crate) mod arp;
pub(crate) mod autoconf;
pub(crate) mod groups;
pub(crate) mod igmp;
pub(crate) mod input;
mod link_message;
pub(crate) mod lro;
pub(crate) mod mld;
pub(crate) mod nd;
pub(crate) mod output;
pub(crate) mod transmit;
