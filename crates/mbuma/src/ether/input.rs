//! A frame that arrived: is it for this station, and which protocol does its payload belong to?
//!
//! The link header ends here; the payload goes to [`dispatch`](crate::dispatch).
//!
//! Invariants: every frame is counted as received here, once. Locks: none.
//! Sources: RFC 894, RFC 1122 section 2.3.3.

use std::sync::Arc;

use mbuf::{Packet, PullupError};
use wire::{EtherHeader, EtherType};

use crate::batch::Batch;
use crate::device::Medium;
use crate::dispatch::dispatch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::netisr::Arrival;

/// Takes in one frame, which begins with its Ethernet header, or with its IP header where the device has no Ethernet.
#[doc(alias = "ether_input")]
pub(crate) fn run(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, mut frame: Packet) {
    batch.stack.received.inc();
    ifp.counters.input.record(frame.len());
    if ifp.is_detached() {
        return batch.drop(frame, DropReason::NoInterface);
    }
    let link = match ifp.medium {
        Medium::Ethernet => ethernet(ifp, &mut frame),
        Medium::Ip => bare(&mut frame),
    };
    let (ethertype, arrival) = match link {
        Ok(link) => link,
        Err(reason) => return batch.drop(frame, reason),
    };
    let meta = frame.header_mut();
    meta.iface = ifp.index.0;
    meta.stamp_ns = batch.now.as_nanos();
    meta.l2_len = 0;
    // Each stack keys its hash: that of the sending stack has no meaning here.
    meta.flow = 0;
    dispatch(batch, ifp, ethertype, frame, arrival);
}

/// Removes the link header; returns the payload's protocol, and whether the frame is for this station or a group.
fn ethernet(ifp: &Ifnet, frame: &mut Packet) -> Result<(EtherType, Arrival), DropReason> {
    let header = parse(frame)?;
    let arrival = arrival(ifp, &header).ok_or(DropReason::NotOurMac)?;
    frame.trim_front(EtherHeader::LEN);
    Ok((header.ethertype(), arrival))
}

/// A packet without a link header: its first four bits are the version of IP.
fn bare(packet: &mut Packet) -> Result<(EtherType, Arrival), DropReason> {
    let first = pullup(packet, 1)?.first().copied().unwrap_or(0);
    match first >> 4 {
        4 => Ok((EtherType::IPV4, Arrival::Unicast)),
        6 => Ok((EtherType::IPV6, Arrival::Unicast)),
        _ => Err(DropReason::UnknownEtherType),
    }
}

fn parse(frame: &mut Packet) -> Result<EtherHeader, DropReason> {
    let bytes = pullup(frame, EtherHeader::LEN)?;
    let (header, _) = EtherHeader::parse(bytes).map_err(|_| DropReason::FrameTruncated)?;
    Ok(*header)
}

fn pullup(frame: &mut Packet, len: usize) -> Result<&[u8], DropReason> {
    frame.pullup(len).map_err(|e| match e {
        PullupError::TooShort => DropReason::FrameTruncated,
        PullupError::NoBufs => DropReason::NoBufs,
    })
}

/// Whether the frame is for this station or a group; `None` if it is for another station on the link.
fn arrival(ifp: &Ifnet, header: &EtherHeader) -> Option<Arrival> {
    if header.dst == ifp.mac {
        Some(Arrival::Unicast)
    } else {
        header.dst.is_multicast().then_some(Arrival::Group)
    }
}
