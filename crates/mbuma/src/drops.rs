//! Where packets end: each one that comes in is delivered, or dropped for a reason with a name and a
//! counter. `in = delivered + dropped + forwarded` is itself a test.

use kern::Counter;

/// Declares [`DropReason`] with its texts, so that a reason can't lack one.
macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident => $text:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DropReason { $(#[doc = $text] $(#[$doc])* $name,)* }

        impl DropReason {
            /// Every reason, in the order of the layers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// A short text in snake case, stable enough for metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether the packet was on its way out. What came in is delivered, forwarded, or dropped
            /// for one of the other reasons: `received = delivered + forwarded + dropped inward`.
            pub const fn is_outward(self) -> bool {
                matches!(
                    self,
                    Self::TxNoBufs
                        | Self::DeviceError
                        | Self::TxQueueFull
                        | Self::InterfaceGone
                        | Self::ArpNoAnswer
                        | Self::ArpQueueFull
                        | Self::IpNoRoute
                        | Self::IpTooBig
                        | Self::IcmpRateLimited
                        | Self::ResetRateLimited
                )
            }
        }
    };
}

drop_reasons! {
    // Buffers and devices.
    NoBufs => "no_buffers",
    TxNoBufs => "transmit_no_buffers",
    BadVnetHeader => "bad_vnet_header",
    DeviceError => "device_error",
    TxQueueFull => "transmit_queue_full",
    InterfaceGone => "interface_gone",
    NoInterface => "no_such_interface",
    // Dispatch.
    NetisrQueueFull => "netisr_queue_full",
    // Link.
    FrameTruncated => "frame_truncated",
    NotOurMac => "not_our_mac",
    UnknownEtherType => "unknown_ethertype",
    BadArp => "bad_arp",
    ArpDuplicateAddress => "arp_duplicate_address",
    ArpNoAnswer => "arp_no_answer",
    ArpQueueFull => "arp_queue_full",
    // IPv4.
    IpTruncated => "ip_truncated",
    IpBadHeader => "ip_bad_header",
    IpBadOptions => "ip_bad_options",
    IpBadChecksum => "ip_bad_checksum",
    IpBadSource => "ip_bad_source",
    IpNotForUs => "ip_not_for_us",
    IpTtlExceeded => "ip_ttl_exceeded",
    IpUnknownProtocol => "ip_unknown_protocol",
    IpNoRoute => "ip_no_route",
    IpTooBig => "ip_too_big_with_df",
    ForwardMartian => "forward_martian",
    ForwardNoRoute => "forward_no_route",
    ForwardBlackhole => "forward_blackhole",
    ForwardTooBig => "forward_too_big_with_df",
    ForwardBadSegment => "forward_bad_segment",
    FragmentBad => "fragment_bad",
    FragmentDuplicate => "fragment_duplicate",
    FragmentOverlap => "fragment_overlap",
    FragmentLimit => "fragment_limit",
    FragmentTimeout => "fragment_timeout",
    // ICMP.
    IcmpTruncated => "icmp_truncated",
    IcmpBadChecksum => "icmp_bad_checksum",
    IcmpUnhandled => "icmp_unhandled",
    EchoQueueFull => "echo_queue_full",
    IcmpRateLimited => "icmp_rate_limited",
    ResetRateLimited => "reset_rate_limited",
    // UDP.
    UdpBadHeader => "udp_bad_header",
    UdpBadChecksum => "udp_bad_checksum",
    UdpNoSocket => "udp_no_socket",
    UdpQueueFull => "udp_queue_full",
    // TCP.
    TcpBadHeader => "tcp_bad_header",
    TcpBadChecksum => "tcp_bad_checksum",
    TcpNoConnection => "tcp_no_connection",
    TcpListenOverflow => "tcp_listen_overflow",
    TcpNoRouteBack => "tcp_no_route_back",
    TcpBadListenSegment => "tcp_bad_listen_segment",
    TcpOutOfWindow => "tcp_out_of_window",
    TcpBadAck => "tcp_bad_ack",
    TcpBadReset => "tcp_bad_reset",
    TcpBadSyn => "tcp_bad_syn",
    TcpAfterClose => "tcp_after_close",
    TcpReassFull => "tcp_reassembly_full",
}

/// One counter a reason.
#[derive(Debug)]
pub(crate) struct Drops([Counter; DropReason::ALL.len()]);

impl Drops {
    pub(crate) fn new() -> Self {
        Self([const { Counter::new() }; DropReason::ALL.len()])
    }

    pub(crate) fn count(&self, reason: DropReason) {
        self.add(reason, 1);
    }

    pub(crate) fn add(&self, reason: DropReason, n: u64) {
        if let Some(c) = self.0.get(reason as usize) {
            c.add(n);
        }
    }

    /// The reasons that occurred, with their counts.
    pub(crate) fn nonzero(&self) -> Vec<(DropReason, u64)> {
        let counts = DropReason::ALL
            .iter()
            .zip(&self.0)
            .map(|(&r, c)| (r, c.get()));
        counts.filter(|&(_, n)| n > 0).collect()
    }
}
