//! The command line of `mbuma attach`.
//!
//! Locks: none.

use std::path::PathBuf;

use super::{NetOpts, ifname, number};

/// The command line of `mbuma attach`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mbuma attach 4711                                  the network namespace of process 4711
  mbuma attach /run/netns/blue --ifname eth0         one made by `ip netns add blue`
  mbuma attach $PID --ready-fd 3 --exit-fd 4         as an engine starts it: `1` comes on 3 when the
                                                     network is up, closing 4 ends it

The namespace's processes should resolve names through 10.0.2.3 or fd00::3; mbuma leaves their
files alone.

Exit status:
  0 when the process, the namespace or --exit-fd has ended, or after a signal; 125 if mbuma failed;
  2 for a mistake in the options.")]
pub(crate) struct AttachArgs {
    /// A process in the network namespace, or a file of the namespace (./123 if its name is digits)
    #[arg(value_name = "PID|PATH", value_parser = attach_target)]
    pub(crate) target: AttachTarget,

    /// Name of the interface
    #[arg(long, value_name = "NAME", default_value = "tap0", value_parser = ifname)]
    pub(crate) ifname: String,

    /// Write `1` to this descriptor, and close it, once the network is up
    #[arg(short = 'r', long, value_name = "N", value_parser = number::descriptor)]
    pub(crate) ready_fd: Option<i32>,

    /// End when this descriptor is closed at its other end
    #[arg(short = 'e', long, value_name = "N", value_parser = number::descriptor)]
    pub(crate) exit_fd: Option<i32>,

    /// The user namespace to enter, instead of the one that owns the network namespace
    #[arg(long, value_name = "PATH")]
    pub(crate) userns_path: Option<PathBuf>,

    /// It goes on when the namespace's process has ended, or its name is removed.
    #[arg(skip)]
    pub(crate) outlives_target: bool,

    /// Options that `run` has too.
    #[command(flatten)]
    pub(crate) net: NetOpts,
}

/// The network namespace that `attach` must serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttachTarget {
    /// That of a process.
    Pid(i32),
    /// The namespace that a file represents.
    Path(PathBuf),
}

/// Digits are a process, any other word is a path.
pub(super) fn attach_target(text: &str) -> Result<AttachTarget, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(AttachTarget::Path(PathBuf::from(text)));
    }
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(AttachTarget::Pid(pid)),
        _ => Err("no process has such a number".to_owned()),
    }
}
