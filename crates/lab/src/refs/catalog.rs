//! The list of designs, with a note on each.

use super::design::{Absent, Design, Shape};
use super::designs::{
    Mbufs, arc_boxed::ArcBoxed, cloned::Arcs, cloned::Shares, counted::Counted, leader::Leader,
    mbuma::Mbuma, proxy::Proxy, reference::References, ring::Ring,
};
use super::subject::{Of, Subject};
use crate::harness::choice::Kind;
use mbuf::{Chain, Packet};

/// A line of the list.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// The name, in all output.
    pub(crate) name: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// One line for `--list`.
    pub(crate) about: &'static str,
    /// A note for readers of the figure.
    pub(crate) note: &'static str,
    /// Makes one for views of a shape.
    pub(crate) make: fn(Shape) -> Made,
}

/// A design that was made, or why not.
pub(crate) type Made = Result<Box<dyn Subject>, Absent>;

/// All designs, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "mbuma",
        kind: Kind::Ours,
        about: "the mbuf crate's chains, as its users have them",
        note: "",
        make: make::<Mbuma<Chain>>,
    },
    Entry {
        name: "mbuma-packet",
        kind: Kind::Ours,
        about: "its packets, copied by m_copypacket: a handle is one address",
        note: "",
        make: make::<Mbuma<Packet>>,
    },
    Entry {
        name: "counted",
        kind: Kind::Ours,
        about: "its counts beside the clusters, in a bare mbuf of 256 B",
        note: BARE,
        make: make::<Mbufs<Counted<256>>>,
    },
    Entry {
        name: "mini",
        kind: Kind::Ours,
        about: "the same in a mini-mbuf of 64 B, for outside storage only (seed 004)",
        note: "bare mbuf, 64 B",
        make: make::<Mbufs<Counted<64>>>,
    },
    Entry {
        name: "reference",
        kind: Kind::Ours,
        about: "the same counts, without an mbuf: to be compared with Arc",
        note: NO_MBUF,
        make: references,
    },
    Entry {
        name: "ring",
        kind: Kind::Seed,
        about: "a ring of the sharing mbufs, one mutex for all (OpenBSD to 2026)",
        note: BARE,
        make: make::<Mbufs<Ring>>,
    },
    Entry {
        name: "proxy",
        kind: Kind::Seed,
        about: "a counted record, allocated on the first share",
        note: BARE,
        make: make::<Mbufs<Proxy>>,
    },
    Entry {
        name: "leader",
        kind: Kind::Seed,
        about: "the first mbuf counts, and stays until the last one goes",
        note: BARE,
        make: make::<Mbufs<Leader>>,
    },
    Entry {
        name: "arc",
        kind: Kind::Peer,
        about: "Arc<[u8]>, cloned",
        note: NO_MBUF,
        make: arc,
    },
    Entry {
        name: "arc-boxed",
        kind: Kind::Peer,
        about: "Arc<[u8]>, cloned into a header of 256 B from a zone",
        note: "Arc in a 256 B header",
        make: arc_boxed,
    },
    Entry {
        name: "bytes",
        kind: Kind::Peer,
        about: "bytes::Bytes, cloned; the first clone allocates a record",
        note: NO_MBUF,
        make: bytes,
    },
];

const BARE: &str = "bare mbuf";
const NO_MBUF: &str = "no mbuf";

fn make<D: Design>(shape: Shape) -> Made {
    let design = D::new(shape)?;
    Ok(Box::new(Of { design, shape }))
}

/// The makers of designs whose type says how many clusters a view has.
macro_rules! by_clusters {
    ($($name:ident: $design:ident;)*) => {
        $(
            fn $name(shape: Shape) -> Made {
                match shape.clusters {
                    1 => make::<$design<1>>(shape),
                    _ => make::<$design<{ Shape::SEGMENT.clusters }>>(shape),
                }
            }
        )*
    };
}

by_clusters! {
    arc: Arcs;
    arc_boxed: ArcBoxed;
    bytes: Shares;
    references: References;
}
