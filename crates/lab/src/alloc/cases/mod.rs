//! The cases: the operations on a design, and the timed part of them.
//!
//! Each is generic, so that a design is compiled into the loop.

#[cfg(test)]
pub(crate) mod check;
pub(crate) mod prodcons;
pub(crate) mod purge;
pub(crate) mod single;
pub(crate) mod spike;
pub(crate) mod threads;

use std::fmt;

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Case {
    /// One thread allocates and frees.
    Get,
    /// One thread allocates, writes, frees.
    Pair,
    /// One thread allocates 64, then frees them.
    Batch64,
    /// One thread allocates as many as the threads of [`Threads32`](Self::Threads32) have live together, then frees
    /// them: it shows the part of that case that the working set causes, and not the threads.
    Batch2048,
    /// One CPU allocates, another frees.
    ProdCons,
    /// Two threads on two CPUs: shows the slow-down by the other busy CPU alone.
    Threads2,
    /// 32 threads on two CPUs.
    Threads32,
    /// The memory that 2, 32 and 256 threads take out of the slabs.
    Held,
    /// Memory over time after a spike.
    Spike,
    /// The effect of giving back a spike's memory on a thread that works on.
    PurgeDip,
}

impl Case {
    /// All of them, in the order in which they run.
    pub(crate) const ALL: [Case; 10] = [
        Self::Get,
        Self::Pair,
        Self::Batch64,
        Self::Batch2048,
        Self::ProdCons,
        Self::Threads2,
        Self::Threads32,
        Self::Held,
        Self::Spike,
        Self::PurgeDip,
    ];

    /// As it is typed and written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Pair => "pair",
            Self::Batch64 => "batch64",
            Self::Batch2048 => "batch2048",
            Self::ProdCons => "prodcons",
            Self::Threads2 => "threads2",
            Self::Threads32 => "threads32",
            Self::Held => "held",
            Self::Spike => "spike",
            Self::PurgeDip => "purge-dip",
        }
    }

    /// The measure, for a title.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Get => "one thread allocates and frees, without a look at the item",
            Self::Pair => "one thread allocates, writes 8 bytes, frees",
            Self::Batch64 => "one thread allocates 64, writing to each, then frees the 64",
            Self::Batch2048 => "one thread with as many live as threads32: its working set alone",
            Self::ProdCons => {
                "one CPU allocates and writes, a ring of 4096, another CPU reads and frees"
            }
            Self::Threads2 => {
                "two threads on two CPUs, each as in batch64: a control for threads32"
            }
            Self::Threads32 => "32 threads on two CPUs, each as in batch64",
            Self::Held => "items out of the slabs after 2, 32, 256 threads with 64 in flight each",
            Self::Spike => "memory over time after a spike that another thread freed",
            Self::PurgeDip => "throughput of a pair loop while a spike's memory goes back",
        }
    }

    /// The unit of its figures.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Get | Self::Pair | Self::Batch64 | Self::Batch2048 => "ns/pair",
            Self::ProdCons => "ns/item",
            Self::Threads2 | Self::Threads32 => "CPU-ns/pair",
            Self::Held => "items",
            Self::Spike => "MB",
            Self::PurgeDip => "%",
        }
    }

    /// Whether data crosses CPUs in it.
    pub(crate) fn crosses(self) -> bool {
        matches!(
            self,
            Self::ProdCons | Self::Threads2 | Self::Threads32 | Self::PurgeDip
        )
    }

    /// The sizes of the measurement, of the requested ones: a spike is of clusters, if they are among them.
    pub(crate) fn sizes(self, wanted: &[usize]) -> &[usize] {
        let clusters = wanted.iter().position(|size| *size == 2048);
        match (self, clusters) {
            (Self::Spike | Self::PurgeDip, Some(at)) => &wanted[at..=at],
            _ => wanted,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
