//! The field ACE of AccECN: in most segments a count of marked packets, modulo 8; in the handshake the code of a mark.
//!
//! Instead of the counter, the SYN-ACK has the mark of the SYN's IP header, and the first acknowledgement has that of
//! the SYN-ACK:
//!
//! | mark | AE CWR ECE |
//! |---|---|
//! | none | 010 |
//! | ECT(1) | 011 |
//! | ECT(0) | 100 |
//! | CE | 110 |
//!
//! Locks: none. Source: RFC 9768 section 3.2.2.

use wire::TcpFlags;

use super::{ACE, CAPABLE, CE};

/// ECN-capable transport of a sender of another kind (RFC 9331).
pub(super) const ECT_1: u8 = 0b01;

/// The code of a mark that arrived with a SYN or a SYN-ACK.
pub(super) const fn code(mark: u8) -> TcpFlags {
    match mark {
        ECT_1 => TcpFlags::CWR.union(TcpFlags::ECE),
        CAPABLE => TcpFlags::AE,
        CE => TcpFlags::AE.union(TcpFlags::CWR),
        _ => TcpFlags::CWR,
    }
}

/// A count as the field ACE.
pub(super) fn ace_of(packets: u32) -> TcpFlags {
    [TcpFlags::ECE, TcpFlags::CWR, TcpFlags::AE]
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| packets >> bit & 1 == 1)
        .map(|(_, flag)| flag)
        .collect()
}

/// The field ACE as a number.
pub(super) fn ace_in(flags: TcpFlags) -> u32 {
    u32::from(flags.contains(TcpFlags::ECE))
        | u32::from(flags.contains(TcpFlags::CWR)) << 1
        | u32::from(flags.contains(TcpFlags::AE)) << 2
}

/// Whether the code of a SYN-ACK shows that our SYN arrived unchanged, or has no information (RFC 9768 3.1.3).
pub(super) fn is_unmarked(syn_ack: TcpFlags) -> bool {
    let code_in = syn_ack & ACE;
    ![ECT_1, CAPABLE, CE]
        .iter()
        .any(|mark| code(*mark) == code_in)
}
