//! The ends of packets: each packet that comes in is delivered, forwarded, or dropped for a reason with a name and a
//! counter. A test checks `in = delivered + forwarded + dropped`.

use std::fmt;

use kern::Counter;

/// The direction of a packet when it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// It came in: `received = delivered + forwarded + dropped inward`.
    Inward,
    /// It was on its way out.
    Outward,
}

/// Declares [`DropReason`]: each reason has its direction and its text.
macro_rules! drop_reasons {
    ($($direction:ident $name:ident => $text:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DropReason { $(#[doc = $text] $name,)* }

        impl DropReason {
            /// Every reason, in the order of the layers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// A short text in snake case, stable enough for metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether the packet was on its way out. A packet that came in is delivered, forwarded, or dropped
            /// for one of the other reasons: `received = delivered + forwarded + dropped inward`.
            pub const fn is_outward(self) -> bool {
                let direction = match self { $(Self::$name => Direction::$direction,)* };
                matches!(direction, Direction::Outward)
            }
        }

        /// Its [`name`](DropReason::name).
        impl fmt::Display for DropReason {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

drop_reasons! {
    // Buffers and devices.
    Inward NoBufs => "no_buffers",
    Outward TxNoBufs => "transmit_no_buffers",
    Inward BadVnetHeader => "bad_vnet_header",
    Inward BadFrameLength => "bad_frame_length",
    Inward BadDescriptors => "bad_descriptors",
    Inward BadFrontEndMessage => "bad_front_end_message",
    Outward DeviceError => "device_error",
    Outward TxQueueFull => "transmit_queue_full",
    Outward InterfaceGone => "interface_gone",
    Inward NoInterface => "no_such_interface",
    // Dispatch.
    Inward NetisrQueueFull => "netisr_queue_full",
    // Link.
    Inward FrameTruncated => "frame_truncated",
    Inward NotOurMac => "not_our_mac",
    Inward UnknownEtherType => "unknown_ethertype",
    Inward BadArp => "bad_arp",
    Inward ForgedAddress => "forged_address",
    Inward ArpDuplicateAddress => "arp_duplicate_address",
    Outward ArpNoAnswer => "arp_no_answer",
    Outward ArpQueueFull => "arp_queue_full",
    Inward BadIgmp => "bad_igmp",
    Inward BadMld => "bad_multicast_listener_discovery",
    Inward BadNd => "bad_neighbour_discovery",
    Inward NdDuplicateAddress => "nd_duplicate_address",
    Outward NdNoAnswer => "nd_no_answer",
    Outward NdQueueFull => "nd_queue_full",
    // IP.
    Inward IpTruncated => "ip_truncated",
    Inward IpBadHeader => "ip_bad_header",
    Inward IpBadOptions => "ip_bad_options",
    Inward IpBadChecksum => "ip_bad_checksum",
    Inward IpBadSource => "ip_bad_source",
    Inward IpNotForUs => "ip_not_for_us",
    Inward IpTtlExceeded => "ip_ttl_exceeded",
    Inward IpUnknownProtocol => "ip_unknown_protocol",
    Outward IpNoRoute => "ip_no_route",
    Outward IpTooBig => "ip_too_big_with_df",
    Inward ForwardMartian => "forward_martian",
    Inward ForwardNoRoute => "forward_no_route",
    Inward ForwardBlackhole => "forward_blackhole",
    Inward ForwardProhibited => "forward_prohibited",
    Inward ForwardSource => "forward_bad_source",
    Inward ForwardTooBig => "forward_too_big_with_df",
    Inward ForwardBadSegment => "forward_bad_segment",
    Inward FragmentBad => "fragment_bad",
    Inward FragmentDuplicate => "fragment_duplicate",
    Inward FragmentOverlap => "fragment_overlap",
    Inward FragmentLimit => "fragment_limit",
    Inward FragmentTimeout => "fragment_timeout",
    Inward IpNoNextHeader => "ip_no_next_header",
    // ICMP.
    Inward IcmpTruncated => "icmp_truncated",
    Inward IcmpBadChecksum => "icmp_bad_checksum",
    Inward IcmpUnhandled => "icmp_unhandled",
    Inward EchoQueueFull => "echo_queue_full",
    Inward Icmp6QueueFull => "icmp6_queue_full",
    Outward IcmpRateLimited => "icmp_rate_limited",
    Outward ResetRateLimited => "reset_rate_limited",
    // UDP.
    Inward UdpBadHeader => "udp_bad_header",
    Inward UdpBadChecksum => "udp_bad_checksum",
    Inward UdpNoSocket => "udp_no_socket",
    Inward UdpFiltered => "udp_source_filtered",
    Inward UdpQueueFull => "udp_queue_full",
    // TCP.
    Inward TcpBadHeader => "tcp_bad_header",
    Inward TcpBadChecksum => "tcp_bad_checksum",
    Inward TcpNoConnection => "tcp_no_connection",
    Inward TcpListenOverflow => "tcp_listen_overflow",
    Inward TcpTableFull => "tcp_table_full",
    Inward TcpOpenedTwice => "tcp_opened_twice",
    Inward TcpNoCookie => "tcp_no_cookie",
    Inward TcpNoRouteBack => "tcp_no_route_back",
    Inward TcpBadListenSegment => "tcp_bad_listen_segment",
    Inward TcpOutOfWindow => "tcp_out_of_window",
    Inward TcpBadAck => "tcp_bad_ack",
    Inward TcpOldTimestamp => "tcp_old_timestamp",
    Inward TcpBadReset => "tcp_bad_reset",
    Inward TcpBadSyn => "tcp_bad_syn",
    Inward TcpAfterClose => "tcp_after_close",
    Inward TcpReassFull => "tcp_reassembly_full",
}

/// One counter a reason.
#[derive(Debug)]
pub(crate) struct Drops([Counter; DropReason::ALL.len()]);

impl Drops {
    pub(crate) fn new() -> Self {
        Self([const { Counter::new() }; DropReason::ALL.len()])
    }

    #[cold]
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
