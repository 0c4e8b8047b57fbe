//! The list of designs, with the cases of each and a note on it.

use super::cases::Case;
use super::design::{Absent, Design};
#[cfg(feature = "peers")]
use super::designs::arrayqueue;
use super::designs::{
    dpdk, freebsd4, global, mballoc, mbuma, mbuma_bulk, mbuma_packet, returned, uma2004,
};
use super::subject::Subject;
pub(crate) use crate::harness::choice::Kind;
use std::fmt;
use std::str::FromStr;

/// The trigger by which a design gives memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PurgedBy {
    /// The design itself, or no trigger.
    Own,
    /// A call every 50 ms ([`Design::reclaim`]).
    Told,
    /// A thread or task beside it, as its users are advised to run ([`Design::attend`]).
    Attended,
}

impl fmt::Display for PurgedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Told => "told",
            Self::Attended => "attended",
        })
    }
}

impl FromStr for PurgedBy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let all = [Self::Own, Self::Told, Self::Attended];
        all.into_iter()
            .find(|one| one.to_string() == text)
            .ok_or(())
    }
}

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
    /// Its settings that are not the default.
    pub(crate) settings: fn() -> &'static str,
    /// The cases that it takes part in.
    pub(crate) cases: TakesPart,
    /// The trigger by which it gives memory back after a spike.
    pub(crate) purge: PurgedBy,
    /// Makes one for items of a size.
    pub(crate) make: fn(usize) -> Result<Box<dyn Subject>, Absent>,
}

/// All designs, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        make: make::<mbuma::Mbuma<true, false>>,
        purge: PurgedBy::Attended,
        ..ours(
            "mbuma-rseq",
            "a raw zone with a constructor, caches in restartable sequences",
            CASES,
        )
    },
    Entry {
        make: make::<mbuma::Mbuma<false, false>>,
        ..ours(
            "mbuma-lock",
            "the same, caches under a try-lock for each CPU",
            TIMED,
        )
    },
    Entry {
        make: make::<mbuma::Mbuma<true, true>>,
        purge: PurgedBy::Attended,
        ..ours("mbuma-colour", "as mbuma-rseq, with coloured slabs", CASES)
    },
    Entry {
        make: make::<mbuma_bulk::MbumaBulk>,
        ..ours(
            "mbuma-bulk",
            "a raw zone with coloured slabs, 64 items a call",
            BATCHES,
        )
    },
    Entry {
        make: make::<mbuma_packet::Packets>,
        ..ours(
            "mbuma-packet",
            "a packet with a cluster, as a device takes one (2048 B only)",
            TIMED,
        )
    },
    Entry {
        make: make::<mbuma::Mbuma<true, false>>,
        purge: PurgedBy::Told,
        ..ours(
            "mbuma-drain",
            "as mbuma-rseq, drained every 50 ms, without a Reclaimer",
            TOLD,
        )
    },
    Entry {
        make: make::<returned::Returned<false>>,
        ..floor(
            "ring-back-ctor",
            "the least of a pool: 1024 items, back by a second ring, our constructor",
            |case| case == Case::ProdCons,
        )
    },
    Entry {
        make: make::<returned::Returned<true>>,
        ..floor(
            "ring-back-own",
            "the same, each item written to before it goes back",
            |case| case == Case::ProdCons,
        )
    },
    Entry {
        make: make::<uma2004::Uma2004>,
        purge: PurgedBy::Told,
        ..seed(
            "uma2004",
            "UMA of 2004: two buckets a CPU under a mutex, slabs",
            CASES,
        )
    },
    Entry {
        make: make::<mballoc::Mballoc>,
        ..seed(
            "mballoc",
            "FreeBSD 5.0: lists of page-sized buckets, per CPU and general",
            KEEPS,
        )
    },
    Entry {
        make: make::<freebsd4::Freebsd4>,
        ..seed("freebsd4", "FreeBSD 4: one list under one lock", KEEPS)
    },
    Entry {
        make: make::<global::General<global::Malloc>>,
        settings: global::malloc_settings,
        ..peer("malloc", "the system's malloc", PEER)
    },
    Entry {
        make: malloc_trim,
        purge: PurgedBy::Told,
        ..peer(
            "malloc-trim",
            "the same, with a call to trim every 50 ms",
            TOLD,
        )
    },
    Entry {
        make: jemalloc,
        settings: global::jemalloc_settings,
        ..peer("jemalloc", "jemalloc", PEER)
    },
    Entry {
        make: mimalloc,
        ..peer("mimalloc", "mimalloc", PEER)
    },
    Entry {
        make: snmalloc,
        ..peer("snmalloc", "snmalloc", PEER)
    },
    Entry {
        make: arrayqueue,
        ..peer("arrayqueue", "a pool in crossbeam's ArrayQueue", POOL)
    },
    Entry {
        make: make::<dpdk::Mempool>,
        settings: dpdk::settings,
        ..peer(
            "dpdk",
            "DPDK's mempool, a cache of 512 a thread; batches get and put 64 at once",
            TIMED,
        )
    },
    Entry {
        make: make::<dpdk::Pktmbuf>,
        note: "header of 128 B, constructor",
        settings: dpdk::settings,
        ..peer("dpdk-pktmbuf", "DPDK's network buffers", SINGLE)
    },
];

/// Whether a design takes part in a case.
type TakesPart = fn(Case) -> bool;

const CASES: TakesPart = |_| true;
const SINGLE: TakesPart = |case| {
    use Case::{Batch64, Batch2048, Get, Pair};
    matches!(case, Get | Pair | Batch64 | Batch2048)
};
const TIMED: TakesPart =
    |case| SINGLE(case) || matches!(case, Case::ProdCons | Case::Threads2 | Case::Threads32);
/// A pool has no memory of its own to give back.
const POOL: TakesPart = |case| TIMED(case) || case == Case::Held;
/// Those that never give memory back have no purge.
const KEEPS: TakesPart = |case| POOL(case) || case == Case::Spike;
/// A general allocator does not count the pages of its slabs, and purges at times of its own choice.
const PEER: TakesPart = |case| TIMED(case) || case == Case::Spike;
const TOLD: TakesPart = |case| matches!(case, Case::Spike | Case::PurgeDip);
const BATCHES: TakesPart = |case| {
    use Case::{Batch64, Batch2048, Threads2, Threads32};
    matches!(case, Batch64 | Batch2048 | Threads2 | Threads32)
};

const fn entry(name: &'static str, kind: Kind, about: &'static str, cases: TakesPart) -> Entry {
    let note = match kind {
        Kind::Peer => "no constructor",
        _ => "",
    };
    Entry {
        name,
        kind,
        about,
        note,
        settings: none,
        cases,
        purge: PurgedBy::Own,
        make: unbuilt,
    }
}

const fn ours(name: &'static str, about: &'static str, cases: TakesPart) -> Entry {
    entry(name, Kind::Ours, about, cases)
}

const fn seed(name: &'static str, about: &'static str, cases: TakesPart) -> Entry {
    entry(name, Kind::Seed, about, cases)
}

const fn floor(name: &'static str, about: &'static str, cases: TakesPart) -> Entry {
    entry(name, Kind::Floor, about, cases)
}

const fn peer(name: &'static str, about: &'static str, cases: TakesPart) -> Entry {
    entry(name, Kind::Peer, about, cases)
}

/// For a design that needs no set-up.
fn none() -> &'static str {
    ""
}

type Made = Result<Box<dyn Subject>, Absent>;

fn make<D: Design>(size: usize) -> Made {
    Ok(Box::new(D::new(size)?))
}

#[cfg(target_env = "gnu")]
fn malloc_trim(size: usize) -> Made {
    make::<global::General<global::MallocTrim>>(size)
}

#[cfg(not(target_env = "gnu"))]
fn malloc_trim(_: usize) -> Made {
    Err(Absent("this system's malloc has no malloc_trim".to_owned()))
}

/// The entry of a peer that is not built in.
fn unbuilt(_: usize) -> Made {
    let how = "not built in: cargo lab-peers alloc";
    Err(Absent(how.to_owned()))
}

/// A peer's maker, or `unbuilt`.
macro_rules! peers {
    ($($name:ident: $design:ty;)*) => {
        $(
            #[cfg(feature = "peers")]
            fn $name(size: usize) -> Made {
                make::<$design>(size)
            }
            #[cfg(not(feature = "peers"))]
            use unbuilt as $name;
        )*
    };
}

peers! {
    jemalloc: global::General<global::Jemalloc>;
    mimalloc: global::General<global::Mimalloc>;
    snmalloc: global::General<global::Snmalloc>;
    arrayqueue: arrayqueue::Pool;
}
