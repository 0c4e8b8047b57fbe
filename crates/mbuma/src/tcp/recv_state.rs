//! The receive half of a control block: sequence space, buffer, and due acknowledgements.
//!
//! Source: RFC 9293 section 3.3.1.

use bitflags::bitflags;
use kern::Time;
use wire::SeqNum;

use super::ack_policy::AckPolicy;
use super::reass::Reassembly;
use super::recv_tuner::RecvTuner;
use super::user_options::TcpSocketOptions;
use crate::config::TcpConfig;
use crate::sockbuf::StreamBuf;

bitflags! {
    /// Buffers that do not grow.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct FixedBuffers: u8 {
        const SEND = 1;
        const RECEIVE = 1 << 1;
    }
}

/// The receive sequence space.
#[derive(Debug)]
pub(crate) struct RecvState {
    pub(crate) irs: SeqNum,
    pub(crate) nxt: SeqNum,
    /// The right edge of the window as announced; it never moves back.
    pub(crate) adv: SeqNum,
    pub(crate) wscale: u8,
    /// Our window scaling was offered or agreed on.
    pub(crate) wscale_on: bool,
    /// The maximum segment size that we announce: that of our own link, independent of the peer's.
    pub(crate) mss: u32,
    /// RCV.NXT when we last acknowledged.
    pub(crate) last_ack_sent: SeqNum,
    /// The sequence number of the peer's FIN, once it was seen.
    pub(crate) fin: Option<SeqNum>,
    pub(crate) buf: StreamBuf,
    pub(crate) reass: Reassembly,
    pub(crate) policy: AckPolicy,
    /// The measurement of the user's reads, once a far peer has sent data.
    pub(crate) tuner: Option<Box<RecvTuner>>,
    /// The buffers of which the user has set the size.
    pub(crate) fixed: FixedBuffers,
    /// The user will read no more: incoming data is acknowledged and dropped.
    #[doc(alias = "SS_CANTRCVMORE")]
    pub(crate) read_closed: bool,
}

impl RecvState {
    pub(super) fn new(config: &TcpConfig, mss: u32, now: Time) -> Self {
        let mut new = Self {
            irs: SeqNum(0),
            nxt: SeqNum(0),
            adv: SeqNum(0),
            wscale: scale(config, None),
            wscale_on: config.window_scaling,
            mss,
            last_ack_sent: SeqNum(0),
            fin: None,
            buf: StreamBuf::new(0),
            reass: Reassembly::default(),
            policy: AckPolicy::new(now),
            tuner: None,
            fixed: FixedBuffers::empty(),
            read_closed: false,
        };
        new.set_size(config.recv_buffer);
        new
    }

    /// Sets the size of the buffer. If windows are scaled, it is at least four units of the window's field: with less,
    /// the receiver's avoidance of small windows (RFC 9293 3.8.6.2.2) would hold back what rounding leaves, for ever.
    pub(crate) fn set_size(&mut self, bytes: usize) {
        let least = match self.wscale {
            0 => 0,
            shift => 4 << shift,
        };
        self.buf.set_hiwat(bytes.max(least));
    }
}

/// The window scale to offer: the largest window is the buffer that the program asks for, or the one to which a buffer
/// may grow.
pub(super) fn scale(config: &TcpConfig, asked: Option<&TcpSocketOptions>) -> u8 {
    let asked = asked.and_then(|asked| asked.recv_buffer);
    match config.window_scaling {
        true => window_scale(asked.unwrap_or(config.recv_buffer.max(config.recv_buffer_max))),
        false => 0,
    }
}

/// The smallest shift that lets 16 bits announce `buffer` bytes (RFC 7323 2.3: at most 14).
fn window_scale(buffer: usize) -> u8 {
    (0..14)
        .find(|&shift| buffer >> shift <= 65_535)
        .unwrap_or(14)
}
