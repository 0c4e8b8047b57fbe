//! UNIX-domain sockets. One program: each takes seconds to build and link.

#[path = "../common/mod.rs"]
mod common;

mod datagram;
mod kernel;
mod rights;
mod stream;
mod threads;
