//! The options of the stack and its gateway, for any guest.
//!
//! Locks: none.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, ValueEnum};
use mbuma::congestion::CongestionControl;
use wire::MacAddr;

use super::families::FamilyOpts;
use super::impair::Impairment;
use super::outbound::OutboundOpts;
use super::pasta::LoopbackOpts;
use super::placed::AddressOpts;
use super::port_range::{Proto, PublishRange, PublishRequest};
use super::{number, serve, vm};
use crate::addressing::{Addressing, Addressing6, STACK_MAC};
use crate::special;
use crate::sys::fd::LetGo;

/// The interface MTU unless `--mtu` says otherwise. Large TCP segments cross the TAP whole at any MTU;
/// measured side by side, this one still moves about a tenth more than 1500 (fewer headers for the
/// guest to make and merge), and datagrams of up to 64 KiB cross without fragments.
const MTU_DEFAULT: u16 = 65_520;
/// The same with `--impair`: that of Ethernet, as on long paths.
const MTU_IMPAIRED: u16 = 1500;
/// The smallest that every IPv4 host must take (RFC 791, 3.1).
pub(super) const MTU_MIN: u16 = 576;
/// The largest that a TAP takes: 65535 less the Ethernet header.
pub(super) const MTU_MAX: u16 = 65521;

/// Seconds that a round of the loop may last before the locks are shown: a thousand times a usual round.
const WATCHDOG_DEFAULT: u32 = 10;
/// Workers unless `--workers` says otherwise, if there are as many CPUs. Measured with two workers and with one, on two
/// CPUs that the guest and the host side use too: with two, the p99 of a small request beside a bulk stream is a
/// quarter (up) to two thirds (down), because the request need not wait behind the stream; several streams, and short
/// connections, have a higher throughput; one stream, and a small request alone, are equal.
const WORKERS_DEFAULT: usize = 2;
/// A message hands over at most this many descriptors.
pub(super) const WORKERS_MAX: u8 = 64;
const _: () = assert!(WORKERS_MAX as usize <= crate::sys::scm::FDS_MAX);

/// The options of the stack and its gateway, for any guest.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NetOpts {
    /// Let 10.0.2.2 reach the host's 127.0.0.1, and fd00::2 its ::1 (every port but the status page's)
    #[arg(long)]
    pub(crate) host_loopback: bool,

    /// The guest's IPv4 network: its hosts 2, 3 and 100 are the gateway, the name server and the guest
    #[arg(
        long,
        value_name = "NETWORK/LEN",
        default_value = "10.0.2.0/24",
        conflicts_with = "ipv6_only"
    )]
    pub(crate) cidr: Addressing,

    /// Forward the guest's DNS queries to this name server instead of the host's: those to port 53, and encrypted ones
    /// to port 853. May be repeated.
    #[arg(long, value_name = "ADDR", value_parser = special::name_server)]
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

    /// DHCP is not answered.
    #[arg(skip)]
    pub(crate) no_dhcp: bool,

    /// The Ethernet address of the guest's interface; the kernel's choice if none is given.
    #[arg(skip)]
    pub(crate) mac: Option<[u8; 6]>,

    /// The Ethernet address of the stack's interface, if not the usual one.
    #[arg(skip)]
    pub(crate) gateway_mac: Option<[u8; 6]>,

    /// Addresses that reach the host at one of its own: from, to.
    #[arg(skip)]
    pub(crate) maps: Vec<(IpAddr, IpAddr)>,

    /// Protocols of the guest that stay without an answer.
    #[arg(skip)]
    pub(crate) ignored: IgnoredProtocols,

    /// Continue in the background once the network is up, without this.
    #[arg(skip)]
    pub(crate) detaches: Option<LetGo>,

    /// The interface, and its configuration.
    #[arg(skip)]
    pub(crate) tap: TapUse,

    /// End with an error if a part of the isolation is missing.
    #[arg(skip)]
    pub(crate) demands_isolation: bool,

    /// Listen on the host at port HOST, and connect into the guest at port GUEST
    ///
    /// The first ADDR is 127.0.0.1 and ::1 unless given: an address, IPv6 in brackets, or * for every address of the
    /// host; with %NAME behind it, clients must come by that interface. The second is another address of the guest
    /// than its own. A TCP server is looked for at the guest's address, then at the guest's 127.0.0.1, then at its
    /// address of the other version of IP. May be repeated.
    /// HOST and GUEST may be ranges of the same length, as in 8000-8009:80-89.
    #[arg(short = 'p', long, value_name = "[ADDR:]HOST:[ADDR:]GUEST[/udp]")]
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
    #[arg(short = 'm', long, value_name = "N", value_parser = number::mtu)]
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
    /// After the guest's end or a request to end, mbuma waits for the same time for an answer of the process that
    /// serves the guest, without the time in which other processes have the CPU, and then kills it.
    #[arg(long, value_name = "N", default_value_t = WATCHDOG_DEFAULT, value_parser = number::patience)]
    pub(crate) watchdog: u32,

    /// Threads that serve the guest, 1 to 64, each with a queue of the interface
    ///
    /// With two, a small request does not wait for the turns of a bulk transfer: a thread with little load serves the
    /// connection, which moves to another thread when its own becomes busy. More threads carry more connections at once
    /// if the machine has CPUs for them beside the guest and its peers. The first thread serves all datagrams and
    /// pings. Default: two, or one on a machine with one CPU.
    #[arg(short = 'w', long, value_name = "N", default_value_t = workers_default(),
          value_parser = number::workers)]
    pub(crate) workers: u8,

    /// Print connections, bytes, packets and drops at the end, on standard error
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub(crate) stats: Option<StatsFormat>,
}

/// Protocols that are switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IgnoredProtocols {
    pub(crate) tcp: bool,
    pub(crate) udp: bool,
    /// Pings.
    pub(crate) icmp: bool,
}

impl IgnoredProtocols {
    /// Whether this one is.
    pub(crate) fn has(self, proto: Proto) -> bool {
        match proto {
            Proto::Tcp => self.tcp,
            Proto::Udp => self.udp,
        }
    }
}

/// The interface that the guest gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TapUse {
    /// A new one, configured.
    #[default]
    Make,
    /// An existing one, which its owner configures, or a new one, which mbuma configures.
    Find,
    /// An existing one, or a new one, which mbuma configures.
    Configure,
    /// An existing one, or a new one, which the owner of the namespace configures.
    Leave,
}

/// The options without a verb.
#[derive(clap::Parser)]
struct BareNetOpts {
    #[command(flatten)]
    net: NetOpts,
}

impl Default for NetOpts {
    /// As without any option.
    fn default() -> NetOpts {
        BareNetOpts::parse_from([""]).net
    }
}

impl NetOpts {
    /// The option that sets a field, such as `--mtu`.
    pub(crate) fn option_of(field: &str) -> Option<String> {
        let command = BareNetOpts::command();
        let mut all = command.get_arguments();
        let long = all.find(|arg| arg.get_id() == field)?.get_long()?;
        Some(format!("--{long}"))
    }

    /// The Ethernet address of the stack's interface.
    pub(crate) fn stack_mac(&self) -> MacAddr {
        self.gateway_mac.map_or(STACK_MAC, MacAddr)
    }

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

/// The number that measured best, but no more than this process has CPUs.
pub(super) fn workers_default() -> u8 {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    cpus.min(WORKERS_DEFAULT) as u8
}

/// How `--stats` is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// For people.
    Text,
    /// For programs: one JSON object on one line.
    Json,
}

/// A file to capture into.
pub(super) fn capture_path(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => {
            Err("standard output is COMMAND's: name a file or a FIFO, as in `--pcap >(wireshark -k -i -)`".to_owned())
        }
        path => Ok(PathBuf::from(path)),
    }
}
