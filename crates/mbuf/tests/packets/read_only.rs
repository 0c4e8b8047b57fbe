//! Storage that is lent or shared is read-only, and stays so through each operation that carries it on: in other stacks
//! a duplicate lost its read-only flag (FreeBSD SA-10:07, CVE-2010-2693), and a removal of urgent data wrote into such
//! storage (SA-26:93, CVE-2026-127748).

use std::sync::Arc;

use crate::common::{balanced, pattern};
use mbuf::{Chain, ClusterSize, MbufPool, NoBufs, Packet, WriteError};

/// The owner of lent bytes, as a program or the page cache is.
#[derive(Clone)]
struct Pages(Arc<Vec<u8>>);

impl AsRef<[u8]> for Pages {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

const LEN: usize = 3000;

type Operation = (&'static str, fn(&MbufPool, Chain) -> Result<Chain, NoBufs>);

fn packet(pool: &MbufPool, chain: Chain) -> Result<Packet, NoBufs> {
    Packet::before_chain(pool, chain)
}

/// Each gives a chain back that still shows storage of its argument.
const OPERATIONS: [Operation; 15] = [
    ("nothing", |_, chain| Ok(chain)),
    ("share", |_, mut chain| chain.share(10, 2000)),
    ("share_all", |_, mut chain| chain.share_all()),
    ("share of a share", |_, mut chain| {
        chain.share_all()?.share(1, 1000)
    }),
    ("take_front", |_, mut chain| chain.take_front(1500)),
    ("the rest of take_front", |_, mut chain| {
        drop(chain.take_front(1500)?);
        Ok(chain)
    }),
    ("trim_front", |_, mut chain| {
        chain.trim_front(1);
        Ok(chain)
    }),
    ("adjust", |_, mut chain| {
        chain.adjust(7, 9);
        Ok(chain)
    }),
    ("truncate", |_, mut chain| {
        chain.truncate(1400);
        Ok(chain)
    }),
    ("pop_front", |_, mut chain| chain.pop_front().ok_or(NoBufs)),
    ("append", |pool, chain| {
        let mut joined = Chain::new();
        joined.append(chain);
        joined.append(Chain::from_slice(pool, &[1; 10])?);
        Ok(joined)
    }),
    ("a packet and back", |pool, chain| {
        Ok(packet(pool, chain)?.into_chain())
    }),
    ("copy_packet", |pool, chain| {
        Ok(packet(pool, chain)?.copy_packet()?.into_chain())
    }),
    ("split_off", |pool, chain| {
        packet(pool, chain)?.split_off(500)
    }),
    ("a packet's share", |pool, chain| {
        packet(pool, chain)?.share(100, 2000)
    }),
];

/// Whether no part of the chain can be written: at its front, in its middle, at its end.
fn refuses_writes(chain: &mut Chain, lent: usize) -> bool {
    let at = [0, lent / 2, lent - 1];
    let shared = Err(WriteError::Shared);
    at.into_iter()
        .all(|at| chain.write_at(at, &[0xee]) == shared)
}

#[test]
fn lent_storage_is_read_only_behind_each_operation() {
    // Breaks if an operation makes an mbuf over lent bytes that may be written, or adds bytes behind them in their
    // storage.
    balanced(|pool| {
        for (name, operation) in OPERATIONS {
            let bytes = pattern(1, LEN);
            let pages = Pages(Arc::new(bytes.clone()));
            let chain = Chain::from_owner(pool, pages.clone()).expect("the pool is large");
            let mut chain = operation(pool, chain).expect("the pool is large");
            let lent = chain.len().min(1000);
            assert!(refuses_writes(&mut chain, lent), "{name}");
            let before = chain.to_vec();
            chain
                .extend_from_slice(pool, &[0xee; 300])
                .expect("the pool is large");
            assert_eq!(chain.to_vec(), [before, vec![0xee; 300]].concat(), "{name}");
            drop(chain);
            assert_eq!(*pages.0, bytes, "{name}");
        }
    });
}

#[test]
fn a_shared_cluster_is_read_only_behind_each_operation() {
    // Breaks if an operation on one of two chains over a cluster makes bytes writable that the other one shows.
    balanced(|pool| {
        for (name, operation) in OPERATIONS {
            let bytes = pattern(2, LEN);
            let mut packet = Packet::with_cluster(pool, ClusterSize::K4, 0).expect("large");
            packet.room_mut()[..LEN].copy_from_slice(&bytes);
            packet.grow(LEN);
            let mut keeper = packet.into_chain();
            let chain = keeper.share_all().expect("the pool is large");
            let mut chain = operation(pool, chain).expect("the pool is large");
            let shared = chain.len().min(1000);
            assert!(refuses_writes(&mut chain, shared), "{name}");
            chain
                .extend_from_slice(pool, &[0xee; 300])
                .expect("the pool is large");
            assert_eq!(keeper.to_vec(), bytes, "{name}");
        }
    });
}
