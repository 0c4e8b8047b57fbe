//! Operations that move a packet's bytes, or fill its room: contiguous in front, copied if shared, into fewer mbufs.

use mbuf::{CollapseError, MbufPool, Packet, PullupError};

use crate::model::Model;
use crate::ops::What;
use crate::world::{Args, Done, Failed, LARGEST};

/// Operations that move a packet's bytes; they do not change the bytes unless they say so.
pub(crate) fn reshape(
    pool: &MbufPool,
    what: What,
    packet: &mut Packet,
    model: &mut Model,
    args: Args,
) -> Done {
    let (off, len) = args.range();
    let bytes = &mut model.bytes;
    match what {
        What::Room => {
            let room = packet.room_mut();
            let content = crate::draw::bytes(args.bits, room.len().min(args.n));
            room[..content.len()].copy_from_slice(&content);
            packet.grow(content.len());
            bytes.extend(content);
        }
        What::FrontMut => match packet.front_mut() {
            Some(front) => {
                front.fill(args.bits as u8);
                bytes[..front.len()].fill(args.bits as u8);
            }
            None => assert!(model.shared || packet.front().is_empty(), "who shares it?"),
        },
        What::MakeWritable => {
            packet.make_writable(pool, off, len)?;
            let end = (off + len).min(bytes.len());
            if off < end {
                bytes[off..end].fill(args.bits as u8);
                assert_eq!(packet.write_at(off, &bytes[off..end]), Ok(()));
            }
        }
        What::Defrag => {
            let copied = packet.defrag(pool)?;
            assert!(copied == 0 || copied == bytes.len());
            assert!(packet.segments().count() <= bytes.len().div_ceil(LARGEST).max(1));
        }
        What::Collapse => collapse(pool, packet, bytes, args.n % 6)?,
        _ => match packet.pullup(args.x) {
            Ok(front) => assert_eq!(front, &bytes[..args.x]),
            Err(PullupError::TooShort) => assert!(args.x > bytes.len()),
            Err(PullupError::NoBufs) if args.x > LARGEST => return Err(Failed::TooLarge),
            Err(PullupError::NoBufs) => return Err(Failed::Unchanged),
        },
    }
    Ok(())
}

fn collapse(pool: &MbufPool, packet: &mut Packet, bytes: &[u8], max: usize) -> Done {
    match packet.collapse(pool, max) {
        Ok(copied) => {
            assert!(copied <= bytes.len());
            assert!(packet.segments().count() <= max);
        }
        Err(CollapseError::TooManyBytes) => assert!(bytes.len() > max * LARGEST),
        Err(CollapseError::NoBufs) => return Err(Failed::Unchanged),
    }
    Ok(())
}
