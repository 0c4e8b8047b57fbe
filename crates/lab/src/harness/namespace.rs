//! Network namespaces for programs: how to make one, and the commands that set it up.
//!
//! Invariant: these functions change only namespaces that the caller made, except the probe, whose namespace ends with
//! it.

use std::fs;
use std::io;
use std::process::Command;

/// How to start a process in a network namespace of its own: the arguments of unshare, as root, or else with a user
/// namespace in which the process is root. `needs` is a command that must succeed there. Returns `None` if there is no
/// way.
pub(crate) fn way(needs: &[&str]) -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    let works = |way: &&&[&str]| {
        let probe = Command::new("unshare").args(**way).args(needs).output();
        probe.is_ok_and(|out| out.status.success())
    };
    WAYS.iter().find(works).copied()
}

/// The commands that must succeed in a namespace whose programs make TAPs.
pub(crate) const MAY_MAKE_TAPS: &[&str] = &["test", "-w", "/dev/net/tun"];

/// Runs a command to its end; its standard error is the error.
pub(crate) fn check(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}

/// Runs `ip` in this thread's namespace with these words, which have blanks between.
pub(crate) fn ip(words: &str) -> io::Result<()> {
    check(Command::new("ip").args(words.split(' ')))
}

/// Sets the TCP of this thread's namespace to Linux's defaults, so that machines can be compared. Returns
/// the congestion control: an algorithm that the machine does not let namespaces choose stays unchosen.
pub(crate) fn stock_tcp() -> String {
    let path = |name| format!("/proc/sys/net/ipv4/tcp_{name}");
    let settings = [
        ("congestion_control", "cubic"),
        ("rmem", "4096 131072 6291456"),
        ("wmem", "4096 16384 4194304"),
    ];
    for (name, value) in settings {
        // A value that cannot be set keeps its default.
        let _ = fs::write(path(name), value);
    }
    let chosen = fs::read_to_string(path("congestion_control"));
    chosen.unwrap_or_default().trim().to_owned()
}
