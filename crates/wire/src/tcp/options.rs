//! The TCP options that the stack knows, as a value.
//!
//! Invariants: [`TcpOptions::emit`] writes whole words and at most 40 bytes; every group of options is itself whole
//! words, so that timestamps lie aligned (RFC 7323 appendix A). Unknown options are skipped; one with an impossible
//! length ends the list.
//! Locks: none.
//! Sources: RFC 9293 section 3.2, RFC 7323, RFC 2018, RFC 6691, RFC 9768.
//!
//! ```text
//!  [ 2 4 mss  ] [NOP 3 3 ws] [NOP NOP 8 10 | tsval | tsecr ] [NOP NOP 5 len | left | right | ..]
//!                             SACK-permitted (4 2) takes the place of the NOPs before timestamps
//! ```

use super::Malformed;
use super::acc_ecn::AccEcnOption;
use super::sack::{SACK_BLOCK_LEN, SackBlocks};
use crate::emit;

/// The options of one segment (RFC 9293 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Largest segment the sender will take (SYN only).
    pub mss: Option<u16>,
    /// The shift of the sender's windows (SYN only): at most 14 (RFC 7323 2.3).
    pub window_scale: Option<u8>,
    /// The sender understands SACK (SYN only).
    pub sack_permitted: bool,
    /// Timestamp value and echo reply.
    pub timestamps: Option<(u32, u32)>,
    /// The ranges that arrived out of order.
    pub sack: SackBlocks,
    /// Counts of bytes that arrived with each mark of ECN (RFC 9768).
    pub acc_ecn: Option<AccEcnOption>,
}

impl TcpOptions {
    /// The largest window shift (RFC 7323 2.3).
    pub const WINDOW_SCALE_MAX: u8 = 14;

    /// Bytes that all options of a segment may take.
    pub const LEN_MAX: usize = 40;

    /// Reads the options of a header. Never fails: a malformed option ends the list, and the
    /// options before it stay. Of an option that comes twice the last one counts.
    #[inline]
    pub fn parse(bytes: &[u8]) -> TcpOptions {
        let timestamps = TcpOptions::timestamps_alone(bytes);
        if timestamps.is_some() || bytes.is_empty() {
            return TcpOptions {
                timestamps,
                ..TcpOptions::default()
            };
        }
        TcpOptions::parse_list(bytes)
    }

    /// Timestamp value and echo reply of a header that has no other option, and this one in the layout that RFC 7323
    /// appendix A recommends: so has nearly each segment of an established connection.
    #[inline]
    pub fn timestamps_alone(bytes: &[u8]) -> Option<(u32, u32)> {
        match bytes {
            [NOP, NOP, TIMESTAMPS, 10, a, b, c, d, e, f, g, h] => Some((
                u32::from_be_bytes([*a, *b, *c, *d]),
                u32::from_be_bytes([*e, *f, *g, *h]),
            )),
            _ => None,
        }
    }

    fn parse_list(mut bytes: &[u8]) -> TcpOptions {
        let mut options = TcpOptions::default();
        loop {
            match bytes {
                [] | [END, ..] => return options,
                [NOP, rest @ ..] => bytes = rest,
                [kind, len, ..] => {
                    // The length counts kind and length too; `get` fails for less, and for more than
                    // there is.
                    let (Some(body), Some(rest)) = (
                        bytes.get(2..usize::from(*len)),
                        bytes.get(usize::from(*len)..),
                    ) else {
                        return options;
                    };
                    if options.take(*kind, body).is_err() {
                        return options;
                    }
                    bytes = rest;
                }
                [_] => return options,
            }
        }
    }

    /// Takes one option; an error if its length is invalid for its kind.
    fn take(&mut self, kind: u8, body: &[u8]) -> Result<(), Malformed> {
        match (kind, body) {
            (MSS, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => {
                self.window_scale = Some(shift.min(TcpOptions::WINDOW_SCALE_MAX))
            }
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some((
                    u32::from_be_bytes([a, b, c, d]),
                    u32::from_be_bytes([e, f, g, h]),
                ));
            }
            (SACK, body) => self.sack = SackBlocks::parse(body)?,
            (ACC_ECN_0 | ACC_ECN_1, body) => {
                self.acc_ecn = Some(AccEcnOption::parse(body, kind == ACC_ECN_1));
            }
            (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS, _) => return Err(Malformed),
            _ => {}
        }
        Ok(())
    }

    /// Bytes that [`TcpOptions::emit`] writes: a multiple of 4, at most 40.
    #[inline]
    pub fn emitted_len(&self) -> usize {
        let before_sack = self.len_before_sack();
        let sack = match self.sack_count_emitted(before_sack) {
            0 => 0,
            // At most 4 blocks: 36 bytes. The saturating arithmetic only spares panic paths.
            count => count.saturating_mul(SACK_BLOCK_LEN).saturating_add(4),
        };
        let len = before_sack.saturating_add(sack);
        len.saturating_add(self.acc_ecn_emitted(len).map_or(0, |(_, len)| len))
    }

    /// Writes the options to the front of `out` and returns how many bytes they took. SACK blocks
    /// that no longer fit into the 40 bytes are left out, the last ones first (RFC 2018 section 4
    /// wants the newest first in the list), and so is the option of AccECN, which goes last (RFC 9768 section 3.2.3.3).
    /// A window shift above 14 goes as 14.
    ///
    /// # Panics
    /// If `out` is shorter than [`TcpOptions::emitted_len`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let mut cursor = OptionWriter { out, len: 0 };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            cursor.put(&[MSS, 4, a, b]);
        }
        if let Some(shift) = self.window_scale {
            cursor.put(&[
                NOP,
                WINDOW_SCALE,
                3,
                shift.min(TcpOptions::WINDOW_SCALE_MAX),
            ]);
        }
        // Out of line, and most segments have none.
        if self.sack_permitted || self.timestamps.is_some() {
            self.emit_sack_permitted_and_timestamps(&mut cursor);
        }
        if !self.sack.is_empty() {
            self.emit_sack(&mut cursor);
        }
        if let Some((option, _)) = self.acc_ecn_emitted(cursor.len) {
            let kind = if option.is_order_1() {
                ACC_ECN_1
            } else {
                ACC_ECN_0
            };
            let (bytes, len) = option.emit(kind);
            cursor.put(bytes.get(..len).unwrap_or_default());
        }
        cursor.len
    }

    /// The option of AccECN and its length in whole words, if it fits behind so many bytes.
    #[inline]
    fn acc_ecn_emitted(&self, len_before: usize) -> Option<(AccEcnOption, usize)> {
        let option = self.acc_ecn?;
        let len = option.emitted_len();
        (len_before.saturating_add(len) <= TcpOptions::LEN_MAX).then_some((option, len))
    }

    fn emit_sack_permitted_and_timestamps(&self, cursor: &mut OptionWriter<'_>) {
        let lead = if self.sack_permitted {
            [SACK_PERMITTED, 2]
        } else {
            [NOP, NOP]
        };
        if let Some((value, echo)) = self.timestamps {
            // One store for the option that most segments have.
            let ([a, b, c, d], [e, f, g, h]) = (value.to_be_bytes(), echo.to_be_bytes());
            let [first, second] = lead;
            cursor.put(&[first, second, TIMESTAMPS, 10, a, b, c, d, e, f, g, h]);
        } else if self.sack_permitted {
            cursor.put(&[NOP, NOP]);
            cursor.put(&lead);
        }
    }

    fn emit_sack(&self, cursor: &mut OptionWriter<'_>) {
        let count = self.sack_count_emitted(cursor.len);
        if count == 0 {
            return;
        }
        // At most 4 blocks, so the length byte is at most 34.
        let len = (count as u8).saturating_mul(8).saturating_add(2);
        cursor.put(&[NOP, NOP, SACK, len]);
        for block in self.sack.iter().take(count) {
            cursor.put(&block.left.0.to_be_bytes());
            cursor.put(&block.right.0.to_be_bytes());
        }
    }

    #[inline]
    fn len_before_sack(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let window_scale = if self.window_scale.is_some() { 4 } else { 0 };
        let rest: usize = match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => 12,
            (None, true) => 4,
            (None, false) => 0,
        };
        rest.saturating_add(mss).saturating_add(window_scale)
    }

    /// How many SACK blocks still fit behind the other options.
    #[inline]
    fn sack_count_emitted(&self, len_before: usize) -> usize {
        let room = TcpOptions::LEN_MAX
            .saturating_sub(len_before)
            .saturating_sub(4);
        self.sack.len().min(room / SACK_BLOCK_LEN)
    }
}

/// Where the next option goes.
struct OptionWriter<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl OptionWriter<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let (_, rest) = self.out.split_at_mut(self.len);
        self.len = self.len.saturating_add(emit::put(rest, bytes));
    }
}

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const ACC_ECN_0: u8 = 172;
const ACC_ECN_1: u8 = 174;
