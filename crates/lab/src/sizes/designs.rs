//! The list of designs: the name of each, and how it keeps a packet.

use super::models::{self, Footprint};
use super::ours;
use mbuf::{MbufPool, NoBufs, Packet};

/// How a design keeps a packet.
#[derive(Clone, Copy)]
pub(super) enum Keep {
    /// Made from a pool, and measured.
    Made(fn(&MbufPool, &[u8]) -> Result<Packet, NoBufs>),
    /// Computed from the length.
    Modelled(fn(usize) -> Footprint),
}

/// A line of the list.
#[derive(Clone, Copy)]
pub(super) struct Design {
    /// The name, in all output.
    pub(super) name: &'static str,
    /// A note for readers, at the end of the line.
    pub(super) note: &'static str,
    /// Whether it is this project's design.
    pub(super) ours: bool,
    pub(super) keep: Keep,
}

/// The seed's design: the row that the others are compared with.
pub(super) const MBUFS: Design = Design {
    name: "mbufs",
    note: "inside, or in the cluster that fits",
    ours: true,
    keep: Keep::Made(ours::mbufs),
};
pub(super) const SKB: Design = modelled("skb", "Linux, kmalloc's powers of two", models::skb);
pub(super) const MINI: Design = modelled(
    "mini",
    "64 B header, storage of 256 B to 16 KiB",
    models::mini,
);

/// All designs, in the order in which they are shown.
pub(super) const DESIGNS: [Design; 9] = [
    MBUFS,
    Design {
        name: "mbufs-only",
        note: "chains of 256 B, as before clusters",
        ours: false,
        keep: Keep::Made(ours::mbufs_only),
    },
    Design {
        name: "clusters-only",
        note: "a 2 KiB cluster whatever comes",
        ours: false,
        keep: Keep::Made(ours::clusters_only),
    },
    MINI,
    SKB,
    modelled(
        "skb-frag",
        "Linux, cut from pages that a piece keeps",
        models::skb_frag,
    ),
    modelled("pktmbuf", "DPDK, 2304 B items", models::pktmbuf),
    modelled("exact", "80 B header and the bytes", models::exact),
    modelled("malloc", "the same, from glibc's malloc", models::malloc),
];

const fn modelled(name: &'static str, note: &'static str, keep: fn(usize) -> Footprint) -> Design {
    Design {
        name,
        note,
        ours: false,
        keep: Keep::Modelled(keep),
    }
}
