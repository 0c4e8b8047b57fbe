//! Conversions: packet and chain, mapped and not, and the byte types of other crates.

use bytes::{Buf, Bytes};
use mbuf::{Chain, Packet};

use crate::model::{Item, Model, on_packet};
use crate::ops::{Op, What};
use crate::world::{Done, Failed, World};

impl World {
    pub(crate) fn convert(&mut self, op: &Op) -> Done {
        match op.what {
            What::Map => self.map(op),
            What::DropBytes => {
                if !self.held.is_empty() {
                    self.held.swap_remove(op.which % self.held.len());
                }
                Ok(())
            }
            What::IntoBytes if op.bits & 1 == 0 => {
                self.copy_to_bytes(op);
                Ok(())
            }
            _ => self.consume(op),
        }
    }

    /// Operations that take an item and return another, or lose it.
    fn consume(&mut self, op: &Op) -> Done {
        let Some((item, mut model)) = self.take(op.which, |item| fits(op.what, item)) else {
            return Ok(());
        };
        let item = match (op.what, item) {
            (What::IntoChain, item) => {
                model.lose_header();
                into_chain(item)
            }
            (What::IntoPacket | What::Before, item) => {
                model.lose_header();
                let before = op.what == What::Before;
                self.to_packet(into_chain(item), before)
                    .map_err(|_| Failed::Changed)?
            }
            (What::IntoMixed, item) => into_mixed(item),
            (What::TryMapped, Item::MixedPacket(packet)) => match packet.try_into_mapped() {
                Ok(packet) => Item::Packet(packet),
                Err(packet) => Item::MixedPacket(packet),
            },
            (What::TryMapped, Item::MixedChain(chain)) => match chain.try_into_mapped() {
                Ok(chain) => Item::Chain(chain),
                Err(chain) => {
                    assert!(chain.records().next().is_some(), "nothing is unmapped");
                    Item::MixedChain(chain)
                }
            },
            (_, Item::Chain(chain)) => {
                self.hand_out(op, chain, &model.bytes);
                return Ok(());
            }
            (_, item) => item,
        };
        self.add(item, model);
        Ok(())
    }

    fn to_packet(&self, chain: Item, before: bool) -> Result<Item, Failed> {
        let pool = &self.pool;
        let packet = match chain {
            Item::Chain(chain) if before => Item::Packet(Packet::before_chain(pool, chain)?),
            Item::MixedChain(chain) if before => {
                Item::MixedPacket(Packet::before_chain(pool, chain)?)
            }
            Item::Chain(chain) => Item::Packet(chain.into_packet(pool)?),
            Item::MixedChain(chain) => Item::MixedPacket(chain.into_packet(pool)?),
            packet => packet,
        };
        on_packet!(&packet, packet => assert!(!before || packet.front().is_empty()));
        Ok(packet)
    }

    /// The pieces, the bytes in one, or in a vector.
    fn hand_out(&mut self, op: &Op, chain: Chain, model: &[u8]) {
        if op.what == What::IntoPieces {
            let mut rest = model;
            for piece in chain.into_pieces() {
                assert!(!piece.is_empty());
                let (here, behind) = rest.split_at(piece.len());
                rest = behind;
                self.held.push((piece, here.to_vec()));
            }
            assert!(rest.is_empty());
            // Few are kept, so that checking them stays cheap.
            self.held.truncate(8);
        } else if op.bits & 2 == 0 {
            assert!(chain.to_vec() == model);
            assert!(Vec::from(chain) == model);
        } else {
            let model = model.to_vec();
            self.held.push((Bytes::from(chain), model));
        }
    }

    /// The first bytes of a chain, which may be had without a buffer.
    fn copy_to_bytes(&mut self, op: &Op) {
        let Some(at) = self.pick(op.which, |item| matches!(item, Item::Chain(_))) else {
            return;
        };
        let n = self.args(op, at).x;
        let (Item::Chain(chain), model) = &mut self.items[at] else {
            return;
        };
        let n = n.min(model.bytes.len());
        let front = chain.copy_to_bytes(n);
        model.shared = true;
        let part = model.bytes.drain(..n).collect();
        self.held.push((front, part));
    }

    /// A mapped copy of one that need not be, which stays as it is.
    fn map(&mut self, op: &Op) -> Done {
        let Some(at) = self.pick(op.which, |item| !item.is_mapped()) else {
            return Ok(());
        };
        let (item, model) = &mut self.items[at];
        // The operation that failed halfway has shared some of it, which can't be seen from outside.
        model.shared = true;
        let mapped = match item {
            Item::MixedPacket(packet) => Item::Packet(packet.map(&self.pool)?),
            Item::MixedChain(chain) => Item::Chain(chain.map(&self.pool)?),
            _ => return Ok(()),
        };
        let model = Model {
            shared: true,
            ..model.clone()
        };
        self.add(mapped, model);
        Ok(())
    }
}

/// Whether an operation can be done to an item.
fn fits(what: What, item: &Item) -> bool {
    match what {
        What::IntoChain => item.is_packet(),
        What::IntoPacket => !item.is_packet(),
        What::Before => true,
        What::IntoMixed => item.is_mapped(),
        What::TryMapped => !item.is_mapped(),
        _ => matches!(item, Item::Chain(_)),
    }
}

fn into_chain(item: Item) -> Item {
    match item {
        Item::Packet(packet) => Item::Chain(packet.into_chain()),
        Item::MixedPacket(packet) => Item::MixedChain(packet.into_chain()),
        chain => chain,
    }
}

fn into_mixed(item: Item) -> Item {
    match item {
        Item::Packet(packet) => Item::MixedPacket(packet.into()),
        Item::Chain(chain) => Item::MixedChain(chain.into()),
        mixed => mixed,
    }
}
