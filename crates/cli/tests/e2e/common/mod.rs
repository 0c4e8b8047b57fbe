//! The shared code of the end-to-end tests: the program under test, programs beside it, servers on the host, and
//! separate namespaces.
//!
//! A test begins with its requirements on the machine (`needs!`); if one is missing, the test reports that and is
//! skipped. A test that changes routes, resolvers or devices, or that looks at all processes, continues
//! `on_test_host!`: in network, mount and process namespaces of its own.

#[macro_use]
pub(crate) mod needs;
#[macro_use]
pub(crate) mod test_host;
pub(crate) mod http;
pub(crate) mod nameserver;
pub(crate) mod running;
pub(crate) mod scratch;
pub(crate) mod server;
pub(crate) mod stats;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use running::{Ended, Running};
pub(crate) use scratch::Scratch;
pub(crate) use stats::Stats;

pub(crate) use crate::MBUMA;

/// Longer than any step that does not hang takes on a slow, busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Goes before a command: runs it as an ordinary user that every system has.
pub(crate) const AS_NOBODY: [&str; 6] = [
    "setpriv",
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
];

/// A command line of mbuma, with a shell script as COMMAND.
pub(crate) fn mbuma(options: &[&str], script: &str) -> Command {
    let mut command = program(MBUMA);
    command
        .arg("run")
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}

/// A command line of mbuma, with a Python program as COMMAND.
pub(crate) fn mbuma_python(options: &[&str], source: &str, args: &[&str]) -> Command {
    let mut command = program(MBUMA);
    command.arg("run").args(options).arg("--");
    command.args(["python3", "-I", "-S", "-u", "-c", source]);
    command.args(args);
    command
}

/// A program of the system: directories in a developer's home come last in PATH, because another user can't read them.
pub(crate) fn program(name: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command
        .env("PATH", format!("/usr/sbin:/usr/bin:/sbin:/bin:{path}"))
        .env("LC_ALL", "C")
        // curl would go through a proxy that the developer has.
        .env_remove("http_proxy")
        .env_remove("all_proxy");
    command
}

/// The same command, in a process that may have so many descriptors.
pub(crate) fn with_descriptors(count: u32, command: &Command) -> Command {
    let mut limited = program("sh");
    let script = format!("ulimit -n {count}; exec \"$@\"");
    limited.args(["-c", &script, "sh"]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

/// A program for a guest: it opens connections to a port of the host's loopback until the gateway process has no
/// descriptor left, and holds them until its input ends.
pub(crate) const TAKE_ALL_DESCRIPTORS: &str = "
import socket, sys
held = []
for _ in range(245):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(('10.0.2.2', int(sys.argv[1])))
    held.append(s)
print('up', flush=True)
sys.stdin.readline()
for s in held:
    s.close()
print('closed', flush=True)
sys.stdin.readline()
";

/// Runs mbuma with a script, which must succeed, and returns its output.
pub(crate) fn output_of(options: &[&str], script: &str) -> String {
    Running::start(mbuma(options, script)).finish().good()
}

/// Runs mbuma with a Python program, which must succeed, and returns its output.
pub(crate) fn output_of_python(options: &[&str], source: &str, args: &[&str]) -> String {
    Running::start(mbuma_python(options, source, args))
        .finish()
        .good()
}

/// Waits for a condition, not for ever.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Serialises the heavy tests of one program.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static HEAVY: Mutex<()> = Mutex::new(());
    HEAVY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a signal, by name, to a process.
pub(crate) fn kill(signal: &str, whom: &str) {
    let script = format!("kill -s {signal} -- {whom}");
    let sent = program("sh")
        .args(["-c", &script])
        .output()
        .expect("sh is there");
    assert!(sent.status.success(), "{script}: {sent:?}");
}

/// The number on the line of digits in a program's output.
pub(crate) fn number(text: &str) -> u64 {
    let text = text.trim();
    text.parse()
        .unwrap_or_else(|e| panic!("{text:?} is no number: {e}"))
}
