//! TCP's behaviour, clause by clause, in virtual time. One program: each takes seconds to build and link.

mod ack_policy;
mod blind;
mod close;
mod common;
mod cookies;
mod ecn_receiver;
mod exhausted;
mod foreign;
mod handshake;
mod intercept;
mod keepalive;
mod loss;
mod open;
mod options;
mod path_mtu;
mod pinned;
mod recv_tuner;
mod sack_receiver;
mod stranger;
mod time_wait;
mod timestamps;
mod urgent;
mod window;
