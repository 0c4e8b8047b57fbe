//! Real programs through real namespaces. One program: each takes seconds to build and link.

/// The program under test.
const MBUMA: &str = env!("CARGO_BIN_EXE_mbuma");

#[macro_use]
mod common;

mod attach;
mod bulk;
mod datagrams;
mod dhcp6_clients;
mod dhcp_clients;
mod ends;
mod engines;
mod guard;
mod hangup;
mod hostile;
mod impair;
mod ip6;
mod isolation;
mod launch;
mod memory;
mod names;
mod netstat;
mod network;
mod pasta;
mod ports;
mod programs;
mod publish;
mod relay;
mod reports;
mod serve;
mod serve_status;
mod serve_storage;
mod serve_tls;
mod streams;
mod user;
mod vm;
mod workers;
