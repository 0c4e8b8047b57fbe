//! Ways of looking at bytes from any place on, which change nothing.

use std::io::{BufRead, IoSlice, Read, Seek, SeekFrom};

use bytes::Buf;
use mbuf::Cursor;

use crate::model::{Item, on_mapped, same};
use crate::ops::{Op, What};
use crate::world::{Args, World};

impl World {
    pub(crate) fn look(&self, op: &Op) {
        let Some(at) = self.pick(op.which, |_| true) else {
            return;
        };
        let args = self.args(op, at);
        let (item, model) = &self.items[at];
        match op.what {
            What::CopyOut => copy_out(item, &model.bytes, args),
            What::Cursor => {
                on_mapped!(item, x => cursor(x.cursor(), &model.bytes, args));
                on_mapped!(item, x => seek(x.cursor(), &model.bytes, args));
            }
            _ => chunks(item, &model.bytes, args),
        }
    }
}

fn copy_out(item: &Item, bytes: &[u8], args: Args) {
    let (off, len) = args.range();
    let mut seen = vec![0; len];
    let copied = match item {
        Item::Packet(p) => p.copy_to(off, &mut seen),
        Item::Chain(c) => c.copy_to(off, &mut seen),
        Item::MixedPacket(p) => p.copy_to(off, &mut seen).is_ok(),
        Item::MixedChain(c) => c.copy_to(off, &mut seen).is_ok(),
    };
    assert_eq!(copied, off + len <= bytes.len());
    assert!(!copied || seen == bytes[off..off + len]);
}

/// Forward, by all that reads, to any place and on.
fn cursor(mut at: Cursor<'_>, bytes: &[u8], args: Args) {
    let (off, len) = args.range();
    assert_eq!(at.set_position(off), off <= bytes.len());
    let off = at.position();
    assert_eq!(at.remaining(), bytes.len() - off);
    let rest = &bytes[off..];
    same(at.segments(), rest);
    assert!(rest.starts_with(at.chunk()) && at.chunk().is_empty() == rest.is_empty());
    let mut seen = vec![0; len];
    assert_eq!(at.peek(&mut seen), len <= rest.len());
    assert!(len > rest.len() || seen == rest[..len]);
    let read = at.read(&mut seen).expect("it does not fail");
    assert_eq!(read, len.min(rest.len()));
    assert!(seen[..read] == rest[..read]);
    let piece = at.fill_buf().expect("it does not fail").len();
    at.consume(piece);
    Buf::advance(&mut at, (rest.len() - read - piece) / 2);
    let now = at.position();
    assert!(now >= off + read + piece);
    same(at.segments(), &bytes[now..]);
}

/// From one place to another, also back.
fn seek(mut at: Cursor<'_>, bytes: &[u8], args: Args) {
    let len = bytes.len();
    let (x, y) = (args.x, args.y);
    assert_eq!(at.seek(SeekFrom::Start(x as u64)).is_ok(), x <= len);
    let here = at.position();
    let by = y as i64 - here as i64;
    assert_eq!(at.seek(SeekFrom::Current(by)).is_ok(), y <= len);
    let here = at.position();
    assert_eq!(at.clone().seek(SeekFrom::End(1)).ok(), None);
    let back = at.seek(SeekFrom::End(here as i64 - len as i64));
    assert_eq!(back.ok(), Some(here as u64));
    let mut all = Vec::new();
    assert!(at.read_to_end(&mut all).is_ok_and(|n| n == len - here));
    assert!(all == bytes[here..]);
}

fn chunks(item: &Item, bytes: &[u8], args: Args) {
    match item {
        Item::Packet(packet) => {
            same(
                packet.segments_from(args.x),
                &bytes[args.x.min(bytes.len())..],
            );
            assert!(packet.to_vec() == bytes);
        }
        Item::Chain(chain) => {
            assert_eq!(chain.remaining(), bytes.len());
            assert!(bytes.starts_with(chain.chunk()));
            let mut out = [IoSlice::new(&[]); 3];
            let filled = chain.chunks_vectored(&mut out);
            let pieces: Vec<_> = chain.segments().take(3).collect();
            assert_eq!(filled, pieces.len());
            assert!(
                out.iter()
                    .zip(&pieces)
                    .all(|(slice, piece)| **slice == **piece)
            );
            let mut gathered = Vec::new();
            chain.segments().gather(&mut gathered);
            same(gathered.iter().map(|slice| &**slice), bytes);
        }
        Item::MixedPacket(packet) => assert!(packet.pinned() >= packet.front().len()),
        Item::MixedChain(chain) => {
            assert!(chain.mbufs() >= chain.records().count());
            assert!(chain.leading_space() <= chain.pinned());
        }
    }
}
