//! Answers to solicitations for an anycast address of an interface: after a random delay, and without the override
//! flag, so that the asking station keeps the first answer.
//!
//! Locks: none held here. Sources: RFC 4861 section 7.2.7, RFC 4291 section 2.6.1.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use wire::MacAddr;

use super::nd;
use crate::batch::Batch;
use crate::ifnet::Ifnet;
use crate::ifnet::anycast::DelayedAdvert;
use crate::state::SHARED_TIMERS_CPU;

/// RFC 4861 section 10: MAX_ANYCAST_DELAY_TIME.
const DELAY_MAX: Duration = Duration::from_secs(1);

/// Answers the solicitation of station `to` for `target` within [`DELAY_MAX`].
pub(super) fn answer_later(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    target: Ipv6Addr,
    to: Ipv6Addr,
    mac: Option<MacAddr>,
) {
    let longest = DELAY_MAX.as_nanos() as u64;
    let delay = batch.stack.random(|random| random.below(longest + 1));
    ifp.delayed_adverts.add(DelayedAdvert {
        at: batch.now + Duration::from_nanos(delay),
        target,
        to,
        mac,
    });
    batch.wake_for_timer(SHARED_TIMERS_CPU);
}

/// Sends the answers that are due.
pub(crate) fn run_timers(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    for advert in ifp.delayed_adverts.take_due(batch.now) {
        // The address may be gone meanwhile. It is never a source, because several stations have it.
        let src = ifp.source_for6(advert.to);
        if let Some(src) = src.filter(|_| batch.stack.has_anycast6(ifp, advert.target)) {
            nd::answer(
                batch,
                ifp,
                (src, advert.to),
                advert.target,
                false,
                advert.mac,
            );
        }
    }
}
