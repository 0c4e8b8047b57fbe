//! The settings of a script and the command line: addresses, tolerance, and the sysctls of both systems as tunables of
//! a stack.
//!
//! A sysctl is *applied*, or it is known to be the stack's own behaviour, or it is noted in the report: none is
//! ignored in silence.

use std::net::Ipv4Addr;
use std::time::Duration;

use mbuma::congestion::CongestionControl;
use mbuma::{Config, EcnMode, TcpConfig};

use super::dialect::Dialect;
use super::lexer::SyntaxError;
use super::syntax::{Addresses, Line, Micros, Setting};
use crate::family::IpFamily;

/// All settings of one run of one script.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How far a packet or the end of a call may be from its time.
    pub tolerance: Micros,
    /// Whose sockets the script expects; by default the dialect of its text.
    pub dialect: Option<Dialect>,
    /// Order and padding of TCP options count.
    pub strict_options: bool,
    pub(super) family: IpFamily,
    pub(super) addresses: Addresses,
    pub(super) bind_port: u16,
    pub(super) connect_port: u16,
    pub(super) mtu: u16,
    /// Microseconds of a tick of the timestamp clock, if the script checks timestamp values.
    pub(super) timestamp_tick: Option<Micros>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tolerance: 4_000,
            dialect: None,
            strict_options: false,
            family: IpFamily::V4,
            addresses: Addresses {
                local: Ipv4Addr::new(192, 168, 0, 1),
                remote: Ipv4Addr::new(192, 0, 2, 1),
                gateway: Ipv4Addr::new(192, 168, 0, 2),
            },
            bind_port: 8080,
            connect_port: 8080,
            mtu: 1500,
            timestamp_tick: None,
        }
    }
}

impl Settings {
    /// The same over IPv6, unless the script says that it is about one version: its addresses stand for others, and MTUs
    /// are 20 bytes larger.
    #[must_use]
    pub fn over_ipv6(self) -> Self {
        Self {
            family: IpFamily::V6,
            ..self
        }
    }

    /// Applies a `--name=value` of a script. `Ok(false)` for a sysctl without a meaning here.
    pub(super) fn set(&mut self, setting: &Setting) -> Result<bool, SyntaxError> {
        let value = setting.value.as_deref().unwrap_or_default();
        match setting.name.as_str() {
            "tolerance_usecs" => self.tolerance = number(setting)?,
            "tolerance_percent" | "verbose" | "debug" | "dry_run" => return Ok(false),
            "ip_version" if value == "ipv4" => self.family = IpFamily::V4,
            "ip_version" if value == "ipv6" => self.family = IpFamily::V6,
            "ip_version" => return Err(bad(setting, "ipv4 and ipv6 are there")),
            "bind_port" => self.bind_port = number(setting)?,
            "connect_port" => self.connect_port = number(setting)?,
            "local_ip" => self.addresses.local = number(setting)?,
            "remote_ip" => self.addresses.remote = number(setting)?,
            "gateway_ip" => self.addresses.gateway = number(setting)?,
            "mtu" => self.mtu = number(setting)?,
            "tcp_ts_tick_usecs" => {
                let tick: Micros = number(setting)?;
                self.timestamp_tick = (tick > 0).then_some(tick);
            }
            "strict_options" => self.strict_options = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn bad(setting: &Setting, why: &str) -> SyntaxError {
    SyntaxError::new(setting.line, format!("--{}: {why}", setting.name))
}

fn number<T: std::str::FromStr>(setting: &Setting) -> Result<T, SyntaxError> {
    let value = setting.value.as_deref().and_then(|v| v.parse().ok());
    value.ok_or_else(|| bad(setting, "this value does not fit"))
}

/// The outcome of a sysctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The stack has this tunable.
    Applied,
    /// The stack behaves so anyhow.
    AsIs,
    /// It does not.
    Unknown,
}

/// Applies the sysctls in a command to `config`. Returns a note for each word of it that has no effect.
pub(super) fn command(line: Line, command: &str, config: &mut Config) -> Vec<String> {
    let mut notes = Vec::new();
    for word in words(command) {
        let Some((name, value)) = word.split_once('=') else {
            if !is_harmless(&word) {
                notes.push(format!("line {line}: the command `{word}` has no effect"));
            }
            continue;
        };
        let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
        if sysctl(&name, value, &mut config.tcp) == Effect::Unknown {
            notes.push(format!("line {line}: {name}={value} has no effect"));
        }
    }
    notes
}

/// Words of a shell, with quotes as in `name="a b"`.
fn words(command: &str) -> Vec<String> {
    let (mut all, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in command.chars() {
        match c {
            '"' | '\'' => quoted = !quoted,
            c if !quoted && (c.is_whitespace() || c == ';' || c == '&') => {
                all.push(std::mem::take(&mut word));
            }
            c => word.push(c),
        }
    }
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

/// The names of programs that set sysctls, and their options.
fn is_harmless(word: &str) -> bool {
    let program = word.rsplit('/').next().unwrap_or(word);
    matches!(program, "sysctl" | "set_sysctls.py" | "-w" | "-q" | "-n")
}

/// The time of a BSD sysctl in milliseconds.
fn ms(value: &str) -> Option<Duration> {
    value.parse().ok().map(Duration::from_millis)
}

fn sysctl(name: &str, value: &str, tcp: &mut TcpConfig) -> Effect {
    match name.split_once("tcp.").or(name.split_once("tcp_")) {
        Some((prefix, name)) if prefix.ends_with("net.inet.") => bsd(name, value, tcp),
        Some((prefix, name)) if prefix.ends_with("net.ipv4.") => linux(name, value, tcp),
        _ => other(name, value, tcp),
    }
    .unwrap_or(Effect::Unknown)
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
        _ => None,
    }
}

/// `net.inet.tcp.*`; `None` for a name or a value without a meaning here.
fn bsd(name: &str, value: &str, tcp: &mut TcpConfig) -> Option<Effect> {
    match name {
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
        // It stands for timestamps and window scaling both; the stack always scales its window.
        "rfc1323" => tcp.timestamps = value != "0",
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
        "cc.algorithm" => tcp.congestion = algorithm(value)?,
        "rexmit_initial" => return as_is(value == "1000"),
        "blackhole" | "insecure_rst" | "insecure_syn" | "drop_synfin" => {
            return as_is(value == "0");
        }
        "icmp_may_rst" | "rfc3042" | "rfc3390" | "rfc3465" => return as_is(value == "1"),
        // The stack has no host cache.
        "hostcache.purgenow" => return Some(Effect::AsIs),
        _ => return None,
    }
    Some(Effect::Applied)
}

/// `net.ipv4.tcp_*`; a buffer's value is its least, its default and its largest size.
fn linux(name: &str, value: &str, tcp: &mut TcpConfig) -> Option<Effect> {
    let default = || value.split_whitespace().nth(1)?.parse().ok();
    let secs = || value.parse().ok().map(Duration::from_secs);
    match name {
        "rmem" => tcp.recv_buffer = default()?,
        "wmem" => tcp.send_buffer = default()?,
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
                "1" => EcnMode::Offer,
                "2" => EcnMode::Accept,
                // 4 offers RFC 3168's and takes either, which Offer does.
                "3" => EcnMode::OfferAccurate,
                _ => return None,
            }
        }
        "syncookies" => tcp.syn_cookies = value != "0",
        "congestion_control" => tcp.congestion = algorithm(value)?,
        "window_scaling" => return as_is(value == "1"),
        "no_metrics_save" => return as_is(value == "1"),
        _ => return None,
    }
    Some(Effect::Applied)
}
