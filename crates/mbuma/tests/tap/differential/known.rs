//! The permitted differences.

use std::collections::BTreeMap;
use std::fmt;

use super::frames::KERNEL6;
use super::reply::Reply;

const AUTHENTICATION: u8 = 51;
const MOBILITY: u8 = 135;
const UDP_LITE: u8 = 136;
/// An option of IPv6 for packets beyond 64 KiB.
const JUMBO: u8 = 0xc2;

const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// The front of an IPv4 address within IPv6.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The reason for a difference, if it is a known one.
pub(super) fn reason(frame: &[u8], ours: &[Reply], linux: &[Reply]) -> Option<&'static str> {
    if let ([Reply::Tcp(..)], []) = (ours, linux) {
        return Some("options of TCP with a mistake: we reset a closed port's peer all the same");
    }
    match frame[12..14] {
        [8, 0] => reason4(frame, ours, linux),
        _ => reason6(&frame[14..], ours, linux),
    }
}

fn reason4(frame: &[u8], ours: &[Reply], linux: &[Reply]) -> Option<&'static str> {
    let packet = &frame[14..];
    let has_options = packet[0] & 15 > 5;
    let source = packet.get(12..16)?;
    match (ours, linux) {
        ([], _) if source == [10, 0, 2, 255] => {
            Some("a broadcast's source: dropped by us (RFC 1122 3.2.1.3), answered by Linux")
        }
        ([], _) if frame[0] & 1 == 1 => Some(
            "one host's packet in a frame to all: dropped by us (RFC 1122 3.3.6), answered by Linux",
        ),
        (_, [Reply::Icmp(4, 12, 0, _)]) if has_options => Some(
            "a mistake inside of an option: Linux reads it, and tells; we pass the option over",
        ),
        (_, []) if has_options => Some(
            "a source route, or an option that Linux can't carry back: it drops it; we pass it over",
        ),
        ([Reply::Icmp(4, 3, 2, _)], []) if packet[9] == UDP_LITE => {
            Some("UDP-Lite, which Linux has and we have not")
        }
        _ => None,
    }
}

fn reason6(packet: &[u8], ours: &[Reply], linux: &[Reply]) -> Option<&'static str> {
    let (source, destination) = (packet.get(8..24)?, packet.get(24..40)?);
    let chain = chain(packet);
    let has = |kind| chain.contains(&kind);
    match (ours, linux) {
        ([Reply::Neighbour(0x60)], [Reply::Neighbour(0x40)]) => Some(
            "asked by unicast: Linux leaves its Ethernet address out, and so the O flag (RFC 4861 7.2.4)",
        ),
        ([], _) if source == KERNEL6 || source[..12] == MAPPED => {
            Some("our own address as the source, or one of IPv4: dropped by us, answered by Linux")
        }
        ([], _) if destination != KERNEL6 && destination != ALL_NODES => {
            Some("another host's packet: Linux reads its options, or tells that there is no route")
        }
        (_, [Reply::Icmp(6, 4, 1, at)]) if packet.get(*at as usize) == Some(&AUTHENTICATION) => {
            Some("an authentication header: unknown to this Linux; we pass over it")
        }
        // A Linux that knows this header has no key, so it drops the packet; and a packet to a group causes no error.
        (_, []) if has(AUTHENTICATION) => {
            Some("an authentication header: unknown to this Linux; we pass over it")
        }
        (_, []) if has(43) && destination == ALL_NODES => Some(
            "a routing header to a group: Linux drops it; we pass it over, as no segment is left",
        ),
        (_, [Reply::Icmp(6, 4, ..)]) | ([Reply::Icmp(6, 4, ..)], []) if has(MOBILITY) => Some(
            "a mobility header: unknown to this Linux; to us an extension header, here with a mistake",
        ),
        (_, []) if has_source_route(packet) => Some(
            "source routes of RPL and SRv6: off in Linux, which drops them; unknown to us (RFC 8200 4.4)",
        ),
        (_, [] | [Reply::Icmp(6, 4, 0, _)])
            if chain.iter().filter(|kind| **kind == 44).count() > 1 =>
        {
            Some(
                "two fragment headers: Linux refuses the second; we take any number (RFC 8200 4.1)",
            )
        }
        ([], [Reply::Icmp(6, 4, ..)]) if chain.len() > 1 => Some(
            "a chain that can't be read to its end may be an error's: we are silent (RFC 4443 2.4 e)",
        ),
        ([Reply::Icmp(6, 4, 1, _)], []) if has(UDP_LITE) => {
            Some("UDP-Lite, which Linux has and we have not")
        }
        (_, []) if has(0) || has(60) => Some(
            "options that Linux drops in silence: an overrun, an odd router alert, more than seven bytes of padding",
        ),
        ([Reply::Icmp(6, 4, 2, at)], [Reply::Icmp(6, 4, 0, _)])
            if packet.get(*at as usize) == Some(&JUMBO) =>
        {
            Some("a jumbogram's option: unknown to us; to Linux one with a mistake")
        }
        ([Reply::Icmp(6, 4, 0, 4)], [Reply::Icmp(6, 4, ..)]) if has(44) => {
            Some("a fragment with two mistakes, of which each stack tells another one")
        }
        _ => None,
    }
}

/// Whether there is a routing header of type 3 (RPL) or 4 (SRv6).
fn has_source_route(packet: &[u8]) -> bool {
    headers(packet).any(|(kind, bytes)| kind == 43 && matches!(bytes.get(2), Some(3 | 4)))
}

/// The kinds of the headers behind IPv6's, the last one included, as far as they can be read.
fn chain(packet: &[u8]) -> Vec<u8> {
    headers(packet).map(|(kind, _)| kind).collect()
}

/// The same headers, each with what begins there.
fn headers(packet: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let (mut next, mut at) = (Some(packet[6]), 40);
    std::iter::from_fn(move || {
        let kind = next?;
        let bytes = packet.get(at..).unwrap_or(&[]);
        next = None;
        if let (0 | 43 | 44 | AUTHENTICATION | 60, [then, len, ..]) = (kind, bytes) {
            at += match kind {
                44 => 8,
                AUTHENTICATION => usize::from(*len) * 4 + 8,
                _ => usize::from(*len) * 8 + 8,
            };
            next = Some(*then);
        }
        Some((kind, bytes))
    })
}

/// The number of occurrences of each case.
#[derive(Default)]
pub(super) struct Counts {
    silent: u64,
    answered: u64,
    known: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(super) fn same(&mut self, replies: &[Reply]) {
        match replies.is_empty() {
            true => self.silent += 1,
            false => self.answered += 1,
        }
    }

    pub(super) fn known(&mut self, reason: &'static str) {
        *self.known.entry(reason).or_default() += 1;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "answered alike {}, both silent {}",
            self.answered, self.silent
        )?;
        self.known
            .iter()
            .try_for_each(|(reason, n)| write!(f, "\n{n}: {reason}"))
    }
}
