//! Planted bugs: some of the first seeds must find each of them, or the checks check nothing.

use mbuma::StackFault;
use sim::scenario::Scenario;

/// Seeds that a bug may stay hidden in.
const SEEDS_MAX: u64 = 60;

/// A seed finds the bug, and the finding has these words.
fn found(bug: StackFault, words: &str) {
    found_in(Scenario::from_seed, bug, words);
}

/// The same where stacks have virtual CPUs.
fn found_on_cpus(bug: StackFault, words: &str) {
    found_in(Scenario::on_cpus_from_seed, bug, words);
}

fn found_in(draw: fn(u64) -> Scenario, bug: StackFault, words: &str) {
    let _planted = kern::fault::plant(bug);
    let finding = (0..SEEDS_MAX).find_map(|seed| {
        let scenario = draw(seed);
        let outcome = scenario.run();
        let what = outcome.violations.into_iter().find(|v| v.contains(words));
        what.map(|what| (seed, what))
    });
    match finding {
        Some((seed, what)) => println!("{bug:?}: seed {seed}: {what}"),
        None => panic!("{bug:?} was not found in {SEEDS_MAX} seeds"),
    }
}

#[test]
fn a_lost_retransmission_timer_is_found() {
    // Breaks when a connection that hangs is not noticed.
    found(StackFault::LostRetransmitTimer, "never ended");
}

#[test]
fn a_lost_persist_timer_is_found() {
    found(StackFault::LostPersistTimer, "never ended");
}

#[test]
fn a_lost_time_wait_timer_is_found() {
    // Breaks when no rule checks that connections go away.
    found(StackFault::LostTimeWaitTimer, "connections are left");
}

#[test]
fn a_lost_wakeup_is_found() {
    found(StackFault::LostWakeup, "never ended");
}

#[test]
fn a_skipped_byte_is_found() {
    // Breaks when received bytes are not compared with what was sent.
    found(StackFault::SkippedByte, "is wrong");
}

#[test]
fn an_unchecked_checksum_is_found() {
    // Breaks when wires do not damage frames.
    found(StackFault::UncheckedSum, "is wrong");
}

#[test]
fn a_leaked_mbuf_is_found() {
    // Breaks when zones are not balanced at the end.
    found(StackFault::LeakedMbuf, "buffers are left");
}

#[test]
fn an_uncounted_packet_is_found() {
    // Breaks when received = delivered + dropped is not checked.
    found(StackFault::UncountedDrop, "packets received");
}

#[test]
fn the_wrong_cpu_woken_is_found() {
    // Breaks when no rule checks that CPUs do not sleep over packets.
    found_on_cpus(StackFault::WrongCpuWoken, "sleeps, and packets wait for it");
}

#[test]
fn a_timer_on_a_cpu_that_does_not_know_is_found() {
    // Breaks when the check misses a CPU's timers that another CPU runs.
    found_on_cpus(StackFault::StrayTimer, "sleeps, and a timer comes before");
}

#[test]
fn a_packet_that_overtakes_is_found() {
    // Breaks when the order in which CPUs take turns never shows an overtaking packet.
    found_on_cpus(StackFault::BlindDirect, "came after");
}
