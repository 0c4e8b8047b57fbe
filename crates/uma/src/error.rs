//! Errors: when a zone is made, when an item is allocated, when a hook refuses.
//!
//! One small enum per operation.

/// Why [`alloc`](crate::RawZone::alloc) gave no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AllocError {
    /// As many items are live as the zone's limit allows. Exact: it is never returned while an
    /// item could have been given under the limit.
    #[error("the zone's limit is reached: free items, or raise the limit with set_limit")]
    Limit,
    /// The reservation is used up or the system gave no memory, and no CPU, no depot and no slab
    /// has a free item.
    #[error(
        "no memory for the zone: free items, reserve more with reserve_bytes, or raise the memory limit of the process"
    )]
    NoMemory,
    /// The zone's `ctor` hook refused; or `init` did, and no CPU and no depot has a free item that has
    /// been through it.
    #[error("the zone's init or ctor hook refused: a resource that it allocates has run out")]
    Hook,
}

/// Why a zone could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ZoneError {
    /// Items of this size do not fit a slab allocator ([`ITEM_BYTES_MAX`](crate::ITEM_BYTES_MAX)).
    #[error("items this big are better mapped one by one than kept in a zone")]
    TooBig,
    /// The alignment is beyond [`ITEM_ALIGN_MAX`](crate::ITEM_ALIGN_MAX).
    #[error("a zone aligns its items to 64 KiB at most: ask for less")]
    Align,
    /// Not even one slab's worth of address space could be reserved.
    #[error("no address space for the zone: raise RLIMIT_AS (ulimit -v) or the limit on mappings")]
    NoAddressSpace,
    /// No memory, or no room in the reservation, for the items of the reserve.
    #[error(
        "no memory for the items that the zone was to have from the start: prealloc or reserve fewer, or reserve more \
         address space with reserve_bytes"
    )]
    NoMemory,
}

/// The error of an `init` or `ctor` hook that cannot do its work; the allocation then fails with
/// [`AllocError::Hook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("a zone hook could not set up its item")]
pub struct HookFailed;
