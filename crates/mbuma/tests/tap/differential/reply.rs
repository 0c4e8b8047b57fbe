//! Answers, as far as they are compared.

use std::fmt::Debug;

use super::frames::{self, PEER_MAC};

/// A frame that a stack sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// To the ping of this number, which ends the answers to a frame.
    Pong(u16),
    /// A question for our Ethernet address, with its answer.
    Asks(Vec<u8>),
    /// ICMP of either version: version, type, code, the next four bytes if they mean something (a pointer, an MTU).
    Icmp(u8, u8, u8, u32),
    /// A segment: version, flags, sequence number, acknowledgement.
    Tcp(u8, u8, u32, u32),
    /// An advertisement of a neighbour: its flags.
    Neighbour(u8),
    /// An answer to an ARP request.
    Arp,
    /// Anything else: version, protocol.
    Other(u8, u8),
}

impl Reply {
    /// Without what differs from frame to frame.
    pub(super) fn kind(&self) -> (u8, u8, u8, u8) {
        match self {
            Self::Pong(_) => (0, 0, 0, 0),
            Self::Asks(_) => (1, 0, 0, 0),
            Self::Icmp(version, kind, code, _) => (2, *version, *kind, *code),
            Self::Tcp(version, flags, ..) => (3, *version, *flags, 0),
            Self::Neighbour(flags) => (4, 6, *flags, 0),
            Self::Arp => (5, 0, 0, 0),
            Self::Other(version, protocol) => (6, *version, *protocol, 0),
        }
    }
}

/// The kind of a frame; none if it is one that no frame of ours has caused just now.
pub(super) fn of(frame: &[u8]) -> Option<Reply> {
    let reply = any(frame);
    // The time of an incomplete datagram is over, which differs between the stacks.
    let late = matches!(
        reply,
        Some(Reply::Icmp(4, 11, 1, _) | Reply::Icmp(6, 3, 1, _))
    );
    reply.filter(|_| !late)
}

fn any(frame: &[u8]) -> Option<Reply> {
    match frame[12..14] {
        [8, 6] => arp(frame),
        [8, 0] => Some(v4(&frame[14..])),
        [0x86, 0xdd] => v6(frame),
        _ => Some(Reply::Other(0, 0)),
    }
}

fn arp(frame: &[u8]) -> Option<Reply> {
    match frame[20..22] {
        [0, 1] if frame[38..42] == frames::PEER => Some(Reply::Asks(frames::arp_answer())),
        [0, 1] => None,
        _ => Some(Reply::Arp),
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

fn v4(packet: &[u8]) -> Reply {
    let payload = &packet[usize::from(packet[0] & 15) * 4..];
    match packet[9] {
        1 if payload[0] == 0 && payload[4..6] == frames::PING_ID => {
            Reply::Pong(u16::from_be_bytes([payload[6], payload[7]]))
        }
        1 => {
            let rest = match payload[0] {
                3 | 12 => word(&payload[4..]),
                _ => 0,
            };
            Reply::Icmp(4, payload[0], payload[1], rest)
        }
        6 => tcp(4, payload),
        other => Reply::Other(4, other),
    }
}

fn tcp(version: u8, segment: &[u8]) -> Reply {
    Reply::Tcp(
        version,
        segment[13],
        word(&segment[4..]),
        word(&segment[8..]),
    )
}

fn v6(frame: &[u8]) -> Option<Reply> {
    let packet = &frame[14..];
    let payload = &packet[40..];
    let to_peer = frame[..6] == PEER_MAC;
    let reply = match (packet[6], payload[0]) {
        // Not compared: solicitations and advertisements of routers, and reports of groups.
        (0, _) | (58, 130..=134 | 143) => return None,
        (58, 135)
            if [frames::PEER6, frames::PEER_LINK]
                .iter()
                .any(|a| payload[8..24] == *a) =>
        {
            Reply::Asks(frames::neighbour_answer(&payload[8..24]))
        }
        (58, 135) => return None,
        (58, 136) => Reply::Neighbour(payload[4]),
        (58, kind @ (2 | 4)) => Reply::Icmp(6, kind, payload[1], word(&payload[4..])),
        (58, kind) => Reply::Icmp(6, kind, payload[1], 0),
        (6, _) => tcp(6, payload),
        (other, _) => Reply::Other(6, other),
    };
    (to_peer || matches!(reply, Reply::Asks(_))).then_some(reply)
}
