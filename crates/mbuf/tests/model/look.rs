//! Ways of looking at bytes from any place on, which change nothing.

use std::io::IoSlice;

use bytes::Buf;

use crate::model::{Item, same};
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
            chain.segments().gather(|gathered| {
                same(gathered.iter().map(|slice| &**slice), bytes);
            });
        }
        Item::MixedPacket(packet) => assert!(packet.pinned() >= packet.front().len()),
        Item::MixedChain(chain) => {
            assert!(chain.mbufs() >= chain.records().count());
            assert!(chain.leading_space() <= chain.pinned());
        }
    }
}
