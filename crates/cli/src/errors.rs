//! Errors, each with a text that names the next step for the user.
//!
//! Invariants: each error has one exit code; a message names the cause, then the remedy.
//! Locks: none.

use std::env;
use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use crate::args::Publish;
use crate::sys::process;
use crate::sys::tap::DEV_NET_TUN;

/// Bad options; clap exits with this too.
pub(crate) const EXIT_USAGE: u8 = 2;
/// There is no mbuma to ask, or it does not answer.
pub(crate) const EXIT_NO_ANSWER: u8 = 1;
/// mbuma itself failed.
pub(crate) const EXIT_OWN_FAILURE: u8 = process::EXIT_PANICKED;
/// COMMAND exists but can't be executed.
pub(crate) const EXIT_NOT_EXECUTABLE: u8 = 126;
/// COMMAND is not there.
pub(crate) const EXIT_NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended COMMAND.
pub(crate) const EXIT_SIGNAL_BASE: u8 = 128;

/// Why mbuma ends with a status of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Options that parse but contradict each other.
    #[error("{0}")]
    Usage(String),
    /// COMMAND could not be executed.
    #[error("{}: {}{}", shown(command), reason(source), exec_hint(command, source))]
    Exec {
        /// As it was typed.
        command: String,
        /// The error of execvp(3).
        source: io::Error,
    },
    /// A published port is in use, or not allowed.
    #[error("--publish {publish}: {}", publish_failure(publish, source))]
    Publish {
        /// As it was asked for.
        publish: Publish,
        /// The error of bind(2).
        source: io::Error,
    },
    /// A step of setting up the guest failed.
    #[error("{0}")]
    Setup(#[from] Failure),
    /// A namespace to attach to can't be opened.
    #[error("{target}: {failure}")]
    Namespace {
        /// The process or the file that has it.
        target: String,
        /// The step that failed.
        failure: Failure,
    },
    /// There is no mbuma that netstat could ask, or no answer.
    #[error("{0}")]
    Netstat(String),
    /// Any other error, with the action that failed.
    #[error("{doing}: {}", with_remedy(source))]
    Io {
        /// In the form "reading the signals".
        doing: String,
        /// The error of the system call.
        source: io::Error,
    },
}

impl Error {
    /// COMMAND could not be executed.
    ///
    /// execvp says EACCES for a name that no directory in PATH has, if one of them may not be
    /// looked into. That is "not found" to people and to shells.
    pub(crate) fn exec(command: &OsStr, source: io::Error) -> Error {
        let denied = source.kind() == io::ErrorKind::PermissionDenied;
        let source = if denied && !is_somewhere(command) {
            io::Error::from_raw_os_error(libc::ENOENT)
        } else {
            source
        };
        Error::Exec {
            command: command.to_string_lossy().into_owned(),
            source,
        }
    }

    /// For `map_err`: the system call that failed, and its purpose.
    pub(crate) fn io(doing: &str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            doing: doing.to_owned(),
            source,
        }
    }

    /// An error of the stack, which gives no error number.
    pub(crate) fn stack(
        doing: &str,
        e: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::io(doing)(io::Error::other(e))
    }

    /// The exit code of mbuma.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => EXIT_USAGE,
            Error::Netstat(_) => EXIT_NO_ANSWER,
            Error::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                EXIT_NOT_FOUND
            }
            Error::Exec { .. } => EXIT_NOT_EXECUTABLE,
            Error::Publish { .. }
            | Error::Setup(_)
            | Error::Namespace { .. }
            | Error::Io { .. } => EXIT_OWN_FAILURE,
        }
    }
}

/// A step on the way to a guest; its text follows "cannot". The names cross from the child to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum SetupStep {
    /// fork, or the messages with the child.
    #[error("start a process")]
    Child,
    /// unshare of the user namespace.
    #[error("make a user namespace")]
    UserNamespace,
    /// Writing its id maps.
    #[error("map user ids into the new user namespace")]
    IdMaps,
    /// unshare of the network and mount namespaces.
    #[error("make a network namespace")]
    NetNamespace,
    /// Opening --userns-path.
    #[error("open the user namespace that --userns-path names")]
    FindUserNamespace,
    /// Finding the namespaces to attach to.
    #[error("find the network namespace")]
    FindNamespace,
    /// Entering the user namespace to attach to.
    #[error("enter the user namespace")]
    EnterUserNamespace,
    /// Entering the network namespace to attach to.
    #[error("enter the network namespace")]
    EnterNetNamespace,
    /// Choosing the stack's address.
    #[error("take the stack's address")]
    StackAddress,
    /// Choosing a server's network.
    #[error("take the network of the server's address")]
    StackNetwork,
    /// Opening the TAP maker.
    #[error("open /dev/net/tun")]
    OpenTun,
    /// Making the interface.
    #[error("make the TAP interface")]
    MakeTap,
    /// The same on this host.
    #[error("make the TAP interface on this host")]
    MakeHostTap,
    /// Giving the interface its MTU, address and state.
    #[error("configure the interface")]
    Interface,
    /// Adding the default route.
    #[error("add the default route")]
    Route,
    /// Giving the interface its IPv6 addresses and route.
    #[error("give the interface an IPv6 address")]
    Ip6,
    /// Letting unprivileged programs ping and listen on low ports.
    #[error("let unprivileged programs ping and use low ports")]
    Sysctls,
    /// Putting our name server into the guest's resolv.conf.
    #[error("put the name server into /etc/resolv.conf")]
    ResolvConf,
    /// Naming the guest.
    #[error("name the guest as --hostname says")]
    Hostname,
    /// Putting hosts into the guest's /etc/hosts.
    #[error("put names into /etc/hosts")]
    Hosts,
    /// Becoming COMMAND.
    #[error("execute COMMAND")]
    Exec,
}

/// A step that failed, in a form that can cross from the child to the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Where.
    pub(crate) step: SetupStep,
    /// Why: an errno, EIO where the system gave none.
    pub(crate) errno: i32,
}

impl Failure {
    /// For `map_err`.
    pub(crate) fn at(step: SetupStep) -> impl FnOnce(io::Error) -> Failure {
        move |e| Failure {
            step,
            errno: e.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// The same, of an interface of this host.
    pub(crate) fn on_host(self) -> Failure {
        match self.step {
            SetupStep::MakeTap => Failure {
                step: SetupStep::MakeHostTap,
                ..self
            },
            _ => self,
        }
    }

    /// The system's error.
    pub(crate) fn source(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot {}: {}{}",
            self.step,
            with_remedy(&self.source()),
            self.hint()
        )
    }
}

impl Failure {
    /// Advice for the user: further lines, or none.
    fn hint(&self) -> String {
        match (self.step, self.errno) {
            (SetupStep::OpenTun, libc::ENOENT | libc::ENODEV | libc::ENXIO) => lines(&[
                &format!(
                    "the kernel's TUN/TAP driver is not there: `modprobe tun`{} loads it",
                    as_root()
                ),
                "in a container: start it with `--device /dev/net/tun`",
            ]),
            (SetupStep::OpenTun, libc::EACCES) => lines(&[
                &format!(
                    "{DEV_NET_TUN} admits only some users here: `chmod 666 {DEV_NET_TUN}`{} opens it,",
                    as_root()
                ),
                "and a udev rule keeps it open: KERNEL==\"tun\", MODE=\"0666\"",
                "(it is safe: without privileges over a network namespace the device does nothing)",
            ]),
            (SetupStep::OpenTun, libc::EPERM) => lines(&[
                "this container may not use the device: start it with `--device /dev/net/tun`",
            ]),
            (SetupStep::MakeTap | SetupStep::MakeHostTap, libc::ENOTTY | libc::EBADFD) => lines(&[
                &format!(
                    "{DEV_NET_TUN} is another device here: the kernel's has the numbers 10 and 200"
                ),
                "in a container: start it with `--device /dev/net/tun`",
            ]),
            (SetupStep::Child, libc::EPERM) => lines(&[
                "perhaps a list of allowed system calls refuses pidfd_open(2): the seccomp profile of a newer engine",
                "allows it",
            ]),
            (SetupStep::IdMaps, libc::EPERM) if process::ids().0 == 0 => lines(&[
                "root may map itself only with CAP_SETFCAP (since Linux 5.12): add it to the container, or run mbuma",
                "as another user; and /proc must be that of this PID namespace: `unshare --pid` takes --mount-proc",
            ]),
            (SetupStep::ResolvConf, libc::ENOENT) => lines(&[
                "programs without that file ask a name server at 127.0.0.1: an empty one is enough, or the file that",
                "the link names",
            ]),
            (SetupStep::Child, libc::ENOENT) => lines(&[
                "mbuma needs /proc: `mount -t proc none /proc` in a chroot or a mount namespace of your own",
            ]),
            (SetupStep::MakeHostTap, libc::EPERM) => lines(&[match process::ids().0 {
                0 => "that takes CAP_NET_ADMIN, which this container lacks",
                _ => {
                    "run mbuma as root, or name a namespace of yours: `serve --in PID`, `relay in=PID,...`"
                }
            }]),
            (SetupStep::MakeHostTap, libc::EBUSY) => lines(&[
                "another program uses an interface of that name: choose another with --tap, or tap= of `relay`",
            ]),
            (SetupStep::MakeTap | SetupStep::MakeHostTap, libc::EINVAL) => lines(&[
                "the interface of that name is not a TAP, or one of another kind: choose another with --ifname,",
                "--tap of `serve`, or tap= of `relay`",
            ]),
            (SetupStep::MakeTap, libc::EBUSY) => lines(&[
                "an interface of that name is there, and no free TAP: choose another with --ifname, -I of `pasta`,",
                "TAPNAME of `slirp4netns`, --tap of `serve`, or tap= of `relay`",
            ]),
            (SetupStep::StackAddress, libc::EADDRINUSE) => lines(&[
                "an interface of the host, or of the namespace, has it: choose another with --address or address=,",
                "or --gateway of `attach`",
            ]),
            (SetupStep::StackNetwork, libc::EADDRINUSE) => lines(&[
                "another interface has an address in it, so clients would look for the server there: choose another",
                "network with --address or address=, or make a TAP, put it into a bridge with that interface, and",
                "name it with --tap or tap=",
            ]),
            (SetupStep::Route, libc::EEXIST) => {
                lines(&["the namespace has a default route already: is something else serving it?"])
            }
            (
                SetupStep::FindNamespace
                | SetupStep::EnterUserNamespace
                | SetupStep::EnterNetNamespace,
                libc::EACCES | libc::EPERM,
            ) => lines(&[match process::ids().0 {
                0 => "even root may not enter it from here: run mbuma outside of this container",
                _ => "run mbuma as the user that made the namespace, or as root",
            }]),
            (
                SetupStep::FindNamespace | SetupStep::EnterNetNamespace,
                libc::EINVAL | libc::ENOTTY,
            ) => lines(&[
                "that file is no network namespace: it takes one like /run/netns/NAME or /proc/PID/ns/net",
            ]),
            (
                SetupStep::UserNamespace
                | SetupStep::IdMaps
                | SetupStep::NetNamespace
                | SetupStep::MakeTap,
                _,
            ) => namespace_hint(),
            _ => String::new(),
        }
    }
}

/// The system's words, without Rust's "(os error 2)".
pub(crate) fn reason(e: &io::Error) -> String {
    let text = e.to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The same, and how to raise the limit that was reached, if it is one.
pub(crate) fn with_remedy(e: &io::Error) -> String {
    let remedy = match e.raw_os_error() {
        Some(libc::EMFILE) => {
            lines(&["`ulimit -n` limits the open files of a process: raise it in this shell"])
        }
        Some(libc::ENFILE) => {
            lines(&["the whole system has as many open files as fs.file-max allows"])
        }
        Some(libc::EAGAIN) => lines(&[
            "if this is about a process or a thread: `ulimit -u`, `ulimit -v` and pids.max of the cgroup limit them",
        ]),
        _ => String::new(),
    };
    reason(e) + &remedy
}

/// Told to users that are not root already.
fn as_root() -> &'static str {
    match process::ids().0 {
        0 => "",
        _ => " as root",
    }
}

/// Each on a line of its own, indented below the message.
fn lines(text: &[&str]) -> String {
    text.iter()
        .fold(String::new(), |all, line| all + "\n  " + line)
}

/// Settings that forbid user namespaces, with the value that allows them.
const NAMESPACE_SETTINGS: [(&str, &str); 4] = [
    ("kernel.unprivileged_userns_clone", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "0"),
    ("user.max_user_namespaces", "15000"),
    ("user.max_net_namespaces", "15000"),
];

/// Why users may not make namespaces here: the settings as they are, and the cure for each wrong one.
fn namespace_hint() -> String {
    let mut hint = lines(&["mbuma needs user and network namespaces, which this system limits by"]);
    for (name, allows) in NAMESPACE_SETTINGS {
        let Ok(value) = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))) else {
            continue;
        };
        let value = value.trim();
        let _ = write!(hint, "\n    {name} = {value}");
        if forbids(value, allows) {
            let root = as_root();
            let _ = write!(hint, "  <- `sysctl -w {name}={allows}`{root} allows it");
        }
    }
    hint + &lines(&[
        "in a container: its seccomp profile must allow unshare, and /proc must be writable;",
        "in a chroot there are none",
    ])
}

/// Whether a setting stands in the way: a switch in the wrong position, or a limit of none.
fn forbids(value: &str, allows: &str) -> bool {
    match allows {
        "0" => value != "0",
        _ => value == "0",
    }
}

/// Whether a command is a path, or the name of something in a directory of PATH.
fn is_somewhere(command: &OsStr) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    command.as_encoded_bytes().contains(&b'/')
        || env::split_paths(&path)
            .any(|directory| fs::symlink_metadata(directory.join(command)).is_ok())
}

/// COMMAND as an error names it.
fn shown(command: &str) -> &str {
    match command {
        "" => "''",
        command => command,
    }
}

/// Advice when COMMAND cannot be executed.
fn exec_hint(command: &str, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound if command.is_empty() => {
            lines(&["COMMAND is empty: a variable that is not set, perhaps"])
        }
        io::ErrorKind::NotFound if fs::metadata(command).is_ok() && command.contains('/') => {
            lines(&["it exists, but the interpreter or loader that it names does not"])
        }
        io::ErrorKind::NotFound if command.contains('/') => String::new(),
        io::ErrorKind::NotFound => lines(&["no directory in PATH has it"]),
        io::ErrorKind::PermissionDenied => {
            lines(&["it needs execute permission (`chmod +x`), and must not be a directory"])
        }
        _ => String::new(),
    }
}

/// Why a port cannot be listened on, and advice.
pub(crate) fn publish_failure(publish: &Publish, source: &io::Error) -> String {
    with_remedy(source) + &publish_hint(publish, source)
}

/// Advice when a port cannot be listened on.
fn publish_hint(publish: &Publish, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => lines(&[
            "another program, or another --publish, listens there: choose another HOST port,",
            &format!(
                "or find it with `ss -lnp 'sport = :{}'`",
                publish.host.port()
            ),
        ]),
        io::ErrorKind::AddrNotAvailable if publish.host.is_ipv6() => lines(&[
            "this host has no such address; an IPv6 address of the guest, behind a port, is in brackets, as in",
            "8080:[fd00::7]/80",
        ]),
        io::ErrorKind::AddrNotAvailable => lines(&["this host has no such address"]),
        io::ErrorKind::PermissionDenied => lines(&[
            "ports below net.ipv4.ip_unprivileged_port_start (1024 by default) are root's: choose a higher HOST port",
        ]),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
