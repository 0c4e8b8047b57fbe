//! A test host: a test in network, mount and process namespaces of its own.
//!
//! The test program starts itself again there, for this one test. So the test configures the host's side, its servers
//! included; nothing of the machine changes; and the test can see every process that is left at the end.

use std::env;
use std::fs;
use std::process::Command;

use super::needs::is_root;
use super::{PATIENCE, Running, program};

/// Set for the test program that runs on a test host.
const MARK: &str = "MBUMA_E2E_TEST_HOST";

/// Runs the rest of the test in namespaces of its own, if they can be made.
macro_rules! on_test_host {
    () => {
        if !$crate::common::test_host::is_here() {
            needs!($crate::common::needs::test_host());
            return $crate::common::test_host::run_there(here!());
        }
        $crate::common::test_host::prepare();
    };
}

/// The start of a command line that runs in new namespaces, which end with it.
pub(crate) fn unshare() -> Command {
    let mut command = program("unshare");
    command.args(["-n", "-m", "-p", "-f", "--kill-child", "--mount-proc"]);
    if !is_root() {
        command.args(["-U", "-r"]);
    }
    command
}

/// Whether this is a test host.
pub(crate) fn is_here() -> bool {
    env::var_os(MARK).is_some()
}

/// Runs one test of this program on a test host.
pub(crate) fn run_there(test: &str) {
    let mut command = unshare();
    command
        .arg(env::current_exe().expect("this program is a file"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(MARK, "1");
    // The inner test finds a hang first, because its message says more.
    let ended = Running::start(command).with_patience(PATIENCE * 3).finish();
    let passed = ended.code == Some(0) && ended.out.contains("1 passed");
    assert!(passed, "on the test host:\n{}{}", ended.out, ended.err);
    // The output may report a skip, so print it.
    let skips = ended.out.lines().filter(|line| line.contains("skipped:"));
    skips.for_each(|line| println!("{line}"));
}

/// Prepares the namespaces: loopback, and a /run of their own.
pub(crate) fn prepare() {
    ip("link set lo up");
    // `ip netns` keeps its names in /run, which is the machine's.
    shell("mount -t tmpfs none /run");
}

/// Runs `ip`.
pub(crate) fn ip(line: &str) {
    shell(&format!("ip {line}"));
}

/// Runs a script that has to succeed.
pub(crate) fn shell(script: &str) {
    let out = program("sh")
        .args(["-ec", script])
        .output()
        .expect("sh is there");
    assert!(out.status.success(), "{script}: {out:?}");
}

/// Puts a resolv.conf of the test's in place of the machine's.
pub(crate) fn resolve_with(text: &str) {
    fs::write("/run/resolv.conf", text).expect("/run of the test host can be written");
    shell("mount --bind /run/resolv.conf $(readlink -f /etc/resolv.conf)");
}

/// Makes a network with another host on it: this side is 198.51.100.1, the other, in the namespace
/// `far`, is 198.51.100.2. Address 198.51.100.99 swallows what it is sent.
pub(crate) fn make_neighbour() {
    join("near0", "far", "198.51.100");
    shell("ip neigh add 198.51.100.99 lladdr 02:00:00:00:00:63 dev near0");
}

/// Makes another host, in the namespace `other`, at `network`.2: this side is `network`.1, on the interface `near`.
pub(crate) fn join(near: &str, other: &str, network: &str) {
    shell(&format!(
        "ip netns add {other}
         ip link add {near} type veth peer name {other}0 netns {other}
         ip addr add {network}.1/24 dev {near}
         ip link set {near} up
         ip -n {other} addr add {network}.2/24 dev {other}0
         ip -n {other} link set {other}0 up
         ip -n {other} link set lo up"
    ));
}

/// Gives the test host a /dev/net/tun of its own, with this mode. The machine's stays as it is.
pub(crate) fn make_tun(mode: &str) -> Result<(), String> {
    let script = format!(
        "mount -t tmpfs -o mode=755 none /dev/net && mknod -m {mode} /dev/net/tun c 10 200"
    );
    let out = program("sh").args(["-c", &script]).output();
    match out {
        Ok(out) if out.status.success() => Ok(()),
        _ => Err("no device nodes can be made here".into()),
    }
}

/// The processes on this test host besides this one and those that have ended, by name.
pub(crate) fn processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("/proc is there");
    let numbers = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.parse::<u32>().ok()
    });
    let others = numbers.filter(|&pid| pid != std::process::id());
    others.filter_map(living).collect()
}

/// The name of a process that has not ended.
fn living(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.rsplit_once(") ")?;
    (!rest.starts_with(['Z', 'X'])).then(|| format!("{name})"))
}
