//! The header of a packet: all fields beside its bytes.

use mbuf::{Packet, Storage};

use crate::draw::bytes;
use crate::model::{Counted, Item, Model, Small, Wide, header, on_packet};
use crate::ops::{Op, What};
use crate::world::{Done, World};

impl World {
    pub(crate) fn header(&mut self, op: &Op) -> Done {
        if op.what == What::CopyHeader {
            return self.copy_header(op);
        }
        let Some(at) = self.pick(op.which, Item::is_packet) else {
            return Ok(());
        };
        let (item, model) = &mut self.items[at];
        match op.what {
            What::SetHeader => on_packet!(item, packet => {
                model.hdr = header(op.bits);
                if op.bits & 1 == 0 {
                    model.hdr.turn_round();
                }
                *packet.header_mut() = model.hdr;
            }),
            What::SetTag => {
                let counted = Counted(op.bits as u8, self.token.clone());
                on_packet!(item, packet => set_tag(packet, model, op.bits, counted)?);
            }
            What::TagMut => on_packet!(item, packet => {
                if let Some(tag) = packet.tag_mut::<Small>() {
                    tag.0 ^= 1;
                }
                if let Some(tag) = &mut model.tags.small {
                    tag.0 ^= 1;
                }
            }),
            _ => on_packet!(item, packet => take_tag(packet, model, op.bits)),
        }
        Ok(())
    }

    fn copy_header(&mut self, op: &Op) -> Done {
        let Some((mut item, mut model)) = self.take(op.which, Item::is_packet) else {
            return Ok(());
        };
        let mut done = Ok(());
        if let Some(at) = self.pick(op.other, Item::is_packet) {
            let (from, known) = &self.items[at];
            on_packet!(&mut item, to => on_packet!(from, from => done = to.copy_header(from)));
            if done.is_ok() {
                (model.hdr, model.tags) = (known.hdr, known.tags.clone());
            }
        }
        self.add(item, model);
        Ok(done?)
    }
}

fn wide(bits: u64) -> Wide {
    let content = bytes(bits, 48);
    let mut words = [0; 6];
    for (word, of) in words.iter_mut().zip(content.chunks_exact(8)) {
        *word = u64::from_le_bytes(of.try_into().expect("of 8"));
    }
    Wide(words)
}

fn set_tag<S: Storage>(
    packet: &mut Packet<S>,
    model: &mut Model,
    bits: u64,
    counted: Counted,
) -> Done {
    let tags = &mut model.tags;
    match bits % 3 {
        0 => {
            let tag = Small((bits >> 8) as u16);
            assert_eq!(packet.set_tag(tag)?, tags.small.replace(tag));
        }
        1 => {
            let tag = wide(bits);
            assert_eq!(packet.set_tag(tag)?, tags.wide.replace(tag));
        }
        _ => {
            let number = counted.0;
            let old = packet.set_tag(counted)?;
            assert_eq!(old.map(|tag| tag.0), tags.counted.replace(number));
        }
    }
    Ok(())
}

fn take_tag<S: Storage>(packet: &mut Packet<S>, model: &mut Model, bits: u64) {
    let tags = &mut model.tags;
    match bits % 3 {
        0 => assert_eq!(packet.take_tag(), tags.small.take()),
        1 => assert_eq!(packet.take_tag(), tags.wide.take()),
        _ => {
            let taken = packet.take_tag::<Counted>();
            assert_eq!(taken.map(|tag| tag.0), tags.counted.take());
        }
    }
}
