//! One batch of frames that came in at one port: their senders are learnt, and each goes to its ports.
//!
//! The thread locks the addresses once for a batch; then it sorts the frames into one queue for each port, and sends
//! each port its queue, in the order of ports. So frames of one flow stay in order.
//!
//! Locks: the addresses (ARP), not while a device is called.

use std::sync::Arc;

use kern::{Time, witness};
use mbuf::{Mbufq, Packet};
use wire::{EtherHeader, MacAddr};

use super::{BridgeState, HOPS_MAX, Port, PortId};
use crate::device::offload;

/// The batch on its way.
pub(super) struct Switching<'b> {
    bridge: &'b BridgeState,
    /// The ports as they were when it came in.
    ports: &'b [Arc<Port>],
    from: &'b Arc<Port>,
    now: Time,
    /// The frames that leave at each port.
    queues: Vec<Mbufq>,
}

/// Where a frame goes.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// To the port with this place in the list.
    Port(usize),
    /// To all but the one it came from.
    Flood,
    /// Its station is behind the port it came from, or it is for that link alone.
    Nowhere,
}

impl<'b> Switching<'b> {
    pub(super) fn new(
        bridge: &'b BridgeState,
        ports: &'b [Arc<Port>],
        from: &'b Arc<Port>,
    ) -> Self {
        Self {
            bridge,
            ports,
            from,
            now: bridge.clock.now(),
            queues: Vec::new(),
        }
    }

    /// Switches the batch.
    #[doc(alias = "bridge_input")]
    #[doc(alias = "bridge_forward")]
    pub(super) fn run(mut self, frames: Mbufq) {
        if frames.is_empty() {
            return;
        }
        self.bridge.counters.received.add(frames.len() as u64);
        let good: Vec<_> = frames.filter_map(|frame| self.check(frame)).collect();
        let ways = self.find_ways(&good);
        self.queues.resize_with(self.ports.len(), Mbufq::new);
        for ((frame, _), way) in good.into_iter().zip(ways) {
            self.put(frame, way);
        }
        self.send();
    }

    /// Checks each frame by itself; returns the valid ones.
    fn check(&self, mut frame: Packet) -> Option<(Packet, EtherHeader)> {
        let counters = &self.bridge.counters;
        let header = frame
            .pullup(EtherHeader::LEN)
            .ok()
            .and_then(|bytes| EtherHeader::parse(bytes).ok())
            .map(|(header, _)| *header)
            .filter(|header| header.src.is_unicast());
        let Some(header) = header else {
            counters.bad_frame.inc();
            return None;
        };
        // A frame may have a VLAN tag besides; a large segment is cut to fit.
        let longest =
            usize::from(self.from.device.capabilities().mtu) + EtherHeader::LEN + VLAN_LEN;
        if frame.header().tso_segsz == 0 && frame.len() > longest {
            counters.too_big.inc();
            return None;
        }
        if frame.header().hops >= HOPS_MAX {
            counters.looped.inc();
            return None;
        }
        frame.header_mut().hops += 1;
        Some((frame, header))
    }

    /// Learns the senders' ports, and looks up the receivers', under one lock.
    fn find_ways(&self, frames: &[(Packet, EtherHeader)]) -> Vec<Way> {
        let mut addresses = self.bridge.addresses.lock();
        let way = |(_, header): &(Packet, EtherHeader)| {
            // The thread that removes the port sets this, and then empties the table.
            if !self.from.is_gone() {
                addresses.learn(header.src, self.from.id, self.now);
            }
            self.way_to(header.dst, |mac| addresses.find(mac, self.now))
        };
        frames.iter().map(way).collect()
    }

    fn way_to(&self, dst: MacAddr, find: impl Fn(MacAddr) -> Option<PortId>) -> Way {
        if is_for_one_link(dst) {
            return Way::Nowhere;
        }
        let known = Some(dst).filter(|dst| dst.is_unicast()).and_then(find);
        match known {
            None => Way::Flood,
            Some(id) if id == self.from.id => Way::Nowhere,
            // A port that was added meanwhile is not in our list, so its stations count as unknown.
            Some(id) => {
                let at = self.ports.iter().position(|port| port.id == id);
                at.map_or(Way::Flood, Way::Port)
            }
        }
    }

    fn put(&mut self, frame: Packet, way: Way) {
        let counters = &self.bridge.counters;
        match way {
            Way::Nowhere => counters.filtered.inc(),
            Way::Flood => {
                counters.flooded.inc();
                self.flood(frame);
            }
            Way::Port(at) => {
                counters.switched.inc();
                if let Some(queue) = self.queues.get_mut(at) {
                    queue.enqueue(frame);
                }
            }
        }
    }

    /// A share of the frame for each other port; the last gets the frame itself.
    #[doc(alias = "bridge_broadcast")]
    fn flood(&mut self, mut frame: Packet) {
        let counters = &self.bridge.counters;
        let from = self.from.id;
        let others = self.ports.iter().zip(&mut self.queues);
        let mut others = others.filter(|(port, _)| port.id != from).peekable();
        while let Some((_, queue)) = others.next() {
            counters.copies.inc();
            if others.peek().is_none() {
                return queue.enqueue(frame);
            }
            match frame.copy_packet() {
                Ok(copy) => queue.enqueue(copy),
                Err(_) => counters.no_bufs.inc(),
            }
        }
    }

    /// Sends each port its frames.
    fn send(&mut self) {
        witness::assert_none("a device's transmit");
        let queues = std::mem::take(&mut self.queues);
        for (port, queue) in self.ports.iter().zip(queues) {
            if !queue.is_empty() {
                self.send_to(port, queue);
            }
        }
    }

    fn send_to(&self, port: &Port, queue: Mbufq) {
        let counters = &self.bridge.counters;
        if port.is_gone() {
            return counters.refused.add(queue.len() as u64);
        }
        let mut ready = Mbufq::new();
        for frame in queue {
            self.finish(port, frame, &mut ready);
        }
        let given = ready.len();
        // Frames that a full device does not take are lost, as on a wire; a device that is gone is removed when it is
        // polled.
        let refused = port.device.transmit(&mut ready).unwrap_or(0) + ready.len();
        counters.refused.add(refused as u64);
        counters.sent.add(given.saturating_sub(refused) as u64);
    }

    /// Does the offloads that the port's device lacks.
    fn finish(&self, port: &Port, mut frame: Packet, ready: &mut Mbufq) {
        let (pool, caps) = (&self.bridge.pool, port.device.capabilities());
        // A checksum is written behind headers that others may see.
        let headers = offload::headers_len(&frame);
        let writes = !caps.tx_checksum && headers > 0;
        let prepare = || {
            if writes {
                frame.make_writable(pool, 0, headers).map_err(|_| ())?;
            }
            offload::prepare(pool, frame, caps, ready).map_err(|_| ())
        };
        if prepare().is_err() {
            self.bridge.counters.no_bufs.inc();
        }
    }
}

/// Whether no bridge may pass frames to this group on: BPDUs, PAUSE, 802.1X and LLDP (802.1D section 7.12.6).
fn is_for_one_link(dst: MacAddr) -> bool {
    matches!(dst.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

/// Bytes of an 802.1Q tag.
const VLAN_LEN: usize = 4;
