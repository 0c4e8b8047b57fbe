//! Tests of the forwarding rule.

use super::*;

fn info(signo: i32, from_terminal: bool) -> SigInfo {
    SigInfo {
        signo,
        from_terminal,
    }
}

fn recipient(shares_group: bool) -> Recipient {
    Recipient {
        shares_group,
        leads_session: false,
    }
}

#[test]
fn a_key_reaches_command_once() {
    // Breaks when Ctrl-C interrupts COMMAND twice, or not at all when it left mbuma's group.
    assert!(!info(libc::SIGINT, true).is_for_command(recipient(true)));
    assert!(info(libc::SIGINT, true).is_for_command(recipient(false)));
    assert!(info(libc::SIGINT, false).is_for_command(recipient(true)));
}

#[test]
fn mbumas_own_business_is_not_forwarded() {
    // Breaks when COMMAND gets the signal that a child of mbuma changed its state.
    assert!(!info(libc::SIGCHLD, false).is_for_command(recipient(true)));
    assert!(!info(libc::SIGCHLD, true).is_for_command(recipient(false)));
    // Nor the request to print mbuma's locks.
    assert!(!info(show_locks(), false).is_for_command(recipient(false)));
}

#[test]
fn a_session_leader_passes_the_hang_up_on() {
    // Breaks when a closed terminal ends neither mbuma nor COMMAND, because the kernel signals only the session's
    // leader; or when the leader forwards the signals of keys, which both get from the kernel.
    let leader = Recipient {
        shares_group: true,
        leads_session: true,
    };
    assert!(info(libc::SIGHUP, true).is_for_command(leader));
    assert!(info(libc::SIGCONT, true).is_for_command(leader));
    assert!(!info(libc::SIGINT, true).is_for_command(leader));
    assert!(!info(libc::SIGHUP, true).is_for_command(recipient(true)));
}

#[test]
fn attach_ends_on_requests_only() {
    // Breaks when a resized terminal ends a container's network.
    assert!(info(libc::SIGTERM, false).asks_to_end() && info(libc::SIGINT, true).asks_to_end());
    assert!(!info(libc::SIGWINCH, true).asks_to_end() && !info(libc::SIGUSR1, false).asks_to_end());
}
