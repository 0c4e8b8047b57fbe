//! The requirements of a test on the machine, and its report if one is missing.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use super::{program, test_host};

/// Ends the test with a message unless all its requirements are met.
macro_rules! needs {
    ($($condition:expr),+ $(,)?) => {
        $(if let Err(reason) = $condition {
            return $crate::common::needs::skipped(here!(), &reason);
        })+
    };
}

/// The name of the test, as the test program knows it.
macro_rules! here {
    () => {{
        fn place() {}
        let path = std::any::type_name_of_val(&place);
        let name = path.strip_suffix("::place");
        name.and_then(|name| name.split_once("::"))
            .expect("a test is in its program")
            .1
    }};
}

/// Counts a test that this machine cannot run.
pub(crate) fn skipped(test: &str, reason: &str) {
    println!("skipped: {test}: {reason}");
    let Some(path) = std::env::var_os("MBUMA_SKIPS").filter(|path| !path.is_empty()) else {
        return;
    };
    let file = OpenOptions::new().create(true).append(true).open(path);
    // In one piece, because tests run side by side.
    file.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()))
        .expect("MBUMA_SKIPS can be appended to");
}

/// The requirements of every guest: namespaces and a TAP device.
pub(crate) fn guests() -> Result<(), String> {
    namespaces()?;
    device("/dev/net/tun")
}

/// A file system in user space can be mounted.
pub(crate) fn fuse() -> Result<(), String> {
    device("/dev/fuse")
}

/// User and network namespaces can be made: unshare(1) can.
pub(crate) fn namespaces() -> Result<(), String> {
    let made = program("unshare").args(["-Urn", "true"]).output();
    match made {
        Ok(out) if out.status.success() => Ok(()),
        _ => Err("no user and network namespaces here".into()),
    }
}

/// A device can be opened.
fn device(path: &str) -> Result<(), String> {
    let opened = File::options().read(true).write(true).open(path);
    opened.map(|_| ()).map_err(|e| format!("{path}: {e}"))
}

/// Namespaces can be made in which a test is alone.
pub(crate) fn test_host() -> Result<(), String> {
    programs(&["unshare", "ip"])?;
    let made = test_host::unshare().arg("true").output();
    match made {
        Ok(out) if out.status.success() => Ok(()),
        Ok(out) => Err(format!(
            "no namespaces for the host's side: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        )),
        Err(e) => Err(format!("no unshare: {e}")),
    }
}

/// The kernel has IPv6, and so has each new namespace.
pub(crate) fn ip6() -> Result<(), String> {
    match fs::metadata("/proc/net/if_inet6") {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("no IPv6 here: {e}")),
    }
}

/// The tests run as root.
pub(crate) fn root() -> Result<(), String> {
    if is_root() {
        Ok(())
    } else {
        Err("not root".into())
    }
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uids.and_then(|uids| uids.split_whitespace().nth(1)) == Some("0")
}

/// These programs are in PATH.
pub(crate) fn programs(names: &[&str]) -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("/usr/sbin:/usr/bin:/sbin:/bin:{path}");
    let is_there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    match names.iter().find(|name| !is_there(name)) {
        Some(name) => Err(format!("no program {name}")),
        None => Ok(()),
    }
}

/// A file is there.
pub(crate) fn exists(path: &str) -> Result<(), String> {
    fs::metadata(path)
        .map(|_| ())
        .map_err(|e| format!("{path}: {e}"))
}

/// Ctrl-C reaches the programs that the tests start: a shell's background job ignores it, and so do its children.
pub(crate) fn keys() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    // Signal 2 is bit 1.
    match ignored {
        Some(set) if set & 2 != 0 => Err("SIGINT is ignored here, as in a background job".into()),
        _ => Ok(()),
    }
}
