//! The command line.
//!
//! Invariants: a value that parses here is valid; for all others clap exits with code 2. Locks: none.

mod families;
pub(crate) mod impair;
mod names;
pub(crate) mod netstat;
pub(crate) mod network;
mod outbound;
pub(crate) mod pasta;
mod placed;
mod port_range;
pub(crate) mod publish;
pub(crate) mod relay;
pub(crate) mod serve;
pub(crate) mod slirp4netns;
pub(crate) mod vm;

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use mbuma::congestion::CongestionControl;

use crate::addressing::{Addressing, Addressing6};
use crate::special;
pub(crate) use families::FamilyOpts;
pub(crate) use impair::Impairment;
use names::AddedHost;
pub(crate) use outbound::Sources;
use outbound::{OutboundAddr, OutboundOpts};
pub(crate) use pasta::{LoopbackOpts, OutwardRequest};
use placed::AddressOpts;
pub(crate) use port_range::{Proto, Publish, PublishRange, PublishRequest};
use port_range::{port, ports_of};

/// The interface MTU unless `--mtu` says otherwise. Large TCP segments cross the TAP whole at any MTU;
/// measured side by side, this one still moves about a tenth more than 1500 (fewer headers for the
/// guest to make and merge), and datagrams of up to 64 KiB cross without fragments.
pub(crate) const MTU_DEFAULT: u16 = 65_520;
/// The same with `--impair`: that of Ethernet, as on long paths.
pub(crate) const MTU_IMPAIRED: u16 = 1500;
/// The smallest that every IPv4 host must take (RFC 791, 3.1).
const MTU_MIN: i64 = 576;
/// The largest that a TAP takes: 65535 less the Ethernet header.
const MTU_MAX: i64 = 65521;

/// Seconds that a round of the loop may last before the locks are shown: a thousand times a usual round.
const WATCHDOG_DEFAULT: u32 = 10;
/// Workers unless `--workers` says otherwise, if there are as many CPUs. Measured with two workers and with one, on two
/// CPUs that the guest and the host side use too: with two, the p99 of a small request beside a bulk stream is a
/// quarter (up) to two thirds (down), because the request need not wait behind the stream; several streams, and short
/// connections, have a higher throughput; one stream, and a small request alone, are equal.
const WORKERS_DEFAULT: usize = 2;
/// A message hands over at most this many descriptors.
const WORKERS_MAX: i64 = 64;
const _: () = assert!(WORKERS_MAX as usize <= crate::sys::scm::FDS_MAX);

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
    if let Some(face @ ("slirp4netns" | "pasta")) = name {
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
        One machine is served at a time."
    )]
    Vm(vm::VmArgs),
    /// Do what slirp4netns does, by its command line: for container engines
    #[command(
        name = "slirp4netns",
        long_about = "Do what slirp4netns does, by its command line: for container engines.\n\n\
        A link to mbuma that is called `slirp4netns` does the same."
    )]
    Slirp4netns(slirp4netns::SlirpArgs),
    /// Do what pasta does for a namespace, by its command line: for container engines
    #[command(
        name = "pasta",
        long_about = "Do what pasta does for a namespace, by its command line: for container engines.\n\n\
        A link to mbuma that is called `pasta` does the same."
    )]
    Pasta(pasta::PastaArgs),
}

/// The command line of `mbuma run`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "mbuma run [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "\
Examples:
  mbuma run -- curl -sS http://10.0.2.2/        the stack's own status page
  mbuma run -- git clone https://example.org/r  any program, over the host's network
  mbuma run --publish 8080:80 -- ./server       127.0.0.1:8080 on the host is port 80 of ./server
  mbuma run --host-loopback -- psql -h 10.0.2.2 a database that listens on the host's 127.0.0.1
  mbuma run --serve ./public -- ./browser       the files below ./public, at http://10.0.2.2/files/
  mbuma run --pcap out.pcapng --stats -- make test
  mbuma run --impair rate=20mbit,delay=40ms,loss=1% -- git clone https://example.org/r
  mbuma run --impair delay=30ms,up:rate=2mbit,down:rate=16mbit,queue=256kb -- ./client
  mbuma run --network blue --hostname db -- postgres -D data     and from another terminal:
  mbuma run --network blue -- psql -h db        guests that find each other by name
  mbuma run -r -- bash                          a shell that is root in there, to try ip and ss

Exit status:
  COMMAND's own; 128+N if signal N ended it; 127 if it was not found; 126 if it could not be run;
  125 if mbuma itself failed; 2 for a mistake in the options.

Signals sent to mbuma go on to COMMAND, but for SIGRTMIN+1, which has mbuma print which thread
holds which lock (see `mbuma netstat --locks`). Processes that COMMAND leaves behind get SIGTERM
when it ends, and SIGKILL a moment later."
)]
pub(crate) struct RunArgs {
    /// Appear as root inside (an ordinary user keeps their own id otherwise, and root stays root)
    #[arg(short = 'r', long)]
    pub(crate) map_root: bool,

    /// Name of the interface
    #[arg(long, value_name = "NAME", default_value = "tap0", value_parser = ifname)]
    pub(crate) ifname: String,

    /// Give the guest this name; without it the guest has the host's name
    #[arg(long, value_name = "NAME", value_parser = names::host_name)]
    pub(crate) hostname: Option<String>,

    /// Name a host in /etc/hosts; ADDR may be `host-gateway`. May be repeated.
    #[arg(long, value_name = "NAME:ADDR")]
    pub(crate) add_host: Vec<AddedHost>,

    /// Search names in this domain instead of the host's; `.` for none. May be repeated.
    #[arg(long, value_name = "DOMAIN", value_parser = names::domain)]
    pub(crate) search: Vec<String>,

    /// Share a network with the other guests of this user that name it: they find each other by --hostname
    ///
    /// The first one begins the network, with its options, and the last one ends it. Options of later
    /// guests about the network itself must be the same, or absent. Its guests are not protected from each other: one can claim
    /// the address of another.
    #[arg(long, value_name = "NAME", value_parser = network::network_name,
          conflicts_with_all = ["workers", "stats", "api_socket", "ipv6_only", "address", "gateway"])]
    pub(crate) network: Option<String>,

    /// Options that `attach` has too.
    #[command(flatten)]
    pub(crate) net: NetOpts,

    /// The program to run and its arguments
    #[arg(value_name = "COMMAND", required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

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
    #[arg(short = 'r', long, value_name = "N")]
    pub(crate) ready_fd: Option<i32>,

    /// End when this descriptor is closed at its other end
    #[arg(short = 'e', long, value_name = "N")]
    pub(crate) exit_fd: Option<i32>,

    /// The user namespace to enter, instead of the one that owns the network namespace
    #[arg(long, value_name = "PATH")]
    pub(crate) userns_path: Option<PathBuf>,

    /// Options that `run` has too.
    #[command(flatten)]
    pub(crate) net: NetOpts,
}

/// The options of the stack and its gateway, for any guest.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NetOpts {
    /// Let 10.0.2.2 reach the host's 127.0.0.1, and fd00::2 its ::1 (every port but the status page's)
    #[arg(long)]
    pub(crate) host_loopback: bool,

    /// The guest's IPv4 network: its hosts 2, 3 and 100 are the gateway, the name server and the guest
    #[arg(long, value_name = "NETWORK/LEN", default_value = "10.0.2.0/24")]
    pub(crate) cidr: Addressing,

    /// Forward the guest's DNS queries to this name server instead of the host's: those to port 53, and encrypted ones
    /// to port 853. May be repeated.
    #[arg(long, value_name = "ADDR")]
    pub(crate) dns: Vec<IpAddr>,

    /// Versions of IP.
    #[command(flatten)]
    pub(crate) families: FamilyOpts,

    /// Other addresses than the usual ones.
    #[command(flatten)]
    pub(crate) placed: AddressOpts,

    /// The source of outgoing connections.
    #[command(flatten)]
    pub(crate) outbound: OutboundOpts,

    /// Let the guest reach ADDR, though it is link-local or hands out a cloud machine's credentials. May be repeated.
    #[arg(long, value_name = "ADDR", value_parser = special::allowed)]
    pub(crate) allow: Vec<IpAddr>,

    /// Answer no names.
    #[arg(skip)]
    pub(crate) no_dns: bool,

    /// Ports of the guest's loopback, and ports that mbuma finds itself.
    #[arg(skip)]
    pub(crate) loopback: LoopbackOpts,

    /// The guests are several.
    #[arg(skip)]
    pub(crate) network: bool,

    /// For guests that ask.
    #[arg(skip)]
    pub(crate) dhcp: vm::DhcpOpts,

    /// The Ethernet address of the guest's interface; the kernel's choice if none is given.
    #[arg(skip)]
    pub(crate) mac: Option<[u8; 6]>,

    /// Addresses that reach the host at one of its own: from, to.
    #[arg(skip)]
    pub(crate) maps: Vec<(IpAddr, IpAddr)>,

    /// Continue in the background, without output, once the network is up.
    #[arg(skip)]
    pub(crate) detaches: bool,

    /// The interface, and its configuration.
    #[arg(skip)]
    pub(crate) tap: TapUse,

    /// End with an error if a part of the isolation is missing.
    #[arg(skip)]
    pub(crate) demands_isolation: bool,

    /// Listen on the host at port HOST, and connect into the guest at port GUEST
    ///
    /// ADDR is 127.0.0.1 and ::1 unless given: an address, IPv6 in brackets, or * for every address of the host. A TCP server
    /// in the guest is looked for at the guest's address, then at the guest's 127.0.0.1, then at its address of the other
    /// version of IP. May be repeated.
    /// HOST and GUEST may be ranges of the same length, as in 8000-8009:80-89.
    #[arg(short = 'p', long, value_name = "[ADDR:]HOST:GUEST[/udp]")]
    pub(crate) publish: Vec<PublishRange>,

    /// Answer at PATH, a new UNIX-domain socket, requests to publish ports, as slirp4netns does
    #[arg(short = 'a', long, value_name = "PATH")]
    pub(crate) api_socket: Option<PathBuf>,

    /// Files for the guest.
    #[command(flatten)]
    pub(crate) serve: serve::ServeOpts,

    /// Write every frame to FILE, a file or a FIFO, as pcapng, which Wireshark opens
    #[arg(long, value_name = "FILE", value_parser = capture_path)]
    pub(crate) pcap: Option<PathBuf>,

    /// Write the windows, round trips and losses of each TCP connection to FILE over time, as JSON lines
    ///
    /// Ten times a second mbuma reads the values, and writes a line with those that have changed, similar to qlog.
    #[arg(long, value_name = "FILE", value_parser = capture_path)]
    pub(crate) tcp_trace: Option<PathBuf>,

    /// The interface's MTU, 576 to 65521 [default: 65520; 1500 with --impair]
    #[arg(short = 'm', long, value_name = "N", value_parser = clap::value_parser!(u16).range(MTU_MIN..=MTU_MAX))]
    pub(crate) mtu: Option<u16>,

    /// Make the network bad: `rate=20mbit,delay=40ms,loss=1%`, in both directions
    ///
    /// Words, separated by commas. Behind `up:` or `down:` they are for packets from or to
    /// the guest only.
    ///
    ///   rate=20mbit      bits a second: bit, kbit, mbit, gbit
    ///   queue=64kb       waits for the rate at most; a packet beyond is dropped: b, kb, mb,
    ///                    p (packets), bdp (bandwidth-delay products); 1bdp unless said
    ///   burst=16kb       passes at once after a pause
    ///   delay=40ms       in each direction, so a ping takes twice as long: us, ms, s
    ///   jitter=5ms       added to the delay, from zero to this; packets stay in order
    ///   loss=1%          lost, each by itself
    ///   bursts=0.1%/25%  lost in bursts: how likely one begins, and ends, at a packet
    ///   reorder=1%       so many come late=5ms later, behind others
    ///   duplicate=1%     come twice
    ///   corrupt=0.1%     have one bit inverted
    ///   ecn=30kb         a longer queue marks packets (RFC 3168); units as of queue
    ///   mtu=1400         larger packets vanish without an error
    ///   seed=7           the same faults each time, as far as packets are the same
    ///
    /// One thread serves the guest then, and no packet is larger than the MTU.
    #[arg(
        long,
        value_name = "LINK",
        conflicts_with = "workers",
        verbatim_doc_comment
    )]
    pub(crate) impair: Option<Impairment>,

    /// Congestion control of TCP connections with the guest: cubic, reno or bbr
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    pub(crate) congestion: CongestionControl,

    /// Let the process that reads the guest's packets keep all rights with which mbuma was started
    ///
    /// Otherwise it gives up root, all capabilities, all files, and all system calls but those that it needs. Use it to
    /// find out whether the isolation causes a problem.
    #[arg(long)]
    pub(crate) no_sandbox: bool,

    /// Run the whole stack under one lock: try this first if a problem occurs only with many threads
    #[arg(long)]
    pub(crate) giant: bool,

    /// Print the locks with their holders if there is work and nothing has moved for N seconds; 0: never
    ///
    /// On a request to end, mbuma waits for the same time, without the time in which other processes have the CPU, and then
    /// kills the process that serves the guest.
    #[arg(long, value_name = "N", default_value_t = WATCHDOG_DEFAULT)]
    pub(crate) watchdog: u32,

    /// Threads that serve the guest, 1 to 64, each with a queue of the interface
    ///
    /// With two, a small request does not wait for the turns of a bulk transfer: a thread with little load serves the
    /// connection, which moves to another thread when its own becomes busy. More threads carry more connections at once
    /// if the machine has CPUs for them beside the guest and its peers. The first thread serves all datagrams and
    /// pings. Default: two, or one on a machine with one CPU.
    #[arg(short = 'w', long, value_name = "N", default_value_t = workers_default(),
          value_parser = clap::value_parser!(u8).range(1..=WORKERS_MAX))]
    pub(crate) workers: u8,

    /// Print connections, bytes, packets and drops at the end, on standard error
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) stats: Option<StatsFormat>,
}

/// The interface that the guest gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TapUse {
    /// A new one, configured.
    #[default]
    Make,
    /// An existing one, or a new one, which mbuma configures.
    Configure,
    /// An existing one, or a new one, which the owner of the namespace configures.
    Leave,
}

impl Default for NetOpts {
    /// As without any option.
    fn default() -> NetOpts {
        NetOpts {
            host_loopback: false,
            cidr: Addressing::DEFAULT,
            dns: Vec::new(),
            families: FamilyOpts::BOTH,
            placed: AddressOpts::default(),
            outbound: OutboundOpts::default(),
            allow: Vec::new(),
            no_dns: false,
            loopback: LoopbackOpts::default(),
            network: false,
            dhcp: vm::DhcpOpts::default(),
            maps: Vec::new(),
            detaches: false,
            mac: None,
            tap: TapUse::default(),
            demands_isolation: false,
            publish: Vec::new(),
            api_socket: None,
            serve: serve::ServeOpts::default(),
            pcap: None,
            tcp_trace: None,
            mtu: None,
            impair: None,
            congestion: CongestionControl::default(),
            no_sandbox: false,
            giant: false,
            watchdog: WATCHDOG_DEFAULT,
            workers: workers_default(),
            stats: None,
        }
    }
}

/// The number that measured best, but no more than this process has CPUs.
fn workers_default() -> u8 {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    cpus.min(WORKERS_DEFAULT) as u8
}

impl RunArgs {
    /// The same with the addresses of the options.
    ///
    /// # Errors
    /// They can't be meant.
    pub(crate) fn placed(mut self) -> Result<RunArgs, String> {
        self.net.place()?;
        if self.network.is_some() && self.net.v6().is_some_and(|v6| v6.routed) {
            return Err(
                "--ipv6-prefix host: the guests of a network need addresses of their own"
                    .to_owned(),
            );
        }
        Ok(self)
    }
}

impl NetOpts {
    /// The published ports, one by one.
    pub(crate) fn published(&self) -> Vec<PublishRequest> {
        self.publish.iter().flat_map(PublishRange::ports).collect()
    }

    /// The guest's IPv4 network, if it is to have one.
    pub(crate) fn v4(&self) -> Option<&Addressing> {
        self.families.has_v4().then_some(&self.cidr)
    }

    /// The guest's IPv6 network, if it is to have one.
    pub(crate) fn v6(&self) -> Option<&Addressing6> {
        self.families.v6(self.mtu())
    }

    /// Whether the guest's questions go to the name servers of the host's resolv.conf.
    pub(crate) fn asks_hosts_servers(&self) -> bool {
        self.dns.is_empty() && !self.no_dns
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> usize {
        match self.impair {
            // A bad link has one queue for its packets.
            Some(_) => 1,
            None => usize::from(self.workers),
        }
    }

    /// The interface's MTU.
    pub(crate) fn mtu(&self) -> u16 {
        let default = match self.impair {
            Some(_) => MTU_IMPAIRED,
            None => MTU_DEFAULT,
        };
        self.mtu.unwrap_or(default)
    }
}

/// How `--stats` is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// For people.
    Text,
    /// For programs: one JSON object on one line.
    Json,
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
fn attach_target(text: &str) -> Result<AttachTarget, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(AttachTarget::Path(PathBuf::from(text)));
    }
    match text.parse() {
        Ok(pid) if pid > 0 => Ok(AttachTarget::Pid(pid)),
        _ => Err("no process has such a number".to_owned()),
    }
}

/// A file to capture into.
fn capture_path(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => {
            Err("standard output is COMMAND's: name a file or a FIFO, or /dev/stdout".to_owned())
        }
        path => Ok(PathBuf::from(path)),
    }
}

/// An interface name by the kernel's rules (dev_valid_name), so that a mistake is reported here.
fn ifname(text: &str) -> Result<String, String> {
    let fits = (1..libc::IFNAMSIZ).contains(&text.len());
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b':' | b'%'));
    if fits && plain && text != "." && text != ".." {
        Ok(text.to_owned())
    } else {
        Err("an interface name is 1 to 15 letters, digits or signs other than / : %".to_owned())
    }
}

#[cfg(test)]
mod tests;
