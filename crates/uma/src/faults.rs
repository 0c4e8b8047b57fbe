//! The mistakes that the models of this crate plant ([`kern::fault`]): `models/` runs every scenario once more with the
//! mistake that it is there to find, and must then fail.
//!
//! Only the models of this crate make them, in no other build: some are unsound.
//!
//! Locks: none.

/// The mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneFault {
    /// A drain takes a bucket over without interrupting the CPU that works on it: `percpu/drain.rs`.
    SecondFence,
    /// An allocation does not wait for threads that carry items: `keg/closed.rs`, `take_last`.
    Transit,
    /// The same, where `init` refuses: `reclaim/trim.rs`, `gather_built`.
    Refusal,
    /// It does not wait for threads with free items of another zone that hold items of this keg: `keg/closed.rs`,
    /// `take_last`.
    Holder,
    #[cfg(feature = "extras")]
    /// A sleeper does not check whether an item has come since its search: `keg/sleepers.rs`, `sleep`.
    StaleGeneration,
    /// A keg opens although it has sleepers: `keg/closed.rs`, `may_reopen`.
    Sleepers,
    /// A new limit does not wake the sleepers: `keg/closed.rs`, `set_limit`.
    SilentLimit,
    #[cfg(feature = "extras")]
    /// An import that brought fewer items than it counted does not wake refused threads: `keg/import.rs`.
    SilentImport,
    /// A free is not counted as a thread inside: `free.rs`, `put_slow`.
    Entry,
    #[cfg(feature = "extras")]
    /// A bulk free uses the zone once more after its last item: `extras/bulk.rs`, `put_bulk`.
    LookBack,
    /// A leaving thread checks in a second step whether it was the last: `zone_inner/holds.rs`, `leave`.
    LateCheck,
    /// The drop of the last handle is not counted as a thread inside: `zone_inner/holds.rs`, `retire`.
    Retire,
    /// A visit by a weak reference is not counted as a thread inside: `weak.rs`.
    Visit,
}

/// Whether to make this mistake.
#[inline]
pub(crate) fn planted(fault: ZoneFault) -> bool {
    cfg!(all(test, any(loom, shuttle))) && kern::fault::is_planted(fault)
}
