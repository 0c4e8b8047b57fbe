//! The part of a sent packet that is kept for an ICMP error to quote.
//!
//! Locks: none.

use mbuf::{Chain, MbufPool};

/// Bytes that are kept when keeping all of the payload would pin more than [`KEPT_WHOLE_MAX`].
pub(super) const QUOTED_MAX: usize = 1024;
/// Memory that keeping a whole payload may pin.
pub(super) const KEPT_WHOLE_MAX: usize = 4096;

/// Shortens a payload to the bytes that an error quotes, if all of it would pin too much.
pub(super) fn shorten(pool: &MbufPool, payload: &mut Chain) {
    if payload.pinned() <= KEPT_WHOLE_MAX {
        return;
    }
    let mut head = [0; QUOTED_MAX];
    let (head, _) = head.split_at_mut(payload.len().min(QUOTED_MAX));
    payload.copy_to(0, head);
    // An error without a quotation still names both ends.
    *payload = Chain::from_slice(pool, head).unwrap_or_default();
}
