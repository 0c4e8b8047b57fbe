//! The command line.
//!
//! Invariants: a value that parses here is valid; for all others clap exits with code 2. Locks: none.

mod attach;
mod families;
pub(crate) mod impair;
mod names;
mod net;
pub(crate) mod netstat;
pub(crate) mod network;
mod number;
mod outbound;
pub(crate) mod pasta;
mod placed;
mod port_range;
pub(crate) mod publish;
pub(crate) mod relay;
mod run;
pub(crate) mod serve;
pub(crate) mod slirp4netns;
pub(crate) mod vm;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Parser, Subcommand};

use attach::attach_target;
pub(crate) use attach::{AttachArgs, AttachTarget};
pub(crate) use families::FamilyOpts;
pub(crate) use impair::Impairment;
pub(crate) use net::{IgnoredProtocols, NetOpts, StatsFormat, TapUse};
use net::{MTU_MAX, MTU_MIN, WORKERS_MAX, capture_path, workers_default};
pub(crate) use outbound::Sources;
use outbound::{OutboundAddr, OutboundOpts};
pub(crate) use pasta::{LoopbackOpts, OutwardRequest};
use port_range::port;
pub(crate) use port_range::{HostEnd, Proto, Publish, PublishRange, PublishRequest};
pub(crate) use run::RunArgs;

/// Columns of the help.
const HELP_WIDTH: usize = 100;

/// Gives an unmodified program a network of its own, without root.
#[derive(Debug, Parser)]
#[command(
    name = "mbuma",
    version,
    propagate_version = true,
    max_term_width = HELP_WIDTH
)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The arguments, of which the first is the name by which mbuma was called: under the name of another tool it takes
/// that tool's options.
pub(crate) fn words(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = given.collect();
    let name = words.first().map(Path::new).and_then(Path::file_name);
    let name = name.and_then(OsStr::to_str);
    if let Some(face @ ("slirp4netns" | "pasta" | "passt")) = name {
        words.splice(..1, ["mbuma".into(), face.into()]);
    }
    words
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run COMMAND in a network of its own, and exit with its status
    #[command(
        long_about = "Run COMMAND in its own user and network namespace, and exit with its status.\n\n\
        COMMAND finds one interface, 10.0.2.100/24 and fd00::100/64, with a gateway at 10.0.2.2 and \
        fd00::2 and a name server at 10.0.2.3 and fd00::3. Behind them is a network stack inside \
        mbuma, which carries its connections on by ordinary sockets of the host: COMMAND reaches the hosts \
        that you reach, but not the host's loopback. \
        No root is needed where the system lets users make user namespaces and open /dev/net/tun."
    )]
    Run(RunArgs),
    /// Give a network to an existing network namespace
    #[command(
        long_about = "Give a network to an existing network namespace, such as a container engine makes.\n\n\
        Makes and configures an interface in the network namespace of process PID, or in the one at \
        PATH, enters its user namespace for that if need be, and serves it in the foreground: until \
        SIGTERM or SIGINT, until process PID ends, or until --exit-fd is closed."
    )]
    Attach(AttachArgs),
    /// Look into a running `mbuma run`, `attach`, `serve` or `vm`, or a network: connections, buffers, counters, locks
    #[command(
        long_about = "Look into a running `mbuma run`, `attach`, `serve` or `vm`, or a network, of the same user; root \
        may look into any.\n\n\
        Without an option it gives an overview; with several, one section after the other. PID is needed only \
        where several run: `mbuma netstat` lists them then."
    )]
    Netstat(netstat::NetstatArgs),
    /// List, look at and remove the networks that `mbuma run --network` makes
    Network(network::NetworkArgs),
    /// Publish ports of a running `mbuma run`, `attach` or `vm`, list them, or end that
    Publish(publish::PublishArgs),
    /// Serve the files below a directory, by an interface of its own in a namespace or on this host
    #[command(
        long_about = "Serve the files below a directory by HTTP, from inside of the stack: by an interface of its \
        own in a network namespace, or on this host.\n\n\
        The process that reads requests has given up root and all files but those of the directory, which it \
        reads as `nobody` if mbuma was started by root. Hidden files and links that lead out of the directory are \
        not served. If the client accepts compression, mbuma sends the file of the same name with .zst, .br or .gz \
        appended, if that exists and is no older."
    )]
    Serve(serve::ServeArgs),
    /// Relay TCP connections from one interface to another, inside of the stack
    #[command(
        long_about = "Relay TCP connections from one interface to another: mbuma accepts a client's connection, \
        connects to the server, and has the stack send on each the bytes that it receives on the other, without a \
        copy and without waking a thread for them.\n\n\
        Each side is words with commas between them; an interface is in a network namespace or on this host."
    )]
    Relay(relay::RelayArgs),
    /// Give a network to a virtual machine, by a socket that QEMU connects to
    #[command(
        long_about = "Give a network to a virtual machine, as passt does: QEMU connects to a UNIX-domain socket \
        (`-netdev stream`), and sends and receives Ethernet frames there.\n\n\
        Behind it is the same network as that of `mbuma run`, without root and without an interface of this host. \
        One machine is served at a time: the connection of a second one is closed."
    )]
    Vm(vm::VmArgs),
    /// Do what slirp4netns does, by its command line: for container engines
    #[command(
        name = "slirp4netns",
        long_about = "Do what slirp4netns does, by its command line: for container engines.\n\n\
        A link to mbuma that is called `slirp4netns` does the same."
    )]
    Slirp4netns(slirp4netns::SlirpArgs),
    /// Do what pasta does, by its command line: run a program in a network of its own, or serve a namespace
    #[command(
        name = "pasta",
        long_about = "Do what pasta does, by its command line: run a program in a network of its own, with the host's \
        addresses and open ports; or give such a network to a namespace that a container engine made.\n\n\
        A link to mbuma that is called `pasta` does the same."
    )]
    Pasta(pasta::PastaArgs),
    /// Name the command that does what passt does
    #[command(
        name = "passt",
        hide = true,
        disable_help_flag = true,
        disable_version_flag = true
    )]
    Passt {
        /// All of them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _words: Vec<OsString>,
    },
}

/// The answer to the command line of passt.
pub(crate) const NO_PASST: &str = "the command line of passt is not known here: `mbuma vm --socket PATH` serves a \
    virtual machine, with --vhost-user too; --publish opens ports";

/// The name of an interface that mbuma makes.
fn ifname(text: &str) -> Result<String, String> {
    match text {
        // Below /proc/sys/net these are the settings of every interface, and of those to come; `lo` is there already.
        "all" | "default" | "lo" => Err("the kernel keeps that name for itself".to_owned()),
        _ => any_ifname(text),
    }
}

/// An interface name by the kernel's rules (dev_valid_name), so that a mistake is reported here.
fn any_ifname(text: &str) -> Result<String, String> {
    let fits = (1..libc::IFNAMSIZ).contains(&text.len());
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b':' | b'%'));
    if !fits || !plain || matches!(text, "." | "..") {
        return Err(
            "an interface name is 1 to 15 letters, digits or signs other than / : %".to_owned(),
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
