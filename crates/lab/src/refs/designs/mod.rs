//! The designs: ours first, then those of the seed documents, then common programs today.
//!
//! Each file names its system and the description of it.
//!
//! ```text
//!   mbuma.rs                                      the mbuf crate, as its users call it
//!   mbufs.rs   counted.rs ring.rs proxy.rs leader.rs   one bare mbuf; only how it shares differs
//!   reference.rs                                  our counts, without an mbuf
//!   cloned.rs arc_boxed.rs                        without mbufs, or with an mbuf's work added
//! ```

mod mbufs;
mod spin;

pub(crate) mod arc_boxed;
pub(crate) mod cloned;
pub(crate) mod counted;
pub(crate) mod leader;
pub(crate) mod mbuma;
pub(crate) mod proxy;
pub(crate) mod reference;
pub(crate) mod ring;

pub(crate) use mbufs::Mbufs;
