//! One direction of a link as people write it: `rate=20mbit,delay=40ms,loss=1%`, in the units of tc-netem(8).
//!
//! | word | meaning | default |
//! |---|---|---|
//! | `rate=20mbit` | bits a second: bit, kbit, mbit, gbit | no limit |
//! | `burst=16kb` | bytes that pass at once after a pause | none |
//! | `queue=100kb` | bytes that wait for the rate at most; also packets (`50p`) or bandwidth-delay products (`2bdp`) | `1bdp`, at least `20p` |
//! | `delay=40ms` | in this direction: us, ms, s | none |
//! | `jitter=5ms` | added to the delay, from zero to this; keeps the order | none |
//! | `loss=1%` | lost, each by itself | none |
//! | `bursts=0.1%/25%` | bursts of loss: the probabilities that one begins, and that it ends, at a packet | none |
//! | `reorder=1%` | these come `late` | none |
//! | `late=5ms` | how late | 5 ms |
//! | `duplicate=1%`, `corrupt=1%` | come twice; have one bit inverted | none |
//! | `ecn=30kb` | a longer queue marks packets that are ECN-capable; units as of `queue` | never |
//! | `mtu=1400` | larger packets vanish | no limit |
//!
//! A round trip takes the delays of both directions; a bandwidth-delay product is of twice this one's delay.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::link::{Burst, Lateness, LinkConfig};

/// Why a link cannot be read: a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LinkSpecError(String);

/// The default delay of a reordered packet.
const LATE: Duration = Duration::from_millis(5);
/// The longest delay: a minute.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Packets that the default queue holds at least.
const QUEUE_MIN: u64 = 20;
/// The packet size that a queue in packets counts in, unless an MTU is said.
const MTU: u16 = 1500;

/// A length of queue, before its rate and delay are known.
#[derive(Debug, Clone, Copy)]
enum Length {
    Bytes(usize),
    Packets(f64),
    Products(f64),
}

impl FromStr for LinkConfig {
    type Err = LinkSpecError;

    fn from_str(text: &str) -> Result<Self, LinkSpecError> {
        let mut link = Self::PERFECT;
        link.faults.late = Lateness::By(LATE);
        let (mut queue, mut ecn) = (None, None);
        for word in text.split(',').map(str::trim) {
            let Some((key, value)) = word.split_once('=') else {
                return refuse(format!("`{word}` is not of the form NAME=VALUE"));
            };
            match key {
                "rate" => link.rate_bps = rate(value)?,
                "burst" => link.burst_bytes = size(value)?,
                "queue" => queue = Some(length(value)?),
                "ecn" => ecn = Some(length(value)?),
                "delay" => link.delay = time(value)?,
                "jitter" => link.jitter = time(value)?,
                "late" => link.faults.late = Lateness::By(time(value)?),
                "loss" => link.faults.loss = percent(value)?,
                "bursts" => link.faults.burst = Some(burst(value)?),
                "reorder" => link.faults.reorder = percent(value)?,
                "duplicate" => link.faults.duplicate = percent(value)?,
                "corrupt" => link.faults.corrupt = percent(value)?,
                "mtu" => link.mtu = mtu(value)?,
                _ => {
                    return refuse(format!("`{key}` is none of {}", Self::KEYS.join(", ")));
                }
            }
        }
        link.measure(queue, ecn)
    }
}

impl LinkConfig {
    /// The names that its text may contain, each before `=` and a value.
    pub const KEYS: [&str; 13] = [
        "rate",
        "burst",
        "queue",
        "delay",
        "jitter",
        "loss",
        "bursts",
        "reorder",
        "late",
        "duplicate",
        "corrupt",
        "ecn",
        "mtu",
    ];

    /// Turns lengths of queues into bytes, now that the rate and the delay are known.
    fn measure(
        mut self,
        queue: Option<Length>,
        ecn: Option<Length>,
    ) -> Result<Self, LinkSpecError> {
        let needs_rate = queue.is_some() || ecn.is_some() || self.burst_bytes > 0;
        if self.rate_bps == 0 {
            return match needs_rate {
                true => refuse("queue, ecn and burst need a rate".to_owned()),
                false => Ok(self),
            };
        }
        let product = self.bytes_in(2 * self.delay);
        self.queue_bytes = match queue {
            Some(length) => self.bytes_of_length(length),
            None => product.max(Self::bytes_of(QUEUE_MIN, self.mtu.min(MTU))),
        };
        self.ecn_bytes = ecn.map(|length| self.bytes_of_length(length));
        Ok(self)
    }

    fn bytes_of_length(&self, length: Length) -> usize {
        let bytes = match length {
            Length::Bytes(bytes) => return bytes,
            Length::Packets(n) => n * Self::bytes_of(1, self.mtu.min(MTU)) as f64,
            Length::Products(n) => n * self.bytes_in(2 * self.delay) as f64,
        };
        bytes as usize
    }
}

/// As it can be read again, with the differences from a perfect link; `perfect` if there are none.
impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = &self.faults;
        let mut words = Vec::new();
        if self.rate_bps > 0 {
            words.push(format!("rate={}", shown_rate(self.rate_bps)));
            words.push(format!("queue={}b", self.queue_bytes));
        }
        let sizes = [("burst", Some(self.burst_bytes)), ("ecn", self.ecn_bytes)];
        let sizes = sizes.map(|(key, size)| (key, size.filter(|bytes| *bytes > 0)));
        words.extend(
            sizes
                .iter()
                .filter_map(|(key, size)| Some(format!("{key}={}b", (*size)?))),
        );
        let times = [("delay", self.delay), ("jitter", self.jitter)];
        let times = times.iter().filter(|(_, time)| !time.is_zero());
        words.extend(times.map(|(key, time)| format!("{key}={}", shown_time(*time))));
        let shares = [
            ("loss", faults.loss),
            ("reorder", faults.reorder),
            ("duplicate", faults.duplicate),
            ("corrupt", faults.corrupt),
        ];
        let shares = shares.iter().filter(|(_, share)| *share > 0.0);
        words.extend(shares.map(|(key, share)| format!("{key}={}%", shown_percent(*share))));
        if let (true, Lateness::By(late)) = (faults.reorder > 0.0, faults.late) {
            words.push(format!("late={}", shown_time(late)));
        }
        if let Some(burst) = faults.burst {
            let (enter, leave) = (shown_percent(burst.enter), shown_percent(burst.leave));
            words.push(format!("bursts={enter}%/{leave}%"));
        }
        if self.mtu < u16::MAX {
            words.push(format!("mtu={}", self.mtu));
        }
        match words.is_empty() {
            true => f.write_str("perfect"),
            false => f.write_str(&words.join(",")),
        }
    }
}

fn shown_rate(bps: u64) -> String {
    let units = [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1000, "kbit")];
    let unit = units.iter().find(|(unit, _)| bps.is_multiple_of(*unit));
    unit.map_or(format!("{bps}bit"), |(unit, name)| {
        format!("{}{name}", bps / unit)
    })
}

fn shown_time(time: Duration) -> String {
    let us = time.as_nanos() as f64 / 1e3;
    match time.as_micros() {
        us if us.is_multiple_of(1000) => format!("{}ms", us / 1000),
        _ => format!("{us}us"),
    }
}

/// Without the digits that the binary fraction adds.
fn shown_percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

fn refuse<T>(why: String) -> Result<T, LinkSpecError> {
    Err(LinkSpecError(why))
}

/// A number and its unit, the text behind the digits.
fn number(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some((number, unit))
}

/// A number in one of the units, times the unit's factor.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, unit) = number(text)?;
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number * scale)
}

fn rate(text: &str) -> Result<u64, LinkSpecError> {
    let units = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    match scaled(text, &units) {
        Some(bps) if (1.0..=1e12).contains(&bps) => Ok(bps as u64),
        _ => refuse(format!(
            "`{text}` is no rate, as in 512kbit, 20mbit or 1gbit"
        )),
    }
}

fn time(text: &str) -> Result<Duration, LinkSpecError> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    match scaled(text, &units) {
        Some(seconds) if seconds <= DELAY_MAX.as_secs_f64() => Ok(Duration::from_secs_f64(seconds)),
        _ => refuse(format!(
            "`{text}` is no time up to 60s, as in 500us, 40ms or 1.5s"
        )),
    }
}

fn size(text: &str) -> Result<usize, LinkSpecError> {
    let units = [("b", 1.0), ("kb", 1024.0), ("mb", 1024.0 * 1024.0)];
    match scaled(text, &units) {
        Some(bytes) if bytes <= 1e9 => Ok(bytes as usize),
        _ => refuse(format!("`{text}` is no size, as in 1500b, 64kb or 1mb")),
    }
}

fn length(text: &str) -> Result<Length, LinkSpecError> {
    let length = match number(text) {
        Some((n, "p")) if n <= 1e6 => Length::Packets(n),
        Some((n, "bdp")) if n <= 1e3 => Length::Products(n),
        Some((_, "b" | "kb" | "mb")) => Length::Bytes(size(text)?),
        _ => {
            return refuse(format!(
                "`{text}` is no length of a queue, as in 64kb, 50p (packets) or 1bdp (bandwidth-delay products)"
            ));
        }
    };
    Ok(length)
}

fn percent(text: &str) -> Result<f64, LinkSpecError> {
    match scaled(text, &[("%", 0.01)]) {
        Some(share) if share <= 1.0 => Ok(share),
        _ => refuse(format!("`{text}` is no percentage, as in 0.5%")),
    }
}

fn burst(text: &str) -> Result<Burst, LinkSpecError> {
    let Some((enter, leave)) = text.split_once('/') else {
        return refuse(format!(
            "`{text}` is no pair of percentages, as in 0.1%/25%: where a burst of loss begins, and where it ends"
        ));
    };
    Ok(Burst {
        enter: percent(enter)?,
        leave: percent(leave)?,
        loss: 1.0,
    })
}

fn mtu(text: &str) -> Result<u16, LinkSpecError> {
    match text.parse() {
        // The smallest that every IPv4 link carries (RFC 791 3.2).
        Ok(mtu) if mtu >= 68 => Ok(mtu),
        _ => refuse(format!("`{text}` is no MTU, 68 to 65535")),
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
