//! Errors: when a zone is made, when an item is allocated, when a hook refuses.
//!
//! One small enum per operation.

use std::error::Error;
use std::fmt;

/// Why [`alloc`](crate::RawZone::alloc) gave no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocError {
    /// As many items are live as the zone's limit allows. Exact: it is never returned while an
    /// item could have been given under the limit.
    Limit,
    /// The reservation is used up or the system gave no memory, and no CPU, no depot and no slab
    /// has a free item.
    NoMemory,
    /// The zone's `ctor` hook refused; or `init` did, and no CPU and no depot has a free item that has
    /// been through it.
    Hook,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Limit => {
                "the zone's limit is reached: free items, or raise the limit with set_limit"
            }
            Self::NoMemory => {
                "no memory for the zone: free items, reserve more with reserve_bytes, \
                 or raise the memory limit of the process"
            }
            Self::Hook => {
                "the zone's init or ctor hook refused: a resource that it allocates has run out"
            }
        })
    }
}

impl Error for AllocError {}

/// Why a zone could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneError {
    /// Items of this size do not fit a slab allocator ([`ITEM_BYTES_MAX`](crate::ITEM_BYTES_MAX)).
    TooBig,
    /// The alignment is beyond [`ITEM_ALIGN_MAX`](crate::ITEM_ALIGN_MAX).
    Align,
    /// Not even one slab's worth of address space could be reserved.
    NoAddressSpace,
    /// No memory, or no room in the reservation, for the items of the reserve.
    NoMemory,
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooBig => "items this big are better mapped one by one than kept in a zone",
            Self::Align => "a zone aligns its items to 64 KiB at most: ask for less",
            Self::NoAddressSpace => {
                "no address space for the zone: raise RLIMIT_AS (ulimit -v) or the limit on \
                 mappings"
            }
            Self::NoMemory => {
                "no memory for the items that the zone was to have from the start: prealloc or \
                 reserve fewer, or reserve more address space with reserve_bytes"
            }
        })
    }
}

impl Error for ZoneError {}

/// The error of an `init` or `ctor` hook that cannot do its work; the allocation then fails with
/// [`AllocError::Hook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HookFailed;

impl fmt::Display for HookFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a zone hook could not set up its item")
    }
}

impl Error for HookFailed {}
