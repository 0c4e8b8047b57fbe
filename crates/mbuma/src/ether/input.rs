//! Frames that arrived.
//!
//! Invariants: every frame is counted as received here, once. Locks: none.
//! Sources: RFC 894, RFC 1122 section 2.3.3.

use std::sync::Arc;

use mbuf::{Packet, PullupError};
use wire::EtherHeader;

use crate::batch::Batch;
use crate::dispatch::dispatch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::netisr::Arrival;

/// Takes in one frame, which begins with its Ethernet header.
#[doc(alias = "ether_input")]
pub(crate) fn run(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, mut frame: Packet) {
    batch.stack.received.inc();
    ifp.counters.input.record(frame.len());
    if ifp.is_detached() {
        return batch.drop(frame, DropReason::NoInterface);
    }
    let header = match parse(&mut frame) {
        Ok(header) => header,
        Err(reason) => return batch.drop(frame, reason),
    };
    let Some(arrival) = arrival(ifp, &header) else {
        return batch.drop(frame, DropReason::NotOurMac);
    };
    frame.trim_front(EtherHeader::LEN);
    let meta = frame.header_mut();
    meta.iface = ifp.index.0;
    meta.stamp_ns = batch.now.as_nanos();
    meta.l2_len = 0;
    // A hash of the stack that it comes from tells us nothing.
    meta.flow = 0;
    dispatch(batch, ifp, header.ethertype(), frame, arrival);
}

fn parse(frame: &mut Packet) -> Result<EtherHeader, DropReason> {
    let bytes = frame.pullup(EtherHeader::LEN).map_err(|e| match e {
        PullupError::TooShort => DropReason::FrameTruncated,
        PullupError::NoBufs => DropReason::NoBufs,
    })?;
    let (header, _) = EtherHeader::parse(bytes).map_err(|_| DropReason::FrameTruncated)?;
    Ok(*header)
}

/// The addressee of the frame; `None` if it is another station on the link.
fn arrival(ifp: &Ifnet, header: &EtherHeader) -> Option<Arrival> {
    if header.dst == ifp.mac {
        Some(Arrival::Unicast)
    } else {
        header.dst.is_multicast().then_some(Arrival::Group)
    }
}
