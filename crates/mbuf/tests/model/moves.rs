//! Operations that take several items or make another: join, share, split, copy, queue, scatter into.

use mbuf::{Chain, Mbufq, Mixed, Packet};

use crate::change::is_condensed;
use crate::draw::bytes;
use crate::model::{Item, Model, on};
use crate::ops::{Op, What};
use crate::world::{Done, Failed, World};

impl World {
    pub(crate) fn moves(&mut self, op: &Op) -> Done {
        match op.what {
            What::Join => self.join(op),
            What::JoinCompact => self.join_compact(op),
            What::Share => self.share(op)?,
            What::Split => self.split(op)?,
            What::PopFront => self.pop_front(op),
            What::CopyPacket => self.copy_packet(op)?,
            What::Enqueue => {
                let is_packet =
                    |item: &Item| matches!(item, Item::Packet(_) | Item::MixedPacket(_));
                match self.take(op.which, is_packet) {
                    Some((Item::Packet(packet), model)) => self.enqueue(packet.into(), model),
                    Some((Item::MixedPacket(packet), model)) => self.enqueue(packet, model),
                    _ => {}
                }
            }
            What::Dequeue => match (self.queue.dequeue(), self.queued.pop_front()) {
                (Some(packet), Some(model)) => self.add(Item::MixedPacket(packet), model),
                (None, None) => {}
                _ => panic!("the queue lost count"),
            },
            What::Requeue => self.requeue(),
            What::Scatter => self.scatter(op)?,
            _ => drop(self.take(op.which, |_| true)),
        }
        Ok(())
    }

    fn join(&mut self, op: &Op) {
        if self.items.len() < 2 {
            return;
        }
        let others = (self.take(op.other, |_| true), self.take(op.which, |_| true));
        let (Some((from, tail)), Some((to, mut model))) = others else {
            return;
        };
        model.bytes.extend(tail.bytes);
        model.shared |= tail.shared;
        model.lent |= tail.lent;
        let item = match mapped(from) {
            Ok(from) => match to {
                Item::Packet(mut packet) => {
                    packet.append_chain(from);
                    Item::Packet(packet)
                }
                Item::Chain(mut chain) => {
                    chain.append(from);
                    Item::Chain(chain)
                }
                to => append_mixed(to, from.into()),
            },
            Err(from) => append_mixed(to, from),
        };
        self.add(item, model);
    }

    fn join_compact(&mut self, op: &Op) {
        let is_chain = |item: &Item| matches!(item, Item::Chain(_));
        let from = self.take(op.other, Item::is_mapped);
        let Some((Ok(from), tail)) = from.map(|(item, model)| (mapped(item), model)) else {
            return;
        };
        let (mut to, mut model) = match self.take(op.which, is_chain) {
            Some((Item::Chain(to), model)) => (to, model),
            _ => (Chain::new(), Model::default()),
        };
        let both = is_condensed(&to) && self.is_ample();
        to.append_compact(&self.pool, from);
        assert!(!both || is_condensed(&to), "{to:?} pins too much");
        model.bytes.extend(tail.bytes);
        model.shared |= tail.shared;
        model.lent |= tail.lent;
        self.add(Item::Chain(to), model);
    }

    fn share(&mut self, op: &Op) -> Done {
        let Some(at) = self.pick(op.which, |_| true) else {
            return Ok(());
        };
        let (off, len) = self.args(op, at).range();
        let (item, model) = &mut self.items[at];
        let off = off.min(model.bytes.len());
        let end = model.bytes.len().min(off + len);
        let all = (off, end) == (0, model.bytes.len());
        let shared = match item {
            Item::Chain(chain) if all => Item::Chain(chain.share_all()?),
            Item::MixedChain(chain) if all => Item::MixedChain(chain.share_all()?),
            // A range that reaches past the end is cut there, by packets.
            Item::Packet(packet) => Item::Chain(packet.share(off, len)?),
            Item::MixedPacket(packet) => Item::MixedChain(packet.share(off, len)?),
            Item::Chain(chain) => Item::Chain(chain.share(off, end - off)?),
            Item::MixedChain(chain) => Item::MixedChain(chain.share(off, end - off)?),
        };
        let of_it = model.sharing(model.bytes[off..end].to_vec());
        self.add(shared, of_it);
        Ok(())
    }

    fn split(&mut self, op: &Op) -> Done {
        let Some(at) = self.pick(op.which, |_| true) else {
            return Ok(());
        };
        let n = self.args(op, at).x;
        let (item, model) = &mut self.items[at];
        let cut = n.min(model.bytes.len());
        let is_packet = item.is_packet();
        let other = match item {
            Item::Packet(packet) => Item::Chain(packet.split_off(n)?),
            Item::MixedPacket(packet) => Item::MixedChain(packet.split_off(n)?),
            Item::Chain(chain) => Item::Chain(chain.take_front(n)?),
            Item::MixedChain(chain) => Item::MixedChain(chain.take_front(n)?),
        };
        let part = match is_packet {
            true => model.bytes.split_off(cut),
            false => model.bytes.drain(..cut).collect(),
        };
        let part = model.sharing(part);
        self.add(other, part);
        Ok(())
    }

    fn pop_front(&mut self, op: &Op) {
        let Some(at) = self.pick(op.which, |item| !item.is_packet()) else {
            return;
        };
        let (item, model) = &mut self.items[at];
        let front = match item {
            Item::Chain(chain) => chain.pop_front().map(Item::Chain),
            Item::MixedChain(chain) => chain.pop_front().map(Item::MixedChain),
            _ => None,
        };
        let Some(front) = front else {
            assert!(model.bytes.is_empty());
            return;
        };
        let n = on!(&front, x => x.len());
        let other = Model {
            bytes: model.bytes.drain(..n).collect(),
            ..model.clone()
        };
        self.add(front, other);
    }

    fn copy_packet(&mut self, op: &Op) -> Done {
        let Some(at) = self.pick(op.which, Item::is_packet) else {
            return Ok(());
        };
        let (item, model) = &mut self.items[at];
        let copy = match item {
            Item::Packet(packet) => Item::Packet(packet.copy_packet()?),
            Item::MixedPacket(packet) => Item::MixedPacket(packet.copy_packet()?),
            _ => return Ok(()),
        };
        model.shared = true;
        let model = model.clone();
        self.add(copy, model);
        Ok(())
    }

    fn enqueue(&mut self, packet: Packet<Mixed>, model: Model) {
        self.queue.enqueue(packet);
        self.queued.push_back(model);
    }

    /// Takes the queue whole, and joins the rest of it to one that holds its first packet.
    fn requeue(&mut self) {
        let mut all = self.queue.take_all();
        assert!(self.queue.is_empty() && all.len() == self.queued.len());
        if let Some(first) = all.next() {
            self.queue.enqueue(first);
        }
        self.queue.append(&mut all);
        assert!(all.is_empty() && all.dequeue().is_none());
        self.queue.append(&mut Mbufq::new());
    }

    /// Reads into clusters that lie ready; those that were not used wait for the next time.
    fn scatter(&mut self, op: &Op) -> Done {
        if op.bits & 7 == 0 {
            self.scatter.clear();
        }
        self.scatter.refill().map_err(|_| Failed::Changed)?;
        let n = op.n.min(self.scatter.capacity());
        let content = bytes(op.bits, n);
        let mut rest = content.as_slice();
        self.scatter.read(&mut [], n, |slices| {
            for slice in slices {
                let (here, behind) = rest.split_at(slice.len());
                slice.copy_from_slice(here);
                rest = behind;
            }
        });
        assert!(rest.is_empty(), "less room than it says");
        let chain = self.scatter.take(n);
        self.add(Item::Chain(chain), Model::of(content));
        Ok(())
    }
}

/// An item as a chain, without its packet header.
fn mapped(item: Item) -> Result<Chain, Chain<Mixed>> {
    match item {
        Item::Packet(packet) => Ok(packet.into_chain()),
        Item::Chain(chain) => Ok(chain),
        Item::MixedPacket(packet) => Err(packet.into_chain()),
        Item::MixedChain(chain) => Err(chain),
    }
}

fn append_mixed(to: Item, from: Chain<Mixed>) -> Item {
    let packet = |mut packet: Packet<Mixed>, from| {
        packet.append_chain(from);
        Item::MixedPacket(packet)
    };
    let chain = |mut chain: Chain<Mixed>, from| {
        chain.append(from);
        Item::MixedChain(chain)
    };
    match to {
        Item::Packet(to) => packet(to.into(), from),
        Item::MixedPacket(to) => packet(to, from),
        Item::Chain(to) => chain(to.into(), from),
        Item::MixedChain(to) => chain(to, from),
    }
}
