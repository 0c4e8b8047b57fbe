//! The stack below TCP, on a pipe whose other end the tests hold. One program: each takes seconds to build and link.

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod arp;
mod autoconf;
mod blocking;
mod forward;
mod fragment;
mod fragment6;
mod icmp;
mod ip6;
mod lengths;
mod loopback;
mod readiness;
mod routes;
mod shapes;
mod udp;
