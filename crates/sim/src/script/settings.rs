//! The settings of a script and the command line: addresses, ports, tolerance.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{Ipv4Header, TcpHeader};

use super::dialect::Dialect;
use super::lexer::SyntaxError;
use super::syntax::{Addresses, Micros, Setting, TIME_MAX};
use crate::family::{IpFamily, LONGER};

/// All settings of one run of one script.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How far a packet or the end of a call may be from its time.
    pub tolerance: Micros,
    /// The system whose sockets and defaults the script expects. By default the dialect of its text; without one, BSD's
    /// sockets and the stack's own defaults.
    pub dialect: Option<Dialect>,
    /// Order and padding of TCP options count.
    pub strict_options: bool,
    /// Sysctls (`NAME=VALUE`) that are set before the script's own commands: the values of the system for which it was
    /// written, where the script does not set them.
    pub sysctls: Vec<String>,
    pub(super) family: IpFamily,
    pub(super) addresses: Addresses,
    pub(super) bind_port: u16,
    pub(super) connect_port: u16,
    /// The MTU of the stack's link.
    pub mtu: u16,
    /// The script itself is about IPv6: MTUs are those of IPv6.
    speaks_ipv6: bool,
    /// Microseconds of a tick of the timestamp clock, if the script checks timestamp values.
    pub(super) timestamp_tick: Option<Micros>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tolerance: 4_000,
            dialect: None,
            strict_options: false,
            sysctls: Vec::new(),
            family: IpFamily::V4,
            addresses: Addresses {
                local: Ipv4Addr::new(192, 168, 0, 1),
                remote: Ipv4Addr::new(192, 0, 2, 1),
                gateway: Ipv4Addr::new(192, 168, 0, 2),
            },
            bind_port: 8080,
            connect_port: 8080,
            mtu: 1500,
            speaks_ipv6: false,
            timestamp_tick: None,
        }
    }
}

impl Settings {
    /// The same over IPv6, unless the script says that it is about one version: its addresses stand for others, and
    /// MTUs are 20 bytes larger. They are not if the script itself is about IPv6.
    #[must_use]
    pub fn over_ipv6(self) -> Self {
        Self {
            family: IpFamily::V6,
            ..self
        }
    }

    /// An MTU of the script as that of an IPv4 packet with the same payload ([`family`](crate::family) makes it larger
    /// again).
    pub(super) fn as_ipv4_mtu(&self, mtu: u16) -> u16 {
        match self.speaks_ipv6 {
            true => mtu.saturating_sub(LONGER),
            false => mtu,
        }
    }

    /// Whether the version of IP allows the MTU (RFC 791 3.2, RFC 8200 5).
    pub(super) fn is_mtu_possible(&self) -> Result<(), &'static str> {
        let mtu = self.family.mtu(self.as_ipv4_mtu(self.mtu));
        match self.family {
            IpFamily::V4 if mtu < 68 => Err("IPv4 needs an MTU of 68 or more"),
            IpFamily::V6 if mtu < 1280 => Err("IPv6 needs an MTU of 1280 or more"),
            _ => Ok(()),
        }
    }

    /// Leaves sums of the times that a script, or a command line, sets within what a number can hold.
    pub(super) fn bound_times(&mut self) {
        self.tolerance = self.tolerance.clamp(0, TIME_MAX);
        self.timestamp_tick = self.timestamp_tick.map(|tick| tick.min(TIME_MAX));
    }

    /// The largest segment of the stack's link without options (RFC 6691).
    pub(super) fn mss(&self) -> usize {
        usize::from(self.as_ipv4_mtu(self.mtu)).saturating_sub(Ipv4Header::LEN + TcpHeader::LEN)
    }

    /// Applies a `--name=value` of a script. `Ok(false)` for a setting without an effect here.
    pub(super) fn set(&mut self, setting: &Setting) -> Result<bool, SyntaxError> {
        let value = setting.value.as_deref().unwrap_or_default();
        match setting.name.as_str() {
            "tolerance_usecs" => self.tolerance = number(setting)?,
            "tolerance_percent" | "verbose" | "debug" | "dry_run" => return Ok(false),
            "ip_version" if value == "ipv4" => self.family = IpFamily::V4,
            "ip_version" if value == "ipv6" => {
                self.family = IpFamily::V6;
                self.speaks_ipv6 = true;
            }
            "ip_version" => return Err(bad(setting, "ipv4 and ipv6 are there")),
            "bind_port" => self.bind_port = number(setting)?,
            "connect_port" => self.connect_port = number(setting)?,
            // The runner makes its IPv6 addresses from the IPv4 ones, so these have no effect.
            "local_ip" | "remote_ip" | "gateway_ip" if value.parse::<Ipv6Addr>().is_ok() => {
                return Ok(false);
            }
            "local_ip" => self.addresses.local = number(setting)?,
            "remote_ip" => self.addresses.remote = number(setting)?,
            "gateway_ip" => self.addresses.gateway = number(setting)?,
            "mtu" => self.mtu = number(setting)?,
            "tcp_ts_tick_usecs" => {
                let tick: Micros = number(setting)?;
                self.timestamp_tick = (tick > 0).then_some(tick);
            }
            "strict_options" => self.strict_options = true,
            "dialect" => match Dialect::named(value) {
                Some(dialect) => self.dialect = Some(dialect),
                None => return Err(bad(setting, "bsd and linux are there")),
            },
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
