//! The paths have the properties in their names, and runs can be repeated.

use std::time::Duration;

use super::designs::Algorithm;
use super::path::{PATHS, Path};
use super::simulated;

fn path(name: &str) -> &'static Path {
    let found = PATHS.iter().find(|path| path.name == name);
    found.unwrap_or_else(|| panic!("no path {name}"))
}

#[test]
fn a_path_is_what_its_name_says() {
    // Breaks when a queue, a probability or a delay of a case is not that of its name.
    let forward = path("clean-10bdp").forward();
    assert_eq!(forward.queue_bytes, 6_250_000);
    assert_eq!(forward.delay, Duration::from_millis(25));
    assert_eq!(path("loss-0.1").forward().faults.loss, 0.001);
    assert_eq!(path("loss-0.1").backward().faults.loss, 0.0);
    let marks = path("ecn-2bdp").forward();
    assert_eq!(
        marks.ecn_bytes.map(|bytes| 4 * bytes),
        Some(marks.queue_bytes)
    );
    let mathis = path("loss-1").mathis_mbps().expect("there is loss");
    assert!((mathis - 2.83).abs() < 0.01, "{mathis}");
}

#[test]
fn a_seed_gives_the_same_figures() {
    // Breaks when anything but the seed decides a run in virtual time, or no bytes arrive.
    let of = |seed| {
        simulated::run(
            path("loss-3"),
            Algorithm::Reno,
            seed,
            Duration::from_secs(2),
        )
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
    assert!(of(1).mbps > 0.1, "{:?}", of(1));
}

#[test]
fn every_pair_of_ends_carries_in_real_time() {
    // Breaks when an end does not send or does not receive, or its thread does not end.
    use super::live::{self, Who};
    let time = Duration::from_millis(200);
    for sender in [Who::Linux, Who::Ours] {
        for receiver in [Who::Linux, Who::Ours] {
            let senders = [(sender, Algorithm::Cubic)];
            match live::run(path("clean-0.1bdp"), &senders, receiver, 1, time) {
                // The first bytes arrived; the number of the others depends on the machine in so short a time.
                Ok(_) => {}
                Err(why) if sender == Who::Ours && receiver == Who::Ours => panic!("{}", why.0),
                Err(why) => println!("skipped: {sender:?} to {receiver:?}: {}", why.0),
            }
        }
    }
}

#[test]
#[cfg(feature = "peers")]
fn peers_carry_in_real_time() {
    // Breaks when a peer that can be had here does not send or does not receive, or its process does not end. It takes
    // `LWIP_SRC`, and for netstack `NETSTACK=1` with Go.
    use super::live::programs::Program;
    use super::live::{self, Who};
    let time = Duration::from_millis(300);
    for (who, wanted) in [
        (Who::Smoltcp, true),
        (
            Who::Program(Program::Lwip),
            std::env::var_os("LWIP_SRC").is_some(),
        ),
        (
            Who::Program(Program::Netstack),
            std::env::var_os("NETSTACK").is_some(),
        ),
    ] {
        let two = path("fair-1bdp");
        let senders = vec![(who, Algorithm::Cubic); two.flows];
        if wanted {
            live::run(two, &senders, who, 1, time).unwrap_or_else(|why| panic!("{who:?}: {why}"));
        }
    }
}
