//! Tests of the forwarding rule.

use super::*;

fn info(signo: i32, from_terminal: bool) -> SigInfo {
    SigInfo {
        signo,
        from_terminal,
    }
}

#[test]
fn a_key_reaches_command_once() {
    // Breaks when Ctrl-C interrupts COMMAND twice, or not at all when it left mbuma's group.
    assert!(!info(libc::SIGINT, true).is_for_command(true));
    assert!(info(libc::SIGINT, true).is_for_command(false));
    assert!(info(libc::SIGINT, false).is_for_command(true));
}

#[test]
fn mbumas_own_business_is_not_forwarded() {
    // Breaks when COMMAND hears that mbuma's children changed.
    assert!(!info(libc::SIGCHLD, false).is_for_command(true));
    assert!(!info(libc::SIGCHLD, true).is_for_command(false));
    // Nor that somebody wants to see mbuma's locks.
    assert!(!info(show_locks(), false).is_for_command(false));
}

#[test]
fn attach_ends_on_requests_only() {
    // Breaks when a resized terminal ends a container's network.
    assert!(info(libc::SIGTERM, false).asks_to_end() && info(libc::SIGINT, true).asks_to_end());
    assert!(!info(libc::SIGWINCH, true).asks_to_end() && !info(libc::SIGUSR1, false).asks_to_end());
}
