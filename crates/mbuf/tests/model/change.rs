//! Operations that change one item in place: its ends and its bytes. How the bytes of a packet lie is changed in
//! `reshape.rs`.

use std::io::{BufRead, Read, Write};

use bytes::{Buf, BufMut};
use mbuf::{Chain, MSIZE, MbufPool, PINNED_PER_BYTE_MAX, Packet, Storage, WriteError};

use crate::draw::bytes;
use crate::model::{Item, Model, on, on_mapped, on_packet};
use crate::ops::{Op, What};
use crate::reshape::reshape;
use crate::world::{Args, Done, Failed, LARGEST, World};

impl World {
    pub(crate) fn change(&mut self, op: &Op) -> Done {
        let Some(at) = self.pick(op.which, |item| fits(op.what, item)) else {
            return Ok(());
        };
        let args = self.args(op, at);
        let ample = self.is_ample();
        let (item, model) = &mut self.items[at];
        match op.what {
            What::Condense => {
                if let Item::Chain(chain) = item {
                    let before = chain.pinned();
                    let freed = chain.condense(&self.pool);
                    assert_eq!(chain.pinned() + freed, before);
                    assert!(!ample || is_condensed(chain), "{chain:?} pins too much");
                }
                Ok(())
            }
            What::Prepend | What::TrimFront | What::Truncate | What::Adjust | What::Append => {
                ends(&self.pool, op.what, item, model, args)
            }
            What::Zeroize => {
                let all = on!(item, x => x.zeroize());
                assert!(
                    all || model.lent,
                    "not all is overwritten, but nothing is lent"
                );
                Ok(())
            }
            What::WriteAt => {
                on_mapped!(item, x => {
                    let content = bytes(args.bits, args.n);
                    check_write(x.write_at(args.x, &content), args.x, &content, model);
                });
                Ok(())
            }
            What::Unshare => {
                on_mapped!(item, x => x.unshare(&self.pool)?);
                // Lent mbufs that show nothing may stay.
                model.shared = false;
                Ok(())
            }
            _ => match item {
                Item::Packet(packet) => reshape(&self.pool, op.what, packet, model, args),
                Item::Chain(chain) if op.what == What::Writer => {
                    write(&self.pool, chain, &mut model.bytes, args)
                }
                Item::Chain(chain) => {
                    consume(chain, &mut model.bytes, args);
                    Ok(())
                }
                _ => Ok(()),
            },
        }
    }
}

/// Whether an operation can be done to an item.
fn fits(what: What, item: &Item) -> bool {
    match what {
        What::TrimFront | What::Truncate | What::Adjust | What::Append | What::Zeroize => true,
        What::Prepend => item.is_packet(),
        What::WriteAt | What::Unshare => item.is_mapped(),
        What::Writer | What::Condense | What::Consume => matches!(item, Item::Chain(_)),
        _ => matches!(item, Item::Packet(_)),
    }
}

fn ends(pool: &MbufPool, what: What, item: &mut Item, model: &mut Model, args: Args) -> Done {
    let bytes = &mut model.bytes;
    match what {
        What::Prepend => on_packet!(item, packet => prepend(packet, bytes, args)?),
        What::TrimFront => {
            on!(item, x => x.trim_front(args.x));
            bytes.drain(..args.x.min(bytes.len()));
        }
        What::Truncate => {
            on!(item, x => x.truncate(args.x));
            bytes.truncate(args.x);
        }
        What::Adjust => {
            let back = bytes.len().saturating_sub(args.y);
            on!(item, x => x.adjust(args.x, back));
            bytes.truncate(bytes.len() - back);
            bytes.drain(..args.x.min(bytes.len()));
        }
        _ => {
            let end = crate::draw::bytes(args.bits, args.n);
            let has_room = on!(&*item, x => x.trailing_space()) >= args.n;
            let done = match item {
                Item::Packet(packet) => packet.append(pool, &end),
                Item::MixedPacket(packet) => packet.append(pool, &end),
                Item::Chain(chain) => chain.extend_from_slice(pool, &end),
                Item::MixedChain(chain) => chain.extend_from_slice(pool, &end),
            };
            assert!(done.is_ok() || !has_room, "there was room");
            done?;
            bytes.extend(end);
        }
    }
    Ok(())
}

fn prepend<S: Storage>(packet: &mut Packet<S>, bytes: &mut Vec<u8>, args: Args) -> Done {
    let content = crate::draw::bytes(args.bits, args.n);
    let has_room = packet.leading_space() >= args.n;
    match packet.prepend(args.n) {
        Ok(front) => front.copy_from_slice(&content),
        Err(_) if args.n > LARGEST => return Err(Failed::TooLarge),
        Err(error) => {
            assert!(!has_room, "there was room");
            return Err(error.into());
        }
    }
    bytes.splice(..0, content);
    Ok(())
}

/// The causes for which a write may be refused, and the changes of a write that was not.
fn check_write(written: Result<(), WriteError>, off: usize, src: &[u8], model: &mut Model) {
    let end = off + src.len();
    match written {
        Ok(()) => model.bytes[off..end].copy_from_slice(src),
        Err(WriteError::OutOfRange) => assert!(end > model.bytes.len()),
        Err(WriteError::Shared) => assert!(model.shared && !src.is_empty(), "who shares it?"),
    }
}

/// Whether a chain keeps the rule of `condense`.
pub(crate) fn is_condensed(chain: &Chain) -> bool {
    chain.pinned() <= PINNED_PER_BYTE_MAX * chain.len() + MSIZE * chain.mbufs()
}

fn write(pool: &MbufPool, chain: &mut Chain, bytes: &mut Vec<u8>, args: Args) -> Done {
    let content = crate::draw::bytes(args.bits, args.n);
    let mut writer = chain.writer(pool);
    if args.bits & 1 == 0 {
        // Half of it lies ready, the rest has to be found: all is written or nothing.
        let ready = if args.bits & 2 == 0 { args.n / 2 } else { 0 };
        writer.reserve(ready)?;
        let written = writer.write(&content).map_err(|_| Failed::Unchanged)?;
        assert_eq!(written, args.n);
    } else {
        writer.reserve(args.n)?;
        assert!(writer.remaining_mut() >= args.n);
        writer.put_slice(&content);
    }
    bytes.extend(content);
    Ok(())
}

/// Bytes that are read leave the front.
fn consume(chain: &mut Chain, bytes: &mut Vec<u8>, args: Args) {
    let n = args.x.min(bytes.len());
    let used = match args.bits % 3 {
        0 => {
            Buf::advance(chain, n);
            n
        }
        1 => {
            let mut seen = vec![0; args.n];
            let read = chain.read(&mut seen).expect("it does not fail");
            assert_eq!(read, args.n.min(bytes.len()));
            assert_eq!(seen[..read], bytes[..read]);
            read
        }
        _ => {
            let piece = chain.fill_buf().expect("it does not fail");
            assert!(bytes.starts_with(piece) && piece.is_empty() == bytes.is_empty());
            let n = n.min(piece.len());
            chain.consume(n);
            n
        }
    };
    bytes.drain(..used);
}
