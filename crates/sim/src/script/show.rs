//! Packets as a script writes them, for traces and for expected and actual packets.

use std::fmt;

use super::flow::{ACK, FIN, PSH, RST, SYN, URG};
use super::icmp;
use super::packet::{SeenBody, SeenPacket};
use super::syntax::{Body, Call, EcnField, IpSpec, Micros, PacketSpec, TcpSpec};

/// Letters of the flags in the order in which scripts write them.
const LETTERS: [(u16, char); 9] = [
    (FIN, 'F'),
    (SYN, 'S'),
    (RST, 'R'),
    (PSH, 'P'),
    (URG, 'U'),
    (0x40, 'E'),
    (0x80, 'W'),
    (0x100, 'A'),
    (ACK, '.'),
];

/// Flags as letters, `-` for none.
pub(super) fn flags(flags: u16) -> String {
    let letters: String = LETTERS
        .iter()
        .filter(|(bit, _)| flags & bit != 0)
        .map(|(_, letter)| letter)
        .collect();
    match letters.is_empty() {
        true => "-".into(),
        false => letters,
    }
}

impl fmt::Display for TcpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.seq.wrapping_add(self.len);
        write!(f, "{} ", flags(self.flags))?;
        match self.any_seq {
            true => write!(f, "...({})", self.len)?,
            false => write!(f, "{}:{end}({})", self.seq, self.len)?,
        }
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(win) = self.win {
            write!(f, " win {win}")?;
        }
        if let Some(urg) = self.urg {
            write!(f, " urg {urg}")?;
        }
        write!(f, "{}", self.options)
    }
}

impl fmt::Display for IpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ecn) = self.ecn {
            let name = match ecn {
                EcnField::NotEct => "noecn",
                EcnField::Ect0 => "ect0",
                EcnField::Ect1 => "ect1",
                EcnField::Ect01 => "ect01",
                EcnField::Ce => "ce",
            };
            write!(f, "[{name}] ")?;
        }
        if let Some(tos) = self.tos {
            write!(f, "[tos {tos:#x}] ")?;
        }
        match self.ttl {
            Some(ttl) => write!(f, "[ttl {ttl}] "),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PacketSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ip)?;
        if let Some((src, dst)) = self.ports {
            write!(f, "{src} > {dst} ")?;
        }
        match &self.body {
            Body::Tcp(tcp) => write!(f, "{tcp}")?,
            Body::Udp(len) => write!(f, "udp ({len})")?,
            Body::Icmp(icmp) => f.write_str(&icmp::name(icmp.kind))?,
        }
        match self.changes.is_empty() {
            true => Ok(()),
            false => f.write_str(" {...}"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(")")
    }
}

/// A packet that the stack sent; a segment in the script's numbers.
pub(super) fn seen(seen: &SeenPacket, segment: Option<&TcpSpec>) -> String {
    let ecn = match seen.tos & 3 {
        0 => "",
        1 => "[ect1] ",
        2 => "[ect0] ",
        _ => "[ce] ",
    };
    match (&seen.body, segment) {
        (SeenBody::Tcp(_), Some(spec)) => format!("{ecn}{spec}"),
        (SeenBody::Tcp(tcp), None) => format!("{ecn}{} {}", flags(tcp.flags), tcp.seq),
        (SeenBody::Udp { data, .. }, _) => format!("{ecn}udp ({})", data.len()),
        (SeenBody::Icmp { kind, .. }, _) => icmp::name(*kind),
        (SeenBody::Other(proto), _) => format!("IP protocol {proto:?}"),
    }
}

/// Seconds with six digits behind the point.
pub(super) fn time(at: Micros) -> String {
    let sign = if at < 0 { "-" } else { "" };
    let at = at.unsigned_abs();
    format!("{sign}{}.{:06}", at / 1_000_000, at % 1_000_000)
}
