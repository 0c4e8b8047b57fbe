//! The sysctls of both systems as tunables of a stack.
//!
//! A sysctl is *applied*, or it is known to be the stack's own behaviour, or it is noted in the report: none is
//! ignored in silence.
//!
//! Sources: Linux's `Documentation/networking/ip-sysctl.rst`; FreeBSD's tcp(4).

use std::time::Duration;

use mbuma::congestion::CongestionControl;
use mbuma::{AccEcnOptionUse, EcnMode, IcmpAborts, NagleForm, TcpConfig};

/// The values that scripts for Linux expect: those of Google's suite (its `defaults.sh`), which are not all the
/// kernel's.
const OF_LINUX: [(&str, &str); 10] = [
    ("rmem", "4096 540000 15728640"),
    ("wmem", "4096 262144 4194304"),
    ("timestamps", "1"),
    ("syn_retries", "5"),
    ("synack_retries", "5"),
    ("sack", "1"),
    ("congestion_control", "cubic"),
    ("ecn", "0"),
    ("ecn_option", "2"),
    ("syncookies", "1"),
];

/// FreeBSD's values where they differ from the stack's own.
const OF_FREEBSD: [(&str, &str); 7] = [
    ("recvspace", "65536"),
    ("recvbuf_max", "2097152"),
    ("sendspace", "32768"),
    ("sendbuf_max", "2097152"),
    ("msl", "30000"),
    ("keepinit", "75000"),
    ("rexmit_slop", "200"),
];

/// The tunables of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Tunables {
    /// The stack's.
    pub(super) tcp: TcpConfig,
    /// TCP_KEEPINIT of a socket that a program makes, if it has one.
    pub(super) connect_timeout: Option<Duration>,
    /// FreeBSD adds this time to each retransmission timeout; RFC 6298 does not, and the stack neither. So a
    /// retransmission may come this much earlier than a script expects it.
    pub(super) slop: Duration,
    /// The size of a buffer becomes a multiple of the segment size in the handshake, as in FreeBSD.
    pub(super) rounds_buffers: bool,
}

impl Tunables {
    /// The buffer of `size` bytes in a connection with segments of `mss` bytes.
    pub(super) fn rounded(&self, size: usize, mss: usize) -> usize {
        match self.rounds_buffers && mss > 0 {
            true => size.checked_next_multiple_of(mss).unwrap_or(size),
            false => size,
        }
    }
}

/// Sets what scripts for Linux expect at their start; the device has a queue that does not pace.
pub(super) fn set_linux_defaults(tunables: &mut Tunables) {
    for (name, value) in OF_LINUX {
        linux(name, value, &mut tunables.tcp);
    }
    tunables.tcp.pacing = false;
    // With AccECN Linux has all segments but SYNs ECN-capable.
    tunables.tcp.ecn_control_packets = true;
}

/// Sets what scripts for FreeBSD expect at their start.
pub(super) fn set_freebsd_defaults(tunables: &mut Tunables) {
    for (name, value) in OF_FREEBSD {
        bsd(name, value, tunables);
    }
    // FreeBSD's TCP_MAXRXTSHIFT; its attempts to connect end by their timeout.
    tunables.tcp.syn_retransmits_max = 12;
    tunables.rounds_buffers = true;
    tunables.tcp.nagle = NagleForm::AnySegment;
    // Its AccECN has the counter of packets alone.
    tunables.tcp.accecn_option = AccEcnOptionUse::Off;
}

/// The outcome of a sysctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// The stack has this tunable.
    Applied,
    /// The stack always behaves so.
    AsIs,
    /// The stack has neither the tunable nor that behaviour.
    Unknown,
}

/// The time of a BSD sysctl in milliseconds.
fn ms(value: &str) -> Option<Duration> {
    value.parse().ok().map(Duration::from_millis)
}

/// Sets one by its name, with dots or as a path below `/proc/sys`.
pub(super) fn set(name: &str, value: &str, tunables: &mut Tunables) -> Effect {
    let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
    match name.split_once("tcp.").or(name.split_once("tcp_")) {
        Some((prefix, name)) if prefix.ends_with("net.inet.") => bsd(name, value, tunables),
        Some((prefix, name)) if prefix.ends_with("net.ipv4.") => {
            linux(name, value, &mut tunables.tcp)
        }
        _ => other(&name, value, &mut tunables.tcp),
    }
    .unwrap_or(Effect::Unknown)
}

/// Whether a sysctl that is set later has an effect on the sockets to come.
pub(super) fn is_of_sockets(name: &str) -> bool {
    let of_sockets = ["keepidle", "keepintvl", "keepcnt", "keepinit"];
    name.strip_prefix("net.inet.tcp.")
        .is_some_and(|name| of_sockets.contains(&name))
}

/// Sysctls beside TCP's: the bound of buffers; and some without an effect that a script can see.
fn other(name: &str, value: &str, tcp: &mut TcpConfig) -> Option<Effect> {
    if name == "kern.ipc.maxsockbuf" {
        tcp.recv_buffer_max = value.parse().ok()?;
        return Some(Effect::Applied);
    }
    let idle = ["net.core.rmem_max", "net.core.wmem_max"];
    idle.contains(&name).then_some(Effect::AsIs)
}

fn as_is(same: bool) -> Option<Effect> {
    Some(if same { Effect::AsIs } else { Effect::Unknown })
}

fn algorithm(name: &str) -> Option<CongestionControl> {
    match name {
        "newreno" | "reno" => Some(CongestionControl::Reno),
        "cubic" => Some(CongestionControl::Cubic),
        "bbr" => Some(CongestionControl::Bbr),
        _ => None,
    }
}

/// `net.inet.tcp.*`; `None` for a name or a value without a meaning here.
fn bsd(name: &str, value: &str, tunables: &mut Tunables) -> Option<Effect> {
    let tcp = &mut tunables.tcp;
    match name {
        "keepinit" => tunables.connect_timeout = Some(ms(value)?),
        "rexmit_slop" => tunables.slop = ms(value)?,
        "sendbuf_max" => tcp.send_buffer_max = value.parse().ok()?,
        "recvbuf_max" => tcp.recv_buffer_max = value.parse().ok()?,
        "recvspace" => tcp.recv_buffer = value.parse().ok()?,
        "sendspace" => tcp.send_buffer = value.parse().ok()?,
        "rexmit_min" => tcp.rto_min = ms(value)?,
        "delacktime" => tcp.delayed_ack = ms(value)?,
        "msl" => tcp.msl = ms(value)?,
        "keepidle" => tcp.keepalive_idle = ms(value)?,
        "keepintvl" => tcp.keepalive_interval = ms(value)?,
        "keepcnt" => tcp.keepalive_probes = value.parse().ok()?,
        "finwait2_timeout" => tcp.fin_wait_2_timeout = ms(value)?,
        "initcwnd_segments" => tcp.initial_window = value.parse().ok()?,
        "syncache.rexmtlimit" => tcp.syn_ack_retransmits_max = value.parse().ok()?,
        "sack.enable" => tcp.sack = value != "0",
        "rfc1323" => (tcp.timestamps, tcp.window_scaling) = (value != "0", value != "0"),
        "ecn.enable" => {
            tcp.ecn = match value {
                "0" => EcnMode::Off,
                "1" => EcnMode::Offer,
                "2" => EcnMode::Accept,
                "3" => EcnMode::OfferAccurate,
                _ => return None,
            }
        }
        "syncookies" => tcp.syn_cookies = value != "0",
        // Each SYN gets a cookie.
        "syncookies_only" => match value {
            "0" => return Some(Effect::AsIs),
            _ => (tcp.syn_cookies, tcp.half_open_max) = (true, 0),
        },
        "syncache.cachelimit" => tcp.half_open_max = value.parse().ok()?,
        "cc.algorithm" => tcp.congestion = algorithm(value)?,
        "rexmit_initial" => tcp.rto_initial = ms(value)?,
        "rexmit_drop_options" => tcp.syn_drops_options = value != "0",
        "ecn.maxretries" => tcp.ecn_syn_retransmits = value.parse().ok()?,
        "insecure_rst" => tcp.insecure_reset = value != "0",
        "insecure_syn" => tcp.insecure_syn = value != "0",
        "blackhole" | "drop_synfin" => return as_is(value == "0"),
        "icmp_may_rst" => {
            tcp.icmp_aborts = match value {
                "0" => IcmpAborts::None,
                _ => IcmpAborts::Hard,
            }
        }
        "rfc3042" | "rfc3390" | "rfc3465" => return as_is(value == "1"),
        // The stack has no host cache.
        "hostcache.purgenow" => return Some(Effect::AsIs),
        _ => return None,
    }
    Some(Effect::Applied)
}

/// The default and the largest of a buffer's three sizes; the first one is the least.
fn sizes(value: &str) -> Option<(usize, usize)> {
    let mut words = value.split_whitespace().skip(1);
    let mut size = || words.next()?.parse().ok();
    Some((size()?, size()?))
}

/// `net.ipv4.tcp_*`.
fn linux(name: &str, value: &str, tcp: &mut TcpConfig) -> Option<Effect> {
    let secs = || value.parse().ok().map(Duration::from_secs);
    match name {
        // Half of a buffer is for Linux's own records (tcp(7), `tcp_adv_win_scale`), but the window scale is that of
        // all of it.
        "rmem" => {
            let (size, max) = sizes(value)?;
            (tcp.recv_buffer, tcp.recv_buffer_max) = (size / 2, max);
        }
        "wmem" => (tcp.send_buffer, tcp.send_buffer_max) = sizes(value)?,
        "syn_retries" => tcp.syn_retransmits_max = value.parse().ok()?,
        "synack_retries" => tcp.syn_ack_retransmits_max = value.parse().ok()?,
        "retries2" => tcp.retransmits_max = value.parse().ok()?,
        "keepalive_time" => tcp.keepalive_idle = secs()?,
        "keepalive_intvl" => tcp.keepalive_interval = secs()?,
        "keepalive_probes" => tcp.keepalive_probes = value.parse().ok()?,
        "fin_timeout" => tcp.fin_wait_2_timeout = secs()?,
        "sack" => tcp.sack = value != "0",
        "timestamps" => tcp.timestamps = value != "0",
        "ecn" => {
            tcp.ecn = match value {
                "0" => EcnMode::Off,
                // 4 offers RFC 3168's form and accepts AccECN too, as Offer does.
                "1" | "4" => EcnMode::Offer,
                // 5 accepts AccECN too, as Accept does.
                "2" | "5" => EcnMode::Accept,
                "3" => EcnMode::OfferAccurate,
                _ => return None,
            }
        }
        "ecn_option" => {
            tcp.accecn_option = match value {
                "0" => AccEcnOptionUse::Off,
                "1" => AccEcnOptionUse::Changed,
                "2" | "3" => AccEcnOptionUse::Always,
                _ => return None,
            }
        }
        "max_syn_backlog" => tcp.half_open_max = value.parse().ok()?,
        "syncookies" => {
            tcp.syn_cookies = value != "0";
            // Each SYN gets a cookie.
            if value == "2" {
                tcp.half_open_max = 0;
            }
        }
        "congestion_control" => tcp.congestion = algorithm(value)?,
        "window_scaling" => tcp.window_scaling = value != "0",
        "no_metrics_save" | "slow_start_after_idle" => {
            return as_is(value == "1");
        }
        "pacing_ss_ratio" => return as_is(value == "200"),
        "pacing_ca_ratio" => return as_is(value == "120"),
        _ => return None,
    }
    Some(Effect::Applied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_a_default_and_a_largest_size() {
        // Breaks when the third size is left out: the window scale of a SYN comes from it (RFC 7323 2.3).
        let mut tunables = Tunables::default();
        let name = "/proc/sys/net/ipv4/tcp_rmem";
        let effect = set(name, "4096 10000 30000", &mut tunables);
        assert_eq!(effect, Effect::Applied);
        let sizes = (tunables.tcp.recv_buffer, tunables.tcp.recv_buffer_max);
        assert_eq!(sizes, (5_000, 30_000));
        let short = set("net.ipv4.tcp_wmem", "4096 10000", &mut tunables);
        assert_eq!(short, Effect::Unknown);
    }

    #[test]
    fn all_values_of_both_systems_are_applied() {
        // Breaks when the stack has no tunable for a name of the list, or refuses its value; or lacks a mode of
        // `tcp_ecn`.
        for (name, value) in OF_FREEBSD {
            let effect = bsd(name, value, &mut Tunables::default());
            assert_eq!(effect, Some(Effect::Applied), "{name}");
        }
        for (name, value) in OF_LINUX {
            let effect = linux(name, value, &mut TcpConfig::default());
            assert_eq!(effect, Some(Effect::Applied), "{name}");
        }
        for mode in ["0", "1", "2", "3", "4", "5"] {
            let effect = linux("ecn", mode, &mut TcpConfig::default());
            assert_eq!(effect, Some(Effect::Applied), "ecn {mode}");
        }
    }
}
