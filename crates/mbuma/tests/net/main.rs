//! The stack below TCP, on a pipe whose other end the tests hold. One program: each takes seconds to build and link.
//!
//! IPv6 has a list of points that a node, and a router, must obey. A test is named after its point, in lower case; this
//! table says where the tests of each are, and [`points`] counts them.
//!
//! | points | where |
//! |---|---|
//! | H1, H7, H10, H11: header | [`points6`] |
//! | H2 to H6: chain | `ip6/chain/tests.rs`, [`ip6`], [`router6`], `wire` |
//! | H8, H9: addresses, checksums | [`ip6`] |
//! | F1 to F12: fragments | [`fragment6`] |
//! | I1, I5, I8: errors | [`points6`], [`ip6`], [`router6`], [`anycast`] |
//! | I2, I3, I6, I7: errors, pings | [`ip6`], [`router6`], `wire` |
//! | I4: rate | `icmp/limit/tests.rs`, `icmp6/tests.rs` |
//! | N1 to N4, N8, N9: discovery | [`discovery6`], [`router6`], [`points6`], `neighbour/discovery/tests.rs` |
//! | N5: hints from above | [`neighbours6`] |
//! | N6, N7, N12, N13: discovery | [`points6`], `neighbour/discovery/tests.rs` |
//! | N10: redirects | [`autoconf`] |
//! | N11: delay of anycast | [`anycast`] |
//! | A1: before the first probe | [`mld`](self::mld) |
//! | A2 to A4: duplicates, optimistic addresses | [`autoconf`] |
//! | A5 to A9: learnt addresses, temporary ones | `ifnet/host6/tests.rs`, `ifnet/host6/tests/temporary.rs`, [`autoconf`] |
//! | A10, A11: groups | [`points6`] |
//! | M1 to M4: listeners | [`mld`](self::mld), `ifnet/group_reports/tests.rs`, `ifnet/source_filter.rs`, `wire` |
//! | S1, S2, S3, S5 to S8: source addresses | `inet/source/tests.rs`, `inet/policy_table/tests.rs`, [`points6`], [`autoconf`] |
//! | S9: zones | [`transport6`] |
//! | P1 to P3: path MTU | [`fragment6`], `ip6/path_mtu/tests.rs` |
//! | P4: the MTU of an advertisement | [`autoconf`] |
//! | L1: flow labels | `ip6/tests.rs`, [`transport6`] |
//! | R1 to R4: forwarding, redirects | [`router6`], [`forward`] |
//! | R5: a router's role | [`autoconf`] |
//! | R10 to R12: a gateway | [`points6`] |
//! | R6 to R9: router advertisements of a program's | [`addresses`]; the tool's: `router_adverts` |

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod anycast;
mod arp;
mod autoconf;
mod blocking;
mod connected;
mod discovery6;
mod endpoints;
mod forward;
mod fragment;
mod fragment6;
mod frames6;
mod hostile6;
mod icmp;
mod igmp;
mod ip6;
mod lengths;
mod loopback;
mod mld;
mod multicast;
mod neighbours6;
mod points;
mod points6;
mod readiness;
mod recv_buffer;
mod router6;
mod routes;
mod segmented;
mod shapes;
mod shared_listeners;
mod shared_ports;
mod shared_timers;
mod transport6;
mod udp;
