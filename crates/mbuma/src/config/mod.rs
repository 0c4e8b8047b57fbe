//! The settings with which a Stack is made: its tunables, like the sysctls of other systems, each with its range and
//! default.

use std::sync::Arc;
use std::time::Duration;

use kern::{Clock, Cpus, Giant, MonotonicClock, OneCpu, Random};
use mbuf::PoolConfig;

use crate::tcp::cc::CongestionControl;

mod credentials;
pub(crate) mod netisr;
mod unix;

pub use credentials::Credentials;
pub use netisr::{Dispatch, NetisrConfig, Protocol};
pub use unix::UnixConfig;

/// Everything that a [`Stack`](crate::Stack) gets from outside.
///
/// ```
/// use mbuma::{Config, Stack, TcpConfig};
///
/// let stack = Stack::new(Config {
///     forwarding: true,
///     tcp: TcpConfig { recv_buffer: 256 << 10, ..TcpConfig::default() },
///     ..Config::from_system()
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Config {
    /// Time. The stack never looks at a clock of its own.
    pub clock: Arc<dyn Clock>,
    /// Entropy: sequence numbers, ports, identifiers and hash keys are drawn from it.
    pub random: Random,
    /// The CPUs of the stack, that is its workers: their number, and which of them the calling thread is. Default one.
    pub cpus: Arc<dyn Cpus>,
    /// The one lock over the whole stack, or (the default) only over components that are not MP-safe. Stacks may share
    /// one.
    #[doc(alias = "debug.mpsafenet")]
    pub giant: Arc<Giant>,
    /// Buffers.
    pub pool: PoolConfig,
    /// How packets get from devices to protocols.
    pub netisr: NetisrConfig,
    /// TCP's tunables.
    pub tcp: TcpConfig,
    /// UNIX-domain sockets.
    pub unix: UnixConfig,
    /// Be a router: forward packets for other hosts (RFC 1812). Default false (RFC 1122 3.3.1.1).
    #[doc(alias = "net.inet.ip.forwarding")]
    pub forwarding: bool,
    /// Datagrams that wait in a UDP socket at most. Default 256.
    pub udp_queue_max: usize,
    /// Fragmented datagrams in reassembly at most; one sender has half of them at most. Default 256.
    pub reass_datagrams_max: usize,
    /// Runs of contiguous fragments in one fragmented datagram at most. Default 64.
    pub reass_runs_max: usize,
    /// How long an incomplete datagram of IPv4 is kept (RFC 791 suggests 15 s; RFC 1122 60 s). Default 30 s. One of
    /// IPv6 is kept for 60 s (RFC 8200 section 4.5).
    pub reass_timeout: Duration,
    /// ICMP errors and resets to closed ports a second at most (RFC 1812 4.3.2.8). Default 1000. A host gets a tenth of
    /// ICMPv6's errors at most (RFC 4443 2.4 f).
    pub icmp_errors_per_s: u32,
    /// Answer pings to the stack's own addresses (RFC 1122 3.2.2.6, RFC 4443 4.2). Default true.
    #[doc(alias = "icmp_echo_ignore_all")]
    pub echo_replies: bool,
    /// Frames that wait for one unresolved neighbour at most (RFC 1122 2.3.2.2 asks for 1). Default 64.
    pub arp_queue_max: usize,
    /// Neighbours in each of an interface's two tables, of IPv4 and of IPv6, at most; 0 counts as 1. A full table
    /// evicts one for each new one ([`IfStats::neighbours_evicted`](crate::IfStats::neighbours_evicted)), so a link
    /// with more stations in use needs more (RFC 6583 section 4). Default 1024.
    #[doc(alias = "gc_thresh3")]
    pub neighbours_max: usize,
}

impl Config {
    /// Real time and the system's entropy.
    pub fn from_system() -> Self {
        Self::new(Arc::new(MonotonicClock::new()), Random::from_os())
    }

    /// Defaults with the given time and entropy: with a virtual clock and a seed, a run that can be
    /// repeated exactly.
    pub fn new(clock: Arc<dyn Clock>, random: Random) -> Self {
        Self {
            clock,
            random,
            cpus: Arc::new(OneCpu),
            giant: Arc::new(Giant::new(false)),
            pool: PoolConfig::default(),
            netisr: NetisrConfig::default(),
            tcp: TcpConfig::default(),
            unix: UnixConfig::default(),
            forwarding: false,
            udp_queue_max: 256,
            reass_datagrams_max: 256,
            reass_runs_max: 64,
            reass_timeout: Duration::from_secs(30),
            icmp_errors_per_s: 1000,
            echo_replies: true,
            arp_queue_max: 64,
            neighbours_max: 1024,
        }
    }
}

/// TCP's tunables.
#[derive(Debug, Clone)]
pub struct TcpConfig {
    /// Receive buffer in bytes; its window is announced scaled (RFC 7323). Default 1 MiB.
    #[doc(alias = "net.inet.tcp.recvspace")]
    pub recv_buffer: usize,
    /// The size up to which a receive buffer grows, if the round trip to its peer takes a millisecond or more and its
    /// user keeps reading. With a value of `recv_buffer` or less it does not grow. Default 6 MiB, which is 1 Gbit/s
    /// over 50 ms.
    #[doc(alias = "net.inet.tcp.recvbuf_max")]
    #[doc(alias = "net.ipv4.tcp_rmem")]
    pub recv_buffer_max: usize,
    /// Send buffer in bytes. Default 1 MiB.
    #[doc(alias = "net.inet.tcp.sendspace")]
    pub send_buffer: usize,
    /// The size up to which a send buffer grows, if the round trip to its peer takes a millisecond or more and the
    /// window needs it. With a value of `send_buffer` or less it does not grow. Default 6 MiB.
    #[doc(alias = "net.inet.tcp.sendbuf_max")]
    #[doc(alias = "net.ipv4.tcp_wmem")]
    pub send_buffer_max: usize,
    /// Pacing: data leaves at the rate that the window allows for each round trip, if that takes a millisecond or more.
    /// Default true.
    #[doc(alias = "SO_MAX_PACING_RATE")]
    pub pacing: bool,
    /// When a segment that is not full waits, without TCP_NODELAY. Default [`NagleForm::Minshall`].
    pub nagle: NagleForm,
    /// Initial congestion window in segments, at least 1 (RFC 6928). Default 10.
    pub initial_window: u32,
    /// Congestion control of connections. Default CUBIC.
    #[doc(alias = "net.inet.tcp.cc.algorithm")]
    #[doc(alias = "tcp_congestion_control")]
    pub congestion: CongestionControl,
    /// Retransmission timeout before a round trip was measured (RFC 6298 2.1: not less than 1 s, and a greater value
    /// may be used). Default 1 s.
    #[doc(alias = "net.inet.tcp.rexmit_initial")]
    pub rto_initial: Duration,
    /// Lower bound of the retransmission timeout. RFC 6298 (2.4) says 1 s; like its peers we go to
    /// 200 ms.
    #[doc(alias = "net.inet.tcp.rexmit_min")]
    pub rto_min: Duration,
    /// Upper bound of the retransmission timeout, RFC 6298 (2.5). Default 60 s.
    pub rto_max: Duration,
    /// How long an acknowledgement may wait for data to ride on (RFC 1122 4.2.3.2: under 500 ms).
    /// Default 40 ms.
    #[doc(alias = "net.inet.tcp.delacktime")]
    pub delayed_ack: Duration,
    /// Maximum segment lifetime: TIME-WAIT lasts twice this. Default 15 s.
    #[doc(alias = "net.inet.tcp.msl")]
    pub msl: Duration,
    /// Connections remembered in TIME-WAIT at most; the oldest make room. Default 4096.
    #[doc(alias = "net.inet.tcp.maxtcptw")]
    pub time_wait_max: usize,
    /// Retransmissions of data before the connection is given up (RFC 1122 4.2.3.5, R2). Default 12.
    pub retransmits_max: u8,
    /// Retransmissions of a SYN before connecting is given up. Default 7, which is after 183 s (RFC 9293 3.8.3,
    /// MUST-23: at least 3 minutes).
    #[doc(alias = "tcp_syn_retries")]
    pub syn_retransmits_max: u8,
    /// From its third retransmission on, a SYN has no option but the MSS: some middleboxes drop SYNs with options that
    /// they do not know. Default false, because such a connection has no SACK, no timestamps and small windows.
    #[doc(alias = "net.inet.tcp.rexmit_drop_options")]
    pub syn_drops_options: bool,
    /// Retransmissions of a SYN-ACK before the half-open connection is forgotten. Default 5, which is after 63 s.
    #[doc(alias = "net.inet.tcp.syncache.rexmtlimit")]
    #[doc(alias = "tcp_synack_retries")]
    pub syn_ack_retransmits_max: u8,
    /// The ICMP errors that end an attempt to connect at once. Default [`IcmpAborts::Hard`]. A gateway that passes the
    /// answer on wants all.
    #[doc(alias = "net.inet.tcp.icmp_may_rst")]
    pub icmp_aborts: IcmpAborts,
    /// A reset anywhere in the window ends a connection (RFC 793 3.4), and not only at its left edge (RFC 5961 3.2): a
    /// stranger that guesses a number of the window can then end connections. For tests of old systems. Default no.
    #[doc(alias = "net.inet.tcp.insecure_rst")]
    pub insecure_reset: bool,
    /// A SYN in the window ends a connection (RFC 793 3.9), instead of being challenged (RFC 5961 4.2). As above.
    /// Default no.
    #[doc(alias = "net.inet.tcp.insecure_syn")]
    pub insecure_syn: bool,
    /// How long the stack uses a path MTU that an ICMP error reported. After that it tries the interface's MTU again
    /// (RFC 1191 6.3). Default 10 minutes.
    #[doc(alias = "net.ipv4.route.mtu_expires")]
    pub path_mtu_timeout: Duration,
    /// Search for the path MTU: where the path carries less than the interface, the connection sends single larger
    /// segments as probes (RFC 8899). The search begins when a path drops large segments without a report, and when
    /// [`path_mtu_timeout`](Self::path_mtu_timeout) is over. Needs SACK. Default true.
    #[doc(alias = "net.ipv4.tcp_mtu_probing")]
    #[doc(alias = "net.inet.tcp.pmtud_blackhole_detection")]
    pub path_mtu_search: bool,
    /// Idle time before the first keepalive probe, on sockets that ask for keepalives (RFC 1122 4.2.3.6). Default 2 h.
    #[doc(alias = "net.inet.tcp.keepidle")]
    pub keepalive_idle: Duration,
    /// Time between keepalive probes. Default 75 s.
    pub keepalive_interval: Duration,
    /// Unanswered probes before the connection is given up. Default 8.
    pub keepalive_probes: u8,
    /// How long an orphan, whose program has closed it, may stay in FIN-WAIT-2. Default 60 s.
    #[doc(alias = "net.inet.tcp.finwait2_timeout")]
    pub fin_wait_2_timeout: Duration,
    /// Orphans whose data or FIN is not acknowledged at most; beyond that, and while buffers are short, the oldest is
    /// reset. An orphan of which the peer takes less than half in nine minutes is given up in any case (RFC 6429).
    /// Default 32,768.
    #[doc(alias = "net.ipv4.tcp_max_orphans")]
    pub orphans_max: usize,
    /// Half-open connections of a listener, beside those of its backlog. Beyond them a SYN is answered with a cookie;
    /// without cookies, and for an interceptor, the oldest make room. With 0 each SYN is answered with a cookie.
    /// Default 1024.
    #[doc(alias = "net.inet.tcp.syncache.cachelimit")]
    #[doc(alias = "tcp_max_syn_backlog")]
    pub half_open_max: usize,
    /// SYN cookies, beyond the bound of half-open connections (RFC 4987 3.6). Default true.
    #[doc(alias = "net.inet.tcp.syncookies")]
    #[doc(alias = "net.ipv4.tcp_syncookies")]
    pub syn_cookies: bool,
    /// Connections, listeners and half-open connections together at most. This is a bound; no memory is reserved for
    /// it. Default 262,144.
    pub connections_max: usize,
    /// Selective acknowledgements are offered, and answered where the peer offers them (RFC 2018). Default true.
    #[doc(alias = "net.inet.tcp.sack.enable")]
    #[doc(alias = "net.ipv4.tcp_sack")]
    pub sack: bool,
    /// Timestamps are offered, and answered where the peer offers them (RFC 7323). They take 12 bytes of each
    /// segment. Default true.
    #[doc(alias = "net.inet.tcp.rfc1323")]
    #[doc(alias = "net.ipv4.tcp_timestamps")]
    pub timestamps: bool,
    /// Scaled windows are offered, and used where the peer offers them too (RFC 7323 2). Without them no window is
    /// larger than 65,535 bytes. Default true.
    #[doc(alias = "net.ipv4.tcp_window_scaling")]
    pub window_scaling: bool,
    /// Explicit congestion notification (RFC 3168, RFC 9768). Default [`EcnMode::Accept`].
    #[doc(alias = "net.inet.tcp.ecn.enable")]
    #[doc(alias = "net.ipv4.tcp_ecn")]
    pub ecn: EcnMode,
    /// Retransmissions of a SYN that still offer ECN as the first one did, before the others leave the bits out (RFC
    /// 3168 6.1.1.1). An offer of AccECN is repeated once more (RFC 9768 3.1.4.1). Default 0.
    #[doc(alias = "net.inet.tcp.ecn.maxretries")]
    pub ecn_syn_retransmits: u8,
    /// When segments carry the AccECN option. Default [`AccEcnOptionUse::Changed`].
    #[doc(alias = "net.ipv4.tcp_ecn_option")]
    pub accecn_option: AccEcnOptionUse,
    /// ECN++: with AccECN, acknowledgements without data, retransmissions, probes of a window and FINs are ECN-capable
    /// too, so that a router marks them where it would drop them. Default false: RFC 3168 6.1.4 to 6.1.6 forbids it,
    /// RFC 8311 4.3 allows it to experiments that an RFC describes, and draft-ietf-tcpm-generalized-ecn is not an RFC
    /// yet.
    pub ecn_control_packets: bool,
    /// Out-of-order ranges a connection keeps at most. Default 256.
    pub reass_ranges_max: usize,
}

/// How a stack uses explicit congestion notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EcnMode {
    /// It is neither offered nor accepted.
    Off,
    /// The stack accepts it if the peer offers it: in the form of RFC 3168, or as AccECN (RFC 9768).
    #[default]
    Accept,
    /// The stack also offers RFC 3168's form. Some middleboxes drop a SYN that offers it; then the stack repeats the
    /// SYN without it, after a second.
    Offer,
    /// The stack offers AccECN, with which both ends count marks (RFC 9768); a peer that knows only RFC 3168 uses that
    /// form. The third SYN goes without it; the first SYN-ACK decides.
    OfferAccurate,
}

/// The form of Nagle's algorithm (RFC 1122 4.2.3.4): which data in flight makes a segment that is not full wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NagleForm {
    /// Any (RFC 896). The end of a large write waits for the next write or for an acknowledgement, and a bulk transfer
    /// consists of full segments, whatever the sizes of its writes are. But the last bytes of an answer come a round
    /// trip after the others, and later if the peer delays its acknowledgement.
    AnySegment,
    /// Another segment that is not full (RFC 9293 A.3, as on Linux). The end of a large write leaves at once, and many
    /// small writes still make one small segment in a round trip.
    #[doc(alias = "draft-minshall-nagle")]
    #[default]
    Minshall,
}

/// Which ICMP errors about a SYN end an attempt to connect. After the others it goes on, and the error is reported when
/// it is given up. No error ends an established connection (RFC 5927 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum IcmpAborts {
    /// None: a sender that guesses the SYN's number can't end the attempt (RFC 5927 6).
    None,
    /// Hard errors: no such port or protocol, forbidden by a filter (RFC 9293 3.9.2.2, SHLD-26).
    #[default]
    Hard,
    /// Also those that may be transient: net or host unreachable, time exceeded, parameter problem. RFC 9293 3.9.2.2
    /// (MUST-56) forbids it to a host; RFC 5461 3 describes why hosts do it.
    All,
}

/// When segments of a connection with AccECN carry its option (RFC 9768 3.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AccEcnOptionUse {
    /// Never: the peer only gets the counter of packets.
    Off,
    /// In the handshake, and after bytes arrived that it counts, with the counts that have ever changed. RFC 9768
    /// 3.2.3.3 recommends it: the option takes no room of data for counts that stay the same.
    #[default]
    Changed,
    /// With all counts in each segment that has room: a full segment has 12 bytes of data less. A peer then misses no
    /// count for longer than one lost segment.
    Always,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            recv_buffer: 1 << 20,
            recv_buffer_max: 6 << 20,
            send_buffer: 1 << 20,
            send_buffer_max: 6 << 20,
            pacing: true,
            nagle: NagleForm::default(),
            initial_window: 10,
            congestion: CongestionControl::default(),
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(60),
            delayed_ack: Duration::from_millis(40),
            msl: Duration::from_secs(15),
            time_wait_max: 4096,
            retransmits_max: 12,
            syn_retransmits_max: 7,
            syn_drops_options: false,
            syn_ack_retransmits_max: 5,
            icmp_aborts: IcmpAborts::default(),
            insecure_reset: false,
            insecure_syn: false,
            path_mtu_timeout: Duration::from_secs(600),
            path_mtu_search: true,
            keepalive_idle: Duration::from_secs(7200),
            keepalive_interval: Duration::from_secs(75),
            keepalive_probes: 8,
            fin_wait_2_timeout: Duration::from_secs(60),
            orphans_max: 1 << 15,
            half_open_max: 1024,
            syn_cookies: true,
            connections_max: 1 << 18,
            sack: true,
            timestamps: true,
            window_scaling: true,
            ecn: EcnMode::default(),
            ecn_syn_retransmits: 0,
            accecn_option: AccEcnOptionUse::default(),
            ecn_control_packets: false,
            reass_ranges_max: 256,
        }
    }
}
