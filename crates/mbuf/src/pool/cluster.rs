//! The sizes of clusters.

/// The cluster sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ClusterSize {
    /// 2 KiB.
    #[doc(alias = "MCLBYTES")]
    K2,
    /// 4 KiB.
    #[doc(alias = "MJUMPAGESIZE")]
    K4,
    /// 9 KiB: a jumbo frame.
    #[doc(alias = "MJUM9BYTES")]
    K9,
    /// 16 KiB.
    #[doc(alias = "MJUM16BYTES")]
    K16,
}

impl ClusterSize {
    /// Every size, smallest first.
    pub const ALL: [Self; 4] = [Self::K2, Self::K4, Self::K9, Self::K16];

    /// Bytes in a cluster of this size.
    pub const fn bytes(self) -> usize {
        match self {
            Self::K2 => 2 << 10,
            Self::K4 => 4 << 10,
            Self::K9 => 9 << 10,
            Self::K16 => 16 << 10,
        }
    }

    /// The alignment of a cluster of this size, in bytes.
    pub(super) const fn align(self) -> usize {
        match self {
            Self::K9 => 1 << 10,
            _ => self.bytes(),
        }
    }

    pub(super) const fn zone_name(self) -> &'static str {
        match self {
            Self::K2 => "mbuf_cluster",
            Self::K4 => "mbuf_jumbo_page",
            Self::K9 => "mbuf_jumbo_9k",
            Self::K16 => "mbuf_jumbo_16k",
        }
    }

    /// The smallest size that holds `len` bytes, or the largest there is.
    pub fn fitting(len: usize) -> Self {
        Self::ALL
            .into_iter()
            .find(|s| s.bytes() >= len)
            .unwrap_or(Self::K16)
    }
}
