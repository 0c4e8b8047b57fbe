//! TCP's behaviour, clause by clause, in virtual time. One program: each takes seconds to build and link.

mod blind;
mod close;
mod common;
mod exhausted;
mod foreign;
mod handshake;
mod intercept;
mod keepalive;
mod loss;
mod open;
mod path_mtu;
mod pinned;
mod stranger;
mod time_wait;
mod urgent;
mod window;
