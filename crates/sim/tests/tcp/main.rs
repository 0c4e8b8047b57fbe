//! TCP's behaviour, clause by clause, in virtual time. One program: each takes seconds to build and link.

mod ack_policy;
mod attacks;
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
mod liar;
mod loss;
mod odd_receivers;
mod open;
mod options;
mod orphans;
mod pacing;
mod path_mtu;
mod pinned;
mod prr;
mod rack;
mod recv_tuner;
mod sack;
mod sack_receiver;
mod stranger;
mod time_wait;
mod timestamps;
mod undo;
mod urgent;
mod window;

/// Breaks if anything that TCP does depends on the version of IP: every other test, run once more over IPv6. One that
/// speaks of IPv4 alone ends at once there.
#[test]
fn every_clause_over_ipv6() {
    if common::is_over_ipv6() {
        return;
    }
    let this = std::env::current_exe().expect("this program");
    let mut run = std::process::Command::new(this);
    let run = run.env(common::OVER_IPV6, "1").output();
    let output = run.expect("it can run again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "over IPv6:\n{text}");
}
