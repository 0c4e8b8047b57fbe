//! Packets, chains and a queue beside what they must be like, and the step that changes both.

use std::collections::VecDeque;

use mbuf::{Chain, CollapseError, MbufPool, Mbufq, NoBufs, Packet, PullupError, WriteError};

use crate::common::{check_chain, check_packet, pattern};
use crate::ops::{Make, Op, Which};

pub(crate) enum Item {
    Packet(Packet),
    Chain(Chain),
}

/// What an item must be like.
#[derive(Clone)]
pub(crate) struct Model {
    bytes: Vec<u8>,
    flow: u32,
}

pub(crate) struct World {
    pool: MbufPool,
    pub(crate) items: Vec<(Item, Model)>,
    queue: Mbufq,
    queued: VecDeque<Model>,
    /// Changes with every step, so that no two writes are alike.
    seed: u8,
}

impl World {
    pub(crate) fn new(pool: MbufPool) -> Self {
        Self {
            pool,
            items: Vec::new(),
            queue: Mbufq::new(),
            queued: VecDeque::new(),
            seed: 0,
        }
    }

    fn add(&mut self, item: Item, bytes: Vec<u8>) {
        let flow = 0;
        self.items.push((item, Model { bytes, flow }));
    }

    fn take(&mut self, which: &Which) -> Option<(Item, Model)> {
        (!self.items.is_empty()).then(|| self.items.swap_remove(which.index(self.items.len())))
    }

    pub(crate) fn check(&self) {
        for (item, model) in &self.items {
            match item {
                Item::Chain(chain) => check_chain(chain, &model.bytes),
                Item::Packet(packet) => {
                    check_packet(packet, &model.bytes);
                    assert_eq!(packet.header().flow, model.flow, "the header went astray");
                }
            }
        }
        assert_eq!(self.queue.len(), self.queued.len());
    }

    /// One step. Where there are no buffers, nothing may have changed, or the item is gone where
    /// the operation says so.
    pub(crate) fn step(&mut self, op: &Op) -> Result<(), NoBufs> {
        self.seed = self.seed.wrapping_add(1);
        match op {
            Op::Make(make) => self.make(make),
            Op::Join(to, from) => self.join(to, from, false),
            Op::JoinCompact(to, from) => self.join(to, from, true),
            Op::Share(which, off, len) => self.share(which, *off, *len),
            Op::SplitOff(which, at) => self.split_off(which, *at),
            Op::Convert(which) => self.convert(which),
            Op::Before(which) => self.before(which),
            Op::Dup(which) => self.dup(which),
            Op::PopFront(which) => self.pop_front(which),
            Op::CopyPacket(which) => self.copy_packet(which),
            Op::Enqueue(which) => self.enqueue(which),
            Op::Dequeue => self.dequeue(),
            Op::Requeue => self.requeue(),
            Op::Drop(which) => {
                drop(self.take(which));
                Ok(())
            }
            Op::Prepend(which, _)
            | Op::TrimFront(which, _)
            | Op::Truncate(which, _)
            | Op::Append(which, _)
            | Op::Pullup(which, _)
            | Op::Write(which, ..)
            | Op::Pulldown(which, ..)
            | Op::Adjust(which, ..)
            | Op::CopyBack(which, ..)
            | Op::Unshare(which)
            | Op::Defrag(which)
            | Op::Collapse(which, _)
            | Op::Condense(which)
            | Op::WriteFront(which) => {
                if self.items.is_empty() {
                    return Ok(());
                }
                let at = which.index(self.items.len());
                let (item, model) = &mut self.items[at];
                change(&self.pool, self.seed, item, model, op)
            }
        }
    }

    fn make(&mut self, make: &Make) -> Result<(), NoBufs> {
        let (pool, seed) = (self.pool.clone(), self.seed);
        let (item, bytes) = match *make {
            Make::Slice { len, lead } => {
                let bytes = pattern(seed, len);
                (
                    Item::Packet(Packet::from_slice(&pool, &bytes, lead)?),
                    bytes,
                )
            }
            Make::Cluster { size, lead, len } => {
                let mut packet = Packet::with_cluster(&pool, size, lead)?;
                let bytes = pattern(seed, len);
                packet.append(&pool, &bytes)?;
                (Item::Packet(packet), bytes)
            }
            Make::Plain { len } => {
                let bytes = pattern(seed, len);
                (Item::Chain(Chain::from_slice(&pool, &bytes)?), bytes)
            }
            Make::Lent { len } => {
                let bytes = pattern(seed, len);
                (Item::Chain(Chain::from_owner(&pool, bytes.clone())?), bytes)
            }
            Make::Splinters { each, count } => {
                let (mut chain, mut bytes) = (Chain::new(), Vec::new());
                for i in 0..count {
                    let piece = pattern(seed.wrapping_add(i as u8), each);
                    chain.append(Chain::from_slice(&pool, &piece)?);
                    bytes.extend(piece);
                }
                (Item::Chain(chain), bytes)
            }
        };
        self.add(item, bytes);
        Ok(())
    }

    fn join(&mut self, to: &Which, from: &Which, compact: bool) -> Result<(), NoBufs> {
        if self.items.len() < 2 {
            return Ok(());
        }
        let (Some((from, tail)), Some((to, mut model))) = (self.take(from), self.take(to)) else {
            return Ok(());
        };
        let from = match from {
            Item::Packet(packet) => packet.into_chain(),
            Item::Chain(chain) => chain,
        };
        model.bytes.extend(tail.bytes);
        let item = match to {
            Item::Packet(mut packet) => {
                packet.append_chain(from);
                Item::Packet(packet)
            }
            Item::Chain(mut chain) => {
                match compact {
                    true => chain.append_compact(&self.pool, from),
                    false => chain.append(from),
                }
                Item::Chain(chain)
            }
        };
        self.items.push((item, model));
        Ok(())
    }

    fn share(&mut self, which: &Which, off: usize, len: usize) -> Result<(), NoBufs> {
        if self.items.is_empty() {
            return Ok(());
        }
        let at = which.index(self.items.len());
        let (item, model) = &mut self.items[at];
        let (off, end) = cut(model.bytes.len(), off, len);
        let shared = match item {
            Item::Packet(packet) => packet.share(off, len)?,
            Item::Chain(chain) => chain.share(off, end - off)?,
        };
        let bytes = model.bytes[off..end].to_vec();
        self.add(Item::Chain(shared), bytes);
        Ok(())
    }

    fn split_off(&mut self, which: &Which, at: usize) -> Result<(), NoBufs> {
        if self.items.is_empty() {
            return Ok(());
        }
        let index = which.index(self.items.len());
        let (item, model) = &mut self.items[index];
        let (other, bytes) = match item {
            Item::Packet(packet) => {
                let rest = packet.split_off(at)?;
                (rest, model.bytes.split_off(at.min(model.bytes.len())))
            }
            Item::Chain(chain) => {
                let front = chain.take_front(at)?;
                (
                    front,
                    model.bytes.drain(..at.min(model.bytes.len())).collect(),
                )
            }
        };
        self.add(Item::Chain(other), bytes);
        Ok(())
    }

    fn convert(&mut self, which: &Which) -> Result<(), NoBufs> {
        let Some((item, mut model)) = self.take(which) else {
            return Ok(());
        };
        let item = match item {
            Item::Packet(packet) => Item::Chain(packet.into_chain()),
            Item::Chain(chain) => {
                let mut packet = chain.into_packet(&self.pool)?;
                model.flow = u32::from(self.seed);
                packet.header_mut().flow = model.flow;
                Item::Packet(packet)
            }
        };
        self.items.push((item, model));
        Ok(())
    }

    fn before(&mut self, which: &Which) -> Result<(), NoBufs> {
        let Some((item, mut model)) = self.take(which) else {
            return Ok(());
        };
        let chain = match item {
            Item::Packet(packet) => packet.into_chain(),
            Item::Chain(chain) => chain,
        };
        model.flow = 0;
        let packet = Packet::before_chain(&self.pool, chain)?;
        assert_eq!(packet.front().len(), 0);
        self.items.push((Item::Packet(packet), model));
        Ok(())
    }

    fn dup(&mut self, which: &Which) -> Result<(), NoBufs> {
        let Some((item, model)) = self.take(which) else {
            return Ok(());
        };
        let copy = match &item {
            Item::Packet(packet) => Some(packet.dup(&self.pool)),
            Item::Chain(_) => None,
        };
        self.items.push((item, model.clone()));
        if let Some(copy) = copy {
            let mut copy = copy?;
            // It must be writable from end to end; then it differs from what it was copied from.
            let mut model = model;
            model.bytes.fill(self.seed);
            assert_eq!(copy.write_at(0, &model.bytes), Ok(()));
            self.items.push((Item::Packet(copy), model));
        }
        Ok(())
    }

    fn pop_front(&mut self, which: &Which) -> Result<(), NoBufs> {
        let Some((mut item, mut model)) = self.take(which) else {
            return Ok(());
        };
        if let Item::Chain(chain) = &mut item
            && let Some(front) = chain.pop_front()
        {
            let bytes = model.bytes.drain(..front.len()).collect();
            self.add(Item::Chain(front), bytes);
        }
        self.items.push((item, model));
        Ok(())
    }

    fn copy_packet(&mut self, which: &Which) -> Result<(), NoBufs> {
        let Some((mut item, model)) = self.take(which) else {
            return Ok(());
        };
        let copy = match &mut item {
            Item::Packet(packet) => Some(packet.copy_packet()),
            Item::Chain(_) => None,
        };
        self.items.push((item, model.clone()));
        if let Some(copy) = copy {
            self.items.push((Item::Packet(copy?), model));
        }
        Ok(())
    }

    fn enqueue(&mut self, which: &Which) -> Result<(), NoBufs> {
        match self.take(which) {
            Some((Item::Packet(packet), model)) => {
                self.queue.enqueue(packet);
                self.queued.push_back(model);
            }
            Some(other) => self.items.push(other),
            None => {}
        }
        Ok(())
    }

    fn dequeue(&mut self) -> Result<(), NoBufs> {
        match (self.queue.dequeue(), self.queued.pop_front()) {
            (Some(packet), Some(model)) => self.items.push((Item::Packet(packet), model)),
            (None, None) => {}
            _ => panic!("the queue lost count"),
        }
        Ok(())
    }

    /// Takes the queue whole, and joins it to one that holds its first packet.
    fn requeue(&mut self) -> Result<(), NoBufs> {
        let mut all = self.queue.take_all();
        assert!(self.queue.is_empty() && all.len() == self.queued.len());
        if let Some(first) = all.dequeue() {
            self.queue.enqueue(first);
        }
        self.queue.append(&mut all);
        assert!(all.is_empty());
        Ok(())
    }
}

/// What changes one item in place.
fn change(
    pool: &MbufPool,
    seed: u8,
    item: &mut Item,
    model: &mut Model,
    op: &Op,
) -> Result<(), NoBufs> {
    let bytes = &mut model.bytes;
    match (op, item) {
        (Op::Prepend(_, n), Item::Packet(packet)) => {
            let front = pattern(seed, *n);
            packet.prepend(*n)?.copy_from_slice(&front);
            bytes.splice(..0, front);
        }
        (Op::TrimFront(_, n), item) => {
            match item {
                Item::Packet(packet) => packet.trim_front(*n),
                Item::Chain(chain) => chain.trim_front(*n),
            }
            bytes.drain(..(*n).min(bytes.len()));
        }
        (Op::Truncate(_, n), item) => {
            match item {
                Item::Packet(packet) => packet.truncate(*n),
                Item::Chain(chain) => chain.truncate(*n),
            }
            bytes.truncate(*n);
        }
        (Op::Append(_, n), item) => {
            let end = pattern(seed, *n);
            match item {
                Item::Packet(packet) => packet.append(pool, &end)?,
                Item::Chain(chain) => chain.extend_from_slice(pool, &end)?,
            }
            bytes.extend(end);
        }
        (Op::Pullup(_, n), Item::Packet(packet)) => match packet.pullup(*n) {
            Ok(front) => assert_eq!(front, &bytes[..*n]),
            Err(PullupError::TooShort) => assert!(*n > bytes.len()),
            Err(PullupError::NoBufs) => return Err(NoBufs),
        },
        (Op::Write(_, off, len), item) => {
            let src = pattern(seed, *len);
            let written = match item {
                Item::Packet(packet) => packet.write_at(*off, &src),
                Item::Chain(chain) => chain.write_at(*off, &src),
            };
            match written {
                Ok(()) => bytes[*off..off + len].copy_from_slice(&src),
                Err(WriteError::OutOfRange) => assert!(off + len > bytes.len()),
                Err(WriteError::Shared) => assert!(*len > 0),
            }
        }
        (Op::Adjust(_, front, back), item) => {
            match item {
                Item::Packet(packet) => packet.adjust(*front, *back),
                Item::Chain(chain) => chain.adjust(*front, *back),
            }
            bytes.truncate(bytes.len().saturating_sub(*back));
            bytes.drain(..(*front).min(bytes.len()));
        }
        (Op::Unshare(_), Item::Chain(chain)) => {
            chain.unshare(pool)?;
            bytes.fill(seed);
            assert_eq!(chain.write_at(0, bytes), Ok(()));
        }
        (Op::Condense(_), Item::Chain(chain)) => {
            let before = chain.pinned();
            let freed = chain.condense(pool);
            assert_eq!(chain.pinned() + freed, before);
        }
        (Op::WriteFront(_), Item::Packet(packet)) => {
            if let Some(front) = packet.front_mut() {
                front.fill(seed);
                bytes[..front.len()].fill(seed);
            }
        }
        (op, Item::Packet(packet)) => reshape(pool, seed, packet, bytes, op)?,
        _ => {}
    }
    Ok(())
}

/// What moves a packet's bytes about, and does not change what it shows unless it says so.
fn reshape(
    pool: &MbufPool,
    seed: u8,
    packet: &mut Packet,
    bytes: &mut Vec<u8>,
    op: &Op,
) -> Result<(), NoBufs> {
    match op {
        Op::Pulldown(_, off, len) => match packet.pulldown(*off, *len) {
            Ok(range) => assert_eq!(range, &bytes[*off..off + len]),
            Err(PullupError::TooShort) => assert!(off + len > bytes.len()),
            Err(PullupError::NoBufs) => return Err(NoBufs),
        },
        Op::CopyBack(_, off, len) => {
            let src = pattern(seed, *len);
            packet.copy_back(pool, *off, &src)?;
            bytes.resize(bytes.len().max(off + len), 0);
            bytes[*off..off + len].copy_from_slice(&src);
        }
        Op::Unshare(_) => {
            packet.unshare(pool)?;
            bytes.fill(seed);
            assert_eq!(packet.write_at(0, bytes), Ok(()));
        }
        Op::Defrag(_) => {
            packet.defrag(pool)?;
            let most = bytes.len().div_ceil(16_384).max(1);
            assert!(packet.segments().count() <= most);
        }
        Op::Collapse(_, max) => match packet.collapse(pool, *max) {
            Ok(_) => assert!(packet.segments().count() <= *max),
            Err(CollapseError::TooManyBytes) => assert!(bytes.len() > max * 16_384),
            Err(CollapseError::NoBufs) => return Err(NoBufs),
        },
        _ => {}
    }
    Ok(())
}

/// A range cut to what is there: its start and end.
fn cut(have: usize, off: usize, len: usize) -> (usize, usize) {
    let off = off.min(have);
    (off, off + len.min(have - off))
}
